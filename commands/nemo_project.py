"""The folder that NeMo Gym's own commands start: a configuration, and a stub for the server that runs elsewhere.

Gym starts each server of a configuration as a process in its own folder, and then waits until the server's URL answers.
The stub only lives as long as Gym does; the URL is that of ``turnwise serve``.
"""

from __future__ import annotations

from pathlib import Path

from ..envs.remote.address import Address
from ..errors import UsageError
from ..service.environments import nemo

FOLDER = Path("resources_servers") / nemo.SERVER
"""Folder of the stub, by which Gym finds it."""
CONFIG = FOLDER / "configs" / f"{nemo.SERVER}.yaml"
"""File for ``gym env start --config``."""
AGENT = f"{nemo.SERVER}_agent"
"""Name of the agent in the configuration."""
TOKEN = "TURNWISE_GYM_TOKEN"
"""Environment variable with the token of this server alone: Gym sends it whole, and ours may name several servers."""
FILES = {
    FOLDER / "requirements.txt": "# This server runs elsewhere: it needs no packages here.\n",
    FOLDER / "app.py": '''\
"""NeMo Gym starts this stub in place of the environment server of Turnwise, which runs elsewhere."""

import os
import time

parent = os.getppid()
try:
    while os.getppid() == parent:
        time.sleep(1)
except KeyboardInterrupt:
    pass
''',
}


def write_project(folder: Path, address: Address, agent: str, max_turns: int) -> list[Path]:
    """Write the folder, and return its files.

    Args:
        folder: folder in which the user runs NeMo Gym.
        address: the environment server.
        agent: name of NeMo Gym's agent.
        max_turns: limit of turns of the environment.

    Raises:
        UsageError: the folder has these files already, or the server needs TLS.
    """
    if address.tls:
        raise UsageError(f"NeMo Gym's clients speak HTTP without TLS, so they cannot reach {address}")
    if (folder / FOLDER).exists():
        raise UsageError(f"{folder / FOLDER} already exists; name another folder, or remove it")
    user = f"{nemo.USER}:${{oc.env:{TOKEN}}}" if address.token else nemo.USER
    host = f"[{address.host}]" if ":" in address.host else address.host
    config = f"""\
{nemo.SERVER}:
  resources_servers:
    {nemo.SERVER}:
      entrypoint: app.py
      domain: agent
      host: "{user}@{host}"
      port: {address.port}
{AGENT}:
  responses_api_agents:
    {agent}:
      entrypoint: app.py
      max_steps: {max_turns + 1}
      resources_server:
        type: resources_servers
        name: {nemo.SERVER}
      model_server:
        type: responses_api_models
        name: policy_model
"""
    files = {folder / file: text for file, text in {**FILES, CONFIG: config}.items()}
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return list(files)
