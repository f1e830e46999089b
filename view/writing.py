"""The addresses that write, which work only on request: playing an environment, annotating episodes."""

from __future__ import annotations

from typing import Annotated, Any

import pydantic
from fastapi import HTTPException
from starlette.responses import PlainTextResponse, Response

from ..envs.messages import Action, ToolCall
from ..rollouts.annotations import annotate
from .episode import image_at, text_at, to_json
from .play import Play, offered
from .routes import CHUNK, Routes, as_json
from .runs import key_of

Text = Annotated[str, pydantic.Field(max_length=200_000)]


class Call(pydantic.BaseModel):
    """A call of a tool."""

    name: Annotated[str, pydantic.Field(max_length=200)]
    arguments: dict[str, Any]


class Act(pydantic.BaseModel):
    """The action of a turn."""

    turn: int
    text: Text = ""
    calls: Annotated[list[Call], pydantic.Field(max_length=50)] = []


class Start(pydantic.BaseModel):
    """The choice of a task."""

    split: str
    level: int


class Note(pydantic.BaseModel):
    """A label and a comment on an episode."""

    run: str
    store: str
    episode: str
    label: Text = ""
    comment: Text = ""


class Writing:
    """Handlers of the addresses that write.

    Args:
        routes: the addresses that read.
        key: key that a page needs to write.
        play: the environment to play; ``None`` for none.
        may_annotate: whether episodes may be labeled and commented on.
    """

    def __init__(self, routes: Routes, key: str, play: Play | None, may_annotate: bool) -> None:
        self._routes, self._key, self._play, self._may_annotate = routes, key, play, may_annotate

    def about(self) -> Response:
        """Say what a page may do here, and give it the key for that; other origins cannot read the answer."""
        env = self._play.env if self._play is not None else None
        may = env is not None or self._may_annotate
        return as_json({"key": self._key if may else None, "play": env, "annotate": self._may_annotate})

    async def playing(self) -> Response:
        """Show the present episode."""
        play = self._played()
        await play.settled()
        return self._shown(play)

    async def start(self, chosen: Start) -> Response:
        """Begin an episode."""
        play = self._played()
        await play.start(chosen.split, chosen.level)
        return self._shown(play)

    async def act(self, act: Act) -> Response:
        """Act in the present turn."""
        play = self._played()
        calls = tuple(ToolCall(call.name, call.arguments, f"call_{act.turn}_{n}") for n, call in enumerate(act.calls))
        await play.act(act.turn, Action(act.text, calls))
        return self._shown(play)

    async def stop(self) -> Response:
        """Give up the present episode."""
        play = self._played()
        await play.stop()
        return self._shown(play)

    def text(self, at: str, offset: int = 0) -> Response:
        """Return more of a long text of the present episode."""
        now = self._played().now
        text = text_at(now, at) if now is not None else None
        if text is None or offset < 0:
            raise HTTPException(404, "there is no such text in this episode")
        return as_json({"text": text[offset : offset + CHUNK], "more": max(0, len(text) - offset - CHUNK)})

    def image(self, at: str) -> Response:
        """Return an image that the human sees."""
        now = self._played().now
        image = image_at(now, at) if now is not None else None
        if image is None:
            return PlainTextResponse("there is no such image in this episode\n", 404)
        return Response(image.data, media_type=image.mime)

    def note(self, note: Note) -> Response:
        """Label an episode or comment on it."""
        if not self._may_annotate:
            raise HTTPException(404, "start the viewer with --annotate to label episodes and comment on them")
        store = self._routes.store_of(note.run, note.store, note.episode)
        return as_json(annotate(store, note.episode, label=note.label, comment=note.comment).to_json())

    def _played(self) -> Play:
        if self._play is None:
            raise HTTPException(404, "start the viewer with --play ENV to play an environment")
        return self._play

    def _shown(self, play: Play) -> Response:
        now, last = play.now, play.last
        over = last is not None and last.scored
        return as_json(
            {
                "env": play.env,
                "tools": offered(play.tools),
                "splits": play.splits,
                "levels": play.levels,
                "playing": play.playing,
                "asked": play.asked,
                "problem": play.problem or (last.error if last is not None else "") or "",
                "now": to_json(now) if now is not None else None,
                "run": key_of(play.folder.resolve()),
                "last": {
                    "episode": last.episode_id,
                    "outcome": last.outcome,
                    "success": last.success if over else None,
                    "reward": last.total_reward if over else None,
                    "turns": len(last.turns),
                }
                if last is not None
                else None,
            }
        )
