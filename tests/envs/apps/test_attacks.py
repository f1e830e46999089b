"""An episode is scored whatever an agent does to its apps."""

from __future__ import annotations

from typing import cast

import pytest

import turnwise as tw
from turnwise.envs.apps.env import AppsEnv
from turnwise.tasks.rows.database import PAGES, Database, NoRoom
from turnwise.tasks.spec import Split

from ...shifts import sampled
from ..hostile import all_attempts, unscored


@pytest.fixture(scope="module")
def env() -> AppsEnv:
    """An episode in which every app is shown, with turns for the longest attempt."""
    env = cast(AppsEnv, tw.make("turnwise/Apps-v2", max_turns=60).unwrapped)
    env.reset(seed=3, options={"split": Split.CHALLENGE, "level": 3})
    return env


def test_some_attempts_are_scored(env: AppsEnv) -> None:
    tries = all_attempts(env)
    assert unscored(env, {name: tries[name] for name in sampled(sorted(tries), 24, key="apps attacks")}) == {}


@pytest.mark.shift
def test_every_attempt_is_scored(env: AppsEnv) -> None:
    assert len(env.attacks()) >= 50
    assert unscored(env, all_attempts(env)) == {}


def test_every_app_is_attacked(env: AppsEnv) -> None:
    assert env.work is not None
    assert {name.split()[0] for name in env.attacks()} == set(env.work.shown)


def test_rows_have_a_bound_and_what_does_not_fit_is_undone() -> None:
    db = Database()
    db.make("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT)")
    with db.whole():
        kept = db.insert("t", text="kept")
    with pytest.raises(NoRoom, match="507"):
        grown(db, kept)
    assert [row["text"] for row in db.fork().rows("SELECT * FROM t")] == ["kept"]
    assert [one.kind for one in db.changes()] == ["insert"]
    with db.whole():
        db.delete("t", kept)
    assert db.changes() == (), "the world goes on"


def grown(db: Database, kept: int) -> None:
    """Change a row, and write one that does not fit."""
    with db.whole():
        db.update("t", kept, text="changed")
        db.insert("t", text="x" * 4096 * PAGES)
