"""Pairs of tasks with one prompt: the request can be fulfilled, or must be refused. Only the data shows which."""

from __future__ import annotations

from ....rows.database import Row
from ....rows.expected import Number, Refusal, Text
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ..plan import Solver
from .finding import (
    artist_of,
    changed,
    liked,
    liked_by,
    made,
    make_playlist,
    me,
    new_name,
    own_playlist,
    playlist_named,
    song_named,
    songs,
    songs_in,
    spoken,
)


def _adding(scene: Scene, row: Row) -> tuple[Row, str]:
    """Draw a song that is not in a playlist yet, and the prompt, which says what to do if adding it is forbidden."""
    inside = songs_in(scene, row)
    song = scene.pick([one for one in songs(scene, "1") if one not in inside])
    rest = "If it is someone else's playlist, change nothing: refuse and tell me whose it is."
    prompt = scene.rng.pick(
        (
            f"Add {spoken(song)} to the playlist '{row['name']}'. {rest}",
            f"The song {spoken(song)} belongs in '{row['name']}': put it there, at the end. {rest}",
        )
    )
    return song, prompt


@template("music", kind="action")
def music_add_to_own(scene: Scene) -> TaskDraft:
    """Add a song to the user's own playlist."""
    row, inside = own_playlist(scene)
    song, prompt = _adding(scene, row)

    def solve(api: Solver) -> None:
        id, wanted = playlist_named(api, row["name"]), song_named(api, song["title"], song["artist"])
        api.call("music_add_song", playlist_id=id, song_id=wanted)
        api.answer()

    return TaskDraft(prompt, solve, must=(changed(row, (one["id"] for one in (*inside, song))),))


@template("music", kind="refusal")
def music_add_to_foreign(scene: Scene) -> TaskDraft:
    """Refuse to add a song to a playlist that the user only follows."""
    row = scene.row("SELECT * FROM playlists WHERE owner != ?", me(scene))
    _, prompt = _adding(scene, row)

    def solve(api: Solver) -> None:
        found = next(item for item in api.pages("music_list_playlists") if item["name"] == row["name"])
        api.refuse("not_allowed", found["owner"])

    owner = row["owner"]
    return TaskDraft(prompt, solve, refusal=Refusal("not_allowed", Text(owner)), secrets=(owner,))


def _long_enough(scene: Scene, enough: bool) -> tuple[str, str, list[Row], str]:
    """Draw a name, an artist and liked songs of theirs, and the prompt to make a playlist if they are long enough."""
    artist, name = artist_of(scene), new_name(scene)
    rows = liked(scene, "artist = ?", artist)
    scene.need(2 <= len(rows) <= scene.level + 5)
    seconds = sum(row["seconds"] for row in rows)
    minutes = max(1, seconds // 60 + (-scene.rng.randint(0, 4) if enough else scene.rng.randint(1, 5)))
    prompt = scene.rng.pick(
        (
            f"Create a playlist '{name}' with all songs by {artist} that I like. If they last less than {minutes} "
            "minutes in total, don't create it: refuse and tell me how many seconds they last in total.",
            f"I need at least {minutes} minutes of music by {artist}. Put all their songs that I like into a new "
            f"playlist '{name}'. If that is not enough, create no playlist: refuse with the total in seconds.",
        )
    )
    return name, artist, rows, prompt


@template("music", kind="action")
def music_enough_liked(scene: Scene) -> TaskDraft:
    """Make a playlist of liked songs with a minimum length, which they reach."""
    name, artist, rows, prompt = _long_enough(scene, enough=True)

    def solve(api: Solver) -> None:
        make_playlist(api, name, [item["song_id"] for item in liked_by(api, artist)])
        api.answer()

    return TaskDraft(prompt, solve, must=(made(scene, name, [row["id"] for row in rows]),))


@template("music", kind="refusal")
def music_too_few_liked(scene: Scene) -> TaskDraft:
    """Refuse to make a playlist of liked songs that do not reach the minimum length."""
    _, artist, rows, prompt = _long_enough(scene, enough=False)
    seconds = sum(row["seconds"] for row in rows)

    def solve(api: Solver) -> None:
        api.refuse("not_possible", sum(item["seconds"] for item in liked_by(api, artist)))

    return TaskDraft(prompt, solve, refusal=Refusal("not_possible", Number(seconds)), secrets=(str(seconds),))


TEMPLATES = (music_add_to_own, music_add_to_foreign, music_enough_liked, music_too_few_liked)
