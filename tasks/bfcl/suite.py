"""BFCL's multi-turn tasks as the package ``bfcl-eval`` ships them: what the user says, and the possible answer.

Nothing of the package is imported with this module, and its data are read on first use.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from ...errors import TaskError, UsageError
from ..family import TaskFamily
from ..rng import Rng
from ..spec import Split, TaskSpec

INSTALL = "pip install 'turnwise[bfcl]' && pip install --no-deps bfcl-eval"
"""Without ``--no-deps`` pip would bring the clients of every model provider, and an older NumPy than ours."""
CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
TASKS = 200
"""Tasks in each category."""
SOURCES = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
CLASSES: Mapping[str, str] = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""Where each class of tools lies: the name of its module and of the file that describes its functions."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the possible answer, all arguments by name."""

    function: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What happens between one message of the user and the next.

    Args:
        said: the user's message; empty where the user only hands over more functions.
        added: functions that can be called from here on and could not before.
        answer: the calls of the possible answer; none where the user cannot be helped (yet).
    """

    said: str
    added: tuple[str, ...]
    answer: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class BfclTask:
    """One task. It is shared by all episodes that play it, and nobody may change it.

    Args:
        id: the suite's own, e.g. ``multi_turn_base_7``.
        classes: the classes whose functions are the tools, in the suite's order.
        config: the state in which each class begins.
        long_context: whether the classes are filled with distractors.
        turns: the conversation.
    """

    id: str
    classes: tuple[str, ...]
    config: Mapping[str, Any]
    long_context: bool
    turns: tuple[UserTurn, ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class BfclFamily(TaskFamily[BfclTask]):
    """One category of the suite: seed n is its n-th task.

    There is one split, as in every fixed list here. It is a benchmark: what was trained on it has no score on it.
    """

    splits = (Split.TRAIN,)
    seeds = TASKS

    def __init__(self, category: str) -> None:
        self.category = category
        self.name = f"bfcl-multi-turn-{category.replace('_', '-')}"

    def build(self, spec: TaskSpec, rng: Rng) -> BfclTask:
        """The task; the suite has no randomness of ours."""
        return _task(self.category, spec.seed)


@lru_cache(maxsize=1)
def installed() -> Path:
    """The folder of the installed package.

    Raises:
        UsageError: it is not installed; the message says how to.
    """
    found = importlib.util.find_spec("bfcl_eval")
    places = found.submodule_search_locations if found else None
    if not places:
        raise UsageError(f"BFCL needs the package bfcl-eval: {INSTALL}")
    if importlib.util.find_spec("mpmath") is None:
        raise UsageError(f"BFCL's MathAPI needs mpmath: {INSTALL}")
    return Path(next(iter(places)))


def class_of(name: str) -> Any:
    """The suite's class of that name, imported."""
    installed()
    return getattr(importlib.import_module(f"{SOURCES}.{CLASSES[name]}"), name)


@lru_cache(maxsize=len(CLASSES))
def descriptions(name: str) -> tuple[dict[str, Any], ...]:
    """What the suite tells an agent of the functions of a class, in its own dialect of JSON Schema."""
    return tuple(_lines(f"multi_turn_func_doc/{CLASSES[name]}.json"))


def _lines(path: str) -> list[Any]:
    file = installed() / "data" / path
    if not file.is_file():
        raise UsageError(f"this version of bfcl-eval has no {path}; install 2026.3.23: {INSTALL}")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


@lru_cache(maxsize=len(CATEGORIES))
def _entries(category: str) -> list[tuple[dict[str, Any], list[list[str]]]]:
    file = f"BFCL_v4_multi_turn_{category}.json"
    answers = {entry["id"]: entry["ground_truth"] for entry in _lines(f"possible_answer/{file}")}
    return [(entry, answers[entry["id"]]) for entry in _lines(file)]


@lru_cache(maxsize=len(CATEGORIES) * TASKS)
def _task(category: str, seed: int) -> BfclTask:
    entry, answers = _entries(category)[seed]
    if len(answers) != len(entry["question"]):
        raise TaskError(
            f"{entry['id']} has {len(answers)} answers to {len(entry['question'])} turns in this version of bfcl-eval"
        )
    given = [tuple(_call(source, entry["involved_classes"]) for source in calls) for calls in answers]
    added = _added(entry.get("missed_function", {}), given)
    said = ["\n".join(message["content"] for message in messages) for messages in entry["question"]]
    turns = (UserTurn(said[i], added.get(i, ()), calls) for i, calls in enumerate(given))
    classes = tuple(entry["involved_classes"])
    return BfclTask(entry["id"], classes, entry["initial_config"], category == "long_context", tuple(turns))


def _added(missed: Mapping[str, list[str]], answers: list[tuple[Call, ...]]) -> dict[int, tuple[str, ...]]:
    """Which functions come with which turn.

    In one task the possible answer calls a function before it is handed over, which the suite's program lets pass.
    Here what is not offered cannot be called, so such a function is there from the turn in which it is needed.
    """
    added: dict[int, tuple[str, ...]] = {}
    for turn, functions in missed.items():
        for function in functions:
            needed = [i for i, calls in enumerate(answers) if function in {call.function for call in calls}]
            first = min([int(turn), *needed])
            added[first] = (*added.get(first, ()), function)
    return added


def _call(source: str, classes: list[str]) -> Call:
    """Read ``name(1, b='c')``: parsed and never run, so that arguments are literals or refused."""
    call = ast.parse(source, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise TaskError(f"the possible answer {source!r} is not a call")
    function = call.func.id
    owner = next((name for name in classes if function in {entry["name"] for entry in descriptions(name)}), None)
    if owner is None:
        raise TaskError(f"the possible answer {source!r} calls a function that none of {classes} describes")
    parameters = inspect.signature(getattr(class_of(owner), function)).bind(
        None,
        *map(ast.literal_eval, call.args),
        **{str(word.arg): ast.literal_eval(word.value) for word in call.keywords},
    )
    arguments = {name: value for name, value in parameters.arguments.items() if name != "self"}
    return Call(function, json.loads(json.dumps(arguments)))
