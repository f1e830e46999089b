"""WordNet 3.0 as pages, one for each meaning, from the system package ``wordnet-base``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ....errors import TaskError, UsageError
from ..document import Document

USUAL = (Path("/usr/share/wordnet"), Path("/usr/local/share/wordnet"), Path("/usr/share/wordnet/dict"))
KINDS = {"noun": "noun", "verb": "verb", "adj": "adjective", "adv": "adverb"}
FILES = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}
RELATIONS = {
    "@": "Kind of",
    "@i": "Instance of",
    "#m": "Member of",
    "#s": "Substance of",
    "#p": "Part of",
    "%m": "Members",
    "%s": "Substances",
    "%p": "Parts",
    "=": "Attribute",
    "!": "Opposite",
    "*": "Entails",
    ">": "Causes",
    "&": "Similar to",
    "^": "See also",
    "\\": "Pertains to",
    "+": "Related form",
    ";c": "Topic",
    ";r": "Region",
    ";u": "Usage",
}
"""Pointers to include. Hyponyms are not included, since they are the reverse of ``@`` and would fill pages."""


def read_wordnet(folder: Path | None = None) -> Iterator[Document]:
    """Yield each synset: its words as the title, its gloss and relations as the text, and an id such as ``n00001740``.

    Args:
        folder: folder with ``data.noun``; omitted, that of the system package.

    Raises:
        UsageError: the folder or a file is missing.
        TaskError: a line cannot be parsed.
    """
    where = _found(folder)
    words = {
        kind: {place: synset for place, synset, _ in _synsets(where / f"data.{kind}")} for kind in KINDS
    }  # all titles first, since relations point anywhere
    for kind, said in KINDS.items():
        for place, names, line in _synsets(where / f"data.{kind}"):
            fields, _, gloss = line.partition(" | ")
            lines = [f"{said}: {gloss.strip()}", *_relations(fields.split(), words)]
            yield Document(f"{kind[0] if kind != 'adv' else 'r'}{place}", names, "\n".join(lines))


def _relations(fields: Sequence[str], words: dict[str, dict[str, str]]) -> Iterator[str]:
    start = 4 + 2 * int(fields[3], 16)
    related: dict[str, list[str]] = {}
    for at in range(start + 1, start + 1 + 4 * int(fields[start]), 4):
        sign, place, kind = fields[at : at + 3]
        if sign in RELATIONS:
            other = words[FILES[kind]].get(place)
            if other is not None and other not in related.setdefault(RELATIONS[sign], []):
                related[RELATIONS[sign]].append(other)
    for name, others in related.items():
        yield f"{name}: {'; '.join(others)}"


def _synsets(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the offset, words and line of each synset in a file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if line.startswith(" "):  # the license
                    continue
                fields = line.split()
                try:
                    count = int(fields[3], 16)
                    names = [fields[4 + 2 * at].split("(")[0].replace("_", " ") for at in range(count)]
                except (IndexError, ValueError):
                    raise TaskError(f"{path}:{number} is not a line of WordNet 3.0: {line[:60]!r}") from None
                yield fields[0], ", ".join(names), line
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def _found(folder: Path | None) -> Path:
    for place in USUAL if folder is None else (folder, folder / "usr/share/wordnet", folder / "dict"):
        if (place / "data.noun").is_file():
            return place
    if folder is not None:
        raise UsageError(f"there is no data.noun in {folder}; --from names the folder of WordNet's data files")
    raise UsageError("WordNet is not installed: apt-get install wordnet-base, or name its folder with --from")
