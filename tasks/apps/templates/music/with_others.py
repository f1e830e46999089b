"""Tasks of music with contacts, messages or files."""

from __future__ import annotations

from datetime import timedelta

from ....rows.expected import Text, inserted
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.mail.app import addresses
from ...simulators.mail.history import letter
from ..contacts.finding import email_of
from ..files.finding import files, someone
from ..plan import Solver
from .finding import Titles, artist_of, changed, liked, liked_by, own_playlist, playlist_named, song_named, songs


@template("music", "contacts", "mail", kind="action")
def music_mail_playlist(scene: Scene) -> TaskDraft:
    """Email the titles of a playlist to a contact; from level 3 on, only those of some years."""
    row, inside = own_playlist(scene)
    name, email = someone(scene)
    year = scene.rng.randint(1980, 2015) if scene.level >= 3 else 0
    chosen = [song for song in inside if song["year"] >= year]
    scene.need(len(chosen) >= 2 and (not year or len(chosen) < len(inside)))
    title = row["name"]
    which = f"all songs from {year} or later in" if year else "all songs in"
    prompt = scene.rng.pick(
        (
            f"Email {name} the titles of {which} my playlist '{title}', with the subject '{title}'.",
            f"{name} wants to know what I listen to. Send an email with the subject '{title}' that lists the titles "
            f"of {which} my playlist of that name.",
        )
    )

    def solve(api: Solver) -> None:
        items = api.pages("music_playlist", playlist_id=playlist_named(api, title))
        body = "\n".join(str(item["title"]) for item in items if item["year"] >= year)
        api.call("mail_send", to=[email_of(api, name)], subject=title, body=body)
        api.answer()

    sent = {"folder": "sent", "recipients": addresses([email]), "subject": Text(title)}
    titles = tuple(sorted({song["title"] for song in chosen}))  # of two artists one may sing the other's
    body = Titles(titles, tuple(sorted({song["title"] for song in songs(scene, "1")} - set(titles))))
    return TaskDraft(prompt, solve, must=(inserted("messages", "mailed", **sent, body=body),))


@template("music", "files", kind="action")
def music_list_into_file(scene: Scene) -> TaskDraft:
    """Write the titles of a playlist, or of an artist's liked songs ordered by length, into a new file."""
    folder, file = scene.row("SELECT path FROM folders")["path"], "songs.txt"
    scene.need(not files(scene, "name = ?", file))
    by_artist = scene.level >= 3
    (row, inside), artist = own_playlist(scene), artist_of(scene)
    rows = sorted(liked(scene, "artist = ?", artist), key=lambda song: int(song["seconds"])) if by_artist else inside
    scene.need(len(rows) >= 2 and (not by_artist or len({song["seconds"] for song in rows}) == len(rows)))
    name = row["name"]
    which = (
        f"all songs by {artist} that I like, from the shortest to the longest"
        if by_artist
        else f"the songs in my playlist '{name}', in that order"
    )
    prompt = (
        f"Create a text file '{file}' in the folder {folder} that contains only the titles of {which}, one per line."
    )

    def solve(api: Solver) -> None:
        if by_artist:
            items = sorted(liked_by(api, artist), key=lambda item: int(item["seconds"]))
        else:
            items = list(api.pages("music_playlist", playlist_id=playlist_named(api, name)))
        content = "\n".join(str(item["title"]) for item in items)
        api.call("files_write", folder=folder, name=file, content=content)
        api.answer()

    content = Text("\n".join(song["title"] for song in rows))
    return TaskDraft(prompt, solve, must=(inserted("files", "written", folder=folder, name=file, content=content),))


@template("music", "contacts", "mail", kind="action")
def music_wishes(scene: Scene) -> TaskDraft:
    """Add to a playlist the songs that a contact requests in a message."""
    row, inside = own_playlist(scene)
    name, email = someone(scene)
    free = [song for song in songs(scene, "1") if song not in inside]
    wanted = scene.rng.sample(free, min(1 + scene.level // 2 + scene.rng.randint(0, 1), len(free)))
    old = scene.rng.sample(inside, 1) if scene.level >= 2 else []
    lines = [f"{song['title']} - {song['artist']}" for song in (*wanted, *old)]
    subject = f"Songs for {row['name']}"
    at = (scene.cast.now - timedelta(hours=scene.rng.randint(2, 90))).isoformat(timespec="minutes")
    text = "\n".join(("I would love to hear these:", *lines))
    scene.add("messages", **letter(scene.cast, email, name.split()[0], subject, text, at))
    title = row["name"]
    prompt = scene.rng.pick(
        (
            f"{name} emailed me the songs that should be in my playlist '{title}'. Add those that are not in it yet to "
            "the end, in the order of the message.",
            f"Find the message in which {name} requests songs, and add them to the end of '{title}' in that order, "
            "except those that are already in it.",
        )
    )

    def solve(api: Solver) -> None:
        found = next(api.pages("mail_search", words="songs for", sender=email_of(api, name)))
        body = api.call("mail_read", message_id=found["message_id"])["body"]
        id = playlist_named(api, title)
        there = {(item["title"], item["artist"]) for item in api.pages("music_playlist", playlist_id=id)}
        for line in body.splitlines()[2:-1]:
            song, _, artist = line.partition(" - ")
            if (song, artist) not in there:
                api.call("music_add_song", playlist_id=id, song_id=song_named(api, song, artist))
        api.answer()

    return TaskDraft(prompt, solve, must=(changed(row, (song["id"] for song in (*inside, *wanted))),))


TEMPLATES = (music_mail_playlist, music_list_into_file, music_wishes)
