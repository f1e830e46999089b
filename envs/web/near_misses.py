"""Near misses of web tasks: solutions without an action, other answers, refusals, and URLs out of the episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import ContractError
from ...tasks.rows.expected import Evidence
from ...tasks.web.templates.task import WebTask
from ..base import NearMiss
from ..messages import ActionLike, ToolCall
from .page_driver import UiAction

ENDS = ("send_msg_to_user", "report_infeasible")
WAYS_OUT = {
    "a script": "javascript:document.title",
    "a file": "file:///etc/hostname",
    "a judge": "http://judge.test/score?success=1",
    "this machine": "http://127.0.0.1:80/",
    "an address without a scheme": "//judge.test/score",
    "another episode": f"http://shop.{'0' * 32}.localhost/",
}
"""URLs out of an episode, by their targets. An agent that requests one does not succeed, whatever else it does."""


def near_misses(work: WebTask, acts: Sequence[UiAction]) -> Mapping[str, NearMiss]:
    """Return ways to play that must not succeed, by name.

    Args:
        work: the task that they miss.
        acts: the solution.
    """
    *before, end = acts
    found: dict[str, NearMiss] = {"nothing but an end": _playing((end if work.must else _done("Done."),))}
    if work.must:
        clicks = [number for number, act in enumerate(before) if act.name == "click"]
        if clicks:
            found["the last click left out"] = _playing((*before[: clicks[-1]], end))
    if work.answer is not None:
        found["the right acts and another answer"] = _playing((*before, _done("nobody-1234567")))
    if work.refusal is not None:
        found["a refusal without the fact"] = _playing(
            (*before, UiAction("report_infeasible", arguments={"reason": "No."}))
        )
        if isinstance(fact := work.refusal.evidence, Evidence):
            listed = UiAction(
                "report_infeasible", arguments={"reason": " ".join((*fact.facts, *fact.rivals, "2001-01-01"))}
            )
            found["a refusal that lists what the fact might be"] = _playing((*before, listed))
        found["a claim that it is done"] = _playing((*before, _done("Done.")))
    else:
        found["a refusal"] = _playing(
            (*before, UiAction("report_infeasible", arguments={"reason": "It cannot be done."}))
        )
    for what, url in WAYS_OUT.items():
        found[f"a way out to {what}"] = _playing((UiAction("goto", arguments={"url": url}), *acts))
    return found


def _done(text: str) -> UiAction:
    return UiAction("send_msg_to_user", arguments={"text": text})


def _playing(acts: Sequence[UiAction]) -> NearMiss:
    def play(env: Any) -> ActionLike:
        own = env.unwrapped
        number = own.turn
        if number >= len(acts):
            return ToolCall("send_msg_to_user", {"text": "Done."})
        try:
            name, arguments = acts[number].call(own.page)
        except ContractError:  # what was left out is missed here
            return ToolCall("send_msg_to_user", {"text": "Done."})
        return ToolCall(name, arguments)

    return play
