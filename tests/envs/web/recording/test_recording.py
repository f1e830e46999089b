"""A recording is a folder that users can read at any moment, and that only one process writes to."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lxml import html

import turnwise as tw
from turnwise.envs.messages import Action, ImagePart, Message, Observation, TextPart, ToolCall
from turnwise.envs.web.recording.recording import PAGE, TURNS, Recording, recordings_in
from turnwise.errors import UsageError
from turnwise.tasks.spec import TaskSpec

TASK = TaskSpec("web", "shop_order", 2, 7)
PICTURE = b"\x89PNG of something"
SEEN = Observation.of("URL: http://shop.test/")


def read(page: Path) -> Any:
    return html.document_fromstring(page.read_text(encoding="utf-8"))


def lines(recording: Recording) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (recording.folder / TURNS).read_text().splitlines()]


def test_every_turn_has_its_picture_what_was_said_and_what_was_told(tmp_path: Path) -> None:
    recording = Recording(recordings_in(tmp_path / "deep" / "down"), TASK)
    recording.add(None, SEEN, 0.0, PICTURE)
    recording.add(Action("I look.", (ToolCall("click", {"id": "3"}),)), Observation.of("Error: gone"), 0.5, PICTURE)
    recording.end("solved")
    first, second, last = lines(recording)
    assert (first["number"], first["said"], first["told"], first["picture"]) == (0, "", SEEN.text, "000.png")
    assert second["said"] == 'I look.\nclick(id="3")'
    assert (second["told"], second["reward"], second["picture"]) == ("Error: gone", 0.5, "001.png")
    assert last == {"note": "solved"}
    page = read(recording.folder / PAGE)
    assert [one.get("src") for one in page.iter("img")] == ["000.png", "001.png"]
    assert all((recording.folder / one.get("src")).read_bytes() == PICTURE for one in page.iter("img"))
    text = page.text_content()
    for part in ("shop_order", "seed 7", 'click(id="3")', "Error: gone", "reward 0.5", "solved"):
        assert part in text
    listed = read(tmp_path / "deep" / "down" / PAGE)
    assert [one.get("href") for one in listed.iter("a")] == [f"{recording.folder.name}/{PAGE}"]


def test_pictures_that_the_agent_was_given_are_kept_too(tmp_path: Path) -> None:
    given = Observation(
        (Message("tool", (TextPart("x"), ImagePart(b"marked"), ImagePart(b"<svg/>", "image/svg+xml"))),)
    )
    recording = Recording(recordings_in(tmp_path), TASK)
    recording.add(None, given, 0.0, PICTURE)
    assert lines(recording)[0]["given"] == ["000-given-0.png"]
    assert (recording.folder / "000-given-0.png").read_bytes() == b"marked"


def test_a_picture_that_there_is_not_is_explained(tmp_path: Path) -> None:
    recording = Recording(recordings_in(tmp_path), TASK)
    recording.add(None, SEEN, 0.0, "the page is busy")
    assert "no picture: the page is busy" in read(recording.folder / PAGE).text_content()


@pytest.mark.parametrize(
    "text",
    ["</pre><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "half \ud83d of a pair", "a\x00b", "ß𝄞"],
)
def test_nothing_that_is_said_or_told_runs_or_breaks_the_page(tmp_path: Path, text: str) -> None:
    recording = Recording(recordings_in(tmp_path), TASK)
    recording.add(Action(text, (ToolCall(text, {text: text}),)), Observation.of(text), 0.0, text)
    recording.note(text)
    recording.end("not solved")
    page = read(recording.folder / PAGE)
    assert not list(page.iter("script", "img"))
    assert lines(recording)[0]["told"] == text
    assert "default-src 'none'" in page.find(".//meta[@content]").get("content")


def test_episodes_of_one_task_have_folders_of_their_own(tmp_path: Path) -> None:
    into = recordings_in(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda _: Recording(into, TASK).folder.name, range(24)))
    assert folders == {f"{TASK.digest}-{number}" for number in range(1, 25)}


def test_an_episode_that_nobody_ended_can_be_read(tmp_path: Path) -> None:
    recording = Recording(recordings_in(tmp_path), TASK)
    recording.add(None, SEEN, 0.0, PICTURE)
    page = read(recording.folder / PAGE)
    assert SEEN.text in page.text_content()
    assert len(list(page.iter("img"))) == len(lines(recording)) == 1


def test_an_episode_ends_once(tmp_path: Path) -> None:
    recording = Recording(recordings_in(tmp_path), TASK)
    recording.add(None, SEEN, 0.0, PICTURE)
    recording.end()
    recording.end("solved")
    assert lines(recording)[-1] == {"note": "broken off in turn 1"}
    assert "solved" not in (tmp_path / PAGE).read_text()


@pytest.mark.parametrize("folder", [True, "", 3])
def test_what_is_no_folder_is_refused(folder: Any) -> None:
    with pytest.raises(UsageError, match="record names a folder"):
        recordings_in(folder)


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot be recorded in .*file/in.*: Not a directory; make room"):
        recordings_in(tmp_path / "file" / "in")
    with pytest.raises(UsageError, match="cannot be recorded in /proc/recordings"):
        recordings_in("/proc/recordings")


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_a_name_that_no_disk_can_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be recorded in"):
        recordings_in(tmp_path / name)


def test_a_full_disk_is_said_and_what_was_recorded_stays(tmp_path: Path, small_files: None) -> None:
    recording = Recording(recordings_in(tmp_path), TASK)
    recording.add(None, SEEN, 0.0, PICTURE)
    with pytest.raises(UsageError, match=f"cannot be recorded in {tmp_path}: File too large; make room"):
        recording.add(Action("x"), SEEN, 0.0, b"x" * 10_000)
    assert len(lines(recording)) == 1
    assert "000.png" in (recording.folder / PAGE).read_text()


def test_a_folder_that_was_taken_away_is_said(tmp_path: Path) -> None:
    into = recordings_in(tmp_path / "there")
    (into / PAGE).unlink()
    into.rmdir()
    with pytest.raises(UsageError, match="No such file or directory"):
        Recording(into, TASK)


def test_pages_that_are_not_drawn_are_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"browser='html' draws nothing: record with browser='chromium'"):
        tw.make("turnwise/WebHTML-v1", record=str(tmp_path))
    with pytest.raises(UsageError, match="a trace is a part of a recording: name a folder"):
        tw.make("turnwise/Web-v1", trace=True)
