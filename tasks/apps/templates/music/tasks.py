"""Tasks of music alone: questions, likes and playing, without those of playlists."""

from __future__ import annotations

from datetime import date, timedelta

from ....rows.expected import Must, Number, Text, deleted, inserted
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ..plan import Solver
from . import pairs, playlists, with_others
from .finding import (
    COUNTS,
    artist_of,
    heard,
    liked,
    liked_by,
    own_playlist,
    playlist_named,
    songs,
    with_plays,
)


@template("music", kind="question")
def music_playlist_length(scene: Scene) -> TaskDraft:
    """Ask for the length of a playlist; then only of its songs from some years; then only of the liked ones."""
    row, inside = own_playlist(scene)
    year = scene.rng.randint(1980, 2020) if scene.level in (2, 3) else 0
    fond = scene.level >= 4
    ids = {song["id"] for song in liked(scene, "1")}
    chosen = [song for song in inside if song["year"] >= year and (not fond or song["id"] in ids)]
    scene.need(len(chosen) >= 2 and (scene.level == 1 or len(chosen) < len(inside)))
    name = row["name"]
    which = f"the songs from {year} or later in" if year else "the songs that I like in" if fond else "the songs in"
    prompt = scene.rng.pick(
        (
            f"How many seconds do {which} my playlist '{name}' last in total?",
            f"Add up the lengths of {which} the playlist '{name}'. Give me the total in seconds.",
        )
    )

    def solve(api: Solver) -> None:
        items = list(api.pages("music_playlist", playlist_id=playlist_named(api, name)))
        known = {item["song_id"] for item in api.pages("music_list_liked")} if fond else set()
        kept = [item for item in items if item["year"] >= year and (not fond or item["song_id"] in known)]
        api.answer(sum(item["seconds"] for item in kept))

    return TaskDraft(prompt, solve, answer=Number(sum(song["seconds"] for song in chosen)))


@template("music", kind="question")
def music_most_played(scene: Scene) -> TaskDraft:
    """Ask for the most played song of an artist, and its play count."""
    artist = artist_of(scene)
    rows = songs(scene, "artist = ?", artist)
    year = scene.pick(sorted({row["year"] for row in rows}))
    if scene.level < 4:
        rows = [row for row in rows if row["year"] == year]
    rows.sort(key=lambda row: -int(row["plays"]))
    rank = 2 if scene.level in (3, 5) else 1
    scene.need(3 <= len(rows) <= 12 and len({row["plays"] for row in rows}) == len(rows))
    title = rows[rank - 1]["title"]
    of = f"the songs by {artist}" + (f" from {year}" if scene.level < 4 else "")
    how = "most often" if rank == 1 else "second most often"
    prompt = scene.rng.pick(
        (
            f"Of {of}, which one have I played {how}? Give me its exact title.",
            f"Check how often I have played {of}. Answer with the exact title of the one I have played {how}.",
        )
    )

    def solve(api: Solver) -> None:
        years = {"from_year": year, "to_year": year} if scene.level < 4 else {}
        found = list(api.pages("music_search", artist=artist, **years))
        api.rng.shuffle(found)
        api.answer(str(with_plays(api, found)[rank - 1][1]["title"]))

    return TaskDraft(prompt, solve, answer=Text(title), secrets=(title,))


@template("music", kind="question")
def music_seconds_heard(scene: Scene) -> TaskDraft:
    """Ask for the listening time on some days; from level 3 on for one artist only."""
    begin = date.fromisoformat(scene.cast.day(-scene.rng.randint(10, 55)))
    end = begin + timedelta(days=scene.rng.randint(1, 1 + 2 * scene.level))
    rows = scene.db.rows(
        """SELECT songs.* FROM heard JOIN songs ON song_id = songs.id
           WHERE heard.created_at BETWEEN ? AND ? ORDER BY heard.id""",
        f"{begin}T00:00",
        f"{end}T23:59",
    )
    artist = scene.pick([row["artist"] for row in rows]) if scene.level >= 3 else ""
    chosen = [row for row in rows if artist in ("", row["artist"])]
    scene.need(len(chosen) >= 2 and end < scene.cast.now.date())
    what = f"songs by {artist}" if artist else "music"
    prompt = scene.rng.pick(
        (
            f"For how many seconds did I listen to {what} from {begin} to {end} (inclusive)? A song that I played "
            "twice counts twice.",
            f"Go through my listening history from {begin} to {end} (inclusive). How many seconds of {what} is "
            "that, counting repeated songs every time?",
        )
    )

    def solve(api: Solver) -> None:
        found = api.pages("music_history", since=f"{begin}T00:00", until=f"{end}T23:59")
        api.answer(sum(item["seconds"] for item in found if artist in ("", item["artist"])))

    return TaskDraft(prompt, solve, answer=Number(sum(row["seconds"] for row in chosen)))


@template("music", kind="mixed")
def music_unlike_rare(scene: Scene) -> TaskDraft:
    """Remove the likes of an artist's rarely played songs, and report their play counts."""
    artist, least = artist_of(scene), scene.rng.randint(8, 60)
    rows = liked(scene, "artist = ?", artist)
    rare = [row for row in rows if row["plays"] < least]
    scene.need(1 <= len(rare) < len(rows) and len(rows) <= scene.level + 3)
    prompt = scene.rng.pick(
        (
            f"Unlike each song by {artist} that I have played fewer than {least} times, and tell me the total number "
            "of plays of the songs that you unliked.",
            f"Remove songs by {artist} that I have played fewer than {least} times from my liked songs. How many times "
            "have I played these songs in total?",
        )
    )

    def solve(api: Solver) -> None:
        found = [(plays, item) for plays, item in with_plays(api, liked_by(api, artist)) if plays < least]
        for _, item in found:
            api.call("music_unlike", song_id=item["song_id"])
        api.answer(sum(plays for plays, _ in found))

    must = tuple(deleted("likes", row["like_id"], f"unlike {row['id']}") for row in rare)
    return TaskDraft(prompt, solve, must=must, answer=Number(sum(row["plays"] for row in rare)))


@template("music", kind="action")
def music_queue_most_played(scene: Scene) -> TaskDraft:
    """Queue the most played songs of an artist, in order; from level 3 on instead of the current queue."""
    artist, count = artist_of(scene), min(2 + scene.level // 2, 4)
    rows = songs(scene, "artist = ?", artist)
    year = scene.pick(sorted({row["year"] for row in rows}))
    rows = sorted((row for row in rows if row["year"] == year), key=lambda row: -int(row["plays"]))
    waiting = scene.db.rows("SELECT * FROM queue ORDER BY place")
    scene.need(len(rows) >= count and len({row["plays"] for row in rows}) == len(rows))
    chosen, clear = rows[:count], scene.level >= 3
    scene.need(not {row["song_id"] for row in waiting} & {row["id"] for row in chosen})
    where = "Clear my queue, and then add" if clear else "At the end of my queue, add"
    prompt = (
        f"{where} the {COUNTS[count]} songs by {artist} from {year} that I have played most often{' to it' * clear}, "
        "the most played one first."
    )

    def solve(api: Solver) -> None:
        found = with_plays(api, list(api.pages("music_search", artist=artist, from_year=year, to_year=year)))
        if clear:
            api.call("music_clear_queue")
        for _, item in found[:count]:
            api.call("music_add_to_queue", song_id=item["song_id"])
        api.answer()

    first = 0 if clear else waiting[-1]["place"] + 1
    must: list[Must] = [deleted("queue", row["id"]) for row in waiting] if clear else []
    must += [inserted("queue", f"waits {n}", song_id=row["id"], place=first + n) for n, row in enumerate(chosen)]
    return TaskDraft(prompt, solve, must=tuple(must))


@template("music", kind="action")
def music_play_one(scene: Scene) -> TaskDraft:
    """Play the longest, the shortest or the newest liked song of a genre or an artist."""
    by_genre = scene.level >= 3
    value = scene.pick(scene.cast.words["genre"]) if by_genre else artist_of(scene)
    rows = liked(scene, "genre = ?" if by_genre else "artist = ?", value)
    word, column, sign = scene.pick((("longest", "seconds", -1), ("shortest", "seconds", 1), ("oldest", "year", 1)))
    rows.sort(key=lambda row: sign * int(row[column]))
    scene.need(len(rows) >= 2 and rows[0][column] != rows[1][column])
    which = f"{value} song" if by_genre else f"song by {value}"
    prompt = scene.rng.pick(
        (f"Play the {word} {which} among the songs I like.", f"Of the songs I like, play the {word} {which} once.")
    )

    def solve(api: Solver) -> None:
        found = list(api.pages("music_list_liked"))
        if by_genre:
            ids = {item["song_id"] for item in api.pages("music_search", genre=value)}
            found = [item for item in found if item["song_id"] in ids]
        else:
            found = [item for item in found if item["artist"] == value]
        api.call("music_play", song_id=min(found, key=lambda item: sign * item[column])["song_id"])
        api.answer()

    return TaskDraft(prompt, solve, must=heard(rows[0]))


TEMPLATES = (
    music_playlist_length,
    music_most_played,
    music_seconds_heard,
    music_unlike_rare,
    music_queue_most_played,
    music_play_one,
    *playlists.TEMPLATES,
    *pairs.TEMPLATES,
    *with_others.TEMPLATES,
)
