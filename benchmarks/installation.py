"""Measure an installation: the size of its packages, and processor seconds of commands that should be fast.

python benchmarks/installation.py .venv                      # or any other virtual environment with Turnwise in it
python benchmarks/installation.py /tmp/lean /tmp/full --repeat 5
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import tempfile
from pathlib import Path

COMMANDS = {
    "import turnwise": ("python", "-c", "import turnwise"),
    "turnwise --help": ("turnwise", "--help"),
    "turnwise envs": ("turnwise", "envs"),
    "turnwise eval, wrong id": ("turnwise", "eval", "turnwise/Maez-v0", "--policy", "oracle"),
    "turnwise train, wrong id": ("turnwise", "train", "loop", "env=turnwise/Maez-v0"),
}
"""Each row of the table, and its words in the environment's ``bin`` folder."""


def size(path: Path) -> int:
    """Return the bytes of a file, or of a folder's files."""
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.lstat().st_size for file in files if not file.is_dir())


def sizes(environment: Path) -> dict[str, int]:
    """Return the bytes of each top-level item in the environment's site-packages."""
    (site,) = (environment / "lib").glob("python3*/site-packages")
    return {path.name: size(path) for path in site.iterdir()}


def seconds(environment: Path, words: tuple[str, ...], repeat: int) -> float:
    """Return the fewest processor seconds of several runs; one more comes first, which writes bytecode."""
    found = []
    hidden = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeat + 1):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [str(environment / "bin" / words[0]), *words[1:]]
            subprocess.run(command, cwd=folder, env=variables, capture_output=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(found[1:])


def main() -> None:
    """Print a table with a column for each environment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="+", type=lambda text: Path(text).absolute(), help="Folders of venvs.")
    parser.add_argument("--repeat", type=int, default=3, help="Runs of each command; the fastest counts.")
    parser.add_argument("--top", type=int, default=6, help="How many of the largest packages to name.")
    options = parser.parse_args()
    print("| |", " | ".join(path.name for path in options.environments), "|")
    print("|---|" + "---|" * len(options.environments))
    packages = [sizes(path) for path in options.environments]
    print("| site-packages, MB |", " | ".join(f"{sum(found.values()) / 1e6:.0f}" for found in packages), "|")
    largest = (sorted(found, key=lambda name: -found[name])[: options.top] for found in packages)
    named = (
        ", ".join(f"{name} {found[name] / 1e6:.0f}" for name in names)
        for names, found in zip(largest, packages, strict=True)
    )
    print("| the largest |", " | ".join(named), "|")
    for row, words in COMMANDS.items():
        cells = (f"{seconds(path, words, options.repeat):.2f}" for path in options.environments)
        print(f"| `{row}`, CPU s |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
