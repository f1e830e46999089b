"""Settings of release 0.1: every former name works, warns, and still belongs to the runs that recorded it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.config import Config
from turnwise.errors import ConfigError
from turnwise.evals.curves import NEW_NAMES, NEW_VALUES, read_run
from turnwise.rollouts.options import RolloutsConfig
from turnwise.trainers.archer_settings import ArcherConfig
from turnwise.trainers.loop import LoopConfig
from turnwise.trainers.on_policy import OnPolicyConfig
from turnwise.trainers.options import configured
from turnwise.trainers.registry import ALGORITHMS
from turnwise.trainers.run.may_change import MAY_CHANGE
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.run_folder import RunFolder

from . import small

FORMER_NAMES = {new: old for old, new in NEW_NAMES.items()}
FORMER_VALUES = {name: {new: old for old, new in values.items()} for name, values in NEW_VALUES.items()}
START = ["env=turnwise/MazeU-v0", "model=none"]
LOOP = {"k=4": "group_size=4", "tasks=5": "tasks_per_step=5", "level=turn": "ratio_level=turn", "pool=6": "max_tasks=6"}
LOSS = {
    "loss.level=turn": "loss.ratio_level=turn",
    "loss.length_normalised=true": "loss.length_normalized=true",
    "values.centre=2": "values.center=2",
}
RENAMED = {
    "loop": LOOP,
    "self-play": LOOP,
    "archer": {"centred=state": "centered=state", **LOSS},
    "bc": {"pool=6": "max_tasks=6"},
    "grpo": {
        "k=4": "group_size=4",
        "tasks=5": "tasks_per_step=5",
        "pool=6": "max_tasks=6",
        "sampling.max_rounds=3": "group_filter.max_rounds=3",
        "normaliser=token_mean": "normalizer=token_mean",
        "shared=each": "shared_token_weight=full",
        'modulators=[{name="empg", centred=false}]': 'modulators=[{name="empg", centered=false}]',
        **LOSS,
    },
}
"""Overrides of release 0.1, and the present ones, by algorithm; each sets something else than the default."""


def as_before(settings: Any) -> Any:
    """Give settings the names that they had in release 0.1."""
    if isinstance(settings, list):
        return [as_before(each) for each in settings]
    if not isinstance(settings, Mapping):
        return settings
    return {
        FORMER_NAMES.get(name, name): as_before(FORMER_VALUES.get(name, {}).get(str(value), value))
        for name, value in settings.items()
    }


def kinds(kind: type[Config]) -> set[type[Config]]:
    return {kind}.union(*(kinds(each) for each in kind.__subclasses__()))


@contextmanager
def warned() -> Iterator[list[str]]:
    """Collect the messages of the warnings inside the block."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    assert {one.category for one in caught} <= {DeprecationWarning}
    said += [str(one.message) for one in caught]


@pytest.mark.parametrize("algorithm", RENAMED)
def test_former_names_set_what_new_names_set(algorithm: str) -> None:
    renamed = RENAMED[algorithm]
    start = {"bc": START[:1], "archer": [*START, "actor=ppo"]}.get(algorithm, START)  # that actor has all settings
    with warned() as said:
        old = configured(algorithm, None, [*start, *renamed])
    assert len(said) == len(renamed), "each is warned of once"
    assert configured(algorithm, None, [*start, *renamed.values()]) == old
    assert configured(algorithm, None, start) != old


def test_programs_may_pass_former_names(tmp_path: Path) -> None:
    with warned() as said:
        assert LoopConfig(env="turnwise/MazeU-v0", model="none", k=4).group_size == 4  # type: ignore[call-arg]
    assert said == ["setting 'k' is deprecated: write group_size"]
    chosen = {"algorithm": {"name": "rloo"}, "loss": {"level": "turn"}, "normaliser": "token_mean"}
    with warned() as said:
        config = OnPolicyConfig.model_validate({"env": "turnwise/MazeU-v0", "model": "none", **chosen})
    assert (config.loss.ratio_level, config.normalizer) == ("turn", "token_mean"), "they win over the algorithm's own"
    assert len(said) == 2
    with warned() as said, pytest.raises(ConfigError, match="k is the former name of group_size, and both are set"):
        tw.train("loop", "turnwise/MazeU-v0", model="none", k=4, group_size=4, out=tmp_path)
    with warned() as said, pytest.raises(tw.TurnwiseError, match="there is no model at none"):
        tw.train("loop", "turnwise/MazeU-v0", model="none", k=4, out=tmp_path)
    assert said == ["setting 'k' is deprecated: write group_size"]


def test_the_name_of_a_table_is_a_former_setting_where_it_is_no_table() -> None:
    start = {"env": "turnwise/MazeU-v0", "model": "none"}
    with warned() as said:
        config = ArcherConfig.model_validate({**start, "rollouts": 7})
    assert (config.episodes_per_step, config.rollouts.engine) == (7, "local")
    assert said == ["setting 'rollouts' is deprecated: write episodes_per_step"]
    with warned() as said:
        config = ArcherConfig.model_validate({**start, "rollouts": {"engine": "ray"}, "episodes_per_step": 7})
    assert (config.episodes_per_step, config.rollouts.engine, said) == (7, "ray", [])
    with warned() as said:
        config = ArcherConfig.model_validate(
            {**start, "rollouts": RolloutsConfig(engine="ray"), "episodes_per_step": 7}
        )
    assert (config.episodes_per_step, config.rollouts.engine, said) == (7, "ray", [])


@pytest.mark.parametrize("algorithm", ["grpo", "bc"])
def test_a_setting_that_moved_into_a_table_works_with_a_warning(algorithm: str, tmp_path: Path) -> None:
    start = START if algorithm == "grpo" else START[:1]
    with warned() as said:
        config = configured(algorithm, None, [*start, "tracking.project=mine", "tensorboard=false"])
    assert (config.tracking.to, config.tracking.project) == ([], "mine"), "the rest of the table stays"
    assert said == ["setting 'tensorboard' = False is deprecated: write tracking.to = []"]
    file = tmp_path / "c.toml"
    file.write_text("tensorboard = true\n[tracking]\nonline = true\n")
    with warned() as said:
        config = configured(algorithm, file, start)
    assert (config.tracking.to, config.tracking.online) == (["tensorboard"], True)
    assert said == [f"{file}, line 1: setting 'tensorboard' = True is deprecated: write tracking.to = ['tensorboard']"]
    with warned(), pytest.raises(ConfigError, match=r"write only tracking\.to"):
        configured(algorithm, None, [*start, "tensorboard=false", "tracking.to=[]"])
    file.write_text("tensorboard = true\n[tracking]\nto = []\n")
    with pytest.raises(ConfigError, match=r"tensorboard is the former name of tracking\.to, and both are set"):
        configured(algorithm, file, start)


def test_a_run_that_recorded_the_former_setting_is_resumed_without_a_warning(tmp_path: Path) -> None:
    words = [*START, f"out={tmp_path}"]
    config = configured("grpo", None, [*words, "tracking.to=[]"])
    RunFolder(tmp_path, "grpo").begin(config)
    file = tmp_path / "config.json"
    data = json.loads(file.read_text())
    assert data["config"].pop("tracking")["to"] == []
    data["config"]["tensorboard"] = False
    file.write_text(json.dumps(data))
    (tmp_path / "metrics.jsonl").write_text('{"step": 0}\n')
    with warned() as said:
        assert configured("grpo", file) == config
        assert RunFolder(tmp_path, "grpo").resume(configured("grpo", None, words), may_change=["tracking"]) is None
    assert said == []


def test_an_unknown_setting_suggests_new_names() -> None:
    for wrong, right in (("normaliser_", "normalizer"), ("groupsize", "group_size"), ("tasks_", "tasks_per_step")):
        with pytest.raises(ConfigError, match=f"did you mean .*'{right}'"):
            configured("grpo", None, [*START, f"{wrong}=1"])


def test_every_former_name_is_known_where_runs_are_compared() -> None:
    for entry in ALGORITHMS.values():
        entry.load()
    ours = [kind for kind in kinds(Config) if kind.__module__.startswith("turnwise.")]
    named = {old: new for kind in ours for old, new in kind.renamed.items() if "." not in new}
    assert named == NEW_NAMES, "list it in evals/curves.py"
    values = {name: dict(new) for kind in ours for name, new in kind.renamed_values.items() if "." not in name}
    assert values == NEW_VALUES


def test_an_older_run_is_resumed_without_a_warning(tmp_path: Path) -> None:
    words = [*START, "group_size=4", "shared_token_weight=full", "loss.ratio_level=turn", f"out={tmp_path}"]
    config = configured("grpo", None, words)
    RunFolder(tmp_path, "grpo").begin(config)
    file = tmp_path / "config.json"
    recorded = file.read_text()
    (tmp_path / "metrics.jsonl").write_text('{"step": 0}\n')
    present = read_run(tmp_path).kind
    data = json.loads(recorded)
    file.write_text(json.dumps(data | {"config": as_before(data["config"])}))
    assert '"shared": "each"' in file.read_text()
    assert read_run(tmp_path).kind == present, "a report takes both for the same training"
    assert configured("grpo", file) == config
    assert RunFolder(tmp_path, "grpo").resume(config, may_change=[]) is None
    assert json.loads(file.read_text())["config"] == data["config"], "it records the new names"


def test_a_run_from_before_newer_settings_is_resumed(tmp_path: Path) -> None:
    config = configured("grpo", None, [*START, f"out={tmp_path}"])
    RunFolder(tmp_path, "grpo").begin(config)
    file = tmp_path / "config.json"
    data = json.loads(file.read_text())
    data["config"]["hardware"]["attention"] = None  # as it was recorded until 0.1
    del data["config"]["parallel"], data["config"]["optimizer"]["kind"]
    file.write_text(json.dumps(data))
    assert RunFolder(tmp_path, "grpo").resume(config, may_change=MAY_CHANGE) is None
    assert configured("grpo", file) == config


@pytest.mark.slow
def test_an_older_run_goes_on_to_the_same_end(tmp_path: Path, cloned: Path) -> None:
    def trained(name: str) -> list[dict[str, Any]]:
        out = tmp_path / name
        small.run(small.looping(out, cloned / "model", steps=2))
        if name == "older":
            data = json.loads((out / "config.json").read_text())
            (out / "config.json").write_text(json.dumps(data | {"config": as_before(data["config"])}))
        tw.train("loop", out=out, resume=True, steps=4)
        return [
            {key: line[key] for key in ("step", "return") if key in line}
            for line in read_metrics(out / "metrics.jsonl")
        ]

    assert trained("older") == trained("newer")
