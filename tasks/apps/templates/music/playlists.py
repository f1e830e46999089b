"""Tasks of playlists: creating, changing and merging."""

from __future__ import annotations

from ....rows.database import Row
from ....rows.expected import deleted
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ..plan import Solver
from ..talk import Slot, Talk
from ..task import Dialogue
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
    songs_in,
)


@template("music", kind="action")
def music_liked_to_playlist(scene: Scene) -> TaskDraft:
    """Make a playlist of the short liked songs of an artist or, from level 3 on, of a genre."""
    by_genre, name = scene.level >= 3, new_name(scene)
    value = scene.pick(scene.cast.words["genre"]) if by_genre else artist_of(scene)
    minutes = scene.rng.randint(3, 6) if scene.level >= 2 else 60
    found = liked(scene, "genre = ?" if by_genre else "artist = ?", value)
    rows = [row for row in found if row["seconds"] <= 60 * minutes]
    scene.need(2 <= len(rows) <= scene.level + 4 and (scene.level == 1 or len(rows) < len(found)))
    which = f"{value} songs that I like" if by_genre else f"songs by {value} that I like"
    limit = f" and that last at most {minutes} minutes" if scene.level >= 2 else ""
    prompt = scene.rng.pick(
        (
            f"Create a playlist '{name}' with all {which}{limit}. The order does not matter.",
            f"I want a new playlist called '{name}' with all the {which}{limit}, in any order.",
        )
    )

    def solve(api: Solver) -> None:
        items = [item for item in api.pages("music_list_liked") if item["seconds"] <= 60 * minutes]
        if by_genre:
            ids = {item["song_id"] for item in api.pages("music_search", genre=value)}
            items = [item for item in items if item["song_id"] in ids]
        else:
            items = [item for item in items if item["artist"] == value]
        api.rng.shuffle(items)
        make_playlist(api, name, (item["song_id"] for item in items))
        api.answer()

    return TaskDraft(prompt, solve, must=(made(scene, name, [row["id"] for row in rows]),))


@template("music", kind="action")
def music_fill_minutes(scene: Scene) -> TaskDraft:
    """Make a playlist of the first songs of another one, up to a total length."""
    row, inside = own_playlist(scene)
    name, minutes = new_name(scene), scene.rng.randint(5, 8 + 4 * scene.level)
    taken: list[Row] = []
    for song in inside:
        if sum(one["seconds"] for one in (*taken, song)) > 60 * minutes:
            break
        taken.append(song)
    scene.need(2 <= len(taken) < len(inside) and len(taken) <= scene.level + 3)
    old = row["name"]
    prompt = (
        f"Create a playlist '{name}' of at most {minutes} minutes: take the songs of '{old}' in order, and stop "
        "before the first one that would make it longer than that."
    )

    def solve(api: Solver) -> None:
        ids, left = [], 60 * minutes
        for item in api.pages("music_playlist", playlist_id=playlist_named(api, old)):
            left -= item["seconds"]
            if left < 0:
                break
            ids.append(item["song_id"])
        make_playlist(api, name, ids)
        api.answer()

    return TaskDraft(prompt, solve, must=(made(scene, name, [song["id"] for song in taken], ordered=True),))


@template("music", kind="action")
def music_remove_songs(scene: Scene) -> TaskDraft:
    """Remove songs of an artist, long songs or old songs from a playlist."""
    row, inside = own_playlist(scene)
    word, limit = scene.pick(("artist", "seconds", "year")), scene.rng.randint(3, 6)
    year, artist = scene.rng.randint(1980, 2015), scene.pick(inside)["artist"]
    text = {
        "artist": f"every song by {artist}",
        "seconds": f"every song longer than {limit} minutes",
        "year": f"every song from before {year}",
    }[word]

    def unwanted(song: Row) -> bool:
        if word == "artist":
            return bool(song["artist"] == artist)
        return bool(song["seconds"] > 60 * limit if word == "seconds" else song["year"] < year)

    out = [song for song in inside if unwanted(song)]
    scene.need((scene.level + 1) // 2 <= len(out) <= scene.level + 2 and len(out) < len(inside))
    name = row["name"]
    prompt = scene.rng.pick(
        (f"Remove {text} from my playlist '{name}'.", f"Take {text} out of the playlist '{name}', and nothing else.")
    )

    def solve(api: Solver) -> None:
        id = playlist_named(api, name)
        items = [item for item in api.pages("music_playlist", playlist_id=id) if unwanted(item)]
        api.rng.shuffle(items)
        for item in items:
            api.call("music_remove_song", playlist_id=id, song_id=item["song_id"])
        api.answer()

    return TaskDraft(prompt, solve, must=(changed(row, (song["id"] for song in inside if not unwanted(song))),))


@template("music", kind="action")
def music_reorder(scene: Scene) -> TaskDraft:
    """Put the longest song of a playlist first; from level 3 on also the shortest last."""
    row, inside = own_playlist(scene)
    ranked = sorted(inside, key=lambda song: -int(song["seconds"]))
    both, name = scene.level >= 3, row["name"]
    scene.need(ranked[0]["seconds"] > ranked[1]["seconds"] and ranked[-1]["seconds"] < ranked[-2]["seconds"])
    scene.need(inside[0] != ranked[0] and (not both or inside[-1] != ranked[-1]))
    rest = [song for song in inside if song != ranked[0] and not (both and song == ranked[-1])]
    wanted = [ranked[0], *rest, *([ranked[-1]] if both else [])]
    also = " and the shortest one the last" if both else ""
    prompt = scene.rng.pick(
        (
            f"Make the longest song in my playlist '{name}' the first one{also}. Keep the others in order.",
            f"In '{name}', the longest song should come first{also.replace(' one the last', ' last')}; the others stay "
            "in order.",
        )
    )

    def solve(api: Solver) -> None:
        id = playlist_named(api, name)
        items = sorted(api.pages("music_playlist", playlist_id=id), key=lambda item: -int(item["seconds"]))
        api.call("music_move_song", playlist_id=id, song_id=items[0]["song_id"], place=1)
        if both:
            api.call("music_move_song", playlist_id=id, song_id=items[-1]["song_id"], place=len(items))
        api.answer()

    return TaskDraft(prompt, solve, must=(changed(row, (song["id"] for song in wanted)),))


@template("music", kind="action")
def music_merge(scene: Scene) -> TaskDraft:
    """Add the missing songs of another playlist to a playlist, and delete the other."""
    row, inside = own_playlist(scene)
    others = scene.db.rows("SELECT * FROM playlists WHERE owner = ? AND id != ? ORDER BY id", me(scene), row["id"])
    there = {song["id"] for song in inside}
    found = [(other, [song for song in songs_in(scene, other) if song["id"] not in there]) for other in others]
    other, new = scene.pick([(other, new) for other, new in found if 1 <= len(new) <= scene.level + 5])
    names = (other["name"], row["name"])
    prompt = scene.rng.pick(
        (
            f"Merge my playlist '{names[0]}' into '{names[1]}': add the missing songs at the end, in the order they "
            f"have in '{names[0]}', and then delete '{names[0]}'.",
            f"I no longer need '{names[0]}'. Add its songs that are not in '{names[1]}' yet to the end of "
            f"'{names[1]}', keeping their order, and delete the playlist '{names[0]}'.",
        )
    )

    def solve(api: Solver) -> None:
        ids = {item["name"]: item["playlist_id"] for item in api.pages("music_list_playlists")}
        there = {item["song_id"] for item in api.pages("music_playlist", playlist_id=ids[names[1]])}
        for item in list(api.pages("music_playlist", playlist_id=ids[names[0]])):
            if item["song_id"] not in there:
                api.call("music_add_song", playlist_id=ids[names[1]], song_id=item["song_id"])
        api.call("music_delete_playlist", playlist_id=ids[names[0]])
        api.answer()

    must = (changed(row, (song["id"] for song in (*inside, *new))), deleted("playlists", other["id"], "deleted"))
    return TaskDraft(prompt, solve, must=must)


@template("music", kind="dialogue")
def music_playlist_agreed(scene: Scene) -> Dialogue:
    """Ask which playlist to make, propose it, accept another name, and create it."""
    artist, first, last = artist_of(scene), new_name(scene), new_name(scene)
    rows = liked(scene, "artist = ?", artist)
    seconds = sum(row["seconds"] for row in rows)
    scene.need(first != last and 2 <= len(rows) <= scene.level + 3)
    prompt = scene.rng.pick(
        (
            "I want a new playlist with all the songs by one artist that I like. Ask me which artist and what to call "
            "it. Before you create it, tell me its name, the artist and its length in seconds, and wait for my okay.",
            "Please create a playlist of my liked songs by an artist. Ask me which artist and what name. Then tell me "
            "the artist, the name and how many seconds it will last, and create it only when I agree.",
        )
    )
    slots = (Slot(("which artist", "who"), f"I mean {artist}."), Slot(("name", "call"), f"Call it {first}."))
    better = f"Hmm, I have a better name: call it {last}."
    talk = Talk(slots, (last, artist, str(seconds)), (first, artist, str(seconds)), better)

    def solve(api: Solver) -> None:
        api.say("Which artist is it, and what should I call the playlist?")
        items = liked_by(api, artist)
        about = f"with {len(items)} songs by {artist}, {sum(item['seconds'] for item in items)} seconds long"
        api.say(f"I will create the playlist '{first}' {about}. Is that okay?")
        api.say(f"Then I will create the playlist '{last}' {about}. Is that okay?")
        make_playlist(api, last, [item["song_id"] for item in items])
        api.answer()

    return Dialogue(prompt, solve, must=(made(scene, last, [row["id"] for row in rows]),), talk=talk)


TEMPLATES = (
    music_liked_to_playlist,
    music_fill_minutes,
    music_remove_songs,
    music_reorder,
    music_merge,
    music_playlist_agreed,
)
