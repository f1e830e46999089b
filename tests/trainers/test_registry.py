"""One table of algorithms for the command line, configurations and docs: a new one is one file and one line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from turnwise.trainers.archer_settings import ArcherConfig
from turnwise.trainers.behavior_cloning import CloningConfig
from turnwise.trainers.loop import LoopConfig
from turnwise.trainers.options import arguments, configured
from turnwise.trainers.registry import ALGORITHMS, rules
from turnwise.trainers.run.conclusion import RunResult
from turnwise.trainers.script import script

from ..shifts import core_sample

ROOT = Path(__file__).resolve().parents[2]
NEW = """
import sys, types
from turnwise.trainers import registry

file = types.ModuleType("turnwise.trainers.algorithms.halved")  # the one file
sys.modules[file.__name__] = file
registry.ALGORITHMS["halved"] = registry._on_policy("halved.Halved", "half of what GRPO gives")  # the one line

from typing import Literal
from turnwise.trainers.algorithms.grpo import GRPO

class Halved(GRPO):
    name: Literal["halved"] = "halved"
    '''Half of GRPO's credit.'''

file.Halved = Halved

from turnwise.trainers.options import configured
config = configured("halved", None, ["env=turnwise/Maze-v0", "model=m"])
assert type(config.algorithm) is Halved and config.out == "runs/halved", config
import turnwise.cli
turnwise.cli.main(["train", *sys.argv[1:]])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    core_sample(
        [(["halved", "--settings"], "algorithm.name [halved]"), (["--help"], "turn-credit"), (["halvd"], "halved")],
        1,
        key="a new algorithm",
    ),
)
def test_a_new_algorithm_is_one_file_and_one_line(words: list[str], said: str) -> None:
    done = subprocess.run([sys.executable, "-c", NEW, *words], capture_output=True, text=True, check=False)
    assert said in done.stdout + done.stderr


def test_the_docs_list_what_there_is() -> None:
    table = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8").split("\nA new credit rule")[0]
    assert set(re.findall(r"^\| `([\w-]+)", table, re.MULTILINE)) == {"turnwise", *ALGORITHMS}, "and the column's title"


def test_every_rule_has_the_name_of_its_word() -> None:
    for script_name in ("on_policy", "value_based"):
        for name, kind in rules(script_name).items():
            assert kind.model_fields["name"].default == name


@pytest.mark.slow
def test_the_table_imports_no_torch() -> None:
    code = "import sys, turnwise.trainers.registry, turnwise.trainers.options; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


class Recorder:
    """A training function that only notes its configuration."""

    def __init__(self) -> None:
        self.config: Any = None

    def __call__(self, config: Any) -> RunResult:
        self.config = config
        return RunResult(Path("runs/x"), Path("runs/x/model"), config.steps, {})


@pytest.mark.parametrize(
    ("word", "kind", "words", "options"),
    [
        ("loop", LoopConfig, ["turnwise/Maze-v0", "model=m", "steps=7"], {"out": "runs/mine"}),
        ("loop", LoopConfig, ["steps=7", "model=m", "optimizer.lr=0.5"], {"config": "loop-maze"}),
        ("archer", ArcherConfig, ["model=m"], {"config": "archer-maze-fo", "out": "runs/a"}),
        ("bc", CloningConfig, [], {"config": str(ROOT / "configs" / "bc-maze.toml")}),
    ],
)
def test_the_module_reads_what_the_command_reads(
    word: str, kind: Any, words: list[str], options: dict[str, Any]
) -> None:
    """``python -m turnwise.trainers.loop …`` is ``turnwise train loop …``, in any order."""
    given = [text for name, value in options.items() for text in (f"--{name}", value)]
    wanted = configured(word, *arguments(words, config_type=lambda: kind, **options))
    for line in ([*words, *given], [*given, *words], [*words[:1], *given, *words[1:]]):
        train = Recorder()
        assert script(kind, train, line) == 0
        assert train.config == wanted


def test_a_run_is_resumed_by_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script(LoopConfig, Recorder(), ["--resume", "--out", str(tmp_path)]) == 2
    assert "there is no run in" in capsys.readouterr().err
