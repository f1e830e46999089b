"""Outcomes of a law other than that it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from ...tasks.spec import TaskSpec
from ...verdicts import Failed, NotApplicable
from ..author_line import at, author_line, noted


class Broken(Failed):
    """A law does not hold; the text says what happened.

    Args:
        text: the event, with values.
        spec: the task on which it happened.
        seed: the seed of ``reset(seed=…)``, where that was used.
        policy: who played: ``"oracle"``, ``"random"``, ``"null"``, or words.
    """

    def __init__(self, text: str, spec: TaskSpec | None = None, *, seed: int | None = None, policy: str = "") -> None:
        super().__init__(text)
        begin = ""
        if spec is not None:
            begin = f"reset(options={{'task': {json.dumps(spec.to_json(), default=repr)}}})"
        elif seed is not None:
            begin = f"reset(seed={seed})"
        self.reproduce = begin + (f", then play: {policy}" if begin and policy else "")


class OutOfTime(NotApplicable):
    """A law has used up its share of the time before it was tried to its end."""


@contextmanager
def blaming(called: str, spec: TaskSpec | None = None, *, cure: str = "") -> Iterator[None]:
    """Run the author's code; what it raises breaks the law, with the author's line.

    Args:
        called: the call that is made, as a reader would write it: ``reset()``.
        spec: the task on which it is run.
        cure: the fix to suggest.

    Raises:
        Broken: it raised.
    """
    try:
        yield
    except (Broken, NotApplicable):
        raise
    except Exception as error:
        text = f"{called} raised {type(error).__name__}: {error!s:.500}{at(author_line(error))}{noted(error)}"
        raise Broken("; ".join(filter(None, (text, cure))), spec) from error
