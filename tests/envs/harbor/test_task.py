"""Task folders are read, or refused with one line that names the folder and the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.envs.harbor.config import TaskConfig, megabytes
from turnwise.envs.harbor.task import read_task, read_tasks
from turnwise.errors import TaskError

TOML = 'schema_version = "1.4"\n[task]\nname = "demo/sum"\n'


def written(folder: Path, toml: str = TOML, *, lacks: str = "") -> Path:
    """Write the folder of a task."""
    files = {
        "task.toml": toml,
        "instruction.md": "Add the numbers.\n",
        "environment/Dockerfile": "FROM demo\n",
        "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
        "solution/solve.sh": "true\n",
    }
    for name, text in files.items():
        if name != lacks:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder


def test_defaults_are_those_of_the_format(tmp_path: Path) -> None:
    task = read_task(written(tmp_path / "sum"))
    assert (task.name, task.instruction, task.has_solution) == ("demo/sum", "Add the numbers.", True)
    assert task.config.verifier.timeout_sec == 600
    assert task.config.environment.build_timeout_sec == 600
    assert task.config.networks == ("agent", "verifier"), "the format allows a network unless a task forbids it"
    assert not task.config.separate


def test_the_digest_covers_every_file(tmp_path: Path) -> None:
    folder = written(tmp_path / "sum")
    before = read_task(folder).digest
    assert read_task(folder).digest == before
    (folder / "tests" / "data.txt").write_text("3")
    assert read_task(folder).digest != before


@pytest.mark.parametrize(
    ("toml", "networks"),
    [
        ("[environment]\nallow_internet = false\n", ()),
        ('[environment]\nnetwork_mode = "no-network"\n', ()),
        ('[environment]\nnetwork_mode = "no-network"\n[agent]\nnetwork_mode = "allowlist"\n', ("agent",)),
        ('[environment]\nnetwork_mode = "no-network"\n[verifier]\nnetwork_mode = "public"\n', ("verifier",)),
        ("[environment]\nallow_internet = true\n[verifier.environment]\nallow_internet = false\n", ("agent",)),
    ],
)
def test_each_phase_has_its_network(tmp_path: Path, toml: str, networks: tuple[str, ...]) -> None:
    assert read_task(written(tmp_path, toml)).config.networks == networks


def test_a_verifier_environment_makes_the_verifier_separate(tmp_path: Path) -> None:
    toml = 'artifacts = ["/app/out.txt", {source = "/app/src", exclude = ["*.o"]}]\n[verifier.environment]\ncpus = 2\n'
    config = read_task(written(tmp_path, toml)).config
    assert config.separate
    assert [one.source for one in config.artifacts] == ["/app/out.txt", "/app/src"]
    assert config.artifacts[1].exclude == ("*.o",)


@pytest.mark.parametrize("lacks", ["task.toml", "instruction.md", "environment/Dockerfile", "tests/test.sh"])
def test_a_missing_file_is_named(tmp_path: Path, lacks: str) -> None:
    with pytest.raises(TaskError, match=Path(lacks).name) as raised:
        read_task(written(tmp_path / "sum", lacks=lacks))
    assert "\n" not in str(raised.value)
    assert str(tmp_path / "sum") in str(raised.value)


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("[agent", "not TOML"),
        ('version = "2.0"\n', "version 2.0"),
        ("[agent]\ntimeout_sec = -1\n", "agent.timeout_sec"),
        ("[verifier]\ntimeout_sec = nan\n", "verifier.timeout_sec"),
        ("[environment]\nmemory_mb = 'much'\n", "environment.memory_mb"),
        ("[environment]\nmemory = 'much'\n", "environment.memory_mb"),
        ('[environment]\nnetwork_mode = "some"\n', "environment.network_mode"),
        ("environment = 3\n", "environment"),
        ("[environment]\ngpus = 1\n", "GPU"),
        ('[environment]\nos = "windows"\n', "Linux"),
        ('[[steps]]\nname = "one"\n', "several steps"),
        ('[[environment.mcp_servers]]\nname = "x"\n', "MCP"),
        ('[environment.healthcheck]\ncommand = "true"\n', "healthcheck"),
        ('[[verifier.collect]]\ncommand = "true"\n', "collect"),
        ('[verifier.env]\nKEY = "${KEY}"\n', "variable KEY"),
        ('artifacts = ["/app/../etc"]\n', "'..'"),
        ('artifacts = ["out", "/logs/artifacts"]\n[verifier.environment]\n', "artifact /logs/artifacts is outside"),
        ('artifacts = ["/out"]\n[verifier.environment]\n[environment]\nworkdir = "/app"\n', "/out is outside"),
        ('[verifier]\nenvironment_mode = "shared"\n[verifier.environment]\ncpus = 1\n', "excludes"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(tmp_path: Path, toml: str, says: str) -> None:
    with pytest.raises(TaskError) as raised:
        read_task(written(tmp_path, toml))
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_compose_is_refused(tmp_path: Path) -> None:
    (written(tmp_path) / "environment" / "docker-compose.yaml").write_text("services: {}\n")
    with pytest.raises(TaskError, match="several containers"):
        read_task(tmp_path)


def test_a_folder_of_tasks_names_the_first_bad_ones_in_one_line(tmp_path: Path) -> None:
    for name in "abcdefg":
        written(tmp_path / name, lacks="" if name in "ac" else "instruction.md")
    with pytest.raises(TaskError) as raised:
        read_tasks(tmp_path)
    head, *shown, rest = str(raised.value).split("; ")[1:]
    assert str(raised.value).startswith("5 of 7")
    assert "\n" not in str(raised.value)
    assert "skip=true" in head
    assert [str(tmp_path / name) in text for name, text in zip("bde", (head, *shown), strict=True)] == [True] * 3
    assert rest == "and 2 more"
    assert [task.folder.name for task in read_tasks(tmp_path, skip=True)] == ["a", "c"]


def test_folders_without_tasks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"no task\.toml"):
        read_tasks(tmp_path)
    with pytest.raises(TaskError, match="no folder"):
        read_tasks(tmp_path / "missing")
    written(tmp_path / "bad", lacks="instruction.md")
    with pytest.raises(TaskError, match="1 of 1"):
        read_tasks(tmp_path, skip=True)


@given(st.integers(1, 10_000), st.sampled_from(["", "i"]), st.sampled_from(["", "B"]), st.booleans())
def test_sizes_with_units_are_read(number: int, binary: str, byte: str, lower: bool) -> None:
    unit = f"G{binary}{byte}" if binary == "" or byte else "G"
    text = f"{number}{unit.lower() if lower else unit}"
    assert megabytes(text) == number * 1024
    assert megabytes(text.replace("G", "M").replace("g", "m")) == number


KNOWN = st.dictionaries(
    st.sampled_from(["task", "agent", "verifier", "environment", "solution", "artifacts", "steps", "metadata", "new"]),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
        max_leaves=6,
    ),
)


@pytest.mark.slow
@given(KNOWN)
def test_any_table_is_read_or_refused_by_validation(table: dict[str, object]) -> None:
    try:
        config = TaskConfig.model_validate(table)
    except ValueError:
        return
    assert config.verifier.timeout_sec > 0
    assert set(config.networks) <= {"agent", "verifier"}


@pytest.mark.parametrize(
    ("dockerfile", "outside"),
    [
        ("FROM demo\nWORKDIR /app\n", True),
        ("FROM demo\nWORKDIR /out\n", False),
        ("FROM demo\nWORKDIR /app\nFROM demo\n", False),
        ("FROM demo\nWORKDIR $HOME\n", False),
        ("FROM demo\n", False),
    ],
)
def test_an_artifact_outside_of_the_workdir_is_refused_as_soon_as_that_is_known(
    dockerfile: str, outside: bool, tmp_path: Path
) -> None:
    folder = written(tmp_path / "sum", 'artifacts = ["/out/a.txt"]\n[verifier.environment]\n')
    (folder / "environment" / "Dockerfile").write_text(dockerfile)
    if outside:
        with pytest.raises(TaskError, match=r"/out/a\.txt is outside"):
            read_task(folder)
    else:
        assert read_task(folder).config.separate
