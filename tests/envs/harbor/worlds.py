"""A hand-written task in Harbor's format, on this machine's own image, which needs no registry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

TOML = """\
schema_version = "1.4"

[task]
name = "demo/evens"
description = "Add the even numbers of a file."

[agent]
timeout_sec = 60.0

[verifier]
timeout_sec = 20.0

[environment]
network_mode = "no-network"
memory_mb = 256
storage_mb = 16
cpus = 1
"""
DOCKERFILE = """\
ARG BASE=turnwise-host:latest
FROM ${BASE}
ENV GREETING=hello
WORKDIR /app
COPY numbers.txt /app/numbers.txt
COPY broken.py /app/solve.py
"""
BROKEN = "import sys\n\nprint(sum(int(line) for line in open(sys.argv[1])))\n"
FIXED = "import sys\n\nprint(sum(n for n in map(int, open(sys.argv[1])) if n % 2 == 0))\n"
TEST = """\
#!/bin/bash
# The expected value is never in a file, which the submitted program could read; and the reward is written last.
cd /
expected=0
for _ in 1 2 3 4 5 6 7 8; do
    number=$RANDOM
    echo "$number" >> /tmp/numbers.txt
    if [ $((number % 2)) = 0 ]; then expected=$((expected + number)); fi
done
got="$(timeout 5 python3 /app/solve.py /tmp/numbers.txt)"
answer="$(timeout 5 cat /app/answer.txt)"
python3 /tests/compare.py "$answer" && right=1 || right=0
if [ "$got" = "$expected" ] && [ "$right" = 1 ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
"""
COMPARE = "import json\nimport sys\n\nsys.exit(json.loads(sys.argv[1] or 'null') != 12)\n"
SOLVE = """\
#!/bin/bash
set -e
cp /solution/fixed.py solve.py
python3 solve.py numbers.txt > answer.txt
test "$GREETING $NAME" = "hello oracle"
"""


def task_folder(folder: Path, changes: Mapping[str, str] | None = None) -> Path:
    """Write the task; ``changes`` replaces or adds files, by their paths."""
    files: dict[str, str] = {
        "task.toml": TOML + '\n[solution]\nenv = { NAME = "oracle" }\n',
        "instruction.md": "Let solve.py print the sum of the even numbers in a file; write that of numbers.txt to "
        "answer.txt.\n",
        "environment/Dockerfile": DOCKERFILE,
        "environment/numbers.txt": "1\n2\n4\n6\n9\n",
        "environment/broken.py": BROKEN,
        "tests/test.sh": TEST,
        "tests/compare.py": COMPARE,
        "solution/solve.sh": SOLVE,
        "solution/fixed.py": FIXED,
    }
    return written(folder, {**files, **(changes or {})})


def written(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
