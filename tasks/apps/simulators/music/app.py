"""``Music``: songs, playlists, likes, listening history, and the queue."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar

import pydantic

from .....errors import ToolError
from ..app import App, Id, Maybe, Page, Words, call
from .form import SHOWN, brief, songs_of, summary

Year = Annotated[int, pydantic.Field(ge=1900, le=2100)]
Place = Annotated[int, pydantic.Field(ge=1, le=500)]
LONGEST = 20
"""The most songs in the queue."""


class Music(App):
    """The user's music library. Other people's playlists are read-only."""

    name = "music"
    about = "songs, playlists, likes, listening history, and the queue"
    ids: ClassVar[dict[str, str]] = {"song_id": "songs", "playlist_id": "playlists"}
    keys: ClassVar[dict[str, tuple[str, ...]]] = {"likes": ("song_id",)}
    stray = ("music_create_playlist", {"name": "Nobody asked for this"})

    @call
    def search(
        self,
        title: Maybe = "",
        artist: Maybe = "",
        genre: Maybe = "",
        from_year: Year | None = None,
        to_year: Year | None = None,
        page: Page = 1,
    ) -> dict[str, Any]:
        """Search for songs, sorted by artist and then title. A song must match every condition you give.

        Args:
            title: part of the title.
            artist: part of the artist's name.
            genre: exact name of the genre.
            from_year: only songs from this year or later.
            to_year: only songs from this year or earlier.
            page: page of the results, starting at 1.
        """
        rows = self.db.rows(
            f"""SELECT {SHOWN} FROM songs WHERE (instr(lower(title), lower(?1)) OR ?1 = '')
               AND (instr(lower(artist), lower(?2)) OR ?2 = '') AND (lower(genre) = lower(?3) OR ?3 = '')
               AND (year >= ?4 OR ?4 IS NULL) AND (year <= ?5 OR ?5 IS NULL) ORDER BY artist, title, id""",
            *(title, artist, genre, from_year, to_year),
        )
        return self.paged([brief(row) for row in rows], page)

    @call
    def song(self, song_id: Id) -> dict[str, Any]:
        """Show all details of a song, including how often the user has played it and whether the user likes it.

        Args:
            song_id: ID of the song.
        """
        row = self.find("songs", song_id, "song")
        rest = {name: row[name] for name in ("album", "genre", "plays")}
        return {**brief(row), **rest, "liked": self._like(song_id) is not None}

    @call
    def list_liked(self, page: Page = 1) -> dict[str, Any]:
        """List the songs that the user likes, most recently liked first.

        Args:
            page: page of the results, starting at 1.
        """
        rows = self.db.rows(
            f"""SELECT {SHOWN}, likes.created_at AS at FROM songs JOIN likes ON song_id = songs.id
               ORDER BY at DESC, likes.id DESC"""
        )
        return self.paged([{**brief(row), "liked_at": row["at"]} for row in rows], page)

    @call
    def like(self, song_id: Id) -> dict[str, Any]:
        """Add a song to the user's liked songs.

        Args:
            song_id: ID of the song.
        """
        self.find("songs", song_id, "song")
        if self._like(song_id) is not None:
            raise ToolError(f"409 song {song_id} is already liked")
        self.db.insert("likes", song_id=song_id, created_at=self.stamp)
        return {"song_id": song_id, "liked": True}

    @call
    def unlike(self, song_id: Id) -> dict[str, Any]:
        """Remove a song from the user's liked songs.

        Args:
            song_id: ID of the song.
        """
        self.find("songs", song_id, "song")
        id = self._like(song_id)
        if id is None:
            raise ToolError(f"409 song {song_id} is not liked")
        self.db.delete("likes", id)
        return {"song_id": song_id, "liked": False}

    @call
    def list_playlists(self, page: Page = 1) -> dict[str, Any]:
        """List the user's playlists and the playlists of others that the user follows, by name, without their songs.

        Args:
            page: page of the results, starting at 1.
        """
        return self.paged([summary(row) for row in self.db.rows("SELECT * FROM playlists ORDER BY name, id")], page)

    @call
    def playlist(self, playlist_id: Id, page: Page = 1) -> dict[str, Any]:
        """Show the songs of a playlist in order, and its owner.

        Args:
            playlist_id: ID of the playlist.
            page: page of the songs, starting at 1.
        """
        row = self.find("playlists", playlist_id, "playlist")
        found = [brief(self.find("songs", id, "song")) for id in json.loads(row["songs"])]
        return {**summary(row), **self.paged(found, page)}

    @call
    def create_playlist(self, name: Words) -> dict[str, Any]:
        """Create an empty playlist.

        Args:
            name: name of the playlist; no other playlist of the user may have it.
        """
        self._free(name)
        id = self.db.insert("playlists", name=name, owner=self._me, songs="[]")
        return {"playlist_id": id, "name": name}

    @call
    def rename_playlist(self, playlist_id: Id, name: Words) -> dict[str, Any]:
        """Rename a playlist.

        Args:
            playlist_id: ID of a playlist that the user owns.
            name: name of the playlist; no other playlist of the user may have it.
        """
        self._own(playlist_id)
        self._free(name)
        self.db.update("playlists", playlist_id, name=name)
        return {"playlist_id": playlist_id, "name": name}

    @call
    def delete_playlist(self, playlist_id: Id) -> str:
        """Delete a playlist permanently. Its songs stay in the library.

        Args:
            playlist_id: ID of a playlist that the user owns.
        """
        self._own(playlist_id)
        self.db.delete("playlists", playlist_id)
        return f"deleted playlist {playlist_id}"

    @call
    def add_song(self, playlist_id: Id, song_id: Id) -> dict[str, Any]:
        """Add a song to the end of a playlist.

        Args:
            playlist_id: ID of a playlist that the user owns.
            song_id: ID of a song that is not in the playlist yet.
        """
        songs = self._own(playlist_id)
        self.find("songs", song_id, "song")
        if song_id in songs:
            raise ToolError(f"409 song {song_id} is already in playlist {playlist_id}")
        return self._kept(playlist_id, [*songs, song_id])

    @call
    def remove_song(self, playlist_id: Id, song_id: Id) -> dict[str, Any]:
        """Remove a song from a playlist.

        Args:
            playlist_id: ID of a playlist that the user owns.
            song_id: ID of the song.
        """
        return self._kept(playlist_id, [id for id in self._own(playlist_id, song_id) if id != song_id])

    @call
    def move_song(self, playlist_id: Id, song_id: Id, place: Place) -> dict[str, Any]:
        """Move a song to another position in a playlist. The other songs keep their order.

        Args:
            playlist_id: ID of a playlist that the user owns.
            song_id: ID of the song.
            place: new position, starting at 1.
        """
        songs = self._own(playlist_id, song_id)
        if place > len(songs):
            raise ToolError(f"422 position {place} does not exist: playlist {playlist_id} has {len(songs)} songs")
        songs.remove(song_id)
        return self._kept(playlist_id, [*songs[: place - 1], song_id, *songs[place - 1 :]])

    @call
    def history(self, since: Maybe = "", until: Maybe = "", page: Page = 1) -> dict[str, Any]:
        """List what the user has played in the last two months, latest first. A song played twice appears twice.

        Args:
            since: only songs played at this time or later, such as 2025-05-14T09:30.
            until: only songs played at this time or earlier.
            page: page of the results, starting at 1.
        """
        rows = self.db.rows(
            f"""SELECT {SHOWN}, heard.created_at AS at FROM heard JOIN songs ON song_id = songs.id
               WHERE at >= ?1 AND (at <= ?2 OR ?2 = '') ORDER BY at DESC, heard.id DESC""",
            *(since, until),
        )
        return self.paged([{**brief(row), "heard_at": row["at"]} for row in rows], page)

    @call
    def play(self, song_id: Id) -> dict[str, Any]:
        """Play a song. This adds it to the history and increases its play count.

        Args:
            song_id: ID of the song.
        """
        row = self.find("songs", song_id, "song")
        self.db.insert("heard", song_id=song_id, created_at=self.stamp)
        self.db.update("songs", song_id, plays=row["plays"] + 1)
        return {**brief(row), "plays": row["plays"] + 1}

    @call
    def list_queue(self, page: Page = 1) -> dict[str, Any]:
        """List the songs in the queue, in order.

        Args:
            page: page of the results, starting at 1.
        """
        rows = self.db.rows(f"SELECT {SHOWN} FROM queue JOIN songs ON song_id = songs.id ORDER BY place")
        return self.paged([brief(row) for row in rows], page)

    @call
    def add_to_queue(self, song_id: Id, first: bool = False) -> dict[str, Any]:
        """Add a song to the queue. The queue holds at most 20 songs.

        Args:
            song_id: ID of a song that is not in the queue yet.
            first: true to add it at the front, false to add it at the end.
        """
        self.find("songs", song_id, "song")
        waiting = self.db.rows("SELECT * FROM queue ORDER BY place")
        if any(row["song_id"] == song_id for row in waiting):
            raise ToolError(f"409 song {song_id} is already in the queue")
        if len(waiting) >= LONGEST:
            raise ToolError(f"409 the queue is full: it holds at most {LONGEST} songs")
        place = 0 if not waiting else waiting[0]["place"] - 1 if first else waiting[-1]["place"] + 1
        self.db.insert("queue", song_id=song_id, place=place)
        return {"song_id": song_id, "waiting": len(waiting) + 1}

    @call
    def clear_queue(self) -> str:
        """Remove all songs from the queue."""
        rows = self.db.rows("SELECT id FROM queue")
        if not rows:
            raise ToolError("409 the queue is already empty")
        for row in rows:
            self.db.delete("queue", row["id"])
        return f"removed {len(rows)} song(s) from the queue"

    def _own(self, playlist_id: int, song_id: int | None = None) -> list[int]:
        row = self.find("playlists", playlist_id, "playlist")
        if row["owner"] != self._me:
            raise ToolError(f"403 playlist {playlist_id} belongs to {row['owner']}: only the owner can change it")
        songs: list[int] = json.loads(row["songs"])
        if song_id not in (None, *songs):
            raise ToolError(f"404 song {song_id} is not in playlist {playlist_id}")
        return songs

    def _kept(self, playlist_id: int, songs: list[int]) -> dict[str, Any]:
        self.db.update("playlists", playlist_id, songs=songs_of(songs))
        return {"playlist_id": playlist_id, "songs": len(songs)}

    def _free(self, name: str) -> None:
        if self.db.row("SELECT id FROM playlists WHERE lower(name) = lower(?) AND owner = ?", name, self._me):
            raise ToolError(f"409 a playlist named {name!r} already exists")

    def _like(self, song_id: int) -> int | None:
        found: int | None = self.db.value("SELECT id FROM likes WHERE song_id = ?", song_id)
        return found

    @property
    def _me(self) -> str:
        return str(self.db.value("SELECT first_name || ' ' || last_name FROM profile"))
