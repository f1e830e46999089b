"""The Docker SDK's client for a Podman engine, with Podman's own API where Docker's does not confine enough."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from docker import APIClient
from docker.errors import create_api_error_from_http_exception
from requests import HTTPError, Response

from .config import podman_config

API = "v4.0.0/libpod"
"""Oldest version of Podman's own API that is supported; later ones take it."""
COUNTED = {"MemoryLimit": "memory", "PidsLimit": "pids", "CpuCfsQuota": "cpu"}
"""Flags of Docker's report, and the controllers of control groups that they need."""


class PodmanClient(APIClient):
    """A client that speaks Docker's API, and creates containers by Podman's."""

    def create_container_from_config(
        self, config: dict[str, Any], name: str | None = None, platform: str | None = None
    ) -> dict[str, Any]:
        """Create a container.

        Args:
            config: body of Docker's request.
            name: not used; Podman draws one.
            platform: not used.

        Raises:
            APIError: the engine refused.
        """
        del name, platform
        return self._podman(
            self.post(f"{self.base_url}/{API}/containers/create", json=podman_config(config), timeout=self.timeout)
        )

    def info(self) -> dict[str, Any]:
        """Return Docker's report, with what Podman can enforce: without root it has only the controllers that it was
        given, and Docker's report is about the machine.
        """
        host = self._podman(self.get(f"{self.base_url}/{API}/info", timeout=self.timeout))["host"]
        found: dict[str, Any] = super().info()
        controllers = set(host.get("cgroupControllers") or ())
        limited = {flag: bool(found.get(flag)) and name in controllers for flag, name in COUNTED.items()}
        runtime = PurePath(host["ociRuntime"]["name"]).name  # a service may have been given a path
        security = [*(found.get("SecurityOptions") or ()), *(["name=rootless"] if host["security"]["rootless"] else [])]
        return {**found, **limited, "DefaultRuntime": runtime, "SecurityOptions": security}

    def _podman(self, answer: Response) -> dict[str, Any]:
        try:
            answer.raise_for_status()
        except HTTPError as error:
            raise create_api_error_from_http_exception(error) from error
        found: dict[str, Any] = answer.json()
        return found
