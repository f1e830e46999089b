"""A file of certificates, written as they are finished, with which ``turnwise certify`` resumes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..envs.certify.report import Certificate, Verdict
from ..errors import UsageError
from ..verdicts import Status

BEGINNING = '{"name": '
"""How each line begins."""


class CertificateFile:
    """Certificates in a JSON Lines file. The last line of an environment counts.

    Args:
        path: the file; created with the first certificate.
        laws: names of all laws, in their order.
        quick: whether fewer tasks are used.
        seed: first of the sampled seeds.
        env_kwargs: arguments of the environments.
        resume: whether to keep the verdicts in the file, which must have the same ``quick``, ``seed`` and arguments.

    Raises:
        UsageError: the file has certificates and ``resume`` is false, or it was made with other options, or it cannot
            be read.
    """

    def __init__(
        self,
        path: Path,
        laws: Sequence[str],
        *,
        quick: bool,
        seed: int,
        resume: bool,
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self._laws = tuple(laws)
        self._options: dict[str, Any] = {"quick": quick, "seed": seed, "env_kwargs": dict(env_kwargs or {})}
        self._known: dict[str, dict[str, Verdict]] = {}
        if not path.exists():
            return
        if path.is_dir():
            raise UsageError(f"{path} is a folder; --out needs a file")
        if not resume:
            raise UsageError(f"{path} exists; continue it (--resume), or name another file")
        complete, newline, partial = path.read_text(encoding="utf-8").rpartition("\n")
        for number, line in enumerate(complete.splitlines(), 1):
            self._read(line, number)
        if partial and not (partial.startswith(BEGINNING) or BEGINNING.startswith(partial)):
            raise UsageError(f"{path} ends with a line that is not a certificate; name the file of a certification")
        if partial:  # of a process that was killed while it wrote
            path.write_text(complete + newline, encoding="utf-8")

    def unsettled(self, name: str, wanted: Sequence[str]) -> tuple[str, ...]:
        """Return which of the wanted laws are still to be tried: all but those that held or do not apply."""
        known = self._known.get(name, {})
        return tuple(law for law in wanted if law not in known or not _settled(known[law]))

    def certificate(self, name: str) -> Certificate:
        """Return everything that the file knows about an environment."""
        known = self._known.get(name, {})
        ordered = sorted(known, key=lambda law: self._laws.index(law) if law in self._laws else -1)
        return Certificate(tuple(known[law] for law in ordered), name)

    def add(self, name: str, certificate: Certificate) -> Certificate:
        """Add the verdicts of one run, write them, and return the certificate with those of earlier runs.

        Args:
            name: name under which the environment was certified.
            certificate: the new verdicts.
        """
        known = {law: verdict for law, verdict in self._known.get(name, {}).items() if law in self._laws}
        self._known[name] = known | {verdict.law: verdict for verdict in certificate.verdicts}
        merged = self.certificate(name)
        line = {"name": name, **self._options, **merged.to_json()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return merged

    def _read(self, line: str, number: int) -> None:
        try:
            data = json.loads(line)
            options = {"quick": data["quick"], "seed": data["seed"], "env_kwargs": data.get("env_kwargs", {})}
            verdicts = [Verdict.from_json(each) for each in data["verdicts"]]
            name = str(data["name"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.path}, line {number}: not a certificate of `turnwise certify` ({error})") from None
        if options != self._options:
            raise UsageError(f"{self.path} was made with {options}; resume it with the same, or name another file")
        self._known[name] = {verdict.law: verdict for verdict in verdicts}


def _settled(verdict: Verdict) -> bool:
    return verdict.status is not Status.FAIL and not verdict.unsettled
