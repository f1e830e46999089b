"""``scripts/serve``: prints its URL, ends on request, and complains in one line."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .test_launch import Bench, eventually

MODULE = "turnwise.inference.serving.launch.serve"


@contextmanager
def serving(*words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", MODULE, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def words(bench: Bench, mode: str) -> list[str]:
    environment = f'environment={{MODE="{mode}", NOTES="{bench.notes}"}}'
    return [str(bench.folder / "model"), f"python={bench.python}", environment, "name=mine"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_and_ends_when_told_to(tmp_path: Path, kind: signal.Signals) -> None:
    bench = Bench(tmp_path)
    with serving(*words(bench, "well")) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert f"as 'mine' at http://127.0.0.1:{bench.started()[0][2]}" in said
        process.send_signal(kind)
        assert process.wait(240) == 0
    assert eventually(bench.all_gone)


@pytest.mark.slow
def test_it_fails_when_the_server_does(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with serving(*words(bench, "dies")) as process:
        _, complaint = process.communicate(timeout=240)
    assert process.returncode == 1
    assert "head_dim 7" in complaint
    assert "Traceback" not in complaint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "said"), [([], "name the folder"), (["/nowhere"], "config.json"), (["/nowhere", "colour=blue"], "colour")]
)
def test_wrong_input_is_one_line(given: list[str], said: str) -> None:
    with serving(*given) as process:
        _, complaint = process.communicate(timeout=240)
    assert process.returncode == 2
    assert said in complaint
    assert len(complaint.splitlines()) == 1
