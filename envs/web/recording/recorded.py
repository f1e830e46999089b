"""``RecordedTools``: acting through a browser that draws, with recordings of the episodes on request.

Nothing of it reaches the agent, and no screenshot is taken before the agent's own observation is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import InfrastructureError, TurnwiseError, UsageError
from ...background import resolve
from ...base import Reset, Stepped, TaskT
from ...messages import Action, ActionLike, clip
from ...step import OUT_OF_TURNS
from ..acting import WebTools
from .recording import TRACE, Recording, recordings_in, said

if TYPE_CHECKING:
    from ..chromium.recorder import Recorder


class RecordedTools(WebTools[TaskT]):
    """Tools on a browser that draws, with optional recordings. See ``Recording`` for the files."""

    recording: Recording | None = None
    """Recording of the current episode, if there is one."""
    _recordings: Path | None = None
    _traced: bool = False

    def record_into(self, folder: Path | str | None, *, trace: bool = False) -> None:
        """Record the following episodes.

        Args:
            folder: for recordings; ``None`` for none.
            trace: Playwright's own, too.

        Raises:
            UsageError: the folder cannot be written to, or a trace is requested without a folder.
        """
        if trace and folder is None:
            raise UsageError("a trace is a part of a recording: name a folder for it, such as record='recordings'")
        self._recordings = None if folder is None else recordings_in(folder)
        self._traced = trace

    def begin_recording(self) -> Path | None:
        """Return the path of the trace for the episode that starts now; ``None`` without a trace."""
        if self._recordings is None:
            return None
        self.recording = Recording(self._recordings, self.task)
        return self.recording.folder / TRACE if self._traced else None

    # -- the episode ------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode; see ``TurnEnv.reset``."""
        if self._recordings is None:
            return super().reset(seed=seed, options=options)
        reset: Reset = resolve(self.areset(seed=seed, options=options))
        return reset

    def step(self, action: ActionLike) -> Stepped:
        """Take one action; see ``TurnEnv.step``."""
        if self.recording is None:
            return super().step(action)
        stepped: Stepped = resolve(self.astep(action))
        return stepped

    async def areset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode and its recording."""
        with self._failures_noted():
            reset = await super().areset(seed=seed, options=options)
        if self.recording is not None:
            self.recording.add(None, reset[0], 0.0, await self._picture())
        return reset

    async def astep(self, action: ActionLike) -> Stepped:
        """Take one action and record it."""
        if self.recording is None or self._over:  # over: it will be refused
            return await super().astep(action)
        read = Action.of(action)
        if self._traced:
            await self._recorder.chapter(f"turn {self._turn + 1}: {clip(said(read), 200)}")
        with self._failures_noted():
            stepped = await super().astep(read)
        observation, reward, terminated, truncated, info = stepped
        self.recording.add(read, observation, reward, await self._picture())
        if terminated or truncated:
            verdict = "solved" if info["success"] else "not solved"
            await self._end_recording(f"{verdict}; the turns were over" if info.get(OUT_OF_TURNS) else verdict)
        return stepped

    async def leave(self) -> None:
        """Close the browser and the recording of the last episode."""
        if self.recording is not None:
            try:
                await self._end_recording()
            finally:
                self.recording = None
                await super().leave()
        else:
            await super().leave()

    def close(self) -> None:
        """Close the browser's window, and complete its recording."""
        resolve(self.leave())
        super().close()

    # -- the inside -------------------------------------------------------------------------------------------------

    @property
    def _recorder(self) -> Recorder:
        browser: Any = self.browser
        recorder: Recorder = browser.recorder  # what does not draw has none, and is not recorded
        return recorder

    async def _picture(self) -> bytes | str:
        """Return a screenshot of the window, or the reason why there is none, which does not end the episode."""
        try:
            return await self._recorder.picture()
        except TurnwiseError as error:
            return str(error)

    async def _end_recording(self, verdict: str = "") -> None:
        assert self.recording is not None
        if self._traced and hasattr(self, "browser") and (lost := await self._recorder.end()):
            self.recording.note(f"there is no trace: {lost}")
        self.recording.end(verdict)

    @contextmanager
    def _failures_noted(self) -> Iterator[None]:
        try:
            yield
        except InfrastructureError as error:
            if self.recording is not None:
                self.recording.note(f"failed: {error}")
            raise
