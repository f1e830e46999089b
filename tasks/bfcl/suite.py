"""BFCL's multi-turn tasks from the package ``bfcl-eval``: the user's messages and the possible answers.

Importing this module imports nothing of the package, whose data are read on first use.
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
"""Without ``--no-deps``, pip would install the clients of every model provider, and an older NumPy than Turnwise's."""
CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
TASKS = 200
"""Number of tasks in each category."""
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
"""Name of each class's module, and of the file that describes its functions."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the possible answer, with all arguments by name."""

    function: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UserTurn:
    """The events between one message of the user and the next.

    Args:
        said: the user's message; empty if the user only hands over more functions.
        added: names of the functions that become available in this turn.
        answer: calls of the possible answer; empty if the user cannot be helped (yet).
    """

    said: str
    added: tuple[str, ...]
    answer: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class BfclTask:
    """One task. All episodes that play it share this object, so do not modify it.

    Args:
        id: the suite's own id, e.g. ``multi_turn_base_7``.
        classes: classes whose functions are the tools, in the suite's order.
        config: initial state of each class.
        long_context: whether to fill the classes with distractors.
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

    There is one split, as for every fixed list in Turnwise. This is a benchmark: scores of a model that trained on it
    mean nothing.
    """

    splits = (Split.TRAIN,)
    seeds = TASKS

    def __init__(self, category: str) -> None:
        self.category = category
        self.name = f"bfcl-multi-turn-{category.replace('_', '-')}"

    def build(self, spec: TaskSpec, rng: Rng) -> BfclTask:
        """Return the task; it depends on nothing random."""
        return _task(self.category, spec.seed)


@lru_cache(maxsize=1)
def installed() -> Path:
    """Return the folder of the installed package.

    Raises:
        UsageError: the package is not installed; the message says how to install it.
    """
    found = importlib.util.find_spec("bfcl_eval")
    places = found.submodule_search_locations if found else None
    if not places:
        raise UsageError(f"BFCL needs the package bfcl-eval: {INSTALL}")
    if importlib.util.find_spec("mpmath") is None:
        raise UsageError(f"BFCL's MathAPI needs mpmath: {INSTALL}")
    return Path(next(iter(places)))


def class_of(name: str) -> Any:
    """Import and return the suite's class of a name."""
    installed()
    return getattr(importlib.import_module(f"{SOURCES}.{CLASSES[name]}"), name)


@lru_cache(maxsize=len(CLASSES))
def descriptions(name: str) -> tuple[dict[str, Any], ...]:
    """Return the suite's descriptions of a class's functions, in its own dialect of JSON Schema."""
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
    """Return the functions that become available in each turn.

    In one task, the possible answer calls a function before the suite hands it over, which the suite's program
    tolerates. Here the agent cannot call a function that is not available, so it becomes available in the turn that
    needs it.
    """
    added: dict[int, tuple[str, ...]] = {}
    for turn, functions in missed.items():
        for function in functions:
            needed = [i for i, calls in enumerate(answers) if function in {call.function for call in calls}]
            first = min([int(turn), *needed])
            added[first] = (*added.get(first, ()), function)
    return added


def _call(source: str, classes: list[str]) -> Call:
    """Parse ``name(1, b='c')`` without running it; arguments that are not literals are refused."""
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
