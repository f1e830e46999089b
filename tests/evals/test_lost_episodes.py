"""A store that lost a part or its manifest says so, and what to do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from turnwise import Episode
from turnwise.cli import main
from turnwise.errors import StoreError
from turnwise.evals.collect_runs import collect_runs
from turnwise.evals.summary import SUMMARY, summarise
from turnwise.rollouts.store import EpisodeStore, load_episodes, parts

Make = Callable[..., Episode]


def evaluation(folder: Path, episodes: list[Episode]) -> Path:
    with EpisodeStore(folder / "episodes", run={"policy": "oracle"}, flush_every=5) as opened:
        for episode in episodes:
            opened.append(episode)
    summarise(episodes, planned=len(episodes)).save(folder / SUMMARY)
    return folder


def called(*arguments: str) -> int:
    """Return the exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def two(make_episode: Make, tmp_path: Path) -> tuple[Path, Path]:
    """Two evaluations of 20 tasks; the first has lost its second part."""
    before = evaluation(tmp_path / "before", [make_episode(False, seed=i) for i in range(20)])
    after = evaluation(tmp_path / "after", [make_episode(seed=i) for i in range(20)])
    parts(before / "episodes")[1].unlink()
    return before, after


def test_a_report_says_how_many_counted_episodes_are_gone(
    two: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = collect_runs(two).evaluations
    assert second.summary.notes == (), "nothing is lost there"
    (note,) = first.summary.notes
    assert note.startswith(f"5 of 20 episodes that summary.json counts are not in {two[0] / 'episodes'}")
    assert "--resume" in note
    assert caplog.messages == [note]


def test_a_comparison_says_it_too_and_its_json_stays_json(
    two: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("compare", *map(str, two), "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["shared_tasks"] == 15
    assert said.err.startswith("turnwise: 5 of 20 episodes that summary.json counts are not in")


@pytest.mark.parametrize("command", ["report", "compare"])
def test_a_lost_manifest_is_named_with_its_cure(
    two: tuple[Path, Path], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = two[1] / "episodes" / "_manifest.json"
    manifest.unlink()
    assert called(command, *map(str, two)) == 2
    text = capsys.readouterr().err
    assert f"the episode store {manifest.parent} has lost its _manifest.json: restore that file" in text
    manifest.write_text(text[text.index("{") : text.rindex("}") + 1])
    assert len(load_episodes(manifest.parent)) == 20, "the cure works"
    assert called(command, *map(str, two)) == 0


def test_a_store_without_its_manifest_may_be_replaced_but_another_programs_may_not(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    (two[1] / "episodes" / "_manifest.json").unlink()
    with pytest.raises(StoreError, match="has lost its _manifest"):
        EpisodeStore(two[1] / "episodes")
    with EpisodeStore(two[1] / "episodes", overwrite=True) as store:
        assert not len(store)
    (tmp_path / "other").mkdir()
    shutil.copy(two[0] / SUMMARY, tmp_path / "other" / "part-000000.json")
    with pytest.raises(StoreError, match="is not an episode store: it has no _manifest"):
        load_episodes(tmp_path / "other")
