"""Add up the time of a test run: seconds by folder, file, function, fixture or test.

scripts/test --seconds build/seconds.jsonl
python benchmarks/suite_seconds.py build/seconds.jsonl --by file --top 30
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BY = {
    "folder": lambda test: "/".join(test.split("::")[0].split("/")[:3]),
    "file": lambda test: test.split("::")[0],
    "function": lambda test: test.split("[")[0],
    "test": lambda test: test,
}


def read(files: list[Path]) -> Iterator[dict[str, Any]]:
    """Yield the records of several runs."""
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def summed(records: Iterator[dict[str, Any]], by: str, processor: bool = False) -> dict[str, list[float]]:
    """Group the seconds of tests, or of fixtures, by a key; of the clock, or of the processor (tests only)."""
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for record in records:
        if by == "fixture":
            for name, scope, seconds in record["fixtures"]:
                groups[f"{name} ({scope})"].append(seconds)
        else:
            phases = ("processor",) if processor else ("setup", "call", "teardown")
            seconds = sum(record.get(phase, 0.0) for phase in phases)
            groups[BY[by](record["test"])].append(seconds)
    return groups


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--by", choices=[*BY, "fixture"], default="folder")
    parser.add_argument("--processor", action="store_true", help="processor seconds of tests and their ended children")
    parser.add_argument("--top", type=int, default=40)
    options = parser.parse_args()
    if options.processor and options.by == "fixture":
        parser.error("--by fixture has no processor seconds: they are recorded for whole tests")
    if missing := [str(file) for file in options.files if not file.is_file()]:
        parser.error(f"no such file: {', '.join(missing)}")
    groups = summed(read(options.files), options.by, options.processor)
    print(f"{sum(map(len, groups.values()))} in {sum(map(sum, groups.values())):.0f} s of test processes")
    for key, seconds in sorted(groups.items(), key=lambda pair: -sum(pair[1]))[: options.top]:
        print(f"{sum(seconds):9.1f} s {len(seconds):6d}  {key}")


if __name__ == "__main__":
    main()
