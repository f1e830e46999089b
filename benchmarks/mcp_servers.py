"""Measure MCP servers: the start of one, one call of a tool, and one call of a served environment.

    python benchmarks/mcp_servers.py [--repeat 5] [--calls 200] [--servers .venv/mcp-servers]

Medians. The servers are one of this package without the SDK, and those that scripts/install-mcp-servers installs; a
missing one is left out, and named.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import turnwise as tw
from turnwise.envs.mcp.listing import listing
from turnwise.envs.mcp.spec import ServerSpec
from turnwise.envs.mcp.tools import McpTools

ROOT = Path(__file__).resolve().parent.parent
PATHS = {"PYTHONPATH": os.pathsep.join(sys.path[1:])}


class Env(McpTools):
    """Nothing but the servers' tools."""

    max_turns = 10**9

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return "Go."


def rows(servers: Path) -> list[tuple[ServerSpec, str, dict[str, Any]]]:
    """Each server with a call that changes nothing."""
    node = servers / "node_modules" / "@modelcontextprotocol"

    def js(name: str, *words: str) -> tuple[str, ...]:
        return ("node", str(node / f"server-{name}" / "dist" / "index.js"), *words)

    raw = (sys.executable, "-S", str(ROOT / "tests/envs/mcp/raw_server.py"))
    clock = (sys.executable, "-m", "mcp_server_time")
    shops = (sys.executable, "-m", "turnwise.cli", "mcp", str(ROOT / "examples/tool_env.py"))
    memory = {"MEMORY_FILE_PATH": "{folder}/memory.jsonl"}
    return [
        (ServerSpec("ours, no SDK", raw), "add", {"n": 1}),
        (ServerSpec("mcp-server-time", clock, env=PATHS), "get_current_time", {"timezone": "UTC"}),
        (ServerSpec("server-filesystem", js("filesystem", "{folder}")), "list_directory", {"path": "/episode"}),
        (ServerSpec("server-memory", js("memory"), env=memory), "read_graph", {}),
        (ServerSpec("server-everything", js("everything", "stdio")), "echo", {"message": "hello"}),
        (ServerSpec("turnwise mcp", shops, env=PATHS), "price", {"shop": "Adler"}),
    ]


def there(spec: ServerSpec) -> bool:
    """Whether what the server needs is installed."""
    if spec.name == "mcp-server-time":
        return importlib.util.find_spec("mcp_server_time") is not None
    return spec.command[0] != "node" or Path(spec.command[1]).exists()


def measured(spec: ServerSpec, tool: str, arguments: dict[str, Any], repeat: int, calls: int) -> None:
    """Print one server's row."""
    env, starts, times = Env(servers=[spec]), list[float](), list[float]()
    for seed in range(repeat):
        env.reset(seed=seed)
        env.step(tw.ToolCall(tool, arguments))
        starts.append(env.start_seconds[spec.name])
        for _ in range(calls // repeat if "turnwise" not in spec.name else 10):  # this package's episodes are short
            began = time.perf_counter()
            observation = env.step(tw.ToolCall(tool, arguments))[0]
            times.append(time.perf_counter() - began)
            if observation.text.startswith("Error"):
                raise SystemExit(f"{spec.name}: {observation.text}")
    env.close()
    listed = len(listing(spec))
    print(f"| {spec.name} | {listed} | {statistics.median(starts):.2f} | {1000 * statistics.median(times):.2f} |")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5, help="how often each server is started")
    parser.add_argument("--calls", type=int, default=200, help="how many calls are timed, over all starts")
    parser.add_argument(
        "--servers", type=Path, default=Path(sys.prefix) / "mcp-servers", help="folder of the npm installation"
    )
    options = parser.parse_args()
    print("| server | tools | start s | call ms |\n|---|---|---|---|")
    for spec, tool, arguments in rows(options.servers):
        if there(spec):
            measured(spec, tool, arguments, options.repeat, options.calls)
        else:
            print(f"{spec.name}: not installed, run scripts/install-mcp-servers", file=sys.stderr)


if __name__ == "__main__":
    main()
