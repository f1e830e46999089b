"""Simulators with their data files: tables in SQL, labels and texts in TOML."""

from __future__ import annotations

import re

import pytest

from turnwise.tasks.apps.simulators.catalogue import APPS
from turnwise.tasks.rows.data import lists_beside, text_beside
from turnwise.tasks.rows.database import Database
from turnwise.tasks.rows.simulator import Simulator
from turnwise.tasks.web.simulators.catalogue import SITES


@pytest.mark.parametrize("simulator", [*APPS, *SITES], ids=lambda one: one.__name__)
def test_every_table_numbers_its_rows(simulator: type[Simulator]) -> None:
    db = Database()
    db.make(simulator.schema())
    assert db.tables, "a simulator has tables"
    for table in db.tables:
        sql = db.value("SELECT sql FROM sqlite_master WHERE name = ?", table)
        assert re.match(rf"CREATE TABLE {table} \(id INTEGER PRIMARY KEY AUTOINCREMENT,", sql), table
    unknown = {*simulator.idle, *simulator.keys} - set(db.tables)
    assert not unknown, f"idle and keys name tables of the simulator: {unknown}"


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.name)
def test_labels_have_variants_that_differ(site: type[Simulator]) -> None:
    for label, variants in lists_beside(site.__module__, "labels.toml").items():
        assert variants, label
        assert len(set(variants)) == len(variants), f"{label} has a variant twice: {variants}"
        assert all(isinstance(one, str) and one for one in variants), label


def test_a_missing_data_file_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"labels\.toml"):
        text_beside(APPS[0].__module__, "labels.toml")
