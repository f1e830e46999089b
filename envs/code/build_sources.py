"""Sources of a repair task set: a package with its tests, from a folder, an sdist or an installation, and pytest."""

from __future__ import annotations

import email
import email.message
import importlib.util
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path, PurePosixPath

from ...errors import UsageError
from ...tasks.code.repair.packages import files_below

TEST_FOLDERS = ("tests", "test")
RUNS_TESTS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
"""Distributions that tests need; all are pure Python."""
ARCHIVE = re.compile(r"(?P<name>[^/\\]+?)(-(?P<version>\d[^-/\\]*))?\.(tar(\.\w+)?|tgz|zip)$")
"""File name of an sdist, such as ``boltons-26.2.0.tar.gz``."""
LARGEST = 2 * 1024 * 1024
"""Largest size of a source or test data file, in bytes."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A package and its tests.

    Args:
        name: name of the package.
        version: version from the package's metadata, or empty.
        ``licence``: license from the metadata, or empty.
        files: contents of sources and tests by path; the package is at the top level.
    """

    name: str
    version: str
    licence: str
    files: Mapping[str, bytes]


def opened(package: str) -> Opened:
    """Read a folder, an sdist, or an installed package with its tests.

    Raises:
        UsageError: the path or name is unknown, or contains no package or no tests.
    """
    path = Path(package)
    if path.is_dir():
        files = {
            name: data for name, data in files_below(path).items() if not name.startswith((".", "build/", "dist/"))
        }
        found = _unpacked(files, path.name)
    elif path.is_file():
        found = _unpacked(_archived(path), path.name)
    elif package.isidentifier() and importlib.util.find_spec(package) is not None:
        found = _installed(package)
    else:
        raise UsageError(_missing(package))
    tests = [name for name in found.files if is_test(name)]
    if not tests:
        raise UsageError(f"{package} has no tests: none of its files is named test_*.py; an sdist often has them")
    return found


def _missing(package: str) -> str:
    """Say what is missing; pip can download a distribution, and neither a path nor an archive by its file name."""
    download = "pip download --no-deps --no-binary :all:"
    if (archive := ARCHIVE.search(package)) is not None:
        name, version = archive["name"], archive["version"]
        wanted = f"{name}=={version}" if version else name
        return f"there is no file {package}; check its path, or download an sdist with: {download} {wanted}"
    if "/" in package or package.startswith("."):
        return f"there is no file or folder {package}; name an sdist, a folder, or an installed package"
    return f"there is no folder, sdist or installed package {package!r}; get an sdist with: {download} {package}"


def is_test(path: str) -> bool:
    """Return whether a path names a file of tests."""
    name = PurePosixPath(path).name
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def suites_of(files: Mapping[str, bytes]) -> dict[str, tuple[str, ...]]:
    """Return the test files of each module that has its own, matched by name."""
    tests = [path for path in files if is_test(path)]
    modules = [
        path
        for path in files
        if path.endswith(".py") and not is_test(path) and not set(PurePosixPath(path).parts[:-1]) & set(TEST_FOLDERS)
    ]
    found: dict[str, list[str]] = {}
    for test in tests:
        about = PurePosixPath(test).stem.removeprefix("test_").removesuffix("_test")
        fitting = [
            path for path in modules if (stem := PurePosixPath(path).stem) == about or about.startswith(f"{stem}_")
        ]
        if fitting:
            best = max(fitting, key=lambda path: len(PurePosixPath(path).stem))
            found.setdefault(best, []).append(test)
    return {module: tuple(sorted(found[module])) for module in sorted(found)}


def libraries(more: Sequence[str] = ()) -> dict[str, bytes]:
    """Return the installed files of pytest and its dependencies, without compiled ones.

    Raises:
        UsageError: a distribution is not installed, or is not pure Python.
    """
    files: dict[str, bytes] = {}
    for name in (*RUNS_TESTS, *more):
        try:
            found = distribution(name)
        except PackageNotFoundError:
            raise UsageError(f"the tests need {name}, which is not installed: pip install {name}") from None
        for path in found.files or ():
            if path.suffix in (".so", ".pyd"):
                raise UsageError(f"{name} is not pure Python, so a task set cannot include it")
            if path.suffix == ".py" and ".." not in path.parts:
                files[path.as_posix()] = Path(str(found.locate_file(path))).read_bytes()
    return files


def _archived(path: Path) -> dict[str, bytes]:
    try:
        with tarfile.open(path) as archive:
            members = [member for member in archive if member.isreg() and member.size <= LARGEST]
            read = {member.name: archive.extractfile(member) for member in members}
            files = {name: reader.read() for name, reader in read.items() if reader is not None}
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UsageError(f"{path} is not a readable sdist: {error}") from None
    tops = {PurePosixPath(name).parts[0] for name in files}
    if len(tops) != 1 or any(".." in PurePosixPath(name).parts or name.startswith("/") for name in files):
        raise UsageError(f"{path} is not an sdist: its files are not all in one folder")
    return {"/".join(PurePosixPath(name).parts[1:]): data for name, data in files.items()}


def _unpacked(files: Mapping[str, bytes], called: str) -> Opened:
    flat = {name.removeprefix("src/"): data for name, data in files.items() if len(data) <= LARGEST}
    packages = sorted(
        {
            PurePosixPath(name).parts[0]
            for name in flat
            if len(PurePosixPath(name).parts) == 2 and name.endswith("/__init__.py")
        }
        - set(TEST_FOLDERS)
    )
    if not packages:
        raise UsageError(
            f"there is no package in {called}: it has no folder with an __init__.py at its top or below src/"
        )
    wanted = (*packages, *TEST_FOLDERS)
    kept = {name: data for name, data in flat.items() if PurePosixPath(name).parts[0] in wanted or _is_licence(name)}
    data = email.message_from_bytes(files.get("PKG-INFO", b""))
    return Opened(data.get("Name") or packages[0], data.get("Version") or "", _licence(data), kept)


def _installed(package: str) -> Opened:
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    if len(places) != 1:
        raise UsageError(f"{package} is not a package in a single folder")
    files = files_below(Path(places[0]))
    kept = {f"{package}/{name}": data for name, data in files.items() if len(data) <= LARGEST}
    names = packages_distributions().get(package, [])
    data: Distribution | None = distribution(names[0]) if names else None
    if data is None:
        return Opened(package, "", "", kept)
    return Opened(package, data.version, _licence(email.message_from_string(str(data.metadata))), kept)


def _licence(data: email.message.Message) -> str:
    """Return a short form of the license in a package's metadata."""
    classified = [line.rpartition("::")[2].strip() for line in data.get_all("Classifier", []) if "License" in line]
    said = data.get("License-Expression") or "; ".join(classified) or (data.get("License") or "").partition("\n")[0]
    return str(said)[:200]


def _is_licence(name: str) -> bool:
    return "/" not in name and name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE"))
