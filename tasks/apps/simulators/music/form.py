"""Formats of songs and playlists, in tables and in results."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ....rows.database import Row

SHOWN = "songs.id, title, artist, year, seconds"
"""The columns of a song that listings need."""


def songs_of(ids: Iterable[int]) -> str:
    """The songs of a playlist as the table keeps them: their numbers in order."""
    return json.dumps(list(ids))


def brief(row: Row) -> dict[str, Any]:
    """A song as listings show it."""
    return {"song_id": row["id"], **{name: row[name] for name in ("title", "artist", "year", "seconds")}}


def summary(row: Row) -> dict[str, Any]:
    """A playlist as listings show it."""
    return {
        "playlist_id": row["id"],
        "name": row["name"],
        "owner": row["owner"],
        "songs": len(json.loads(row["songs"])),
    }
