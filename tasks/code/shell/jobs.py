"""What is asked of a folder, by template: in words, as what must come of it, and in commands that do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ...rng import Rng
from .world import KINDS, STATES

Tree = Mapping[str, str]
"""Text files by path."""


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to do.

    Args:
        prompt: in words.
        after: what must stand in each file that changes; ``None`` for one that must be gone.
        commands: that do it.
        mistakes: commands that almost do it, by name.
        modes: permission bits that files must have.
        archive: a tar file that must be there, with the files in it.
    """

    prompt: str
    after: Mapping[str, str | None]
    commands: tuple[str, ...]
    mistakes: Mapping[str, tuple[str, ...]]
    modes: Mapping[str, int] = field(default_factory=dict)
    archive: tuple[str, Tree] | None = None


def rename(folder: str, tree: Tree, rng: Rng) -> Job:
    """Another ending for all files of one kind."""
    old = rng.pick(KINDS)
    new = rng.pick((".old", ".md", ".bak"))
    chosen = _of_kind(tree, old)
    after: dict[str, str | None] = {}
    for path in chosen:
        after |= {path: None, path.removesuffix(old) + new: tree[path]}
    loop = f'find {folder} -name \'*{old}\' | while IFS= read -r f; do %s "$f" "${{f%%{old}}}{new}"; done'
    return Job(
        f"Rename every file in {folder}, or below it, whose name ends in {old}: let it end in {new} instead.",
        after,
        (loop.replace("%s", "mv").replace("%%", "%"),),
        {"copies": (loop.replace("%s", "cp").replace("%%", "%"),)},
    )


def select(folder: str, tree: Tree, rng: Rng) -> Job:
    """The lines of all files that begin with a word."""
    state = _state(tree, rng)
    lines = [line for path in _sorted(tree) for line in tree[path].splitlines() if line.startswith(f"{state} ")]
    out = f"{folder}-{state}.txt"
    grep = f"{_each(folder)} grep '^{state} ' \"$f\"; done > {out}"
    return Job(
        f"Write all lines that begin with the word {state}, of all files in {folder} and below it, to {out}: files in "
        f"the order of their paths (as LC_ALL=C sort has them), lines in the order of the file.",
        {out: _text(lines)},
        (grep,),
        {
            "tells where lines are from": (f"grep -r '^{state} ' {folder} > {out}",),
            "takes other lines": (grep.replace("grep '", "grep -v '"),),
        },
    )


def count(folder: str, tree: Tree, rng: Rng) -> Job:
    """How many lines of each file begin with a word."""
    state = _state(tree, rng)
    out = f"{folder}-counts.txt"
    rows = [
        f"{path}: {sum(line.startswith(f'{state} ') for line in tree[path].splitlines())}" for path in _sorted(tree)
    ]
    loop = f'{_each(folder)} echo "$f: $(grep -c \'^{state} \' "$f")"; done > {out}'
    return Job(
        f"Write to {out} one line for each file in {folder} and below it: its path from here, a colon, a space, and "
        f"how many of its lines begin with the word {state}; in the order of the paths (as LC_ALL=C sort has them).",
        {out: _text(rows)},
        (loop,),
        {
            "leaves the paths out": (loop.replace("$f: ", ""),),
            "counts in one sum": (f"cat {folder}/* 2>&1 | grep -c '^{state} ' > {out}",),
        },
    )


def collect(folder: str, tree: Tree, rng: Rng) -> Job:
    """All files that hold a word, moved."""
    word = rng.pick(sorted({line.split()[1] for text in tree.values() for line in text.splitlines()}))
    to = f"{folder}-{word}"
    chosen = [path for path in _sorted(tree) if any(line.split()[1] == word for line in tree[path].splitlines())]
    after: dict[str, str | None] = {}
    for path in chosen:
        after |= {path: None, f"{to}/{path.rpartition('/')[2]}": tree[path]}
    grep = f"grep -rlw '{word}' {folder} | while IFS= read -r f; do %s \"$f\" {to}/; done"
    return Job(
        f"Move every file in {folder}, or below it, that has a line with the word {word} in it, into a new folder {to} "
        f"(all directly in it, under their own names).",
        after,
        (f"mkdir {to}", grep.replace("%s", "mv")),
        {
            "copies": (f"mkdir {to}", grep.replace("%s", "cp")),
            "into a folder of another name": (f"mkdir {to}s", grep.replace("%s", "mv").replace(f"{to}/", f"{to}s/")),
        },
    )


def prune(folder: str, tree: Tree, rng: Rng) -> Job:
    """Short files go."""
    sizes = sorted(len(text.splitlines()) for text in tree.values())
    least = max(2, sizes[len(sizes) // 2])
    chosen = [path for path in _sorted(tree) if len(tree[path].splitlines()) < least] or [
        path for path in _sorted(tree) if len(tree[path].splitlines()) == sizes[0]
    ]
    least = max(len(tree[path].splitlines()) for path in chosen) + 1
    loop = f'{_each(folder)} [ $(wc -l < "$f") -lt {least} ] && rm "$f"; done; true'
    return Job(
        f"Delete every file in {folder}, or below it, that has fewer than {least} lines; keep the others.",
        dict.fromkeys(chosen),
        (loop,),
        {"leaves some that are one line short": (loop.replace(f"-lt {least}", f"-lt {least - 1}"),)},
    )


def permit(folder: str, tree: Tree, rng: Rng) -> Job:
    """Permissions of all files of one kind."""
    kind, mode = rng.pick(KINDS), rng.pick((0o755, 0o600, 0o444, 0o750))
    chosen = _of_kind(tree, kind)
    return Job(
        f"Give every file in {folder}, or below it, whose name ends in {kind} the permissions {mode:o} (octal); leave "
        "all others as they are.",
        {path: tree[path] for path in chosen},
        (f"find {folder} -name '*{kind}' -exec chmod {mode:o} {{}} +",),
        {
            "permits everything": (f"find {folder} -type f -exec chmod {mode:o} {{}} +",),
            "one bit off": (f"find {folder} -name '*{kind}' -exec chmod {mode ^ 0o004:o} {{}} +",),
        },
        modes=dict.fromkeys(chosen, mode),
    )


def replace(folder: str, tree: Tree, rng: Rng) -> Job:
    """One word for another in all files of one kind."""
    kind = rng.pick(KINDS)
    chosen = _of_kind(tree, kind)
    old = rng.pick(sorted({line.split()[1] for path in chosen for line in tree[path].splitlines()}))
    sed = f"sed -i 's/ {old} / {old.upper()} /'"
    after = {path: tree[path].replace(f" {old} ", f" {old.upper()} ") for path in chosen}
    return Job(
        f"In every file in {folder}, or below it, whose name ends in {kind}, write the word {old} in capitals wherever "
        "it stands; change nothing else.",
        {path: text for path, text in after.items() if text != tree[path]},
        (f"find {folder} -name '*{kind}' -exec {sed} {{}} +",),
        {
            "capitals everywhere": (f"find {folder} -name '*{kind}' -exec sed -i 's/.*/\\U&/' {{}} +",),
            "removes the word": (f"find {folder} -name '*{kind}' -exec sed -i 's/ {old} / /' {{}} +",),
        },
    )


def archive(folder: str, tree: Tree, rng: Rng) -> Job:
    """All files of one kind, packed and deleted."""
    kind = rng.pick(KINDS)
    chosen = _of_kind(tree, kind)
    out = f"{folder}.tar"
    pack = f"find {folder} -name '*{kind}' -print0 | tar --null -cf {out} -T -"
    return Job(
        f"Pack all files in {folder}, and below it, whose names end in {kind} into the tar archive {out} "
        "(uncompressed, with their paths from here), and delete them after that.",
        dict.fromkeys(chosen),
        (pack, f"find {folder} -name '*{kind}' -delete"),
        {
            "deletes without packing": (f"tar -cf {out} -T /dev/null", f"find {folder} -name '*{kind}' -delete"),
            "packs and keeps": (pack,),
        },
        archive=(out, {path: tree[path] for path in chosen}),
    )


def total(folder: str, tree: Tree, rng: Rng) -> Job:
    """The sum of the numbers of each word."""
    state = _state(tree, rng)
    sums: dict[str, int] = {}
    for text in tree.values():
        for line in text.splitlines():
            kind, word, number = line.split()
            if kind == state:
                sums[word] = sums.get(word, 0) + int(number)
    out = f"{folder}-totals.txt"
    read = f"find {folder} -type f -exec cat {{}} +"
    add = f"awk '$1 == \"{state}\" {{ s[$2] += $3 }} END {{ for (w in s) print %s }}' | LC_ALL=C sort > {out}"
    return Job(
        f"Each line of the files in {folder}, and below it, is a state, a word and a number. Write to {out} one line "
        f"for each word that occurs with the state {state}: the word, a space, and the sum of its numbers over all "
        f"lines with that state, in alphabetical order.",
        {out: _text([f"{word} {sums[word]}" for word in sorted(sums)])},
        (f"{read} | {add.replace('%s', 'w, s[w]')}",),
        {
            "sums without words": (f"{read} | {add.replace('%s', 's[w]')}",),
            "words without sums": (f"{read} | {add.replace('%s', 'w')}",),
        },
    )


JOBS: Mapping[str, Callable[[str, Tree, Rng], Job]] = MappingProxyType(
    {
        "rename": rename,
        "select": select,
        "count": count,
        "collect": collect,
        "prune": prune,
        "permit": permit,
        "replace": replace,
        "archive": archive,
        "total": total,
    }
)
"""By template."""


def _of_kind(tree: Tree, kind: str) -> list[str]:
    return [path for path in _sorted(tree) if path.endswith(kind)]


def _sorted(tree: Tree) -> list[str]:
    return sorted(tree, key=str.encode)


def _state(tree: Tree, rng: Rng) -> str:
    """A state that occurs."""
    there = {line.split()[0] for text in tree.values() for line in text.splitlines()}
    return rng.pick([state for state in STATES if state in there])


def _each(folder: str) -> str:
    return f"find {folder} -type f | LC_ALL=C sort | while IFS= read -r f; do"


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
