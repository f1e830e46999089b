"""The files that serve a new environment from a container, to the clients of OpenEnv and Turnwise.

The names in ``openenv.yaml`` and in the probe are those of OpenEnv 0.10: ``openenv validate`` reads both files.
"""

from __future__ import annotations

DOCKERFILE = """\
# $title, served on port 8000 to the clients of OpenEnv and Turnwise:
#
#   docker build -t $dist . && docker run -p 8000:8000 $dist
#
# Where no package index has Turnwise, put its wheel beside this file first:
#
#   pip wheel --no-deps --wheel-dir . PATH/TO/TURNWISE
FROM python:3.12-slim

WORKDIR /app
COPY . .
RUN pip install --no-cache-dir $$(find . -maxdepth 1 -name '*.whl') .

# It runs as any user and on a read-only root: Hugging Face Spaces use user 1000, and OpenEnv's validation 65532.
ENV HOME=/tmp OPENBLAS_NUM_THREADS=1
USER 1000
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \\
    CMD python -c "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health')"

# OpenEnv's clients have no token by default, so without TURNWISE_TOKEN the server lets in all who reach the port.
CMD exec turnwise serve $id --host 0.0.0.0 --port 8000 $$(test -n "$$TURNWISE_TOKEN" || echo --no-token)
"""

MANIFEST = """\
# Read by OpenEnv's commands. There is no `app`, because the Dockerfile's CMD starts the server.
spec_version: 1
name: $name
version: 0.1.0
description: "$title: an environment for Turnwise"
type: space
runtime: fastapi
port: 8000
validation:
  reward:
    range: $rewards # of one step
    oracle_tolerance: 0.0
    floor_margin: 0.1
  resources: # change them with the environment; each of the 16 episodes that may run at a time has a process
    cpu: 1.0
    memory_mb: 2048
    disk_mb: 512
    episode_timeout_s: 60.0
  capabilities:
    verifier:
      kind: reward_channel
$tools  types:
    tags: [$kind]
  execution:
    kind: openenv_ws
    probe_path: validation/runtime.json
    dockerfile: Dockerfile
"""

PROBE = """\
{
  "plan_schema_version": "1",
  "reset": {"episode_id": "probe", "seed": 0},
  "actions": [
    $actions
  ]
}
"""

CARD = """\
---
title: $title
sdk: docker
app_port: 8000
tags:
  - openenv
---

"""

SERVED = """\

## Serve it

```
docker build -t $dist . && docker run -p 8000:8000 $dist
turnwise eval openenv://127.0.0.1:8000 --policy random -n 10
openenv validate              # OpenEnv's own command, which needs Docker, too
```

With `docker run -e TURNWISE_TOKEN=…`, clients need that token; without it, everyone who reaches the port may play.
"""

TURN = {
    "rewards": "[-0.1, 1.0]",
    "tools": "",
    "actions": ",\n    ".join(f'{{"text": "{guess}"}}' for guess in (8, 4, 12)),
}
TOOL = {
    "rewards": "[0.0, 1.0]",
    "tools": "    declared_tools: [look, move, done]\n",
    "actions": ",\n    ".join(
        f'{{"type": "call_tool", "tool_name": "{tool}", "arguments": {{}}}}' for tool in ("look", "done")
    ),
}


def container_files(kind: str, readme: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the templates of the files, and the values of the placeholders that only they have.

    Args:
        kind: kind of the environment, ``"turn"`` or ``"tool"``.
        readme: template of the package's README, which gets the head of a Hugging Face Space and a section.

    Returns:
        The templates by path below the package's folder, and the values by name.
    """
    texts = {
        "Dockerfile": DOCKERFILE,
        "openenv.yaml": MANIFEST,
        "validation/runtime.json": PROBE,
        "README.md": CARD + readme + SERVED,
    }
    return texts, {"kind": kind, **(TURN if kind == "turn" else TOOL)}
