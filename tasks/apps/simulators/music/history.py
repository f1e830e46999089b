"""Initial songs, playlists, likes and listening history of a world."""

from __future__ import annotations

from datetime import timedelta

from ....people.cast import Cast
from ....rng import Rng
from ....rows.database import Database
from .form import songs_of

EDITIONS = ("(live)", "(acoustic)", "(remix)")
HEARD = 110
LIKED = 42


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert songs, of which some exist twice or in several editions, and the user's actions on them."""
    songs = _songs(db, cast, rng)
    weights = [rng.random() ** 3 for _ in songs]
    stamps = sorted(cast.now - timedelta(minutes=rng.randint(30, 60 * 24 * 60)) for _ in range(HEARD))
    for at in stamps:
        db.insert("heard", song_id=rng.choices(songs, weights)[0], created_at=at.isoformat(timespec="minutes"))
    for id, weight in zip(songs, weights, strict=True):
        lately = db.value("SELECT count(*) FROM heard WHERE song_id = ?", id)
        db.update("songs", id, plays=lately + rng.randint(0, 20) + int(weight * 80))
    days = sorted(rng.sample(range(3, 900), LIKED), reverse=True)
    for id, since in zip(rng.sample(songs, LIKED), days, strict=True):
        at = cast.now - timedelta(days=since, minutes=rng.randrange(600))
        db.insert("likes", song_id=id, created_at=at.isoformat(timespec="minutes"))
    for place, id in enumerate(rng.sample(songs, rng.randint(3, 7)), 1):
        db.insert("queue", song_id=id, place=place)
    names = list(cast.words["playlist"])
    rng.shuffle(names)
    for number, name in enumerate(names[:9]):
        owner = cast.user if number < 6 else rng.pick(cast.others)
        db.insert("playlists", name=name, owner=owner.name, songs=songs_of(rng.sample(songs, rng.randint(5, 14))))


def _songs(db: Database, cast: Cast, rng: Rng) -> list[int]:
    """Insert albums and some other songs of every artist, and return the ids; genre and year belong to the album."""
    found = []
    titles = [f"{one} {other}" for one in cast.words["quality"] for other in cast.words["image"]]
    rng.shuffle(titles)
    for artist in rng.sample(cast.words["artist"], 12):
        style, first = rng.sample(cast.words["genre"], 2), rng.randint(1975, 2015)
        covers: list[str] = []
        for number in range(2):
            names = [titles.pop() for _ in range(rng.randint(3, 5))]
            year, genre = first + number * rng.randint(1, 8), style[number if rng.random() < 0.4 else 0]
            if rng.random() < 0.5:
                names.append(f"{names[0]} {rng.pick(EDITIONS)}")
            if rng.random() < 0.2:
                covers.append(names[0])
            album = {"album": names[0], "artist": artist, "genre": genre, "year": year}
            found += [db.insert("songs", title=name, **album, seconds=rng.randint(95, 420), plays=0) for name in names]
        titles += covers  # which the next artist sings too
    return found
