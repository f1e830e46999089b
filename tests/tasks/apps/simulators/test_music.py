"""The calls of the music: their effects, their refusals, and what they leave alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.tasks.apps.simulators.music.app import LONGEST
from turnwise.tasks.apps.simulators.music.form import songs_of
from turnwise.tasks.apps.simulators.world import World
from turnwise.tasks.apps.templates.music.finding import AnyOrder, Titles

from .opened import everything, opened, refused


@pytest.fixture
def world() -> World:
    return opened()


def own(world: World, *, not_own: bool = False) -> int:
    """A playlist of the user, or one of another user."""
    me = world.db.value("SELECT first_name || ' ' || last_name FROM profile")
    return int(world.db.value(f"SELECT id FROM playlists WHERE owner {'!=' if not_own else '='} ?", me))


def inside(world: World, id: int) -> list[int]:
    """The songs of a playlist."""
    return [item["song_id"] for item in everything(world, "music_playlist", playlist_id=id)]


def kinds(world: World) -> list[str]:
    """Return the changes."""
    return [f"{change.table} {change.kind}" for change in world.changes()]


def test_conditions_of_a_search_must_all_hold(world: World) -> None:
    song = world.call("music_song", {"song_id": 7})
    conditions = {"artist": song["artist"], "genre": song["genre"], "from_year": song["year"], "to_year": song["year"]}
    found = everything(world, "music_search", **conditions)
    assert 7 in [item["song_id"] for item in found]
    assert {(item["artist"], item["year"]) for item in found} == {(song["artist"], song["year"])}
    assert everything(world, "music_search", title="no such song") == []
    assert len(everything(world, "music_search")) == world.db.value("SELECT count(*) FROM songs")
    refused(world, "music_song", 404, song_id=9999)


def test_a_song_is_liked_once(world: World) -> None:
    liked = {item["song_id"] for item in everything(world, "music_list_liked")}
    id = next(id for id in range(1, 200) if id not in liked)
    refused(world, "music_unlike", 409, song_id=id)
    world.call("music_like", {"song_id": id})
    refused(world, "music_like", 409, song_id=id)
    assert world.call("music_song", {"song_id": id})["liked"]
    assert world.call("music_list_liked", {})["items"][0]["song_id"] == id
    world.call("music_unlike", {"song_id": id})
    assert world.changes() == ()
    refused(world, "music_like", 404, song_id=9999)


def test_playlists_of_others_are_seen_and_not_changed(world: World) -> None:
    id = own(world, not_own=True)
    songs = inside(world, id)
    refused(world, "music_rename_playlist", 403, playlist_id=id, name="Mine")
    refused(world, "music_delete_playlist", 403, playlist_id=id)
    refused(world, "music_add_song", 403, playlist_id=id, song_id=1)
    refused(world, "music_remove_song", 403, playlist_id=id, song_id=songs[0])
    refused(world, "music_move_song", 403, playlist_id=id, song_id=songs[0], place=2)


def test_a_playlist_is_made_filled_renamed_and_deleted(world: World) -> None:
    id = world.call("music_create_playlist", {"name": "Fresh"})["playlist_id"]
    refused(world, "music_create_playlist", 409, name="fresh")
    refused(world, "music_rename_playlist", 409, playlist_id=own(world), name="Fresh")
    for song in (3, 1, 2):
        world.call("music_add_song", {"playlist_id": id, "song_id": song})
    refused(world, "music_add_song", 409, playlist_id=id, song_id=3)
    refused(world, "music_add_song", 404, playlist_id=id, song_id=9999)
    assert inside(world, id) == [3, 1, 2]
    world.call("music_rename_playlist", {"playlist_id": id, "name": "Stale"})
    assert kinds(world) == ["playlists insert"]
    world.call("music_delete_playlist", {"playlist_id": id})
    assert world.changes() == ()
    refused(world, "music_playlist", 404, playlist_id=id)


def test_songs_are_moved_and_removed(world: World) -> None:
    id = own(world)
    songs = inside(world, id)
    world.call("music_move_song", {"playlist_id": id, "song_id": songs[-1], "place": 2})
    assert inside(world, id) == [songs[0], songs[-1], *songs[1:-1]]
    refused(world, "music_move_song", 422, playlist_id=id, song_id=songs[0], place=len(songs) + 1)
    world.call("music_remove_song", {"playlist_id": id, "song_id": songs[0]})
    refused(world, "music_remove_song", 404, playlist_id=id, song_id=songs[0])
    assert inside(world, id) == [songs[-1], *songs[1:-1]]
    assert kinds(world) == ["playlists update"]


def test_playing_stands_in_the_history_and_counts(world: World) -> None:
    plays = world.call("music_song", {"song_id": 5})["plays"]
    assert world.call("music_play", {"song_id": 5})["plays"] == plays + 1
    assert kinds(world) == ["heard insert", "songs update"]
    assert world.call("music_history", {})["items"][0]["song_id"] == 5
    today = f"{world.now.date()}T00:00"
    assert all(item["heard_at"] >= today for item in everything(world, "music_history", since=today))
    assert everything(world, "music_history", until="2000-01-01T00:00") == []


def test_no_song_counts_fewer_plays_than_its_history(world: World) -> None:
    rows = world.db.rows("SELECT plays, (SELECT count(*) FROM heard WHERE song_id = songs.id) AS n FROM songs")
    assert all(row["plays"] >= row["n"] for row in rows)


def test_the_queue_keeps_its_order_and_its_limit(world: World) -> None:
    waiting = [item["song_id"] for item in everything(world, "music_list_queue")]
    free = [id for id in range(1, 60) if id not in waiting]
    world.call("music_add_to_queue", {"song_id": free[0]})
    world.call("music_add_to_queue", {"song_id": free[1], "first": True})
    assert [item["song_id"] for item in everything(world, "music_list_queue")] == [free[1], *waiting, free[0]]
    refused(world, "music_add_to_queue", 409, song_id=free[0])
    for id in free[2 : 2 + LONGEST - len(waiting) - 2]:
        world.call("music_add_to_queue", {"song_id": id})
    refused(world, "music_add_to_queue", 409, song_id=free[40])
    world.call("music_clear_queue", {})
    refused(world, "music_clear_queue", 409)
    assert kinds(world) == ["queue delete"] * len(waiting)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 50), unique=True, max_size=8), st.data())
def test_any_order_means_the_same_songs_each_once(ids: list[int], data: st.DataObject) -> None:
    wanted = AnyOrder(frozenset(ids))
    assert wanted.matches(songs_of(data.draw(st.permutations(ids))))
    assert not wanted.matches(songs_of([*ids, 99]))
    assert not wanted.matches(json.dumps([*ids, *ids[:1]])) or not ids
    assert not wanted.matches(songs_of(ids[1:])) or not ids


def test_titles_are_named_without_others() -> None:
    wanted = Titles(("Blue Sky (live)", "Blue Sky"), ("Red Sea", "Red Sea (live)"))
    assert wanted.matches("Hello,\n- blue sky\n- Blue Sky (live)")
    assert not wanted.matches("Blue Sky (live)"), "a title that is a part of another does not stand for itself"
    assert not wanted.matches("Blue Sky, Blue Sky (live), Red Sea")
    assert not Titles(("Red Sea",), ("Red Sea (live)", "Blue Sky")).matches("Red Sea and Blue Sky")
