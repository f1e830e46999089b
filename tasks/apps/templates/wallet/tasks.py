"""Tasks of the wallet: transactions and payments, some of them with contacts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ....rows.database import Row
from ....rows.expected import Number, Refusal, Text, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.wallet import ledger
from ...simulators.wallet.history import note, some
from ..contacts.finding import email_of, full_name
from ..plan import Solver
from .expect import sent
from .requests import TEMPLATES as REQUESTS
from .speak import month_name, months, said, span, total, whole


@template("wallet", "contacts", kind="question")
def wallet_sent_to(scene: Scene) -> TaskDraft:
    """Ask for the total sent to one contact, or to two."""
    count = 2 if scene.level >= 4 else 1
    since = scene.cast.day(-scene.rng.randint(20, 130)) if scene.level > 1 else ""
    given = "SELECT party FROM transactions WHERE kind = 'sent' AND created_at >= ?"
    rows = [scene.row(f"SELECT * FROM contacts WHERE email IN ({given}) ORDER BY id", since) for _ in range(count)]
    moves = [
        scene.db.rows(
            "SELECT amount FROM transactions WHERE kind = 'sent' AND party = ? AND created_at >= ?", row["email"], since
        )
        for row in rows
    ]
    scene.need(len({row["id"] for row in rows}) == count and all(moves) and sum(map(len, moves)) > 1)
    names = [full_name(row) for row in rows]
    who = " and ".join(names) + (" together" if count == 2 else "")
    when = f" since {since} (inclusive)" if since else ""
    prompt = scene.rng.pick(
        (
            f"How much money have I sent to {who} with my wallet{when}?",
            f"Add up what I have sent to {who} from my wallet{when}.",
            f"What is the total of all payments from my wallet to {who}{when}?",
        )
    )

    def solve(api: Solver) -> None:
        conditions = {"since": since} if since else {}
        found = 0
        for name in names:
            found -= total(
                list(api.pages("wallet_list_transactions", kind="sent", party=email_of(api, name), **conditions))
            )
        api.answer(found / 100)

    return TaskDraft(prompt, solve, answer=Number(-sum(move["amount"] for each in moves for move in each) / 100))


@template("wallet", kind="question")
def wallet_top_giver(scene: Scene) -> TaskDraft:
    """Ask from whom the most money came."""
    day = scene.cast.day(-scene.rng.randint(30, 140))
    each = scene.level == 1
    measure = "max(amount)" if each else "sum(amount)"
    rows = scene.db.rows(
        f"""SELECT party, {measure} AS much FROM transactions WHERE kind = 'received' AND created_at >= ?
            GROUP BY party ORDER BY much DESC""",
        day,
    )
    scene.need(len(rows) > 2 and rows[0]["much"] > rows[1]["much"])
    what = "made the largest single payment to me" if each else "sent me the most money in total"
    prompt = scene.rng.pick(
        (
            f"Who {what} since {day} (inclusive)? Give me the email address.",
            f"Check my wallet: who {what} since {day} (inclusive)? I need the email address.",
        )
    )

    def solve(api: Solver) -> None:
        found: Counter[str] = Counter()
        for item in api.pages("wallet_list_transactions", kind="received", since=day):
            much, party = whole(item["amount"]), item["party"]
            found[party] = max(found[party], much) if each else found[party] + much
        api.answer(found.most_common(1)[0][0])

    return TaskDraft(prompt, solve, answer=Text(rows[0]["party"]), secrets=(rows[0]["party"],))


@template("wallet", kind="question")
def wallet_balance_then(scene: Scene) -> TaskDraft:
    """Ask for the balance at the end of a day."""
    days = scene.rng.randint(4, 12 + 18 * scene.level)
    day, next_day = scene.cast.day(-days), scene.cast.day(-days + 1)
    since = scene.db.rows("SELECT amount FROM transactions WHERE created_at >= ?", next_day)
    scene.need(len(since) > 1)
    then = ledger.balance(scene.db) - sum(row["amount"] for row in since)
    prompt = scene.rng.pick(
        (
            f"What was the balance of my wallet at the end of {day}?",
            f"How much money was in my wallet at the end of {day}? Work it out from the transactions since then.",
        )
    )

    def solve(api: Solver) -> None:
        now = api.call("wallet_balance")["balance"]
        after = list(api.pages("wallet_list_transactions", since=next_day))
        api.answer((whole(now) - total(after)) / 100)

    return TaskDraft(prompt, solve, answer=Number(then / 100))


def _errand(scene: Scene) -> tuple[Row, str, str]:
    """Draw a recipient of money, a phrase for the recipient, and the purpose."""
    row = scene.row("SELECT * FROM contacts")
    who = full_name(row)
    if scene.level >= 3:
        alike = "SELECT count(*) FROM contacts WHERE first_name = ? AND city = ? AND relation = ?"
        scene.need(scene.db.value(alike, row["first_name"], row["city"], row["relation"]) == 1)
        kin = {"friend": "my friend", "family": "my relative", "colleague": "my colleague", "other": ""}
        who = f"{row['first_name']} ({kin[row['relation']]} who lives in {row['city']})".replace("( ", "(")
    return row, who, note(scene.cast, scene.rng)


def _wanted(scene: Scene, who: str, amount: int, text: str) -> str:
    """Return the prompt, which is the same whether the payment is possible or not."""
    unless = (
        "If my balance is too low, send nothing and refuse with the balance as evidence. If only the wallet's monthly"
        " limit prevents the payment, refuse with the amount left this month as evidence. Do not change the limit."
    )
    asked = scene.rng.pick(
        (
            f"Send {said(amount)} from my wallet to {who} with the note '{text}'.",
            f"I owe {who} {said(amount)}. Pay that with my wallet; the note is '{text}'.",
            f"Pay {said(amount)} to {who} with my wallet, and put '{text}' in the note.",
        )
    )
    return f"{asked} {unless}"


def _finding(scene: Scene, row: Row) -> Callable[[Solver], str]:
    """Return a function that finds the recipient's email address, for solutions."""
    name, level = full_name(row), scene.level

    def find(api: Solver) -> str:
        if level < 3:
            return email_of(api, name)
        conditions = {"name": row["first_name"], "city": row["city"], "relation": row["relation"]}
        items = list(api.pages("contacts_search", **conditions))
        return str(next(item["email"] for item in items if item["name"].split(" ")[0] == row["first_name"]))

    return find


@template("wallet", "contacts", kind="action")
def wallet_send(scene: Scene) -> TaskDraft:
    """Send money to a contact."""
    row, who, text = _errand(scene)
    most = min(ledger.balance(scene.db), ledger.left(scene.db, scene.cast.now))
    amount = some(scene.rng, 250)
    scene.need(amount <= most)
    find = _finding(scene, row)

    def solve(api: Solver) -> None:
        email = find(api)
        if api.rng.random() < 0.5:
            api.call("wallet_balance")
        api.call("wallet_send_money", to=email, amount=amount / 100, note=text)
        api.answer()

    return TaskDraft(_wanted(scene, who, amount, text), solve, must=sent(scene.db, row["email"], amount, text))


@template("wallet", "contacts", kind="refusal")
def wallet_balance_too_small(scene: Scene) -> TaskDraft:
    """Refuse to send more money than the balance."""
    _, who, text = _errand(scene)
    there = ledger.balance(scene.db)
    amount = some(scene.rng, there // 100 + 200)
    scene.need(amount > there)

    def solve(api: Solver) -> None:
        balance = api.call("wallet_balance")["balance"]
        if api.rng.random() < 0.5:
            api.call("wallet_get_limit")
        api.refuse("not_possible", balance)

    refusal = Refusal("not_possible", Number(there / 100))
    return TaskDraft(_wanted(scene, who, amount, text), solve, refusal=refusal, secrets=(said(there),))


@template("wallet", "contacts", kind="refusal")
def wallet_over_limit(scene: Scene) -> TaskDraft:
    """Refuse to send more than the monthly limit allows."""
    _, who, text = _errand(scene)
    there, left = ledger.balance(scene.db), ledger.left(scene.db, scene.cast.now)
    amount = some(scene.rng, there // 100 + 5)
    scene.need(0 < left < amount <= there)

    def solve(api: Solver) -> None:
        if api.rng.random() < 0.5:
            api.call("wallet_balance")
        api.refuse("not_possible", api.call("wallet_get_limit")["left_this_month"])

    refusal = Refusal("not_possible", Number(left / 100))
    return TaskDraft(_wanted(scene, who, amount, text), solve, refusal=refusal, secrets=(said(left),))


@template("wallet", "contacts", kind="question", held_out=True)
def wallet_net_with(scene: Scene) -> TaskDraft:
    """Ask for the money received from a contact minus the money sent there."""
    row = scene.row("SELECT * FROM contacts")
    since = scene.cast.day(-scene.rng.randint(30, 140)) if scene.level > 2 else ""
    moves = scene.db.rows(
        "SELECT kind, amount FROM transactions WHERE party = ? AND created_at >= ?", row["email"], since
    )
    scene.need(len({move["kind"] for move in moves}) == 2)
    name, when = full_name(row), f" since {since} (inclusive)" if since else ""
    prompt = (
        f"Compare what {name} has sent me by wallet with what I have sent to {name}{when}. How much more did I receive"
        " than I sent? Give me a negative number if I sent more."
    )

    def solve(api: Solver) -> None:
        conditions = {"since": since} if since else {}
        found = total(list(api.pages("wallet_list_transactions", party=email_of(api, name), **conditions)))
        api.answer(found / 100)

    return TaskDraft(prompt, solve, answer=Number(sum(move["amount"] for move in moves) / 100))


@template("wallet", kind="action", held_out=True)
def wallet_limit_by_month(scene: Scene) -> TaskDraft:
    """Set the limit to the spending of a month, rounded up."""
    month = scene.pick(months(scene.cast.now, min(4, scene.level + 1)))
    step = scene.rng.pick((1_000, 5_000, 10_000))
    rows = scene.db.rows(
        "SELECT amount FROM transactions WHERE kind IN ('sent', 'purchase') AND substr(created_at, 1, 7) = ?", month
    )
    limit = -(sum(row["amount"] for row in rows) // step) * step
    scene.need(len(rows) > 1 and limit != ledger.limit(scene.db))
    prompt = (
        f"Add up what I sent to people and spent on purchases with my wallet in {month_name(month)} (ignore refunds),"
        f" round the sum up to the next multiple of {step // 100}, and make that my monthly limit."
    )

    def solve(api: Solver) -> None:
        kinds = ["sent", "purchase"]
        api.rng.shuffle(kinds)
        out = 0
        for kind in kinds:
            out -= total(list(api.pages("wallet_list_transactions", kind=kind, **span(month))))
        api.call("wallet_set_limit", amount=-(-out // step) * step / 100)
        api.answer()

    return TaskDraft(prompt, solve, must=(updated("wallets", ledger.WALLET, "limit", monthly_limit=limit),))


TEMPLATES = (
    wallet_sent_to,
    wallet_top_giver,
    wallet_balance_then,
    wallet_send,
    wallet_balance_too_small,
    wallet_over_limit,
    wallet_net_with,
    wallet_limit_by_month,
    *REQUESTS,
)
