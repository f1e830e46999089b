"""Tasks of requests for money, by calls or in messages."""

from __future__ import annotations

from ....rows.database import Row
from ....rows.expected import Number, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.app import later
from ...simulators.mail.history import letter
from ...simulators.wallet import ledger
from ...simulators.wallet.history import some
from ..contacts.finding import email_of, full_name
from ..plan import Solver
from .expect import paid, requested, sent
from .speak import said, total, whole

SHARE = "your share is "


@template("wallet", kind="mixed")
def wallet_pay_small(scene: Scene) -> TaskDraft:
    """Pay the requests below an amount."""
    most = scene.rng.randint(20, 40 + 30 * scene.level) * 50
    rows = _open(scene, "received", "AND amount < ?", most)
    due = sum(row["amount"] for row in rows)
    scene.need(1 <= len(rows) <= scene.level + 2 and due <= ledger.balance(scene.db))
    scene.need(due <= ledger.left(scene.db, scene.cast.now))
    prompt = scene.rng.pick(
        (
            f"Pay all open requests that ask me for less than {said(most)}, and tell me how much that costs in total.",
            f"Some people have requested money from me by wallet. Pay each open request below {said(most)} and leave"
            " the others. How much was it in total?",
        )
    )

    def solve(api: Solver) -> None:
        found = [item for item in api.pages("wallet_list_requests", direction="received") if _below(item, most)]
        api.rng.shuffle(found)
        for item in found:
            api.call("wallet_pay_request", request_id=item["request_id"])
        api.answer(total(found) / 100)

    return TaskDraft(prompt, solve, must=paid(scene.db, *(row["id"] for row in rows)), answer=Number(due / 100))


@template("wallet", "contacts", kind="action")
def wallet_decline_from(scene: Scene) -> TaskDraft:
    """Decline the requests from a company or, at lower levels, from a contact."""
    rows = _open(scene, "received")
    one = scene.row("SELECT * FROM contacts WHERE email = ?", scene.pick(rows)["person"])
    if scene.level < 3:
        emails, who = {one["email"]}, full_name(one)
    else:
        others = scene.db.rows("SELECT email FROM contacts WHERE company = ?", one["company"])
        emails, who = {row["email"] for row in others}, f"people who work for {one['company']}"
    wanted = [row for row in rows if row["person"] in emails]
    scene.need(len(wanted) < len(rows))
    prompt = scene.rng.pick(
        (
            f"Decline every open request for money that I received from {who}.",
            f"I don't want to pay any money to {who}. Decline all their open requests.",
        )
    )

    def solve(api: Solver) -> None:
        if scene.level < 3:
            known = {email_of(api, who)}
        else:
            known = {item["email"] for item in api.pages("contacts_search", company=one["company"])}
        for item in list(api.pages("wallet_list_requests", direction="received")):
            if item["person"] in known:
                api.call("wallet_decline_request", request_id=item["request_id"])
        api.answer()

    must = tuple(updated("money_requests", row["id"], f"declined {row['id']}", status="declined") for row in wanted)
    return TaskDraft(prompt, solve, must=must)


@template("wallet", kind="mixed")
def wallet_withdraw_old(scene: Scene) -> TaskDraft:
    """Cancel the user's own requests that have been open for a long time."""
    day = scene.cast.day(-scene.rng.randint(20, 120))
    rows = _open(scene, "sent", "AND created_at < ?", day)
    scene.need(1 <= len(rows) <= scene.level + 2)
    prompt = scene.rng.pick(
        (
            f"Withdraw all my requests for money that are still open and were made before {day}. How much money do I"
            " give up in total?",
            f"Withdraw the open requests that I sent before {day}, and tell me what they add up to.",
        )
    )

    def solve(api: Solver) -> None:
        items = list(api.pages("wallet_list_requests", direction="sent"))
        found = [item for item in items if item["at"] < day]
        for item in found:
            api.call("wallet_withdraw_request", request_id=item["request_id"])
        api.answer(total(found) / 100)

    must = tuple(updated("money_requests", row["id"], f"withdrawn {row['id']}", status="withdrawn") for row in rows)
    return TaskDraft(prompt, solve, must=must, answer=Number(sum(row["amount"] for row in rows) / 100))


@template("wallet", "contacts", kind="action")
def wallet_split_bill(scene: Scene) -> TaskDraft:
    """Request from a group their shares of a bill."""
    group = scene.row("SELECT DISTINCT name FROM groups ORDER BY name")["name"]
    people = scene.db.rows(
        "SELECT contacts.* FROM contacts JOIN groups ON contact_id = contacts.id WHERE name = ? ORDER BY contacts.id",
        group,
    )
    scene.need(2 <= len(people) <= 2 + 2 * scene.level)
    share, topic = some(scene.rng, 40), scene.pick(scene.cast.words["topic"])
    bill = share * (len(people) + 1)
    gone = scene.pick(people) if scene.level >= 3 else None
    asked = [row for row in people if row is not gone]
    prompt = scene.rng.pick(
        (
            f"I paid {said(bill)} for the {topic} of the group '{group}'. All members of the group and I share the"
            f" cost equally. Request each member's share by wallet, with the note '{topic}'.",
            f"The {topic} of my group '{group}' cost {said(bill)}, and I paid for it. Split it equally between the"
            f" members and me, and send everyone a request for their share; the note is '{topic}'.",
        )
    )
    if gone:
        prompt += f" {full_name(gone)} has already paid me in cash, so don't request anything from them."

    def solve(api: Solver) -> None:
        items = list(api.pages("contacts_list_group", group=group))
        part = bill / 100 / (len(items) + 1)
        api.rng.shuffle(items)
        for item in items:
            if gone is None or item["name"] != full_name(gone):
                api.call("wallet_request_money", person=item["email"], amount=round(part, 2), note=topic)
        api.answer()

    return TaskDraft(prompt, solve, must=tuple(requested(row["email"], share, topic) for row in asked))


@template("wallet", "mail", "contacts", kind="action")
def wallet_pay_from_mail(scene: Scene) -> TaskDraft:
    """Pay what a message asks for; a later message may correct the amount."""
    row, topic = scene.row("SELECT * FROM contacts"), scene.pick(scene.cast.words["topic"])
    before = "SELECT count(*) FROM messages WHERE sender = ? AND instr(lower(subject || body), ?)"
    scene.need(scene.db.value(before, row["email"], topic) == 0)
    first, second = some(scene.rng, 120), some(scene.rng, 120)
    corrected = scene.level >= 3 and scene.rng.random() < 0.7
    due = second if corrected else first
    scene.need(first != second and due <= min(ledger.balance(scene.db), ledger.left(scene.db, scene.cast.now)))
    _message(scene, row, f"I have paid for the {topic}: {SHARE}{said(first)}.", f"The {topic}", 30)
    if corrected:
        text = f"I miscalculated the cost of the {topic}: {SHARE}{said(second)}, not {said(first)}. Sorry!"
        _message(scene, row, text, f"Re: The {topic}", 3)
    name = full_name(row)
    prompt = scene.rng.pick(
        (
            f"{name} emailed me my share of the cost of the {topic}. Pay it with my wallet.",
            f"I owe {name} money for the {topic}; the amount is in an email. Please send it by wallet.",
            f"Look up in my email how much {name} wants from me for the {topic}, and send that with my wallet.",
        )
    )
    if scene.level >= 3:
        prompt += " If there are several messages about it, the newest one counts."

    def solve(api: Solver) -> None:
        email = email_of(api, name)
        found = next(api.pages("mail_search", sender=email, words=topic))
        body = api.call("mail_read", message_id=found["message_id"])["body"]
        amount = float(body.split(SHARE)[1].split(" ")[0].split("\n")[0].rstrip(".,"))
        api.call("wallet_send_money", to=email, amount=amount, **({"note": topic} if api.rng.random() < 0.5 else {}))
        api.answer()

    return TaskDraft(prompt, solve, must=sent(scene.db, row["email"], due), secrets=(said(due),))


def _open(scene: Scene, direction: str, more: str = "", *values: object) -> list[Row]:
    sql = f"SELECT * FROM money_requests WHERE direction = ? AND status = 'open' {more} ORDER BY id"
    return scene.db.rows(sql, direction, *values)


def _below(item: Row, most: int) -> bool:
    return whole(item["amount"]) < most


def _message(scene: Scene, row: Row, text: str, subject: str, hours: int) -> None:
    """Insert a message of a contact into the inbox."""
    at = later(scene.cast.now, hours=-hours)
    scene.add("messages", **letter(scene.cast, row["email"], row["first_name"], subject, text, at))


TEMPLATES = (wallet_pay_small, wallet_decline_from, wallet_withdraw_old, wallet_split_bill, wallet_pay_from_mail)
