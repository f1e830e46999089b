"""Playing acts in a world without an environment around it, and the ways of playing that must not solve a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....errors import ToolError
from ...rng import Rng
from ...rows.judge import Ending, judge
from ...score import Score
from ..world.app import App, LoginNeeded, TooManyCalls
from ..world.world import World
from .plan import Act
from .talk import LONGEST, Heard, Part, Talk, reply
from .task import AppTask

Acts = tuple[Act, ...]
ENDS = ("task_answer", "task_refuse")
WRONG_ANSWER = "something else"


def ending_of(act: Act) -> Ending:
    """How an act ends a task."""
    if act.name == "task_answer":
        return Ending(done=True, answer=act.arguments.get("answer"))
    return Ending(reason=str(act.arguments["reason"]), evidence=act.arguments["evidence"])


def played(task: AppTask, world: World, acts: Sequence[Act], idle: Mapping[str, frozenset[str]]) -> Score:
    """The score of some acts in a world, which they change. Calls that are refused change nothing and are left at that.

    Args:
        task: what was asked.
        world: as the task begins.
        acts: in order; what follows an end is not done.
        idle: columns, by table, that change when somebody only looks.
    """
    heard, ending = Heard(), None
    for act in acts:
        if act.name in ENDS:
            ending = ending_of(act)
            break
        if act.name == "say":
            if task.talk is not None:
                _, heard = reply(task.talk, heard, str(act.arguments["text"]))
        elif not act.name.startswith("docs_"):
            _insisted(world, act)
            heard = watched(task, world, heard, idle)
    return judge(task, world.changes(), ending, idle, violations(task, heard, ending))


def _insisted(world: World, act: Act) -> None:
    """Make a call as somebody does who logs in again and waits where that is asked for."""
    for _ in range(4):
        try:
            world.call(act.name, act.arguments)
            return
        except LoginNeeded as need:
            world.call(f"{need.app}_login", {"password": world.call("account_passwords", {})[need.app]})
        except TooManyCalls as busy:
            world.call("account_wait", {"seconds": busy.seconds})
        except ToolError:
            return


def watched(task: AppTask, world: World, heard: Heard, idle: Mapping[str, frozenset[str]]) -> Heard:
    """What a user who wants to be asked first makes of the present world."""
    if task.talk is None or not task.talk.guarded or heard.confirmed or heard.acted_first:
        return heard
    touched = any(not (set(change.columns) <= idle.get(change.table, frozenset())) for change in world.changes())
    return replace(heard, acted_first=True) if touched else heard


def violations(task: AppTask, heard: Heard, ending: Ending | None) -> tuple[str, ...]:
    """The rules that were broken in a conversation."""
    found = ["acted before the user agreed"] if heard.acted_first else []
    if task.talk is not None and task.refusal is not None and ending is not None and ending.reason is not None:
        unheard = bool(task.talk.correction) and not heard.corrected
        found += ["refused what the user had not taken back"] if unheard else []
    return tuple(found)


def near_misses(task: AppTask, world: World, acts: Acts, apps: Sequence[type[App]], rng: Rng) -> dict[str, Acts]:
    """Ways of playing that are almost right, and must not solve the task.

    Args:
        task: to miss.
        world: as the task begins; it is left as it is.
        acts: that solve it.
        apps: that the agent sees.
        rng: chooses wrong entities.
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
    stray = next((app.stray for app in apps if hasattr(app, "stray") and app.name in task.apps), None)
    if stray is not None:
        found["one extra write"] = (*body, Act(*stray, wrote=True), end)
    if task.refusal is not None:
        found["refuses without looking"] = (Act("task_refuse", {"reason": task.refusal.reason, "evidence": "none"}),)
        found["claims to be done after looking"] = (*body, Act("task_answer"))
    if task.talk is not None and task.talk.guarded and writes:
        found |= _talking(task.talk, body, end, writes)
    return found


def _careless(body: Acts, end: Act) -> dict[str, Acts]:
    """Doing what was asked, with something on top that spoils it: a message that disowns itself, a priority."""
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
    """Ways of talking past a user who wants to be asked first."""
    said = [i for i, act in enumerate(body) if act.name == "say"]
    agreed, done = said[-1], [body[i] for i in writes]
    begun, asked = body[:agreed], tuple(act for act in body if not act.wrote)
    recital = Act("say", {"text": " ".join(_spoken(talk))[:LONGEST]})
    found = {
        "acts without asking": (*(act for act in body if act.name != "say"), end),
        "acts after asking, before it is agreed": (*begun, *body[agreed + 1 :], end),
        "acts first and asks then": (*begun, *done, body[agreed], end),
        "agrees and does nothing": (*asked, end),
        "recites everything instead of proposing": (*begun, recital, *body[agreed + 1 :], end),
    }
    if talk.correction:
        proposed = said[-2]
        found["acts after the first proposal"] = (*body[: proposed + 1], *body[agreed + 1 :], end)
        old = tuple(Act(act.name, _taken_back(act.arguments, talk), act.wrote) for act in body[agreed + 1 :])
        if old != body[agreed + 1 :]:
            found["does what was taken back"] = (*body[: agreed + 1], *old, end)
    return found


def _spoken(talk: Talk) -> list[str]:
    """Everything that a user might want to hear."""
    parts: tuple[Part, ...] = (*talk.confirm, *talk.proposal)
    words = [part if isinstance(part, str) else part[0] for part in parts]
    return [*words, *talk.rivals, "?", *(word for slot in talk.slots for word in slot.asked_by)]


def _taken_back(arguments: Mapping[str, Any], talk: Talk) -> dict[str, Any]:
    """Arguments with what the user first wanted in the place of what the user wants in the end."""
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
    """The same act on something else: another row, another person."""
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
