"""Third parties' servers, one from PyPI and three from npm, as tools of an environment.

``scripts/install-mcp-servers`` installs them; where it could not, what is missing is named and its test skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

import turnwise as tw
from turnwise.envs.mcp.spec import ServerSpec
from turnwise.envs.messages import ImagePart

from .around import Around, said

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="NOT TESTED: pip install 'turnwise[mcp]'"),
]
NODE = Path(os.environ.get("TURNWISE_MCP_SERVERS", Path(sys.prefix) / "mcp-servers")) / "node_modules"


def node(name: str) -> tuple[str, ...]:
    """Return the command that starts one of the servers from npm."""
    if shutil.which("node") is None:
        pytest.skip(f"NOT TESTED: server-{name} needs Node: apt-get install nodejs npm; scripts/install-mcp-servers")
    program = NODE / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    if not program.exists():
        pytest.skip(f"NOT TESTED: npm package @modelcontextprotocol/server-{name}: run scripts/install-mcp-servers")
    return ("node", str(program))


def around(spec: ServerSpec) -> Around:
    """An episode with one server."""
    env = Around(servers=[spec])
    env.reset(seed=0)
    return env


def test_time_from_pypi() -> None:
    if importlib.util.find_spec("mcp_server_time") is None:
        pytest.skip("NOT TESTED: PyPI package mcp-server-time: run scripts/install-mcp-servers")
    inherit = [name for name in ("PYTHONPATH",) if name in os.environ]
    env = around(ServerSpec("time", (sys.executable, "-m", "mcp_server_time"), inherit=inherit))
    assert {"get_current_time", "convert_time"} <= {tool.name for tool in env.tools}
    arguments = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Kolkata"}
    assert json.loads(said(env, "convert_time", **arguments))["time_difference"] == "-3.5h"
    assert said(env, "convert_time", **arguments | {"time": "25:00"}).startswith("Error: ")
    assert said(env, "convert_time") == (
        "Error: convert_time: argument 'source_timezone' is missing; argument 'time' is missing; "
        "argument 'target_timezone' is missing."
    )
    env.close()


def test_filesystem_from_npm() -> None:
    spec = ServerSpec("files", (*node("filesystem"), "{folder}"), prefix="fs_", deny=["move_file"])
    env = around(spec)
    (env.folder / "note.txt").write_text("the code is 4711\n")
    assert said(env, "fs_list_allowed_directories").endswith("/episode")
    assert said(env, "fs_read_text_file", path="/episode/note.txt") == "the code is 4711\n"
    assert "Success" in said(env, "fs_write_file", path="/episode/answer.txt", content="4711")
    assert (env.folder / "answer.txt").read_text() == "4711", "the world can be judged"
    assert said(env, "fs_read_text_file", path="/etc/passwd").startswith("Error: ")
    assert said(env, "fs_read_text_file", path=7).startswith("Error: fs_read_text_file: argument 'path'")
    assert "there is no tool 'fs_move_file'" in said(env, "fs_move_file")
    fork = env.fork()
    assert (fork.folder / "answer.txt").read_text() == "4711", "a fork repeats the calls in a folder of its own"
    fork.close()
    env.close()


def test_memory_from_npm() -> None:
    env = around(ServerSpec("memory", node("memory"), env={"MEMORY_FILE_PATH": "{folder}/memory.jsonl"}))
    ada = {"name": "Ada", "entityType": "person", "observations": ["likes engines"]}
    said(env, "create_entities", entities=[ada])
    assert "likes engines" in said(env, "search_nodes", query="Ada")
    assert said(env, "create_entities", entities=[{"name": "Ada"}]).startswith("Error: create_entities: argument")
    env.reset(seed=0)
    assert "Ada" not in said(env, "read_graph"), "every episode begins with an empty memory"
    env.close()


def test_everything_from_npm() -> None:
    env = around(ServerSpec("everything", (*node("everything"), "stdio"), inherit=["HOME"]))
    assert said(env, "echo", message="hello") == "Echo: hello"
    assert "5" in said(env, "get-sum", a=2, b=3)
    assert said(env, "get-sum", a="two", b=3).startswith("Error: get-sum: argument 'a'")
    [picture] = env.step(tw.ToolCall("get-tiny-image"))[0].messages
    assert any(isinstance(part, ImagePart) and part.data.startswith(b"\x89PNG") for part in picture.parts)
    assert "HOME" in said(env, "get-env"), "what the spec names"
    assert "LOGNAME" not in said(env, "get-env")
    env.close()
