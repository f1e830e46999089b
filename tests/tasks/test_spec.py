"""Specs: names of tasks that survive every journey."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import TaskError
from turnwise.tasks.spec import Split, TaskSpec

specs = st.builds(
    TaskSpec,
    st.text(max_size=10),
    st.text(max_size=10),
    st.integers(1, 5),
    st.integers(0, 2**63),
    st.sampled_from(Split),
)


@given(specs)
def test_pickle_and_json_bring_back_the_same_spec(spec: TaskSpec) -> None:
    for twin in (pickle.loads(pickle.dumps(spec)), TaskSpec.from_json(json.loads(json.dumps(spec.to_json())))):
        assert twin == spec
        assert twin.digest == spec.digest
        assert hash(twin) == hash(spec)
        assert isinstance(twin.split, Split)


@given(specs, specs)
def test_digests_tell_specs_apart(one: TaskSpec, other: TaskSpec) -> None:
    assert (one == other) == (one.digest == other.digest)
    assert len(one.digest) == 16
    int(one.digest, 16)


def test_every_field_counts() -> None:
    spec = TaskSpec("f", "t", 1, 0, Split.TRAIN)
    others = [
        replace(spec, family="g"), replace(spec, template="u"), replace(spec, level=2), spec.with_seed(1),
        replace(spec, split=Split.DEV),
    ]  # fmt: skip
    assert len({each.digest for each in [spec, *others]}) == 6


@pytest.mark.slow
def test_digests_are_the_same_in_every_process() -> None:
    code = "from turnwise.tasks.spec import TaskSpec; print(TaskSpec('maze', 'rooms', 2, 7, 'dev').digest)"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("0", "1")
    }
    assert printed == {TaskSpec("maze", "rooms", 2, 7, Split.DEV).digest}


def test_a_split_may_be_named_by_its_text() -> None:
    assert TaskSpec("f", split="dev").split is Split.DEV  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", -1), ("seed", 1.0), ("seed", True), ("seed", "1"), ("seed", None),
        ("level", 0), ("level", -2), ("level", "2"), ("level", False),
        ("split", "trian"), ("split", 3),
    ],
)  # fmt: skip
def test_a_wrong_field_is_refused_with_its_value(field: str, value: Any) -> None:
    with pytest.raises(TaskError, match=f"task {field} (must be a .* integer; got )?{value!r}"):
        TaskSpec("f", **{field: value})


@pytest.mark.parametrize("data", [{}, {"template": "x"}, {"family": "f", "sead": 3}])
def test_what_is_no_spec_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(TaskError, match="not a task spec"):
        TaskSpec.from_json(data)


def test_a_spec_never_changes() -> None:
    spec: Any = TaskSpec("f")
    with pytest.raises(FrozenInstanceError):
        spec.seed = 3
