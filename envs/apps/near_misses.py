"""Near misses of the apps' tasks: the solution with a step left out, changed or added, and talk instead of actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...tasks.apps.simulators.app import App
from ...tasks.apps.simulators.world import World
from ...tasks.apps.templates.plan import Act
from ...tasks.apps.templates.talk import LONGEST, Part, Talk
from ...tasks.apps.templates.task import AppTask
from ...tasks.rng import Rng

Acts = tuple[Act, ...]
WRONG_ANSWER = "something else"


def near_misses(task: AppTask, world: World, acts: Acts, apps: Sequence[type[App]], rng: Rng) -> dict[str, Acts]:
    """Return ways to play that are almost right and must not solve the task, by name.

    Args:
        task: the task that they miss.
        world: the world as the task begins; nothing changes it.
        acts: the solution.
        apps: the apps that the agent sees.
        rng: the source of randomness that chooses wrong entities.
    """
    body, end = acts[:-1], acts[-1]
    writes = [i for i, act in enumerate(body) if act.wrote and not _only_looks(task, act)]
    found: dict[str, Acts] = {"gives up": (Act("task_refuse", {"reason": "not_possible", "evidence": "none"}),)}
    found["claims to be done"] = (Act("task_answer"),)
    if writes:
        last = writes[-1]
        found["last write dropped"] = (*body[:last], *body[last + 1 :], end)
        found["nothing done, right end"] = (end,)
        found["right acts, no end"] = body
        for number, wrong in enumerate(_wrong(body[last], world, apps, rng)):
            found[f"wrong entity {number}" if number else "wrong entity"] = (
                *body[:last],
                wrong,
                *body[last + 1 :],
                end,
            )
        found |= _careless(body, end)
    if task.answer is not None:
        found["right acts, no answer"] = (*body, Act("task_answer"))
        found["right acts, wrong answer"] = (*body, Act("task_answer", {"answer": WRONG_ANSWER}))
    stray = next((app.stray for app in apps if hasattr(app, "stray") and app.name in task.needs), None)
    if stray is not None:
        found["one extra write"] = (*body, Act(*stray, wrote=True), end)
    if task.refusal is not None:
        found["refuses without looking"] = (Act("task_refuse", {"reason": task.refusal.reason, "evidence": "none"}),)
        found["claims to be done after looking"] = (*body, Act("task_answer"))
    if task.talk is not None and task.talk.guarded and writes:
        found |= _talking(task.talk, body, end, writes)
    return found


def _careless(body: Acts, end: Act) -> dict[str, Acts]:
    """Return solutions with an addition that spoils them, such as a message that retracts itself or a priority."""
    found = {}
    for number, act in enumerate(body):
        text = {"mail_forward": "note", "mail_reply": "body", "mail_send": "body", "mail_save_draft": "body"}.get(
            act.name
        )
        if text is not None:
            said = f"{act.arguments.get(text, '')}\n\nPlease disregard this message: all of it is wrong."
            spoiled = Act(act.name, {**act.arguments, text: said}, wrote=True)
            found["says it and takes it back"] = (*body[:number], spoiled, *body[number + 1 :], end)
        if act.name == "todo_add" and "priority" not in act.arguments:
            spoiled = Act(act.name, {**act.arguments, "priority": "high"}, wrote=True)
            found["adds a priority"] = (*body[:number], spoiled, *body[number + 1 :], end)
    return found


def _talking(talk: Talk, body: Acts, end: Act, writes: Sequence[int]) -> dict[str, Acts]:
    """Return plays that act without the consent of a user who has to agree first."""
    said = [i for i, act in enumerate(body) if act.name == "say"]
    agreed, done = said[-1], [body[i] for i in writes]
    before, asked = body[:agreed], tuple(act for act in body if not act.wrote)
    recital = Act("say", {"text": " ".join(_spoken(talk))[:LONGEST]})
    found = {
        "acts without asking": (*(act for act in body if act.name != "say"), end),
        "acts after asking, before it is agreed": (*before, *body[agreed + 1 :], end),
        "acts first and asks then": (*before, *done, body[agreed], end),
        "agrees and does nothing": (*asked, end),
        "recites everything instead of proposing": (*before, recital, *body[agreed + 1 :], end),
    }
    if talk.correction:
        proposed = said[-2]
        found["acts after the first proposal"] = (*body[: proposed + 1], *body[agreed + 1 :], end)
        old = tuple(Act(act.name, _taken_back(act.arguments, talk), act.wrote) for act in body[agreed + 1 :])
        if old != body[agreed + 1 :]:
            found["does what was taken back"] = (*body[: agreed + 1], *old, end)
    return found


def _spoken(talk: Talk) -> list[str]:
    """Return a message with everything that a user might want to hear."""
    parts: tuple[Part, ...] = (*talk.confirm, *talk.proposal)
    words = [part if isinstance(part, str) else part[0] for part in parts]
    return [*words, *talk.rivals, "?", *(word for slot in talk.slots for word in slot.asked_by)]


def _taken_back(arguments: Mapping[str, Any], talk: Talk) -> dict[str, Any]:
    """Return arguments with the user's first wish in place of the final one."""
    swap: dict[str, str] = {}
    for last, first in zip(talk.confirm, talk.proposal, strict=False):
        if last != first:
            pairs = ((last, first),) if isinstance(last, str) else zip(last, first, strict=False)
            swap |= {str(new): str(old) for new, old in pairs}

    def back(value: Any) -> Any:
        if isinstance(value, list):
            return [back(item) for item in value]
        return swap.get(value, value) if isinstance(value, str) else value

    return {name: back(value) for name, value in arguments.items()}


def _only_looks(task: AppTask, act: Act) -> bool:
    return act.name.endswith("_read")


def _wrong(act: Act, world: World, apps: Sequence[type[App]], rng: Rng) -> list[Act]:
    """Return the same action on another row or another person."""
    tables: dict[str, str] = {}
    for app in apps:
        tables |= app.ids
    found = []
    for name, value in act.arguments.items():
        other = _other(name, value, tables, world, rng)
        if other is not None:
            found.append(Act(act.name, {**act.arguments, name: other}, wrote=True))
    return found


def _other(name: str, value: Any, tables: Mapping[str, str], world: World, rng: Rng) -> Any:
    if name in tables and isinstance(value, int):
        ids = [row["id"] for row in world.db.rows(f"SELECT id FROM {tables[name]} WHERE id != ?", value)]
        return rng.pick(ids) if ids else None
    emails = [row["email"] for row in world.db.rows("SELECT email FROM contacts ORDER BY id")]
    if isinstance(value, str) and value in emails:
        return rng.pick([email for email in emails if email != value])
    if isinstance(value, list) and value and set(value) <= set(emails):
        return [rng.pick([email for email in emails if email not in value]), *value[1:]]
    return None
