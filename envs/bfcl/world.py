"""The suite's stateful classes as one world: fresh instances, called by name and keyword, compared as the suite does.

The suite keeps its instances in the globals of a module and ``eval``s calls there. Here every world has its own, and no
text that an agent wrote is ever evaluated.
"""

from __future__ import annotations

import copy
import decimal
import hashlib
import importlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

from ...errors import ToolError
from ...tasks.bfcl.suite import BfclTask, class_of, descriptions

STATELESS = "MathAPI"
TREES = frozenset({"mkdir", "cp", "mv"})
"""Functions that can make a file tree grow."""
DEPTH, NODES = 40, 5_000
"""The greatest depth and size (in nodes) of a file tree."""
_one_at_a_time = Lock()


class World:
    """All instances that one task needs.

    Args:
        task: the task, which names the classes and their initial states.
    """

    def __init__(self, task: BfclTask) -> None:
        self.instances: dict[str, Any] = {}
        for name in task.classes:
            instance = class_of(name)()
            if name != STATELESS:
                instance._load_scenario(copy.deepcopy(task.config.get(name, {})), long_context=task.long_context)
                # Copy once more: the suite puts records of its modules into every instance, and then changes them.
                instance = copy.deepcopy(instance)
            self.instances[name] = instance
        self.owners = {entry["name"]: name for name in task.classes for entry in descriptions(name)}

    def call(self, function: str, arguments: Mapping[str, Any]) -> str:
        """Run a call and return the suite's answer in its own words, including its error messages.

        Raises:
            ToolError: the call would build an endless file tree; the state has not changed.
        """
        owner = self.owners[function]
        before = copy.deepcopy(self.instances[owner]) if function in TREES else None
        method = getattr(self.instances[owner], function)
        with _one_at_a_time, _precision():
            try:
                text = _text(method(**arguments))
            except MemoryError:
                raise
            except Exception as error:  # any error of a class is the suite's own error text
                text = f"Error during execution: {error}"
        if before is not None and not _fits(self.instances[owner].root):
            self.instances[owner] = before
            raise ToolError(f"{function}: the tree of files would become too large")
        return text

    def differences(self, other: World) -> list[str]:
        """List the public attributes that differ, as ``Class.attribute``; empty if the suite finds the worlds equal."""
        return [
            f"{name}.{attribute}"
            for name, instance in other.instances.items()
            for attribute, value in vars(instance).items()
            if not attribute.startswith("_") and getattr(self.instances[name], attribute) != value
        ]

    def key(self) -> str:
        """Return a key of the state: equal for equal states, in every process."""
        found = hashlib.sha256()
        for name in sorted(self.instances):
            for attribute, value in sorted(vars(self.instances[name]).items()):
                found.update(f"{name}.{attribute}={_described(attribute, value)}\n".encode("utf-8", "surrogatepass"))
        return found.hexdigest()[:32]


def _text(result: Any) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except Exception:  # as the suite does: use the string form of an object that JSON lacks
            return str(result)
    return str(result)


@contextmanager
def _precision() -> Iterator[None]:
    """Restore the precision that ``logarithm`` and ``square_root`` change for the whole process and thread."""
    mp = importlib.import_module("mpmath").mp
    before = mp.dps
    try:
        with decimal.localcontext():
            yield
    finally:
        mp.dps = before


def _fits(root: Any) -> bool:
    """Return whether a tree is small enough to walk. Copied folders share contents, and may contain themselves."""
    left, todo = NODES, [(root, 0)]
    while todo:
        folder, depth = todo.pop()
        left -= len(folder.contents)
        if depth > DEPTH or left < 0:
            return False
        todo += [(item, depth + 1) for item in folder.contents.values() if hasattr(item, "contents")]
    return True


def _described(attribute: str, value: Any) -> str:
    if attribute == "_random":
        return repr(value.getstate())
    if attribute == "_current_dir":
        return _path(value)
    return repr(sorted(value, key=repr)) if isinstance(value, set) else repr(value)


def _path(folder: Any) -> str:
    names: list[str] = []
    while folder is not None and len(names) <= DEPTH + 1:
        names.append(folder.name)
        folder = folder.parent
    return "/".join(reversed(names))
