"""``turnwise eval``, ``data``, ``replay``, ``compare`` and ``report``."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt

from turnwise.evals.summary import Summary
from turnwise.rollouts.store import load_episodes

Run = Callable[..., Any]


def test_eval_leaves_a_store_a_summary_and_a_report(run: Run) -> None:
    ran = run("eval", "guess.py", "--policy", "oracle", "-n", "12", "--out", "runs/one", "concurrency=4")
    assert ran.code == 0, ran.err
    assert "success 100.0 %" in ran.out
    assert len(load_episodes("runs/one/episodes")) == 12
    assert Summary.load("runs/one/summary.json").success.value == 1.0
    assert pq.read_table("runs/one/episodes").num_rows == 12, "others read the store too"
    assert "</html>" in Path("runs/one/report.html").read_text(encoding="utf-8")
    page = MarkdownIt("commonmark").enable("table").render(Path("runs/one/report.md").read_text(encoding="utf-8"))
    assert "<table>" in page, "GitHub shows tables"
    assert "<p>|" not in page, "and not their source"


def test_eval_without_names_finds_a_folder(run: Run) -> None:
    ran = run("eval", "guess.py", "-p", "mixed:0.5", "-n", "2", "--no-report")
    assert ran.code == 0
    assert "   summary: runs/eval-GuessNumber-v0-mixed-0.5/summary.json" in ran.out
    assert "report" not in ran.out, "there is none"
    assert Path("runs/eval-GuessNumber-v0-mixed-0.5/summary.json").exists()
    assert not Path("runs/eval-GuessNumber-v0-mixed-0.5/report.html").exists()


def test_eval_reads_toml_and_words_win(run: Run, tmp_path: Path) -> None:
    (tmp_path / "eval.toml").write_text('env = "guess.py"\npolicy = "random"\nn = 50\nseed = 3\n')
    ran = run("eval", "--config", "eval.toml", "-n", "3", "policy=oracle", "--out", "runs/two", "--json", "--no-report")
    assert ran.code == 0, ran.err
    summary = json.loads(ran.out)
    assert (summary["scored"], summary["policy"]) == (3, "oracle")


def test_eval_goes_on_only_when_asked_to(run: Run) -> None:
    words = ("eval", "guess.py", "-p", "oracle", "--out", "runs/three", "--no-report")
    assert run(*words, "-n", "4").code == 0
    run(*words, "-n", "8").refused("--resume")
    assert run(*words, "-n", "8", "--resume").code == 0
    assert len(load_episodes("runs/three/episodes")) == 8
    run("eval", "guess.py", "-p", "random", "--out", "runs/three", "--resume").refused("policy", "oracle")
    assert len(load_episodes("runs/three/episodes")) == 8, "nothing is lost by a refusal"


def test_a_store_is_of_one_version_of_the_environment(run: Run, tmp_path: Path) -> None:
    words = ("eval", "guess.py", "-p", "oracle", "--out", "runs/one", "--no-report", "-n")
    assert run(*words, "2").code == 0
    text = (tmp_path / "guess.py").read_text()
    (tmp_path / "guess.py").write_text(text + "# another reward\n")
    run(*words, "4", "--resume").refused("another version of demo/GuessNumber-v0", "--overwrite")
    run(*words, "4").refused("another version")
    run(*words, "4", "--resume", "--overwrite").refused("choose either resume")
    assert len(load_episodes("runs/one/episodes")) == 2, "nothing is lost by a refusal"
    assert run(*words, "3", "--overwrite").code == 0
    assert len(load_episodes("runs/one/episodes")) == 3
    assert run(*words, "4", "--resume").code == 0, "the store is now of the new version"
    (tmp_path / "guess.py").write_text(text)
    assert run("data", "guess.py", "-n", "2", "--skills", "1", "--out", "runs/one/episodes", "--overwrite").code == 0


@pytest.mark.slow
def test_a_store_without_a_scored_episode_needs_no_flag(run: Run, tmp_path: Path) -> None:
    text = (tmp_path / "guess.py").read_text()
    act = "    def act(self, action: tw.Action) -> tw.Step:\n"
    assert act in text
    broken = text.replace(act, f"{act}        raise RuntimeError('not yet')\n")
    (tmp_path / "mine.py").write_text(broken.replace("demo/GuessNumber", "cli/Mine"))
    script = "import sys; from turnwise.cli import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", script, "eval", "mine.py", "-p", "oracle", "-n", "1", "--no-report", "retries=0"]
    words += ["--out", "runs/mine"]
    assert subprocess.run(words, check=False, capture_output=True).returncode == 3, "nothing is known of the policy"
    (tmp_path / "mine.py").write_text(text.replace("demo/GuessNumber", "cli/Mine"))
    assert run(*words[3:]).code == 0


def test_a_number_says_how_it_was_made(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["eval", "guess.py", "-p", "oracle", "-n", "2", "--out", "runs/one", "seed=7", "failure_rate=0.5"]
    monkeypatch.setattr(sys, "argv", ["/usr/bin/turnwise", *words, "env_kwargs={}"])
    assert run(*words).code == 0
    made = json.loads(Path("runs/one/summary.json").read_text())["made"]
    assert made["command"] == shlex.join(["turnwise", *words, "env_kwargs={}"])
    assert (made["settings"]["seed"], made["settings"]["failure_rate"]) == (7, 0.5)
    assert len(made["settings"]["env_source"]) == 16
    assert made["versions"]["turnwise"]
    assert datetime.fromisoformat(made["date"]).tzinfo is UTC
    for page in ("report.md", "report.html"):
        text = Path("runs/one", page).read_text(encoding="utf-8")
        for said in ("How this was made", "seed=7", made["date"], made["versions"]["python"]):
            assert said in text.replace("\\", ""), f"{said} is in {page}"


def test_what_an_environment_prints_does_not_reach_the_json(run: Run, tmp_path: Path) -> None:
    text = (tmp_path / "guess.py").read_text().replace("demo/GuessNumber", "cli/Chatty")
    act = "    def act(self, action: tw.Action) -> tw.Step:\n"
    assert act in text
    loud = f"{act}        import os; print('DEBUG', action); os.system('echo from a child')\n"
    (tmp_path / "chatty.py").write_text("print('imported')\n" + text.replace(act, loud))
    ran = run("eval", "chatty.py", "-p", "oracle", "-n", "1", "--json", "--no-report", "--out", "runs/chatty")
    assert json.loads(ran.out)["scored"] == 1, "standard output is one JSON document"
    for said in ("imported", "DEBUG", "from a child"):
        assert said in ran.err


def test_splits_that_are_not_there_are_skipped_with_a_note(run: Run) -> None:
    words = ("eval", "turnwise/MazeFO-v0", "-p", "oracle", "-n", "2", "--no-report", "--out", "runs/maze", "--split")
    ran = run(*words, "train,dev,test_iid")
    assert ran.code == 0, ran.err
    assert "has no dev, test_iid: skipped" in ran.out
    run(*words, "dev").refused("has no split dev", "train")


def test_one_of_several_environments_in_a_file(run: Run, tmp_path: Path) -> None:
    text = (tmp_path / "guess.py").read_text().replace("demo/GuessNumber", "cli/Once")
    (tmp_path / "several.py").write_text(text + '\ntw.register("cli/Again-v0", GuessNumber)\n')
    run("eval", "several.py", "-p", "oracle").refused("cli/Again-v0", "name one")
    assert run("eval", "several.py:cli/Again-v0", "-p", "oracle", "-n", "1", "--no-report").code == 0


def test_replay_says_that_env_is_another_environment(run: Run) -> None:
    assert run("eval", "turnwise/MazeFO-v0", "-p", "oracle", "-n", "1", "--no-report", "--out", "runs/maze").code == 0
    said = "but turnwise/MazeFO-v0 recorded episode"
    run("replay", "runs/maze", "--env", "guess.py").refused("--env is demo/", said, "id of turnwise/MazeFO-v0 with")


def test_replay_agrees_and_catches_tampering(run: Run) -> None:
    assert run("eval", "guess.py", "-p", "mixed:0.5", "-n", "6", "--out", "runs/four", "--no-report").code == 0
    assert "6 of 6 episodes replay exactly" in run("replay", "runs/four").out
    part = next(Path("runs/four/episodes").glob("part-*.parquet"))
    table = pq.read_table(part)
    turns = table["turns"].to_pylist()
    turns[2][0]["reward"] += 0.5
    index = table.column_names.index("turns")
    column = pa.array(turns, table.field(index).type)
    pq.write_table(table.set_column(index, table.field(index), column), part)
    ran = run("replay", "runs/four")
    assert ran.code == 1, "a record that does not replay is a failure"
    assert "turn 0: reward was" in ran.out
    assert "5 of 6 episodes replay exactly" in ran.out
    (wrong,) = [line for line in json.loads(run("replay", "runs/four", "--json").out) if not line["ok"]]
    assert run("replay", "runs/four", "--episode", wrong["episode"]).code == 1
    run("replay", "runs/four", "--episode", "nobody").refused("no episode nobody")
    assert run("replay", "runs/four", "--env", "guess.py").code == 1


@pytest.mark.parametrize(("name", "lie"), [("success", False), ("total_reward", 99.0)])
def test_replay_catches_a_touched_column_that_queries_read(run: Run, name: str, lie: object) -> None:
    assert run("eval", "guess.py", "-p", "oracle", "-n", "3", "--out", "runs/three", "--no-report").code == 0
    part = next(Path("runs/three/episodes").glob("part-*.parquet"))
    table = pq.read_table(part)
    index = table.column_names.index(name)
    column = pa.array([lie, *table[name].to_pylist()[1:]], table.field(index).type)
    pq.write_table(table.set_column(index, table.field(index), column), part)
    ran = run("replay", "runs/three")
    assert ran.code == 1
    assert f"the column {name} was {lie} and is now" in ran.out
    assert "2 of 3 episodes replay exactly" in ran.out


def test_replay_counts_what_is_there_twice_and_what_is_gone(run: Run) -> None:
    assert run("eval", "guess.py", "-p", "oracle", "-n", "4", "--out", "runs/four", "--no-report").code == 0
    part = next(Path("runs/four/episodes").glob("part-*.parquet"))
    table = pq.read_table(part)
    pq.write_table(table.slice(0, 1), part.with_name("part-000009.parquet"))
    ran = run("replay", "runs/four")
    assert ran.code == 1
    assert "the number of its records was 1 and is now 2" in ran.out
    assert "3 of 5 episodes replay exactly" in ran.out
    part.with_name("part-000009.parquet").unlink()
    pq.write_table(table.slice(1), part)
    ran = run("replay", "runs/four")
    assert ran.code == 1
    assert "3 of 3 episodes replay exactly" in ran.out
    assert "1 of 4 episodes that the evaluation counted are missing from runs/four/episodes" in ran.err
    one = load_episodes("runs/four/episodes")[0].episode_id
    assert run("replay", "runs/four", "--episode", one).code == 0, "who names an episode asks for no other"


def test_replay_does_not_wait_for_ever(run: Run, tmp_path: Path) -> None:
    assert run("eval", "guess.py", "-p", "oracle", "-n", "1", "--out", "runs/one", "--no-report").code == 0
    file = tmp_path / "guess.py"
    act = "    def act(self, action: tw.Action) -> tw.Step:\n"
    assert act in file.read_text()
    hanging = file.read_text().replace(act, f"{act}        import threading; threading.Event().wait()\n")
    (tmp_path / "hangs.py").write_text(hanging.replace("demo/GuessNumber", "cli/Hangs"))
    ran = run("replay", "runs/one", "--env", "hangs.py", "--env-timeout", "0.2")
    assert ran.code == 1
    assert "no answer to step after 0.2 s" in ran.out


@pytest.mark.slow
def test_compare_says_who_is_better(run: Run) -> None:
    assert run("eval", "guess.py", "-p", "random", "-n", "30", "--out", "runs/a", "--no-report").code == 0
    assert run("eval", "guess.py", "-p", "oracle", "-n", "30", "--out", "runs/b", "--no-report").code == 0
    assert "b better" in run("compare", "runs/a", "runs/b").out
    found = json.loads(run("compare", "runs/a", "runs/b", "--json").out)
    assert found["success"]["difference"]["low"] > 0
    assert found["shared_tasks"] == 30
    assert run("report", "runs/a", "runs/b", "--out", "runs/story", "--title", "A tale").code == 0
    assert "A tale" in Path("runs/story/report.md").read_text(encoding="utf-8")

    manifest = Path("runs/b/episodes/_manifest.json")
    stored = json.loads(manifest.read_text())
    stored["run"]["env_source"] = "the digest of an edited file"
    manifest.write_text(json.dumps(stored))
    run("compare", "runs/a", "runs/b").refused("a and b were played with different versions of demo/GuessNumber-v0")


@pytest.mark.slow
def test_three_runs_are_ranked_with_intervals_that_hold_together(run: Run) -> None:
    for name, policy in (("a", "random"), ("b", "mixed:0.7"), ("c", "oracle")):
        assert run("eval", "guess.py", "-p", policy, "-n", "24", "--out", f"runs/{name}", "--no-report").code == 0
    ran = run("compare", "runs/a", "runs/b", "runs/c")
    assert ran.code == 0, ran.err
    assert [line.split()[0] for line in ran.out.splitlines()[1:4]] == ["c", "b", "a"], "best first"
    assert "Bonferroni: 98.33 % each" in ran.out
    found = json.loads(run("compare", "runs/a", "runs/b", "runs/c", "--json").out)
    assert found["runs"][0]["beats"][-1] == "a"
    pair = json.loads(run("compare", "runs/a", "runs/c", "--json").out)["success"]["difference"]
    wider = next(each for each in found["pairs"] if (each["a"], each["b"]) == ("a", "c"))["success"]["difference"]
    assert wider["low"] < pair["low"], "three pairs at once need wider intervals"
    run("compare", "runs/a").refused("name at least two runs to compare")
    run("compare", "runs/a", "runs/a").refused("name each run once")

    assert run("report", "runs/a", "runs/b", "runs/c", "--out", "runs/story").code == 0
    markdown = Path("runs/story/report.md").read_text(encoding="utf-8")
    assert markdown.index("| c | 100.0 % |") < markdown.index("| b | "), "one table of all three"
    assert "<h2>Ranking on demo/GuessNumber-v0</h2>" in Path("runs/story/report.html").read_text(encoding="utf-8")

    ran = run("leaderboard", "runs")
    assert ran.code == 0, ran.err
    assert [line.split()[1] for line in ran.out.splitlines()[2:5]] == ["oracle", "mixed:0.7", "random"]
    (table,) = json.loads(run("leaderboard", "--json").out)
    assert table["title"].startswith("demo/GuessNumber-v0")
    run("leaderboard", "runs/a/episodes").refused("there is no summary.json in runs/a/episodes")

    foreign = Path("runs/other/summary.json")
    foreign.parent.mkdir()
    foreign.write_text('{"accuracy": 0.5}')
    ran = run("leaderboard", "--json")
    assert json.loads(ran.out) == [table], "a file of another program changes nothing"
    assert "skipped: runs/other/summary.json is not a summary" in ran.err
    run("leaderboard", "runs/other").refused("there is no summary.json of an evaluation (runs/other/summary.json is")


def test_data_makes_demonstrations(run: Run) -> None:
    ran = run("data", "guess.py", "-n", "10", "--skills", "0,1", "--out", "runs/data")
    assert ran.code == 0, ran.err
    episodes = load_episodes("runs/data")
    assert len(episodes) == 10
    assert {str(episode.task.split) for episode in episodes} == {"train"}, "demonstrations are of training tasks"
    assert len({episode.task.digest for episode in episodes}) == 10


def test_data_takes_habits(run: Run) -> None:
    ran = run("data", "guess.py", "-n", "2", "--skills", "1", "--habits", "1", "--out", "runs/data")
    assert ran.code == 0, ran.err
    assert not all(episode.success for episode in load_episodes("runs/data")), "the oracle is never asked"


def test_eval_lists_its_settings(run: Run) -> None:
    ran = run("eval", "--settings")
    assert ran.code == 0, ran.err
    names = [line.split()[0] for line in ran.out.splitlines()]
    assert {"n", "group_size", "agent.parser", "api.max_cost", "confidence"} <= set(names)
    assert len(names) == len(set(names))


def test_the_folder_of_a_run_of_training_is_known(run: Run) -> None:
    run_folder = Path("runs/bc")
    (run_folder / "model").mkdir(parents=True)
    for name in ("config.json", "metrics.jsonl", "model/config.json"):
        (run_folder / name).write_text("{}")
    run("eval", "turnwise/Maze-v0", "--policy", "runs/bc").refused("the folder of a run; its model is in runs/bc/model")
    run("replay", "runs/bc").refused("it is a training run", "--policy runs/bc/model")
