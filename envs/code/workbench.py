"""The tools with which an agent works on the files of a sandbox."""

from __future__ import annotations

from typing import Annotated

import pydantic

from ...errors import ToolError
from ...sandboxes.result import ExecResult
from ...tasks.code.patch import patched, replaced
from ...tasks.code.trouble import Trouble
from ..base import TaskT
from ..toolenv import ToolEnv
from ..tools import tool
from .episode_sandbox import EpisodeSandbox
from .formatting import listing, matches, numbered, outcome, trouble_with
from .workspace import workspace_of

Line = Annotated[int, pydantic.Field(ge=1)]
READ = 1024 * 1024
"""Size of the largest file that can be read or patched, in bytes."""
SEARCHED = 2 * 1024 * 1024
"""Total size of the files that one search reads, in bytes; it skips further files and reports that."""


class Workbench(ToolEnv[TaskT]):
    """Tools on the files of the episode's sandbox: read, search, write, patch, and run commands or Python."""

    episode_sandbox: EpisodeSandbox
    seconds: float
    """Time limit of one command, in seconds."""
    troubles: list[Trouble]
    """Failures during the current action."""

    @tool
    async def read(self, path: str, first_line: Line = 1, lines: Line = 200) -> str:
        """Read lines of a file, with line numbers.

        Args:
            path: path relative to the workspace.
            first_line: number of the first line.
            lines: maximum number of lines.
        """
        return numbered(await self._text_of(path), first_line, lines)

    @tool(name="list")
    async def list_files(self, path: str = ".") -> str:
        """List all files under a directory, with their sizes.

        Args:
            path: path relative to the workspace.
        """
        return listing(await (await self.episode_sandbox.sandbox()).list_files(path))

    @tool
    async def search(self, text: str) -> str:
        """Find all lines in all files that contain an exact text.

        Args:
            text: text to find; it is not a pattern.
        """
        if not text or "\n" in text:
            raise ToolError("search for text within a single line")
        files, left_out, size = dict[str, str](), 0, 0
        for path, entry in sorted(workspace_of(await self.episode_sandbox.look()).entries.items()):
            if entry.kind == "file" and size + len(entry.content) > SEARCHED:
                left_out += 1
            elif entry.kind == "file":
                size += len(entry.content)
                files[path] = entry.content.decode("utf-8", "replace")
        found = (
            (path, number, line)
            for path, content in files.items()
            if text in content
            for number, line in enumerate(content.splitlines(), 1)
            if text in line
        )
        note = f"\n[{left_out} files were not searched: a search covers at most {SEARCHED} bytes]" if left_out else ""
        return matches(found) + note

    @tool
    async def write(self, path: str, content: str) -> str:
        """Write a file, replacing it if it exists.

        Args:
            path: path relative to the workspace.
            content: full content of the file.
        """
        data = content.encode("utf-8", "replace")
        await (await self.episode_sandbox.sandbox()).write_files({path: data})
        return f"Wrote {len(data)} bytes to {path[:200]}."

    @tool
    async def patch(self, path: str, diff: str = "", old: str = "", new: str = "") -> str:
        """Change a file, either with a unified diff or by replacing one passage.

        Args:
            path: path relative to the workspace.
            diff: hunks, each with a line such as "@@ -3,7 +3,8 @@" and then lines that begin with " ", "-" or "+".
            old: passage to replace; it must appear exactly once in the file.
            new: text that replaces it.
        """
        if bool(diff) == bool(old):
            raise ToolError("give either diff, or old and new")
        before = await self._text_of(path)
        after = patched(before, diff) if diff else replaced(before, old, new)
        await (await self.episode_sandbox.sandbox()).write_files({path: after.encode("utf-8", "replace")})
        return f"Changed {path}. Lines: {len(after.splitlines())}."

    @tool
    async def run(self, command: str) -> str:
        """Run a shell command in the workspace.

        Args:
            command: command for /bin/sh; processes that it starts end with it.
        """
        if "\0" in command:
            raise ToolError("a command cannot contain a NUL character")
        done = await (await self.episode_sandbox.sandbox()).exec(command, timeout=self.seconds)
        return self._came_of(done)

    @tool
    async def python(self, code: str) -> str:
        """Run Python code in a session that keeps its variables. The value of the last expression is shown.

        Args:
            code: Python statements.
        """
        done = await (await self.episode_sandbox.session()).run(code, timeout=self.seconds)
        return self._came_of(done)

    async def _text_of(self, path: str) -> str:
        content = await (await self.episode_sandbox.sandbox()).read_file(path, limit=READ)
        return content.decode("utf-8", "replace")

    def _came_of(self, done: ExecResult) -> str:
        trouble = trouble_with(done)
        self.troubles += [trouble] if trouble is not None else []
        return outcome(done, self.seconds)
