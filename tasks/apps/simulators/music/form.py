"""Formats of songs and playlists, in tables and in results."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ....rows.database import Row

SHOWN = "songs.id, title, artist, year, seconds"
"""The columns of a song that listings need."""


def songs_of(ids: Iterable[int]) -> str:
    """Return the songs of a playlist as the table stores them: their ids in order."""
    return json.dumps(list(ids))


def brief(row: Row) -> dict[str, Any]:
    """Return a song in the form of listings."""
    return {"song_id": row["id"], **{name: row[name] for name in ("title", "artist", "year", "seconds")}}


def summary(row: Row) -> dict[str, Any]:
    """Return a playlist in the form of listings."""
    return {
        "playlist_id": row["id"],
        "name": row["name"],
        "owner": row["owner"],
        "songs": len(json.loads(row["songs"])),
    }
