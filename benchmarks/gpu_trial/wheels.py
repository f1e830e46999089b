"""Collect the wheels that a machine without an index lacks, in folders small enough to carry one by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).with_name("wheels")
OWN = "turnwise"
"""List to which Turnwise's own wheel belongs: records of runs name its version, and a checkout has none."""
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
LARGEST = 64
"""Megabytes of a folder beyond which it is worth a warning."""


def collect(folder: Path, python: str = "3.12") -> int:
    """Download each list of exact versions into a folder of its own, and return 1 if one failed.

    Args:
        folder: folder of the folders.
        python: version of Python there.
    """
    failed = 0
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    for file in sorted(LISTS.glob("*.txt")):
        place = folder / file.stem
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", python, *platforms, "--requirement", str(file), "--dest", str(place)]
        code = subprocess.run(command, check=False).returncode
        if file.stem == OWN and not code:
            own = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(ROOT)]
            code = subprocess.run(own, check=False).returncode
        size = sum(path.stat().st_size for path in place.glob("*.whl")) / 1e6
        count = len(list(place.glob("*.whl"))) if place.is_dir() else 0
        note = f"failed (exit code {code})" if code else "" if size <= LARGEST else f"more than {LARGEST} MB"
        print(f"{place}: {count} wheels, {size:.1f} MB {note}".rstrip())
        failed |= int(code != 0)
    return failed
