"""A healthy tool environment, and the ways to spoil one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import turnwise as tw
from turnwise.envs.base import NearMiss
from turnwise.envs.messages import ActionLike

from .faults_text import FAULTS, fault

Place = Literal["shelf", "box", "bin"]


class Shelf(tw.ToolEnv):
    """Put one thing where the note says, touch nothing else, and say that you are done."""

    max_turns = 10
    contract = tw.Contract(max_seconds=5.0)
    where: dict[str, str]

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.where = dict.fromkeys(("cup", "book", "lamp"), "shelf")
        self.thing, self.goal = rng.pick(tuple(self.where)), rng.pick(("box", "bin"))
        self.counted = 0
        return f"Put the {self.thing} into the {self.goal}."

    @tw.tool
    def move(self, thing: str, place: Place, times: int = 1) -> str:
        """Move a thing.

        Args:
            thing: name of the thing to move.
            place: place to put it.
            times: how often.
        """
        if thing not in self.where:
            raise tw.ToolError(f"there is no {thing[:20]!r}")
        self.where[thing] = place
        return f"The {thing} is in the {place}."

    @tw.tool
    def look(self) -> dict[str, str]:
        """Say where everything is."""
        return self.where

    @tw.tool(ends=True)
    def done(self) -> str:
        """Say that the work is finished."""
        return "Thank you."

    def judge(self) -> tw.Score:
        wanted = {"cup": "shelf", "book": "shelf", "lamp": "shelf", self.thing: self.goal}
        return tw.Score(success=self.where == wanted, checks={"moved": self.where[self.thing] == self.goal})

    def oracle(self) -> ActionLike:
        if self.where[self.thing] == self.goal:
            return tw.ToolCall("done")
        return tw.ToolCall("move", {"thing": self.thing, "place": self.goal})

    def near_misses(self) -> Mapping[str, NearMiss]:
        move = tw.ToolCall("move", {"thing": self.thing, "place": self.goal})
        other = next(thing for thing in self.where if thing != self.thing)
        extra = tw.ToolCall("move", {"thing": other, "place": "bin"})
        return {"nothing done": [tw.ToolCall("done")], "one write too many": [move, extra, tw.ToolCall("done")]}


@fault("tools_described", "has no type in its schema")
class Untyped(Shelf):
    @tw.tool
    def poke(self, anything: Any) -> str:
        """Poke at something."""
        return "ok"


@fault("tools_never_raise", "raised")
class ToolEscapes(Shelf):
    def act(self, action: tw.Action) -> Any:
        for call in action.tool_calls:
            if call.name == "move" and call.arguments.get("thing") == "A" * 50_000:
                raise KeyError("no such thing")
        return super().act(action)


@fault("no_way_out", "after 'moves it a thousand times', step.. raised ZeroDivisionError.*; answer it")
class WearsOut(Shelf):
    def attacks(self) -> Mapping[str, Sequence[ActionLike]]:
        return {"moves it a thousand times": [tw.ToolCall("move", {"thing": "cup", "place": "box", "times": 1000})]}

    def act(self, action: tw.Action) -> Any:
        for call in action.tool_calls:
            if call.arguments.get("times") == 1000:
                raise ZeroDivisionError("nothing is left of it")
        return super().act(action)


@fault("bad_calls_change_nothing", "change the world")
class WritesBeforeReading(Shelf):
    def act(self, action: tw.Action) -> Any:
        for call in action.tool_calls:
            if call.name == "move":
                self.where[self.thing] = "bin" if self.goal == "box" else "box"
        return super().act(action)

    def oracle(self) -> ActionLike:
        where = self.where[self.thing]
        return tw.ToolCall("look") if where == "shelf" and self.turn == 0 else super().oracle()


@fault("bad_calls_change_nothing", "ends the episode")
class GivesUpOnErrors(Shelf):
    def act(self, action: tw.Action) -> Any:
        answer: Any = super().act(action)
        return tw.failure("Error: enough of this.") if "tool_errors" in answer.info else answer


@fault("bad_calls_change_nothing", "not an error")
class SwallowsErrors(Shelf):
    def act(self, action: tw.Action) -> Any:
        answer: Any = super().act(action)
        return tw.running("Fine.") if "tool_errors" in answer.info else answer


__all__ = ["FAULTS", "Shelf"]
