"""Every shipped configuration parses, names what exists, trains for two updates, and says what it does."""

from __future__ import annotations

import json
import re
import signal
import tomllib
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

import turnwise as tw
from turnwise.agents.context import context_strategy
from turnwise.agents.parsers import parser_for
from turnwise.config import merge_defaults
from turnwise.config_help import describe
from turnwise.envs.registry import find
from turnwise.errors import ModelError
from turnwise.inference.models import save_model
from turnwise.stop_signals import STOPS
from turnwise.trainers.algorithms.distill import Distill
from turnwise.trainers.behavior_cloning import CloningConfig
from turnwise.trainers.behavior_cloning import train as clone
from turnwise.trainers.collect.sampler import family_and_tools
from turnwise.trainers.loop import LoopConfig
from turnwise.trainers.on_policy import OnPolicyConfig
from turnwise.trainers.on_policy import train as on_policy
from turnwise.trainers.options import configured, maker_of, refuse_untrained_start
from turnwise.trainers.registry import ALGORITHMS
from turnwise.trainers.run.conclusion import RunResult
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.settings import TrainConfig
from turnwise.trainers.script import script

from ..agents.fakes import tokenizer
from ..shifts import sampled

SHIPPED = sorted((Path(__file__).parents[2] / "configs").glob("*.toml"))
CONFIGS = [path for path in SHIPPED if not path.stem.startswith("pretrain-")]


def word(path: Path) -> str:
    """Return the configuration of a file, by the command in its comment."""
    found = re.search(r"^#\s+turnwise train ([\w-]+) ", path.read_text(), re.MULTILINE)
    assert found
    return found.group(1)


def test_a_model_that_another_configuration_trains_is_missed_with_its_command(tmp_path: Path) -> None:
    models = [str(model) for path in CONFIGS if (model := tomllib.loads(path.read_text()).get("model"))]
    commands = {model: maker_of(model) for model in models if model.startswith("runs/")}
    assert commands["runs/bc-maze/model"] == "turnwise train bc --config bc-maze"
    assert all(commands.values()), "a configuration starts from a run that no other leaves"
    assert maker_of("models/qwen2.5-0.5b-instruct") is None, "downloaded, not trained"
    with chdir(tmp_path), pytest.raises(ModelError, match="train it with `turnwise train bc --config bc-web`"):
        refuse_untrained_start(configured("m-grpo", SHIPPED[0].parent / "m-grpo-web.toml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_shipped_configuration_parses_and_names_what_exists(path: Path) -> None:
    config = configured(word(path), path)
    find(config.env)
    family, _ = family_and_tools(config.env, config.episodes.env_kwargs)
    for split, levels in ((config.split, config.levels), (config.eval.split, config.eval.levels or config.levels)):
        for level in levels or family.levels:
            family.check(family.spec(0, split=split, level=level))
    context_strategy(config.agent.context)
    parser_for(config.agent.parser, [])
    assert path.read_text().startswith("# "), "a configuration begins by saying what it does"


SHRUNKEN: dict[str, Any] = {
    "tasks_per_step": 3,
    "group_size": 3,
    "episodes_per_step": 4,
    "batch": 8,
    "minibatch": 6,
    "critic_steps": 2,
    "actor_steps": 1,
    "nano": {"size": "0.1M", "layers": 1, "hidden": 32},
    "demonstrations": {"count": 4},
}
"""Sizes that make a step quick; a script has some of them."""


def shrunken(config: TrainConfig, out: Path, model: Path | None, *, steps: int = 2) -> TrainConfig:
    """The same algorithm on a handful of short episodes, with a tiny model, for as long as two updates take."""
    asked = config.model_dump(exclude_unset=True)
    asked.pop("server", None)  # sampled in this process here
    # Rewards for success alone would need luck in so few turns; how one acts is the task itself.
    given = asked.get("episodes", {}).pop("env_kwargs", {})
    acting = {name: value for name, value in given.items() if name == "actions"}
    sizes = {name: size for name, size in SHRUNKEN.items() if name in type(config).model_fields}
    if asked.get("group_size") == 1:
        sizes |= {"tasks_per_step": 6, "group_size": 1}
    changes = sizes | {
        "out": str(out),
        "steps": steps,
        "episodes": {"env_kwargs": {**acting, "max_turns": 8}},
        "eval": {"episodes": 0, "every": 0},
        "checkpoint_every": 100,
        "threads": 1,
        "progress": False,
        "tracking": {"to": []},
    }
    if model is not None:
        changes["model"] = str(model)
    if (asked.get("model") or "").startswith(DOWNLOADED):  # random weights never stop by themselves
        changes |= {"env": LUCK, "agent": {"max_tokens": 8}, "episodes": {"env_kwargs": {}}}
        changes |= {"levels": None, "eval": {"episodes": 0, "every": 0, "levels": None}}
    for warmed in ("warmup", "values"):
        if warmed in asked:
            changes |= {warmed: 0 if warmed == "warmup" else {"warmup": 0}}
    return type(config).model_validate(merge_defaults(asked, changes))


DOWNLOADED = "models/"
"""Folder of downloaded models in shipped configurations."""
LUCK = "turnwise-tests/Luck-v0"
"""Environment in which random weights succeed sometimes."""


class Luck(tw.TurnEnv):
    """Two turns of asking, paid by what was said: even random text has returns that differ."""

    max_turns = 4

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.asked = 0
        return "Say something."

    def act(self, action: tw.Action) -> tw.Step:
        self.asked += 1
        luck = sum(action.text.encode()) % 8 / 8
        return tw.success("Thank you.") if luck > 0.5 or self.asked == 2 else tw.running("Go on.", reward=luck - 1)


tw.register(LUCK, Luck)


def qwen(folder: Path, *, third: bool) -> Path:
    """Write a model of Qwen2's or Qwen3's architecture with random weights, and a tokenizer with its chat template."""
    name = "qwen3.jinja" if third else "qwen2.5.jinja"
    template = (Path(__file__).parents[1] / "agents" / "families" / name).read_text(encoding="utf-8")
    special = ("<|im_end|>", "<|im_start|>", "<|endoftext|>")
    made = tokenizer(chat_template=template, eos_token=special[0], special=special)
    shape: dict[str, Any] = {
        "vocab_size": len(made), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32_768,
        "tie_word_embeddings": True,
    }  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(Qwen3Config(**shape, head_dim=8)) if third else Qwen2ForCausalLM(Qwen2Config(**shape))
        save_model(model, made, folder)
    return folder


@pytest.fixture(scope="session")
def makers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tiny model for each that a configuration starts from, made once by the shrunken configuration that makes it."""
    folder, made = tmp_path_factory.mktemp("makers"), dict[str, Path]()

    def make(model: str) -> Path:
        if model not in made and model.startswith(DOWNLOADED):
            made[model] = qwen(folder / Path(model).name, third="qwen3" in model)
        if model not in made:
            (path,) = (path for path in CONFIGS if Path(configured(word(path), path).out) / "model" == Path(model))
            shipped = configured(word(path), path)
            before = getattr(shipped, "model", None)
            start = make(before) if before else None
            config = shrunken(shipped, folder / path.stem, start, steps=2 if start else 20)
            made[model] = ALGORITHMS[word(path)].load()[1](config).model
        return made[model]

    return make


LONG = ("apps", "code", "search", "web")
"""Tasks whose configurations take long; those of one task start from one model."""
TRAINED = sampled([path for path in CONFIGS if path.stem.rsplit("-", 1)[-1] not in LONG], 10, key="configurations")
"""Configurations that the core trains with."""


def shifted(path: Path) -> list[pytest.MarkDecorator]:
    """Train with a sample in the core, and with the others in shifts."""
    home = path.stem.rsplit("-", 1)[-1]
    if path in TRAINED:
        return []
    return [pytest.mark.shift(f"train {home}") if home in LONG else pytest.mark.shift]


SPARSE = {
    "loop-apps",
    "loop-code",
    "loop-search",
    "ppo-search",
    "grpo-search",
    "self-play-search",
    "loop-qwen-0.5b",
    "grpo-qwen-0.5b",
    "qwen3-0.6b-loop",
    "qwen3-4b-lora-loop",
    "qwen3-8b-loop-8gpu",
}
"""Paid for success alone, which so tiny a clone never has: it plays, and there is nothing to learn from."""


def contents(model: Path | None) -> dict[str, bytes]:
    return {} if model is None else {file.name: file.read_bytes() for file in model.rglob("*.safetensors")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=shifted(path)) for path in CONFIGS], ids=lambda path: path.stem
)
def test_a_shipped_configuration_trains_for_two_updates(
    path: Path, tmp_path: Path, makers: Callable[[str], Path]
) -> None:
    shipped = configured(word(path), path)
    model = getattr(shipped, "model", None)
    start = makers(model) if model else None
    config = shrunken(shipped, tmp_path / "run", start)
    if isinstance(config, OnPolicyConfig) and isinstance(config.algorithm, Distill):
        taught = config.algorithm.model_copy(update={"teacher": str(makers(config.algorithm.teacher))})
        config = config.model_copy(update={"algorithm": taught})
    result: RunResult = ALGORITHMS[word(path)].load()[1](config)
    assert result.steps == 2
    lines = read_metrics(result.folder / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2]
    if path.stem in SPARSE:
        return
    learnt = [name for name in result.metrics if "loss" in name]
    assert learnt, "every script says what its loss was"
    assert all(line[name] is not None for line in lines for name in learnt if name in line), "and it is finite"
    assert contents(result.model) != contents(start), "what is exported is not what it began with"


PRESETS = [path for path in CONFIGS if path.stem.endswith("-qwen-0.5b")]


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_a_preset_for_a_real_model_has_the_usual_rates(path: Path) -> None:
    config = configured(word(path), path)
    assert config.plan().optimizer.lr <= (5e-5 if config.lora is not None else 1e-6)
    assert config.agent.max_tokens >= 256
    assert config.agent.temperature == 1.0
    assert (config.optimizer.recompute, config.optimizer.layout) == (True, "packed")
    assert config.optimizer.microbatch_tokens >= 16_384
    assert "bfloat16" in (config.dtype, config.optimizer.autocast)
    served = configured(word(path), path, ['server.urls=["http://localhost:8000"]'])
    assert served.plan().correction == "tis"
    if isinstance(config, OnPolicyConfig):
        loss = config.loss.objective()
        assert (loss.clip, loss.dual_clip, loss.kl_coef) == ((0.8, 1.28), 3.0, 0.0)
        assert config.values.lr <= 1e-5 or not config.algorithm.needs_values


QWEN3 = [path for path in CONFIGS if path.stem.startswith("qwen3-")]


@pytest.mark.parametrize("path", QWEN3, ids=lambda path: path.stem)
def test_a_configuration_for_gpus_leaves_to_the_profile_what_depends_on_the_gpu(path: Path) -> None:
    own, config = tomllib.loads(path.read_text()), configured(word(path), path)
    assert config.plan().optimizer.lr <= (5e-5 if config.lora is not None else 1e-6)
    assert config.server is not None, "sampling in the trainer's process is too slow for a real model"
    assert not {"hardware", "device"} & set(own)
    assert not {"autocast", "microbatch_tokens", "recompute", "layout"} & set(own["optimizer"])
    served = configured(word(path), path, ["hardware.profile=h100"])
    assert served.optimizer.autocast == "bfloat16"
    assert served.server is not None
    assert served.server.dtype == "bfloat16"
    assert served.plan().correction == "tis"


def test_every_kind_of_learner_has_a_preset_for_a_real_model() -> None:
    assert {word(path) for path in PRESETS} >= {"loop", "grpo", "ppo", "archer"}


WITH_A_VOCABULARY = [path for path in CONFIGS if "tokenizer" in tomllib.loads(path.read_text()).get("nano", {})]


@pytest.mark.shift
@pytest.mark.parametrize("path", WITH_A_VOCABULARY, ids=lambda path: path.stem)
def test_a_vocabulary_has_room_for_what_the_demonstrators_say(path: Path, tmp_path: Path) -> None:
    shipped = configured(word(path), path)
    assert isinstance(shipped, CloningConfig)
    changes: dict[str, Any] = {
        "out": str(tmp_path / "run"),
        "steps": 1,
        "eval": {"episodes": 4, "every": 1},
        "progress": False,
        "tracking": {"to": []},
    }
    if shipped.nano.tokenizer != "word":  # the others' vocabularies can spell any word
        changes["demonstrations"] = {"count": 60}
    assert (
        clone(CloningConfig.model_validate(merge_defaults(shipped.model_dump(exclude_unset=True), changes))).steps == 1
    )


def test_what_a_configuration_starts_from_is_made_by_another() -> None:
    made = {str(Path(configured(word(path), path).out) / "model") for path in CONFIGS}
    wanted = {model for path in CONFIGS if (model := tomllib.loads(path.read_text()).get("model"))}
    wanted = {model for model in wanted if not model.startswith(DOWNLOADED)}
    assert wanted
    assert wanted <= made


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_setting_is_documented(name: str) -> None:
    config_type, _ = ALGORITHMS[name].load()
    for line in describe(config_type, config_type.filled(ALGORITHMS[name].presets)):
        setting, _, meaning = line.strip().partition("  ")
        assert meaning, f"{setting} says nothing"
    for line in describe(config_type):
        setting, _, meaning = line.strip().partition("  ")
        assert meaning, f"{setting} says nothing"


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
    (tmp_path / "c.toml").write_text('env = "turnwise/Maze-v0"\nmodel = "m"\nsteps = 3\n[optimizer]\nlr = 0.5\n')
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
        (["env=e", "model=m", "group_size=1"], "setting 'group_size'"),
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
    assert script(LoopConfig, Recorder(KeyboardInterrupt()), ["env=turnwise/Maze-v0", "model=m", "out=runs/x"]) == 130
    assert "runs/x continues with --resume" in capsys.readouterr().err


@pytest.mark.parametrize("kind", STOPS)
def test_the_signals_of_schedulers_count_as_ctrl_c(kind: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    """They killed the process, before it wrote a checkpoint."""

    def train(config: LoopConfig) -> RunResult:
        assert callable(signal.getsignal(kind)), "it would end these tests"
        signal.raise_signal(kind)
        raise AssertionError("the signal was ignored")

    outer = signal.signal(kind, signal.SIG_DFL)  # Ray, used by a test before, leaves its own
    try:
        assert script(LoopConfig, train, ["env=turnwise/Maze-v0", "model=m", "out=runs/x"]) == 130
    finally:
        signal.signal(kind, outer)
    assert "runs/x continues with --resume" in capsys.readouterr().err


def test_help_names_the_options_and_settings_lists_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        script(LoopConfig, Recorder(), ["--help"])
    assert caught.value.code == 0
    assert "--settings" in capsys.readouterr().out
    assert script(LoopConfig, Recorder(), ["--settings"]) == 0
    printed = capsys.readouterr().out
    assert "optimizer.lr [0.001]" in printed
    assert "env (required)" in printed


def test_settings_have_the_defaults_of_the_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    assert script(OnPolicyConfig, on_policy, ["--settings", "algorithm.name=gigpo"]) == 0
    assert "out [runs/gigpo]" in capsys.readouterr().out
    assert script(CloningConfig, clone, ["--settings"]) == 0
    assert "agent.max_tokens [32]" in capsys.readouterr().out


def test_a_script_refuses_the_settings_of_another_algorithms_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"algorithm": "bc", "config": {"env": "turnwise/Maze-v0"}}))
    for words in (["--config", str(tmp_path / "config.json")], ["--resume", "--out", str(tmp_path)]):
        assert script(LoopConfig, Recorder(), words) == 2
        assert "belongs to a run of 'bc': use `turnwise train bc`" in capsys.readouterr().err
