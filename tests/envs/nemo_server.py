"""Small resources servers of NeMo Gym in a thread, with faults to plant: a sum by a tool, and a guess by steps."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import threading
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response

from .threaded import threaded

COOKIE = "session"
ADD = {
    "type": "function",
    "name": "add",
    "description": "Add a number to the sum.",
    "parameters": {
        "type": "object",
        "properties": {"number": {"type": "integer", "minimum": 0, "maximum": 9}},
        "required": ["number"],
        "additionalProperties": False,
    },
    "strict": True,
}


def sum_row(target: int) -> dict[str, Any]:
    """A task of ``Sums``."""
    said = [{"role": "system", "content": "You add."}, {"role": "user", "content": f"Reach {target}."}]
    return {"responses_create_params": {"input": said, "tools": [ADD]}, "target": target}


def guess_row(secret: int) -> dict[str, Any]:
    """A task of ``Guesses``."""
    return {"responses_create_params": {"input": "Guess a number from 1 to 8."}, "secret": secret}


class Sums:
    """For ``simple_agent``: reach the target by additions."""

    def __init__(self) -> None:
        self.sums: dict[str, int] = {}
        self.verified: list[dict[str, Any]] = []

    def routes(self, app: FastAPI) -> None:
        app.post("/seed_session")(self.seed)
        app.post("/add")(self.add)
        app.post("/verify")(self.verify)

    def seed(self, response: Response) -> dict[str, Any]:
        id = secrets.token_hex(8)
        self.sums[id] = self.first()
        response.set_cookie(COOKIE, id)
        return {}

    def first(self) -> int:
        return 0

    def add(self, body: dict[str, Any], request: Request) -> dict[str, Any]:
        number = body.get("number")
        if set(body) != {"number"} or isinstance(number, bool) or not isinstance(number, int):
            raise HTTPException(422, "number must be an integer")
        self.sums[request.cookies[COOKIE]] += number
        return {"sum": self.sums[request.cookies[COOKIE]]}

    def verify(self, body: dict[str, Any], request: Request) -> dict[str, Any]:
        self.verified.append(body)
        reached = self.sums[request.cookies[COOKIE]] == body["target"]
        return body | {"reward": self.pays(reached), "mask_sample": False, "reached": reached}

    def pays(self, reached: bool) -> float:
        return float(reached)


class DrawsLots(Sums):
    numbers = itertools.count()

    def first(self) -> int:
        return next(self.numbers)


class SharesTheSum(Sums):
    """All sessions add to one sum."""

    def add(self, body: dict[str, Any], request: Request) -> dict[str, Any]:
        answer = super().add(body, request)
        self.sums = dict.fromkeys(self.sums, answer["sum"])
        return answer


class PaysForNothing(Sums):
    def pays(self, reached: bool) -> float:
        return 1.0


class Fails(Sums):
    def add(self, body: dict[str, Any], request: Request) -> dict[str, Any]:
        if len(str(body)) > 30:
            raise HTTPException(500, "the number does not fit")
        return super().add(body, request)


class Masks(Sums):
    def verify(self, body: dict[str, Any], request: Request) -> dict[str, Any]:
        return body | {"reward": 0.0, "mask_sample": True, "failure_reason": "the judge is away"}


class PaysInWords(Sums):
    def verify(self, body: dict[str, Any], request: Request) -> dict[str, Any]:
        return body | {"reward": "much"}


class Guesses:
    """For ``gymnasium_agent``: guess a number within three steps."""

    def __init__(self) -> None:
        self.left: dict[str, int] = {}

    def routes(self, app: FastAPI) -> None:
        app.post("/reset")(self.reset)
        app.post("/step")(self.step)
        app.post("/close")(self.close)

    def reset(self, body: dict[str, Any], response: Response) -> dict[str, Any]:
        id = secrets.token_hex(8)
        self.left[id] = 3
        response.set_cookie(COOKIE, id)
        return {"observation": "You have 3 guesses.", "info": {"supports_explicit_close": True}}

    def step(self, body: dict[str, Any], request: Request) -> dict[str, Any]:
        id, output = request.cookies[COOKIE], body["response"]["output"]
        if self.left.get(id, 0) <= 0:
            raise HTTPException(500, "there is no episode")
        self.left[id] -= 1
        text = "".join(part["text"] for item in output if item["type"] == "message" for part in item["content"])
        calls = [item for item in output if item["type"] == "function_call"]
        right = text.strip() == str(body["secret"])
        told = [{"call_id": call["call_id"], "output": f"no {call['name']} here"} for call in calls]
        over = {"terminated": right, "truncated": not right and self.left[id] == 0}
        said = None if right or calls else "No."
        self.left[id] *= not right
        return {"observation": said, "reward": float(right), "info": {"tool_outputs": told}, **over}

    def close(self, request: Request) -> dict[str, Any]:
        self.left.pop(request.cookies[COOKIE])
        return {}


class ClosesWhenLet(Guesses):
    """Ends a session only when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let, self.closed = (threading.Event() for _ in range(3))
        self.in_time = False

    def close(self, request: Request) -> dict[str, Any]:
        self.asked.set()
        self.in_time = self.let.wait(10)
        self.closed.set()
        return super().close(request)


@contextlib.contextmanager
def gym(server: Any) -> Iterator[str]:
    """The id of a resources server in a thread."""
    app = FastAPI()
    server.routes(app)
    with threaded(app) as port:
        yield f"nemo://127.0.0.1:{port}"
