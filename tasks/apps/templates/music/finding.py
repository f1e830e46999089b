"""Common parts of templates about music: naming songs and playlists, and finding them by calls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ....rows.database import Row
from ....rows.expected import Must, inserted, plain, updated
from ....rows.scene import Scene
from ....rows.stated_text import takes_back
from ...simulators.music.form import songs_of
from ..plan import Solver

COUNTS = ("no", "one", "two", "three", "four", "five", "six")


@dataclass(frozen=True)
class AnyOrder:
    """The songs of a playlist, whatever their order.

    Args:
        ids: numbers of the songs.
    """

    ids: frozenset[int]

    def matches(self, value: Any) -> bool:
        """Return whether a playlist has these songs, each once, and no others."""
        found = json.loads(value)
        return len(found) == len(self.ids) and set(found) == self.ids


@dataclass(frozen=True)
class Titles:
    """A text that names some songs and no others.

    Args:
        wanted: titles that stand in it.
        others: titles that do not, other than as a part of one that is wanted.
    """

    wanted: tuple[str, ...]
    others: tuple[str, ...]

    def matches(self, value: Any) -> bool:
        """Return whether the text names the songs."""
        rest = plain(str(value))
        for title in sorted(map(plain, self.wanted), key=len, reverse=True):
            if title not in rest:
                return False
            rest = rest.replace(title, "|")
        return not takes_back(rest) and not any(plain(title) in rest for title in self.others)


def me(scene: Scene) -> str:
    """Return the user's name, as the owner of playlists."""
    return scene.cast.user.name


def songs(scene: Scene, condition: str, *values: Any) -> list[Row]:
    """Return the songs that satisfy a condition."""
    return scene.db.rows(f"SELECT * FROM songs WHERE {condition} ORDER BY id", *values)


def liked(scene: Scene, condition: str, *values: Any) -> list[Row]:
    """Return the liked songs, with the ids of their likes."""
    query = "SELECT songs.*, likes.id AS like_id FROM songs JOIN likes ON song_id = songs.id"
    return scene.db.rows(f"{query} WHERE {condition} ORDER BY songs.id", *values)


def artist_of(scene: Scene) -> str:
    """Draw an artist."""
    return str(scene.row("SELECT DISTINCT artist FROM songs ORDER BY artist")["artist"])


def own_playlist(scene: Scene) -> tuple[Row, list[Row]]:
    """Draw a playlist of the user, with its songs in their order."""
    row = scene.row("SELECT * FROM playlists WHERE owner = ?", me(scene))
    return row, songs_in(scene, row)


def songs_in(scene: Scene, playlist: Row) -> list[Row]:
    """Return the songs of a playlist in their order."""
    found = {row["id"]: row for row in songs(scene, "1")}
    return [found[id] for id in json.loads(playlist["songs"])]


def new_name(scene: Scene) -> str:
    """Draw a name that no playlist has."""
    taken = {row["name"] for row in scene.db.rows("SELECT name FROM playlists")}
    return scene.pick([name for name in scene.cast.words["playlist"] if name not in taken])


def spoken(song: Row) -> str:
    """Return a song as a user names it."""
    return f"'{song['title']}' by {song['artist']}"


def made(scene: Scene, name: str, ids: Sequence[int], *, ordered: bool = False) -> Must:
    """Return the required change for a new playlist of some songs."""
    wanted = songs_of(ids) if ordered else AnyOrder(frozenset(ids))
    return inserted("playlists", "playlist", name=name, owner=me(scene), songs=wanted)


def changed(playlist: Row, ids: Iterable[int]) -> Must:
    """Return the required changes for a playlist to have these songs in this order."""
    return updated("playlists", playlist["id"], "songs", songs=songs_of(ids))


def heard(song: Row) -> tuple[Must, Must]:
    """Return the required changes for playing a song once."""
    again = updated("songs", song["id"], "counted", plays=song["plays"] + 1)
    return inserted("heard", "played", song_id=song["id"]), again


# -- by calls -------------------------------------------------------------------------------------------------


def playlist_named(api: Solver, name: str) -> int:
    """Return the id of the playlist of this name."""
    return int(next(item["playlist_id"] for item in api.pages("music_list_playlists") if item["name"] == name))


def song_named(api: Solver, title: str, artist: str) -> int:
    """Return the id of the song of this title and artist."""
    conditions = api.rng.pick(({"title": title}, {"artist": artist}, {"title": title, "artist": artist}))
    found = api.pages("music_search", **conditions)
    return int(next(item["song_id"] for item in found if (item["title"], item["artist"]) == (title, artist)))


def liked_by(api: Solver, artist: str) -> list[Row]:
    """Return the liked songs of an artist, in the form of calls."""
    return [item for item in api.pages("music_list_liked") if item["artist"] == artist]


def make_playlist(api: Solver, name: str, ids: Iterable[int]) -> None:
    """Create a playlist of some songs."""
    made = api.call("music_create_playlist", name=name)["playlist_id"]
    for id in ids:
        api.call("music_add_song", playlist_id=made, song_id=id)


def with_plays(api: Solver, items: Iterable[Row]) -> list[tuple[int, Row]]:
    """Return songs with their play counts, the most played first."""
    found = [(int(api.call("music_song", song_id=item["song_id"])["plays"]), item) for item in items]
    return sorted(found, key=lambda pair: -pair[0])
