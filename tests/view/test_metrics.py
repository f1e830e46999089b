"""Metrics are read as they are appended, and what another file of the same name had is forgotten."""

from __future__ import annotations

from pathlib import Path

from turnwise.view.metrics import TAIL, MetricsFile, latest

from .fakes import line


class Counted(MetricsFile):
    """A file of metrics that counts the lines that it parses."""

    parsed = 0

    def add(self, line: bytes) -> None:
        self.parsed += 1
        super().add(line)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_the_list_reads_only_the_end_of_long_metrics(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("damaged\n" + "".join(line(step) for step in range(1, 1500)) + '{"step": 9')
    found = latest(path)
    assert path.stat().st_size > 2 * TAIL, "longer than what the list reads"
    assert (found.step, found.problem) == (1499, "")
    append(path, '999, "eval/success": 0.5}\n')
    for first in range(10_000, 11_500, 500):
        append(path, "".join(line(step) for step in range(first, first + 500)))
        found = latest(path)
    assert (found.step, found.numbers["eval/success"]) == (11_499, 0.5), "a value is kept when its line is far behind"
    assert latest(tmp_path / "none").step is None


def test_another_file_of_the_same_name_is_read_from_its_beginning(tmp_path: Path) -> None:
    path, other = tmp_path / "metrics.jsonl", tmp_path / "other.jsonl"
    path.write_text('{"step": 1e999}\n')
    assert latest(path).problem.startswith("metrics.jsonl, line 1"), "a step without a bound is damage, too"
    path.write_text("damaged\n" + line(1))  # in place: it has the inode of the other, and is longer
    assert latest(path).problem.startswith("metrics.jsonl, line 1: not a JSON object with a step: 'damaged'")
    path.write_text(line(2) + line(3, success=0.25))
    found = latest(path)
    assert (found.step, found.numbers["success"], found.problem) == (3, 0.25, "")
    path.write_text(line(2) + line(3, success=0.75) + line(4))
    assert latest(path).numbers["success"] == 0.2
    other.write_text('{"step": 1e999}\n')
    other.replace(path)
    assert "1e999" in latest(path).problem


def test_curves_of_another_file_with_the_same_beginning_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(line(1) + line(2) + line(3))
    found = MetricsFile(path)
    found.refresh()
    path.write_text(line(1) + line(2) + line(3, loss=0.5) + line(4))
    found.refresh()
    assert [point[:2] for point in found.series["loss"]][2:] == [(3, 0.5), (4, 0.2)]
    assert found.generation == 1, "points that a reader has are void"
    append(path, line(5))
    found.refresh()
    assert (found.generation, len(found.series["loss"])) == (1, 5)


def test_what_a_removed_file_had_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(line(7))
    found = MetricsFile(path)
    found.refresh()
    assert latest(path).step == 7
    path.unlink()
    found.refresh()
    assert (latest(path).step, latest(path).numbers) == (None, {})
    assert (found.series, found.step, found.generation) == ({}, None, 1)
    path.write_text(line(8) + line(9))
    found.refresh()
    assert (latest(path).step, found.step, found.generation) == (9, 9, 1)


def test_a_damaged_line_is_named_while_it_is_among_the_last_ones(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(line(step) for step in range(1500)))
    assert latest(path).problem == ""
    append(path, "damaged\n" + line(1500))
    assert "among its last lines" in latest(path).problem
    for first in range(1501, 2501, 500):
        append(path, "".join(line(step) for step in range(first, first + 500)))
        assert latest(path).step == first + 499
    assert latest(path).problem == ""


def test_a_look_reads_what_was_added_and_never_more_than_the_end(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(line(1))
    found = Counted(path, TAIL)
    assert (found.latest().step, found.parsed) == (1, 1)
    append(path, line(2))
    assert (found.latest().step, found.parsed) == (2, 2)
    assert (found.latest().step, found.parsed) == (2, 2)
    append(path, "".join(line(step) for step in range(3, 3000)))
    assert found.latest().step == 2999
    assert found.parsed < 2 + TAIL / len(line(1)), "after a long while, the lines before the end are left out"
