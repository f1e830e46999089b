"""Screenshots of a recording appear beside the turns of exactly the episode that it shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import turnwise as tw
from turnwise.envs.web.recording.recording import Recording, recordings_in
from turnwise.view.recordings import shots_of

from .conftest import client_of
from .fakes import PNG, episode, said, store


def record(folder: Path, one: tw.Episode, *, picture: bytes | str = PNG) -> Path:
    """Record an episode as the environments with a browser do."""
    recording = Recording(recordings_in(folder), one.task)
    seen = tw.Observation((said("user", "a page"),))
    recording.add(None, seen, 0.0, picture)
    for turn in one.turns:
        recording.add(turn.action, seen, turn.reward, picture)
    recording.end("solved")
    return recording.folder


def played(*texts: str, record: str = "recordings", name: str = "e") -> tw.Episode:
    return episode(name, texts, fingerprints={"env_kwargs": json.dumps({"record": record})})


def test_each_episode_gets_its_own_recording(tmp_path: Path) -> None:
    one, other = played("click a", "click b"), played("click a", "click c", name="f")
    folders = [record(tmp_path / "recordings", each) for each in (one, other)]
    path = store(tmp_path / "run" / "episodes", [one, other])
    for each, folder in zip((one, other), folders, strict=True):
        assert shots_of(each, path) == [folder / f"{n:03d}.png" for n in range(3)]
    assert shots_of(played("click a"), path) == [], "a recording with more turns shows another episode"
    client = client_of(tmp_path / "run")
    (run,) = client.get("/api/runs").json()
    given = {"store": "episodes", "episode": "f"}
    shown = client.get(f"/api/runs/{run['id']}/episode", params=given).json()
    assert (shown["shot"], [turn["shot"] for turn in shown["turns"]]) == ("shot.0", ["shot.1", "shot.2"])
    image = client.get(f"/api/runs/{run['id']}/image", params=given | {"at": "shot.2"})
    assert (image.content, image.headers["content-type"]) == (PNG, "image/png")
    for at in ("shot.3", "shot.-1", "shot.x", "shot.", "shot.9999999999999"):
        assert client.get(f"/api/runs/{run['id']}/image", params=given | {"at": at}).status_code == 404


def test_a_failed_screenshot_is_a_gap(tmp_path: Path) -> None:
    one = played("go")
    record(tmp_path / "recordings", one, picture="the window is gone")
    assert shots_of(one, store(tmp_path / "run" / "episodes", [one])) == [None, None]


NAMES: Sequence[str] = ("../secret.png", "/etc/passwd", "link.png", "text.png", "none.png", "000.jpg")


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_leads_to_nothing_but_its_screenshots(tmp_path: Path, name: str) -> None:
    one = played("go")
    folder = record(tmp_path / "recordings", one)
    (folder.parent / "secret.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    (folder / "text.png").write_text("secret")
    lines = [{"said": "", "picture": name}, {"said": "go", "picture": name}]
    (folder / "turns.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert shots_of(one, store(tmp_path / "run" / "episodes", [one])) == [None, None]


@pytest.mark.parametrize("lines", ["", "nonsense", "[1]\n3\n", '{"said": 3}\n', "\ud800"])
def test_a_damaged_recording_shows_nothing(tmp_path: Path, lines: str) -> None:
    one = played("go")
    folder = record(tmp_path / "recordings", one)
    (folder / "turns.jsonl").write_text(lines, errors="replace")
    assert shots_of(one, store(tmp_path / "run" / "episodes", [one])) == []


@pytest.mark.parametrize("kwargs", ["", "[]", "3", '{"record": 3}', '{"record": ""}', '{"record": "a\\u0000b"}', "{"])
def test_settings_without_a_recording_show_nothing(tmp_path: Path, kwargs: str) -> None:
    assert shots_of(episode("e", fingerprints={"env_kwargs": kwargs}), tmp_path) == []
