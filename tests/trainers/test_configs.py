"""Every shipped configuration parses, names what exists, and says what it does."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from turnwise.agents.context import context_strategy
from turnwise.agents.parsers import action_parser
from turnwise.config import load_config
from turnwise.envs.registry import find
from turnwise.trainers.behaviour_cloning import CloningConfig
from turnwise.trainers.loop import LoopConfig
from turnwise.trainers.runs.script import describe, script
from turnwise.trainers.runs.setup import RunResult, TrainConfig, family_and_tools

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.toml"))
TYPES: dict[str, type[TrainConfig]] = {"bc": CloningConfig, "loop": LoopConfig}


def training(path: Path) -> bool:
    return path.stem.split("-")[0] in TYPES


@pytest.mark.parametrize("path", [path for path in CONFIGS if training(path)], ids=lambda path: path.stem)
def test_a_shipped_configuration_parses_and_names_what_exists(path: Path) -> None:
    config = load_config(TYPES[path.stem.split("-")[0]], path)
    find(config.env)
    family, _ = family_and_tools(config.env, config.episodes.env_kwargs)
    for split, levels in ((config.split, config.levels), (config.eval.split, config.eval.levels or config.levels)):
        for level in levels or family.levels:
            family.check(family.spec(0, split=split, level=level))
    context_strategy(config.agent.context)
    action_parser(config.agent.parser)
    assert path.read_text().startswith("# "), "a configuration begins by saying what it does"


def test_a_loop_configuration_starts_from_a_model_that_another_makes() -> None:
    made = {str(Path(tomllib.loads(path.read_text()).get("out", "")) / "model") for path in CONFIGS if training(path)}
    wanted = {tomllib.loads(path.read_text())["model"] for path in CONFIGS if path.stem.startswith("loop-")}
    assert wanted
    assert wanted <= made


@pytest.mark.parametrize("config_type", [CloningConfig, LoopConfig])
def test_every_setting_is_documented(config_type: type[TrainConfig]) -> None:
    for line in describe(config_type):
        name, _, meaning = line.strip().partition("  ")
        assert meaning, f"{name} says nothing"


class Recorder:
    """A training function that only notes its configuration."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.config: LoopConfig | None = None
        self.error = error

    def __call__(self, config: LoopConfig) -> RunResult:
        self.config = config
        if self.error:
            raise self.error
        return RunResult(Path("runs/x"), Path("runs/x/model"), config.steps, {})


def test_a_script_reads_file_and_overrides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.toml").write_text('env = "e"\nmodel = "m"\nsteps = 3\n[optimizer]\nlr = 0.5\n')
    train = Recorder()
    assert script(LoopConfig, train, ["--config", str(tmp_path / "c.toml"), "steps=7", "eval.every=2"]) == 0
    assert train.config is not None
    assert (train.config.steps, train.config.optimizer.lr, train.config.eval.every) == (7, 0.5, 2)
    assert "7 steps; model: runs/x/model" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["env=e", "model=m", "stepz=3"], "there is no setting 'stepz'"),
        (["env=e"], "setting 'model' is missing"),
        (["env=e", "model=m", "k=1"], "setting 'k'"),
        (["--config", "nowhere.toml"], "cannot read configuration nowhere.toml"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script(LoopConfig, Recorder(), words) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1


def test_ctrl_c_is_exit_code_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert script(LoopConfig, Recorder(KeyboardInterrupt()), ["env=e", "model=m", "out=runs/x"]) == 130
    assert "runs/x continues with resume=true" in capsys.readouterr().err


def test_help_lists_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        script(LoopConfig, Recorder(), ["--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert "optimizer.lr [0.001]" in printed
    assert "env (needed)" in printed
