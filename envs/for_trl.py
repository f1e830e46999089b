"""Environments for TRL: an ``environment_factory`` of its ``GRPOTrainer``, without importing TRL.

TRL calls the public methods of an object as tools, whose schema it reads from their signatures and docstrings. It ends
an episode when the model writes a message without a call, and drops that message.
"""

from __future__ import annotations

import inspect
import json
import keyword
import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Union

from ..errors import UsageError
from ..tasks.spec import Split
from .base import TurnEnv
from .messages import Action, TextPart, ToolCall
from .registry import make
from .tools import Tool

LOG = logging.getLogger(__name__)

SCALARS: Mapping[Any, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}
RESERVED = frozenset({"reset", "get_reward"})
"""Methods that TRL calls itself."""
OVER = "The episode is over; no further call has an effect."


class TrlEnvironment:
    """One environment as TRL uses it: ``reset``, tools as methods, ``get_reward``. Made by ``trl_environment``.

    A failure of the environment is never a reward of zero: the episode has no reward, and TRL leaves it out.
    """

    _id: ClassVar[str]
    _kwargs: ClassVar[Mapping[str, Any]]

    def __init__(self) -> None:
        self._env: TurnEnv | None = None
        self._over, self._failed, self._return = True, True, 0.0

    def reset(self, **row: Any) -> str:
        """Start an episode and return its first observation, which TRL appends to the row's prompt.

        Args:
            row: a row of the data set; its column ``task`` or ``seed`` names the task.

        Raises:
            UsageError: The row names no task, so that the attempts at it would not be comparable.
        """
        task, seed = row.get("task"), row.get("seed")
        if task is None and seed is None:
            raise UsageError("a row needs a column 'task' or 'seed', as turnwise.envs.trl_rows writes them")
        self._over, self._failed, self._return = True, True, 0.0  # until it has started
        if self._env is None:
            self._env = make(self._id, **self._kwargs)
        options = None if task is None else {"task": dict(task)}
        observation, _ = self._env.reset(seed=None if seed is None else int(seed), options=options)
        self._over = self._failed = False
        return _text(observation.messages)

    def get_reward(self) -> float | None:
        """Return the sum of rewards; ``None``, which TRL leaves out, if the environment failed.

        Where the model stopped before the end, the environment reads empty messages up to its turn limit, so that it
        judges the world as it does for every agent that says nothing more.
        """
        try:
            while not self._over:
                self._step(Action(""))
        except UsageError:
            raise
        except Exception:
            LOG.warning("the environment %s failed where its episode ends", self._id, exc_info=True)
        return None if self._failed else self._return

    def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        return OVER if self._over else self._step(Action.of(ToolCall(name, dict(arguments))))

    def _step(self, action: Action) -> str:
        if self._env is None:
            raise UsageError("reset() comes before the first call")
        try:
            observation, reward, terminated, truncated, _ = self._env.step(action)
        except Exception:
            broken, self._env = self._env, None  # it may be in any state
            self._over = self._failed = True
            broken.close()
            raise
        self._return += reward
        self._over = terminated or truncated
        return _text(observation.messages)


def trl_environment(id: str, **kwargs: Any) -> Callable[[], Any]:
    """Return an ``environment_factory`` for TRL's ``GRPOTrainer``.

    Args:
        id: id of an environment whose agent acts through tools.
        kwargs: constructor arguments of the environment.

    Raises:
        UsageError: The environment has no tools, or a tool whose name cannot be a method.
        UnknownEnvironmentError: There is no such environment.
    """
    env = make(id, **kwargs)
    tools = tuple(env.tools)
    env.close()
    if not tools:
        raise UsageError(f"{id} has no tools, and TRL's environment_factory passes on nothing but calls of tools")
    name = id.rpartition("/")[2].partition("-")[0]
    methods = {tool.name: _method(tool) for tool in tools}
    return type(name, (TrlEnvironment,), {"_id": id, "_kwargs": kwargs, "__doc__": TrlEnvironment.__doc__, **methods})


def trl_rows(
    id: str,
    count: int,
    *,
    split: Split | str = Split.TRAIN,
    level: int | None = None,
    in_prompt: bool = False,
    **kwargs: Any,
) -> list[dict[str, Any]]:
    """Return rows for ``datasets.Dataset.from_list``: an empty prompt, and a task, which is ``reset``'s to describe.

    Args:
        id: id of the environment.
        count: number of tasks.
        split: split of the tasks.
        level: level of the tasks (default: the usual ones in turn).
        in_prompt: whether the prompt is the task, as JSON, for ``turnwise.rollouts.trl_rollout``: TRL passes nothing
            else of a row to a ``rollout_func``.
        kwargs: constructor arguments of the environment.
    """
    env = make(id, **kwargs)
    specs = list(env.tasks().sample(count, split=split, level=level))
    env.close()
    tasks = [spec.to_json() for spec in specs]
    texts = [json.dumps(task) if in_prompt else "" for task in tasks]
    return [
        {"prompt": [{"role": "user", "content": text}], "task": task} for text, task in zip(texts, tasks, strict=True)
    ]


def _method(tool: Tool) -> Callable[..., str]:
    """Return a method that calls a tool, with the signature and the docstring by which TRL describes it."""
    name = tool.name
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or name in RESERVED:
        raise UsageError(f"TRL calls tools as methods, and {name!r} cannot be the name of one")

    def method(self: TrlEnvironment, **arguments: Any) -> str:
        return self._call(name, arguments)

    shapes: Mapping[str, Any] = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(
            key,
            kind,
            annotation=_type(shape),
            default=inspect.Parameter.empty if key in required else shape.get("default"),
        )
        for key, shape in shapes.items()
    ]
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = inspect.Signature([own, *parameters], return_annotation=str)  # type: ignore[attr-defined]
    method.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": str}
    method.__name__ = method.__qualname__ = name
    lines = [_line(tool.description), "", "Args:"] if shapes else [_line(tool.description)]
    lines += [f"    {key}: {_line(shape.get('description') or key)}" for key, shape in shapes.items()]
    method.__doc__ = "\n".join(lines)
    return method


def _type(shape: Mapping[str, Any]) -> Any:
    """Return the Python type of a JSON Schema, as far as TRL can turn it back."""
    if "enum" in shape:
        return Literal[tuple(shape["enum"])]
    if "const" in shape:
        return Literal[shape["const"]]
    if "anyOf" in shape:
        return Union[tuple(_type(each) for each in shape["anyOf"])]  # noqa: UP007 - a number of types that is not known
    kind = shape.get("type")
    if isinstance(kind, list):
        return Union[tuple(_type({**shape, "type": each}) for each in kind)]  # noqa: UP007
    if kind == "array":
        return list[_type(shape["items"])] if shape.get("items") else list  # type: ignore[misc]
    return dict if kind == "object" or "$ref" in shape else SCALARS.get(kind, Any)


def _line(text: str) -> str:
    return " ".join(text.split())


def _text(messages: Any) -> str:
    for message in messages:
        if any(not isinstance(part, TextPart) for part in message.parts):
            raise UsageError("TRL's tools return text here, and this observation has another part, such as an image")
    return "\n".join(message.text for message in messages)
