"""Ways to break an apps environment: bounds of every text, objects without end, circles, and what was deleted before.

None may end an episode as a failure of the infrastructure: what exceeds a bound is answered, and the end is scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...tasks.apps.simulators.world import World
from ..messages import Action, ActionLike, ToolCall
from ..toolenv import ToolEnv

Call = tuple[str, Mapping[str, Any]]
Calls = Sequence[Call]
MANY = 320
"""Calls of an attack that goes on for long: 20 messages of as many calls as one may hold."""
LINE, BODY = "x" * 200, "y" * 5_000
"""Texts as long as calls take them."""
ODD = (
    "'; DROP TABLE messages; --", "%", "_%_", "\\", '"', "../../etc/passwd", "/", "C:\\a.txt", "a/b.txt", ".txt", "..",
    "<script>while(1);</script>.md", "\u202etxt.exe", "e" + "\u0301" * 190 + ".txt", "İ" * 190 + ".txt", "a\nb.txt",
    "a\0b.txt", "\ud800.txt", "\uffff.txt", "{0.__class__}.md", LINE[:196] + ".txt", "-rf", " ", "COM1.txt", "a.txt ",
)  # fmt: skip
"""Names, labels and queries that mean something elsewhere."""
MOMENTS = ("0001-01-01T00:00", "9999-12-31T23:59")
"""The first and the last minute that a calendar knows."""


def attacks_on(world: World, shown: Sequence[str]) -> dict[str, Sequence[ActionLike]]:
    """Ways to break an episode, by name.

    Args:
        world: the world of the episode at its start.
        shown: names of the apps that the task shows.
    """
    passwords = {row["app"]: row["password"] for row in world.db.rows("SELECT app, password FROM passwords")}
    logins = [(f"{app}_login", {"password": passwords[app]}) for app in shown if app in passwords]
    found: dict[str, Sequence[ActionLike]] = {}
    for app in shown:
        for name, calls in BY_APP[app](world).items() if app in BY_APP else ():
            whole = [(f"{app}_{call}", arguments) for call, arguments in calls]
            found[f"{app} {name}"] = messages([*logins, *whole])
    return found


def messages(calls: Iterable[Call]) -> list[ActionLike]:
    """Calls in as few messages as can hold them."""
    made = [ToolCall(name, arguments) for name, arguments in calls]
    most = ToolEnv.max_calls
    return [Action(tool_calls=tuple(made[begin : begin + most])) for begin in range(0, len(made), most)]


def _next(world: World, table: str) -> int:
    """The number that the next row of a table will have, so that an attack can name what it makes."""
    return int(world.db.value("SELECT seq FROM sqlite_sequence WHERE name = ?", table) or 0) + 1


def _mail(world: World) -> dict[str, Calls]:
    new, me = _next(world, "messages"), world.db.value("SELECT email FROM profile")
    crowd = [f"{'a' * 180}{number}@post.test" for number in range(20)]
    one: Call = ("send", {"to": [me], "subject": "s", "body": "b"})
    gone: list[Call] = [("move", {"message_id": new, "folder": "trash"}), ("delete", {"message_id": new})]
    after = ("read", "delete", "reply", "forward", "move", "mark", "label", "unlabel", "send_draft")
    return {
        "sends the largest messages": [("send", {"to": crowd, "subject": LINE, "body": BODY})] * MANY,
        "forwards what it has forwarded": [
            one, *(("forward", {"message_id": new + i, "to": [me], "note": BODY}) for i in range(MANY)),
        ],
        "answers its own answers": [one, *(("reply", {"message_id": new + i, "body": BODY}) for i in range(MANY))],
        "moves a message in a circle": [
            one, *(("move", {"message_id": new, "folder": folder}) for folder in ("archive", "trash", "inbox") * 60),
        ],
        "uses a message that it has deleted": [one, *gone, *gone]
        + [(call, {"message_id": new, "body": "", "to": [me], "folder": "inbox", "label": "x"}) for call in after],
        "uses a message with only what a call takes": [one, *gone]
        + [(call, {"message_id": new}) for call in ("read", "delete", "send_draft")],
        "sends a draft twice": [("save_draft", {"to": crowd, "subject": LINE, "body": BODY})]
        + [("send_draft", {"message_id": new})] * 2,
        "labels without end": [one, *(("label", {"message_id": new, "label": f"{i}"}) for i in range(MANY))],
        "gives odd labels": [
            one, *((call, {"message_id": new, "label": odd}) for odd in ODD for call in ("label", "unlabel")),
        ],
        "searches for odd words": [
            ("search", {name: odd}) for odd in ODD for name in ("words", "sender", "label", "since")
        ],
        "searches from one end of time to the other": [("search", dict(zip(("since", "until"), MOMENTS, strict=True)))],
    }  # fmt: skip


def _files(world: World) -> dict[str, Calls]:
    new, folder = _next(world, "files"), world.db.value("SELECT path FROM folders ORDER BY path")
    emails = [row["email"] for row in world.db.rows("SELECT email FROM contacts")]

    def written(name: str = "a.txt", content: str = "x") -> Call:
        return "write", {"folder": folder, "name": name, "content": content}

    renames: list[Call] = [("move", {"file_id": new, "name": f"{i % 2}.txt"}) for i in range(MANY)]
    back: list[Call] = [
        ("delete", {"file_id": new}),
        written(),
        ("restore", {"file_id": new}),
        ("delete", {"file_id": new + 1}),
    ]
    return {
        "fills the storage": [written(f"{i}.txt", "€" * 5_000) for i in range(MANY)],
        "writes odd names": [written(name) for name in ODD],
        "names odd folders": [("list_folder", {"folder": name}) for name in ODD]
        + [("search", {"folder": name, "name": name, "words": name}) for name in ODD],
        "copies copies": [written(content=BODY)]
        + [("copy", {"file_id": new + i, "folder": folder, "name": f"{i}.txt"}) for i in range(MANY)],
        "adds lines without end": [written(content="")] + [("append", {"file_id": new, "line": LINE})] * MANY,
        "adds lines that are none": [written()] + [("append", {"file_id": new, "line": odd}) for odd in ODD],
        "renames in a circle": [written(), *renames],
        "restores over a name that is taken": [written(), *back * 3, ("restore", {"file_id": new})],
        "deletes what is deleted": [written(), *[("delete", {"file_id": new})] * 3]
        + [(call, {"file_id": new}) for call in ("read", "details", "restore", "restore")],
        "shares with everybody, twice": [written()]
        + [(call, {"file_id": new, "email": one}) for one in emails for call in ("share", "share", "unshare")],
    }


def _calendar(world: World) -> dict[str, Calls]:
    new, (first, last) = _next(world, "events"), MOMENTS
    always = {"title": LINE, "starts_at": first, "ends_at": last, "place": LINE, "notes": BODY}
    made: Call = ("create", always)
    times = (
        "0000-01-01T00:00", "2024-02-30T10:00", "2024-01-01T24:00", "2024-W01-1T10:00", "2024-01-01T10:00:00.1",
        "2024-01-01T10:00Z", "20240101T1000", "10000-01-01T00:00", "٢٠٢٤-٠١-٠١T٠٠:٠٠", "2024-01-01T10:00\0",
    )  # fmt: skip
    gone: list[Call] = [("cancel", {"event_id": new}), ("delete", {"event_id": new})]
    return {
        "books all of time, again and again": [made] * MANY
        + [("overlaps", {"starts_at": first, "ends_at": last}), ("search", {"words": "x"})],
        "lists all of time": [("list_events", {"since": first[:10], "until": last[:10], "page": 1000})] * 3
        + [("list_events", {"since": first[:10], "until": last[:10]})],
        "names odd times": [("create", {**always, name: odd}) for odd in times for name in ("starts_at", "ends_at")],
        "invites without end": [made]
        + [("invite", {"event_id": new, "email": f"a{i}@post.test"}) for i in range(MANY)],
        "moves an event with guests to and fro": [("create", {**always, "guests": ["a@post.test", "b@post.test"]})]
        + [("update", {"event_id": new, "ends_at": end}) for end in (last, "9999-12-31T23:58") * 60],
        "uses an event that it has deleted": [
            made, *gone, *gone, ("get", {"event_id": new}), ("update", {"event_id": new, "title": "x"}),
            ("invite", {"event_id": new, "email": "a@post.test"}),
        ],
        "answers every invitation in every way": [
            ("respond", {"event_id": i, "response": how}) for i in range(1, 40) for how in ("yes", "no", "maybe")
        ],
    }  # fmt: skip


def _todo(world: World) -> dict[str, Calls]:
    lists, items = _next(world, "todo_lists"), _next(world, "todo_items")
    two: list[Call] = [("create_list", {"name": "a"}), ("create_list", {"name": "b"})]
    item: Call = ("add", {"list_id": lists, "title": LINE, "notes": BODY, "priority": "high", "due": "9999-12-31"})
    return {
        "adds items without end": [*two, *[item] * MANY, ("items", {"list_id": lists, "page": 1000})],
        "makes lists without end": [("create_list", {"name": f"{i}"}) for i in range(MANY)],
        "makes odd lists": [("create_list", {"name": odd}) for odd in ODD for _ in range(2)],
        "moves an item in a circle": [*two, item]
        + [("move", {"item_id": items, "list_id": lists + i % 2}) for i in range(1, MANY)],
        "does and undoes": [*two, item, *[(c, {"item_id": items}) for c in ("complete", "reopen")] * 100],
        "uses an item of a list that is gone": [
            *two, item, ("delete_list", {"list_id": lists}), ("delete", {"item_id": items}),
            ("delete_list", {"list_id": lists}), ("get", {"item_id": items}), item,
            ("move", {"item_id": items, "list_id": lists}), ("items", {"list_id": lists}),
        ],
    }  # fmt: skip


def _contacts(world: World) -> dict[str, Calls]:
    new = _next(world, "contacts")

    def added(i: int, name: str = LINE) -> Call:
        return "add", {"first_name": name, "last_name": name, "email": f"a{i}@post.test", "birthday": "0001-01-01"}

    return {
        "adds people without end": [added(i) for i in range(MANY)],
        "adds odd people": [added(i, odd) for i, odd in enumerate(ODD)] + [("search", {"name": odd}) for odd in ODD],
        "groups without end": [added(0)]
        + [("add_to_group", {"contact_id": new, "group": f"{i}"}) for i in range(MANY)]
        + [("list_groups", {})],
        "deletes everybody": [("delete", {"contact_id": i}) for i in range(1, MANY)],
        "takes the address of another": [added(0), added(1)]
        + [("update", {"contact_id": new + i % 2, "email": f"a{(i + 1) % 2}@post.test"}) for i in range(60)],
    }


def _wallet(world: World) -> dict[str, Calls]:
    new = _next(world, "money_requests")
    whom = world.db.value("SELECT email FROM wallet_members")
    amounts = (0.001, 0.015, 0.1 + 0.2, 1e-300, 5e-324, 100_000, 99_999.99, 33.333333, True, "1e3", "0x10", "٣", " 1 ")
    one: Call = ("request_money", {"person": whom, "amount": 0.01, "note": LINE})
    return {
        "pays cents without end": [("send_money", {"to": whom, "amount": 0.01, "note": LINE})] * MANY,
        "pays odd amounts": [("send_money", {"to": whom, "amount": amount}) for amount in amounts],
        "asks for money without end": [one] * MANY,
        "withdraws a request twice": [one, *[("withdraw_request", {"request_id": new})] * 2]
        + [(call, {"request_id": new}) for call in ("pay_request", "decline_request")],
        "pays and declines every request": [
            (f"{how}_request", {"request_id": i}) for i in range(1, 60) for how in ("pay", "decline", "pay")
        ],
        "moves its limit to and fro": [("set_limit", {"amount": amount}) for amount in (0.01, 100_000) * 60]
        + [("send_money", {"to": whom, "amount": 100_000})],
    }


def _shop(world: World) -> dict[str, Calls]:
    where: Call = ("add_address", {"label": LINE, "street": LINE, "city": LINE})
    addresses, orders = _next(world, "shop_addresses"), _next(world, "orders")
    pay: Call = ("checkout", {"address_id": addresses, "pay_with": "wallet"})
    fill: list[Call] = [("set_quantity", {"variant_id": i, "quantity": 50}) for i in range(1, 150)]
    return {
        "fills and empties its cart": [*fill, ("show_cart", {})]
        + [("set_quantity", {"variant_id": i, "quantity": 0}) for i in range(1, 150)],
        "orders all there is": [where, *fill, pay, pay],
        "orders and cancels in a circle": [where]
        + [("set_quantity", {"variant_id": 1, "quantity": 1}), pay, ("cancel_order", {"order_id": orders})] * 30
        + [("return_item", {"order_item_id": i}) for i in range(1, 60)],
        "pays with cards that are not there": [where]
        + [("checkout", {"address_id": a, "pay_with": "card", "card_id": c}) for a in (1, 10**9) for c in (1, 10**9)],
        "reviews everything, twice": [
            ("add_review", {"product_id": i % 60 + 1, "stars": 1, "text": BODY}) for i in range(120)
        ],
        "has addresses without end": [where] * MANY,
        "wishes and no longer wishes": [("set_wish", {"product_id": 1, "wished": i % 2 == 0}) for i in range(MANY)],
    }


def _music(world: World) -> dict[str, Calls]:
    new = _next(world, "playlists")
    made: Call = ("create_playlist", {"name": LINE})
    songs: list[Call] = [("add_song", {"playlist_id": new, "song_id": i}) for i in range(1, 100)]
    return {
        "makes playlists without end": [("create_playlist", {"name": f"{i}"}) for i in range(MANY)],
        "makes odd playlists": [("create_playlist", {"name": odd}) for odd in ODD],
        "turns a playlist over and over": [made, *songs]
        + [("move_song", {"playlist_id": new, "song_id": i % 99 + 1, "place": 1}) for i in range(MANY)],
        "adds to a playlist that is gone": [
            made, ("delete_playlist", {"playlist_id": new}), *songs[:3],
            ("rename_playlist", {"playlist_id": new, "name": "x"}), ("delete_playlist", {"playlist_id": new}),
        ],
        "queues without end": [("add_to_queue", {"song_id": i % 99 + 1, "first": True}) for i in range(MANY)]
        + [("clear_queue", {}), ("clear_queue", {})],
        "plays and likes without end": [
            (call, {"song_id": i}) for i in range(1, 80) for call in ("play", "like", "unlike", "like")
        ],
    }  # fmt: skip


def _account(world: World) -> dict[str, Calls]:
    return {"waits for weeks": [("wait", {"seconds": 3600})] * MANY}


BY_APP = {
    "account": _account, "mail": _mail, "files": _files, "calendar": _calendar, "todo": _todo, "contacts": _contacts,
    "wallet": _wallet, "shop": _shop, "music": _music,
}  # fmt: skip
"""For every app, what makes its attacks."""
