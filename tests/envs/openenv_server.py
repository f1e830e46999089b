"""A small OpenEnv server in a thread, with faults to plant: a card game, and the same as tools."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Iterator
from typing import Any, ClassVar

from fastapi import FastAPI, WebSocket
from starlette.websockets import WebSocketDisconnect

from .threaded import threaded


class Cards:
    """Say whether the next card is higher; three right answers win, and a wrong one loses."""

    action: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "guess": {"type": "string", "enum": ["higher", "lower"], "description": "higher or lower"},
            "metadata": {"type": "object"},
        },
        "required": ["guess"],
    }
    shared: ClassVar[list[int]] = []

    def __init__(self) -> None:
        self.drawn: random.Random | None = None
        self.right = 0
        self.over = False

    def reset(self, data: dict[str, Any]) -> dict[str, Any]:
        self.drawn = random.Random(data.get("seed"))
        self.right, self.over, self.card = 0, False, self.drawn.randint(2, 12)
        return self.shown(f"The card is {self.card}.")

    def step(self, data: dict[str, Any]) -> dict[str, Any]:
        if self.drawn is None or self.over:
            raise PermissionError("there is no episode")
        guess = data.get("guess")
        if guess not in ("higher", "lower"):
            raise ValueError("guess must be higher or lower")
        before, self.card = self.card, self.drawn.randint(1, 13)
        self.right += 1
        if (self.card > before) != (guess == "higher"):
            return self.shown(f"It is {self.card}: wrong.", 0.0, done=True)
        if self.right == 3:
            return self.shown(f"It is {self.card}: you win.", 1.0, done=True)
        return self.shown(f"It is {self.card}: right.")

    def shown(self, text: str, reward: float | None = None, *, done: bool = False, **metadata: Any) -> dict[str, Any]:
        self.over = done
        return {"observation": {"text": text}, "reward": reward, "done": done, "metadata": metadata}


class IgnoresSeed(Cards):
    def reset(self, data: dict[str, Any]) -> dict[str, Any]:
        return super().reset({"seed": time.perf_counter_ns()})


class SharesCards(Cards):
    """All sessions draw from one generator."""

    drawer = random.Random()

    def reset(self, data: dict[str, Any]) -> dict[str, Any]:
        self.drawer.seed(data.get("seed"))
        first = super().reset(data)
        self.drawn = self.drawer
        return first


class StepsAfterTheEnd(Cards):
    def step(self, data: dict[str, Any]) -> dict[str, Any]:
        self.over = False
        return super().step(data)


class Raises(Cards):
    def step(self, data: dict[str, Any]) -> dict[str, Any]:
        if len(str(data.get("guess"))) > 1000:
            raise RuntimeError("out of memory")
        return super().step(data)


class PaysForNothing(Cards):
    def step(self, data: dict[str, Any]) -> dict[str, Any]:
        return self.shown("Fine.", 1.0, done=True)


class Truncates(Cards):
    def step(self, data: dict[str, Any]) -> dict[str, Any]:
        return self.shown("Out of time.", 0.0, done=True, truncated=True)


class Succeeds(Cards):
    def step(self, data: dict[str, Any]) -> dict[str, Any]:
        return self.shown("Done.", 0.2, done=True, success=True)


class Move(Cards):
    """An action of two fields."""

    action: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"row": {"type": "integer", "minimum": 0, "maximum": 2}, "column": {"type": "integer"}},
        "required": ["row", "column"],
    }

    def step(self, data: dict[str, Any]) -> dict[str, Any]:
        if not all(isinstance(data.get(name), int) for name in ("row", "column")) or set(data) - {"row", "column"}:
            raise ValueError("row and column must be integers")
        self.over = True
        return self.shown(f"{data['row']} {data['column']}", 1.0, done=True)


class Tools(Cards):
    """The game with a tool, in OpenEnv's form for MCP."""

    action: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"type": {"const": "call_tool"}, "tool_name": {"type": "string"}, "arguments": {}},
        "required": ["tool_name"],
    }
    schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"guess": Cards.action["properties"]["guess"]},
        "required": ["guess"],
        "additionalProperties": False,
    }

    def step(self, data: dict[str, Any]) -> dict[str, Any]:
        if data.get("type") == "list_tools":
            tool = {"name": "guess", "description": "Guess the next card.", "input_schema": self.schema}
            return {"observation": {"tools": [tool]}, "reward": None, "done": False}
        error = None
        if data["tool_name"] != "guess":
            error = {"error_type": "tool_not_found", "message": "there is no such tool"}
        elif not isinstance(data["arguments"], dict) or set(data["arguments"]) != {"guess"}:
            error = {"error_type": "invalid_args", "message": "the argument is guess"}
        elif data["arguments"]["guess"] not in ("higher", "lower"):
            error = {"error_type": "invalid_args", "message": "guess must be higher or lower"}
        if error is not None:
            return {"observation": {"tool_name": data["tool_name"], "result": None, "error": error}, "done": False}
        answer = super().step(data["arguments"])
        answer["observation"] = {"tool_name": "guess", "result": answer["observation"]["text"], "error": None}
        return answer


class PaysByCall(Tools):
    """Each call pays what it asks for; the call ``end`` ends the episode."""

    def step(self, data: dict[str, Any]) -> dict[str, Any]:
        if data.get("type") == "list_tools":
            return super().step(data)
        paid = data["arguments"]["pays"]
        return {"observation": {"result": "paid"}, "reward": paid, "done": data["tool_name"] == "end"}


def application(game: type[Cards], places: int) -> FastAPI:
    app, open_sessions = FastAPI(), set[int]()

    @app.get("/schema")
    async def schema() -> dict[str, Any]:
        return {"action": game.action, "observation": {"type": "object"}, "state": {"type": "object"}}

    @app.get("/metadata")
    async def metadata() -> dict[str, Any]:
        return {"name": game.__name__, "description": "A game of cards.", "version": "3"}

    @app.websocket("/ws")
    async def session(socket: WebSocket) -> None:
        await socket.accept()
        if len(open_sessions) >= places:
            await socket.send_json({"type": "error", "data": {"message": "full", "code": "CAPACITY_REACHED"}})
            await socket.close()
            return
        open_sessions.add(id(socket))
        env = game()
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            while (frame := json.loads(await socket.receive_text())).get("type") != "close":
                await socket.send_json(answered(env, frame))
        open_sessions.discard(id(socket))

    return app


def answered(env: Cards, frame: dict[str, Any]) -> dict[str, Any]:
    verb, data = frame["type"], frame.get("data", {})
    try:
        return {"type": "observation", "data": env.reset(data) if verb == "reset" else env.step(data)}
    except ValueError as error:
        return {"type": "error", "data": {"message": str(error), "code": "VALIDATION_ERROR"}}
    except Exception as error:
        return {"type": "error", "data": {"message": str(error), "code": "EXECUTION_ERROR"}}


@contextlib.contextmanager
def playing(game: type[Cards] = Cards, places: int = 32) -> Iterator[str]:
    """The id of a server in a thread."""
    with threaded(application(game, places), ws="websockets-sansio") as port:
        yield f"openenv://127.0.0.1:{port}"
