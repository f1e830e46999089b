"""The table of planted faults keeps fitting the sources; planting and removing leave a file as it was."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)


def test_every_fault_still_fits_its_file(bench: Any) -> None:
    wrong = []
    for fault in bench.FAULTS:
        count = (ROOT / fault.file).read_text().count(fault.old)
        if count != 1 or fault.old == fault.new:
            wrong.append(f"{fault.name}: its old text occurs {count} times in {fault.file}")
            continue
        compile(bench.planted_text((ROOT / fault.file).read_text(), fault), fault.file, "exec")
        wrong += [f"{fault.name}: there is no {path}" for path in fault.tests if not (ROOT / path).is_file()]
    assert not wrong, "update benchmarks/planted_faults_table.py:\n" + "\n".join(wrong)


def test_each_of_ten_places_has_two_faults(bench: Any) -> None:
    places = Counter(fault.place for fault in bench.FAULTS)
    assert len(places) == 10
    assert set(places.values()) == {2}, places
    assert len({fault.name for fault in bench.FAULTS}) == 20, "a name means one fault"


def test_a_fault_is_planted_only_where_its_text_is_clear_and_then_removed(bench: Any, tmp_path: Path) -> None:
    fault = bench.Fault("a place", "a-name", "file.py", "a + b", "a - b", ())
    (tmp_path / "file.py").write_text("c = a + b\n")
    with bench.planted(tmp_path, fault):
        assert (tmp_path / "file.py").read_text() == "c = a - b\n"
    assert (tmp_path / "file.py").read_text() == "c = a + b\n"
    for text, count in (("c = a\n", 0), ("c = a + b + a + b\n", 2)):
        with pytest.raises(ValueError, match=f"occurs {count} times"):
            bench.planted_text(text, fault)


def test_a_run_goes_on_with_what_was_caught_and_is_still_in_the_table(bench: Any, tmp_path: Path) -> None:
    first, second, third = bench.FAULTS[:3]
    kept = [
        bench.Result(first.place, first.name, bench.identity(first), ("tests/a.py::b",), False, 1.0),
        bench.Result(second.place, second.name, bench.identity(second), (), True, 1.0),
        bench.Result(third.place, third.name, "another text", ("tests/a.py::b",), False, 1.0),
    ]
    (tmp_path / "found.json").write_text(json.dumps([bench.asdict(each) for each in kept]))
    assert bench.stored(tmp_path / "found.json") == kept[:1], "an escaped or changed fault is tried again"


def test_a_fault_that_escapes_fails_the_command(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    escaping, flaky, caught = bench.FAULTS[:3]
    found = iter([(), (), (), ("tests/flaky.py::a",), ("tests/sound.py::b",), ("tests/flaky.py::a",)])
    runs: list[tuple[str, ...]] = []

    def failing(copy: Path, arguments: Sequence[str]) -> tuple[str, ...]:
        runs.append(tuple(arguments))
        return next(found)

    def copy_tree(target: Path) -> None:
        for fault in (escaping, flaky, caught):
            (target / fault.file).parent.mkdir(parents=True, exist_ok=True)
            (target / fault.file).write_text(fault.old)

    monkeypatch.setattr(bench, "failing", failing)
    monkeypatch.setattr(bench, "copy_tree", copy_tree)
    only = [word for fault in (escaping, flaky, caught) for word in ("--only", fault.name)]
    with pytest.raises(SystemExit) as end:
        bench.main([*only, "--json", str(tmp_path / "found.json")])
    assert end.value.code == 1
    assert runs[:3] == [escaping.tests, bench.CORE, (bench.ALONE,)], (
        "the whole core runs before a fault counts as escaped"
    )
    assert runs[-1] == ("--maxfail=0", "tests/flaky.py::a", "tests/sound.py::b"), "catching tests run without a fault"
    assert "1 of 3 faults are caught" in capsys.readouterr().out, "a test that fails anyway catches nothing"
    assert [each.fault for each in bench.stored(tmp_path / "found.json")] == [caught.name]
