"""The image of this machine has its Python and tools, and no information about the machine or its users."""

from __future__ import annotations

import io
import stat
import tarfile
from pathlib import Path

import pytest

from turnwise.sandboxes.docker.image import Recipe, inside, place, read_recipe, write_archive


@pytest.fixture(scope="module")
def members() -> dict[str, tarfile.TarInfo]:
    with io.BytesIO() as archive:
        write_archive(read_recipe(), archive)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as opened:
            return {member.name: member for member in opened}


@pytest.mark.slow
def test_it_has_what_code_needs(members: dict[str, tarfile.TarInfo]) -> None:
    assert {"usr/bin/python3", "usr/bin/sh", "usr/bin/cat", "usr/bin/grep", "tmp", "proc"} <= set(members)
    assert any(name.endswith("/json/__init__.py") for name in members)
    assert any("libc.so" in name or "ld-linux" in name or "ld-musl" in name for name in members)


def test_nothing_in_it_gives_privileges_or_can_be_changed(members: dict[str, tarfile.TarInfo]) -> None:
    for name, member in members.items():
        assert not member.mode & (stat.S_ISUID | stat.S_ISGID), f"{name} would run as somebody else"
        assert (member.uid, member.gid) == (0, 0)
        assert member.isreg() or member.isdir() or member.issym()
        assert name == "tmp" or member.issym() or not member.mode & 0o022, f"{name} can be written by others"


def test_nothing_of_the_machine_is_in_it(members: dict[str, tarfile.TarInfo]) -> None:
    settings = {name for name in members if name.startswith("etc/")}
    assert settings == {"etc/passwd", "etc/group", "etc/nsswitch.conf"}
    assert not [name for name in members if "site-packages" in name or "dist-packages" in name]
    assert not [name for name in members if name.startswith("home/")]


def test_links_in_it_lead_to_what_is_in_it(members: dict[str, tarfile.TarInfo]) -> None:
    for name, member in members.items():
        if member.issym():
            assert member.linkname.lstrip("/") in members, f"{name} leads nowhere: {member.linkname}"


def test_its_digest_names_what_it_is_made_of() -> None:
    assert read_recipe().digest == read_recipe().digest
    assert len(read_recipe().digest) == 64


def test_a_file_that_changes_makes_another_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnwise.sandboxes.docker import image

    library = tmp_path / "library"
    library.mkdir()
    (library / "os.py").write_text("1")
    python = image.Interpreter(Path(image.find_python().executable), library)
    monkeypatch.setattr(image, "find_python", lambda: python)
    before = read_recipe().digest
    (library / "os.py").write_text("22")
    assert read_recipe().digest != before


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/bin/sh", "usr/bin/sh"),
        ("/usr/bin/sh", "usr/bin/sh"),
        ("/lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2"),
        ("/opt/python/bin/python3", "opt/python/bin/python3"),
    ],
)
def test_files_lie_where_programs_look_for_them(path: str, name: str) -> None:
    assert inside(Path(path)) == name


def test_a_tool_behind_a_link_keeps_both_names() -> None:
    files, links = dict[str, Path](), dict[str, str]()
    place("/usr/bin/awk", Path("/usr/bin/mawk"), files, links)
    assert files == {"usr/bin/mawk": Path("/usr/bin/mawk")}
    assert links == {"usr/bin/awk": "/usr/bin/mawk"}


def test_an_empty_recipe_is_still_a_file_system() -> None:
    archive = io.BytesIO()
    write_archive(Recipe({}, {}, "0" * 64), archive)
    archive.seek(0)
    with tarfile.open(fileobj=archive) as opened:
        assert {"bin", "etc/passwd", "usr/bin"} <= set(opened.getnames())
