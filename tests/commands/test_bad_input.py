"""Bad input: one line that says what to do, exit code 2, and nothing is lost."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from turnwise.config import Config
from turnwise.errors import ConfigError, UsageError
from turnwise.trainers.options import arguments, configured

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("eval", "turnwise/Mazze-v0", "-p", "oracle"), ("Did you mean turnwise/Maze-v0",)),
        (("eval", "nowhere.py", "-p", "oracle"), ("there is no file nowhere.py",)),
        (("eval", "-p", "oracle"), ("name an environment",)),
        (("eval", "guess.py"), ("choose a policy with --policy", "--policy")),
        (("eval", "guess.py", "turnwise/Maze-v0", "-p", "oracle"), ("give one environment at a time",)),
        (("eval", "guess.py", "-p", "oracle", "--program", "true"), ("and oracle is not one; name the folder",)),
        (("train", "bc", "guess.py", "optimizer.lr=nan"), ("optimizer.lr' must be a finite number; got nan",)),
        (("eval", "guess.py", "n", "10"), ("'n' and '10' are not environments; write settings as n=10",)),
        (("train", "bc", "env=guess.py", "steps", "10"), ("'steps' and '10' are not environments", "as steps=10")),
        (("train", "bc", "guess.py", "optimizer.lr", "0.1"), ("write settings as optimizer.lr=0.1",)),
        (("train", "bc", "env=guess.py", "steps"), ("'steps' is not an environment; write settings as steps=VALUE",)),
        (("eval", "guess.py", "-p", "nobody"), ("there is no policy 'nobody'", "oracle, random")),
        (("eval", "guess.py", "-p", "runs/nowhere/model"), ("runs/nowhere/model",)),
        (("eval", "guess.py", "-p", "oracle", "-n", "0"), ("'n'", "greater than or equal to 1")),
        (("eval", "guess.py", "-p", "oracle", "-n", "-3"), ("'n'",)),
        (("eval", "guess.py", "-p", "oracle", "--split", "tset"), ("--split: setting 'splits'", "test_iid")),
        (("eval", "guess.py", "-p", "oracle", "--split", "test_entity"), ("--split: family 'GuessNumber'", "test_iid")),
        (("eval", "guess.py", "-p", "oracle", "--level", "9"), ("--level: family", "has no level 9")),
        (("mcp", "guess.py", "--split", "tset"), ("--split: unknown task split 'tset'",)),
        (("mcp", "guess.py", "--split", "test_entity"), ("--split: family", "has no split 'test_entity'")),
        (("export-nemo", "guess.py", "--split", "test_entity"), ("--split: family", "has no split test_entity")),
        (("eval", "guess.py", "-p", "oracle", "no_such=1"), ("there is no setting 'no_such'",)),
        (("eval", "guess.py", "-p", "oracle", "env_kwargs.size=1"), ("size",)),
        (("eval", "guess.py", "-p", "mixed:2"), ("a skill must be a number from 0 to 1",)),
        (("eval", "--config", "missing.toml"), ("cannot read configuration missing.toml",)),
        (("replay", "runs/nowhere"), ("no episodes at runs/nowhere",)),
        (("compare", "runs/nowhere", "runs/nowhere"), ("no episodes at runs/nowhere",)),
        (("report", "runs/nowhere"), ("runs/nowhere",)),
        (("train", "loop", "--config", "nothing-like-it"), ("there is no configuration 'nothing-like-it'",)),
        (("train", "loop", "--config", "loop-mase"), ("did you mean 'loop-maze'",)),
        (("train", "loop", "env=turnwise/Mazze-v0", "model=m"), ("Did you mean turnwise/Maze-v0",)),
        (
            ("train", "loop", "env=turnwise/Maze-v0"),
            ("'model' is missing: clone one with `turnwise train bc env=ENV`",),
        ),
        (("train", "loop", "model=m"), ("'env' is missing: name an environment's id (`turnwise envs` lists them) or",)),
        (("train", "loop", "env=turnwise/Maze-v0", "model=runs/nowhere"), ("runs/nowhere",)),
        (("train", "bc", "env=turnwise/Maze-v0", "steps=0"), ("'steps'",)),
        (("train", "bc", "env=turnwise/Maze-v0", "optimizer.speed=1"), ("optimizer.speed",)),
        (("train", "bc", "env=turnwise/Maze-v0", "--resume"), ("runs/bc",)),
        (("train", "bc", "env=turnwise/Maze-v0", "device=nowhere"), ("'device'", "'nowhere' is not available here")),
        (("train", "bc", "env=turnwise/Maze-v0", "agent.context=lasst:1"), ("'agent.context'", "last:K")),
        (("train", "bc", "env=turnwise/Maze-v0", "agent.parser=tag"), ("'agent.parser'", "tagged")),
        (("data", "turnwise/Maze-v0", "--skills", "all"), ("a skill must be a number",)),
        (("eval", "guess.py", "-p", "oracle", "--level", ","), ("'levels'", "the list is empty")),
        (("eval", "guess.py", "-p", "oracle", "grup_size=2"), ("did you mean 'group_size'?",)),
        (("eval", "guess.py", "-p", "oracle", "out=runs/a"), ("no setting 'out': name the folder with --out",)),
        (("train", "bc", "env=guess.py", "demonstrations.skills=[1.5]"), ("demonstrations.skills [1.5] must be",)),
        (("eval", "guess.py", "-p", "oracle", "env_kwargs.max_turns=three"), ("must be an integer; got 'three'",)),
        (("eval", "guess.py", "-p", "oracle", "env_kwargs.max_turns=0"), ("max_turns must be an integer of at least",)),
        (("new", "json"), ("the name 'json' belongs to a module",)),
        (("eval", "guess.py", "-p", "oracle", "temperature=0"), ("temperature has no effect on 'oracle', which is",)),
        (("data", "guess.py", "agent.top_p=0.5"), ("agent.top_p has no effect on 'mixed:0,0.5,1', which is not a",)),
        (("eval", ".", "-p", "null"), (". is a folder without a pyproject.toml; name an environment by its id",)),
        (("certify", "./."), (". is a folder without a pyproject.toml", "my_env.py", "harbor:FOLDER")),
        (("train", "bc", "env=/etc/passwd"), ("/etc/passwd is not a Python file (.py); name an environment by",)),
        (("tasks", "build-repair", "./gone"), ("there is no file or folder ./gone; name an sdist, a folder, or",)),
        (("tasks", "build-repair", "gone.tar.gz"), ("no file gone.tar.gz; check its path, or", ":all: gone\n")),
        (
            ("tasks", "build-repair", "a/my-gone-1.2rc1.tgz"),
            ("no file a/my-gone-1.2rc1.tgz", ":all: my-gone==1.2rc1\n"),
        ),
        (
            ("tasks", "build-repair", "gone-away"),
            ("no folder, sdist or installed package 'gone-away'", ":all: gone-away"),
        ),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, tuple) else None,
)
def test_bad_input_is_one_line(run: Run, words: Sequence[str], said: Sequence[str]) -> None:
    run(*words).refused(*said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("eval guess.py --policy oracle policy=random", "--policy oracle contradicts policy=random; set one of them"),
        ("eval guess.py env=turnwise/Maze-v0 -p oracle", "guess.py contradicts env=turnwise/Maze-v0; set one of"),
        ("eval guess.py -p oracle -n 5 n=7", "-n 5 contradicts n=7"),
        ("eval guess.py -p oracle n=3 n=4", "n=3 contradicts n=4"),
        ("eval guess.py -p oracle --level 1,2 levels=[1,3]", "--level 1,2 contradicts levels=[1,3]"),
        ("train bc guess.py env=turnwise/Maze-v0", "guess.py contradicts env=turnwise/Maze-v0"),
        ("train bc guess.py out=runs/a --out runs/b", "--out runs/b contradicts out=runs/a"),
        ("train bc guess.py steps=1 steps=2", "steps=1 contradicts steps=2"),
        ("train bc --out runs/a --resume resume=false", "--resume contradicts resume=false"),
    ],
)
def test_a_setting_with_two_values_is_refused(run: Run, words: str, said: str) -> None:
    run(*words.split()).refused(said)


def test_a_setting_may_be_given_twice_with_one_value_and_a_word_overrides_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text('env = "turnwise/Maze-v0"\npolicy = "random"\nn = 2\nsplits = ["train"]\n')
    twice = "--policy oracle policy='oracle' -n 1 n=1 --split dev,test_iid splits=['dev','test_iid'] guess.py"
    words = (*twice.split(), "env=guess.py", "--out", "runs/one", "--no-report", "--json")
    ran = run("eval", "--config", "two.toml", *words)
    assert ran.code == 0, ran.err
    assert '"episodes": 1' in ran.out
    with pytest.raises(ConfigError, match="'steps'"):
        configured(
            "bc",
            *arguments(["guess.py", "steps=0", "steps=0.0", "out=runs/a"], config_type=lambda: Config, out="runs/a"),
        )


@pytest.mark.parametrize("words", [("train", "loop"), ("pretrain",), ("certify",)], ids=" ".join)
def test_overwrite_where_nothing_is_overwritten_names_what_stands_for_it(run: Run, words: Sequence[str]) -> None:
    ran = run(*words, "--overwrite")
    said = " ".join(ran.err.replace("│", " ").split())  # Typer draws a box
    assert ran.code == 2
    assert "No such option: --overwrite" in said
    assert "add --resume to continue it, or choose another --out." in said


@pytest.mark.parametrize("words", [("eval",), ("train", "loop")], ids=" ".join)
def test_malformed_toml_names_its_line(run: Run, tmp_path: Path, words: Sequence[str]) -> None:
    (tmp_path / "bad.toml").write_text('env = "turnwise/Maze-v0"\nn = = 3\n')
    run(*words, "--config", "bad.toml").refused("bad.toml is not valid TOML", "line 2")


def test_a_wrong_value_in_toml_names_its_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text('env = "turnwise/Maze-v0"\npolicy = "oracle"\nn = "many"\n')
    run("eval", "--config", "wrong.toml").refused("wrong.toml, line 3", "'n'", "many")


def test_the_mistakes_of_a_file_are_listed_in_its_order(run: Run, tmp_path: Path) -> None:
    settings = 'env = "turnwise/Maze-v0"\nmodel = "m"\ntasks_per_step = "many"\ngroup_sise = 2\n'
    (tmp_path / "three.toml").write_text(f'{settings}[eval]\nsteps = 2\n[optimizer]\nlr = "big"\n')
    ran = run("train", "loop", "--config", "three.toml", "seed=-1")
    ran.refused(lines=5)
    assert ran.err.splitlines() == [
        "turnwise: three.toml, line 3: setting 'tasks_per_step' must be an integer; got 'many'",
        "turnwise: three.toml, line 4: there is no setting 'group_sise'; did you mean 'group_size'?",
        "turnwise: three.toml, line 6: there is no setting 'eval.steps'; 'steps' belongs above the first [table]",
        "turnwise: three.toml, line 8: setting 'optimizer.lr' must be a number; got 'big'",
        "turnwise: setting 'seed' must be greater than or equal to 0; got -1",
    ]
    run("train", "loop", "model=m", "env=guess.py", "eval.steps=2").refused("'eval.steps'; did you mean 'steps'?")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n = 1\nseed = 2\nn = 3\n", "line 3: n is set twice"),
        ('n = 1\n"n" = 3', 'line 2: "n" is set twice'),
        ("[agent]\n[agent]\n", "Cannot declare ('agent',) twice (at line 2"),
        ("n = 1\n[n]\n", "Cannot overwrite a value (at line 2"),
    ],
)
def test_a_key_that_is_set_twice_is_named(run: Run, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "twice.toml").write_text(text)
    run("eval", "--config", "twice.toml").refused(f"twice.toml is not valid TOML: {said}")


def test_a_file_of_an_evaluation_does_not_set_its_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out.toml").write_text('env = "turnwise/Maze-v0"\npolicy = "oracle"\nout = "runs/a"\n')
    run("eval", "--config", "out.toml").refused(
        "out.toml, line 3: there is no setting 'out': name the folder with --out"
    )


def test_a_file_of_an_evaluation_names_an_environment(run: Run, tmp_path: Path) -> None:
    (tmp_path / "none.toml").write_text('policy = "oracle"\n')
    run("eval", "--config", "none.toml").refused("setting 'env' is missing: name an environment's id")


def test_a_word_over_the_file_is_not_blamed_on_the_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "fine.toml").write_text('env = "turnwise/Maze-v0"\npolicy = "oracle"\nn = 5\n')
    ran = run("eval", "--config", "fine.toml", "n=many")
    ran.refused("'n'", "many")
    assert "line" not in ran.err, f"the file's line 3 is right: {ran.err}"


def test_what_settings_there_are_is_listed_once(run: Run, tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text('env = "turnwise/Maze-v0"\nzzz = 1\nyyy = 2\n')
    ran = run("eval", "--config", "odd.toml")
    ran.refused("odd.toml, line 2", "'zzz'", "odd.toml, line 3", "'yyy'", lines=2)
    assert ran.err.count("choose from") == 1, ran.err


def test_a_file_that_exits_is_no_success(run: Run, tmp_path: Path) -> None:
    (tmp_path / "exits_cli.py").write_text("raise SystemExit(0)\n")
    run("eval", "exits_cli.py", "-p", "oracle").refused("cannot import exits_cli.py", "SystemExit")


def test_a_constructor_that_raises_is_one_line(run: Run, tmp_path: Path) -> None:
    source = """
    import turnwise as tw

    class Broken(tw.TurnEnv):
        def __init__(self):
            raise RuntimeError("no world")

    tw.register("cli/Broken-v0", Broken)
    """
    (tmp_path / "broken_cli.py").write_text(textwrap.dedent(source))
    ran = run("eval", "broken_cli.py", "-p", "oracle")
    assert ran.code == 1
    assert ran.err.startswith("turnwise: cannot create cli/Broken-v0: RuntimeError: no world (at "), ran.err
    assert "broken_cli.py:" in ran.err


def test_a_file_that_cannot_stand_for_an_environment(run: Run, tmp_path: Path) -> None:
    (tmp_path / "fails_cli.py").write_text("import turnwise\n1 / 0\n")
    run("eval", "fails_cli.py", "-p", "oracle").refused("cannot import fails_cli.py, line 2: ", "division by zero")
    (tmp_path / "nothing_cli.py").write_text("import turnwise\n")
    run("eval", "nothing_cli.py", "-p", "oracle").refused("it registers none")
    (tmp_path / "forgot_cli.py").write_text("import turnwise as tw\nclass Mine(tw.TurnEnv):\n    pass\n")
    cure = "write tw.register('my/Mine-v0', Mine) below the class Mine"
    run("eval", "forgot_cli.py", "-p", "oracle").refused("it registers none", cure)
    (tmp_path / "json.py").write_text("import turnwise\n")
    run("eval", "json.py", "-p", "oracle").refused("'json' is already imported")


def test_a_folder_that_is_no_model(run: Run, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    run("eval", "guess.py", "-p", "model/").refused("model")


def test_a_tokenizer_without_chat_template(run: Run, tmp_path: Path) -> None:
    from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer

    tokenizer = build_tokenizer("word", ["one two three"])
    build_model(NanoConfig(size="0.1M"), tokenizer).save_pretrained(tmp_path / "model")
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path / "model")
    run("eval", "guess.py", "-p", "./model").refused("chat template")


def test_a_prompt_longer_than_the_context_is_no_result(run: Run, tmp_path: Path) -> None:
    from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer

    tokenizer = build_tokenizer("word", ["one two three"])
    tokenizer.save_pretrained(tmp_path / "model")
    build_model(NanoConfig(size="0.1M", context_length=8), tokenizer).save_pretrained(tmp_path / "model")
    ran = run("eval", "guess.py", "-p", "./model", "-n", "2", "--out", "runs/long")
    assert ran.code == 1, "0 % of episodes that never began is no measurement"
    assert "no episode reached its first turn: PromptTooLongError" in ran.err
    assert "the context of 8 leaves" in ran.err
    assert "use a shorter context strategy" in ran.err
    assert (tmp_path / "runs/long/summary.json").exists(), "and nothing is lost"


def test_a_damaged_store_is_named_and_kept(run: Run) -> None:
    assert run("eval", "guess.py", "-p", "oracle", "-n", "4", "--out", "runs/five", "--no-report").code == 0
    part = next(Path("runs/five/episodes").glob("part-*.parquet"))
    damaged = part.read_bytes()[:100]
    part.write_bytes(damaged)
    for words in (("replay", "runs/five"), ("eval", "guess.py", "-p", "oracle", "--out", "runs/five", "--resume")):
        run(*words).refused("damaged", part.name)
    assert part.read_bytes() == damaged, "a damaged file is neither mended nor thrown away"


def test_an_output_folder_that_cannot_be_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run("eval", "guess.py", "-p", "oracle", "--out", "file/run").refused("file/run")


def test_an_error_of_the_file_system_names_the_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "runs/odd/summary.json").mkdir(parents=True)
    ran = run("eval", "guess.py", "-p", "oracle", "-n", "1", "--out", "runs/odd", "--no-report")
    assert ran.code == 1, "the input was right"
    assert ran.err.splitlines()[-1].startswith("turnwise: Is a directory: runs/odd/"), ran.err


def test_debug_shows_the_traceback_of_an_environment(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "buggy_cli.py").write_text(
        "import turnwise as tw\n"
        "class Buggy(tw.TurnEnv):\n"
        "    def start(self, task, rng):\n"
        "        return helper()\n"
        "    def act(self, action):\n"
        "        return 'on'\n"
        "def helper():\n"
        "    raise ValueError('internal bug')\n"
        "tw.register('cli/Buggy-v0', Buggy)\n"
    )
    words = ("eval", "buggy_cli.py", "-p", "random", "-n", "1", "retries=0", "--out", "out")
    ran = run(*words)
    assert "none of 1 episodes is scored" in ran.err
    assert "buggy_cli.py:8 in helper)" in ran.err, "the error names the author's line"
    assert "return helper()" not in ran.err
    with pytest.raises(UsageError):
        run(*words, "--resume", "--debug")
    assert "return helper()" in capfd.readouterr().err, "the way through the environment's code is shown"
