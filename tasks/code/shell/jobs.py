"""Jobs in a folder, by template: the request in words, the required result, and commands that produce it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ...rng import Rng
from ...spec import Split
from .clues import Clue, Tree, clue, measures_of


@dataclass(frozen=True, slots=True)
class Job:
    """One job.

    Args:
        prompt: request in words.
        after: required content of each file that changes; ``None`` for a file that must be deleted.
        commands: shell commands that do the job.
        mistakes: commands that almost do it, by name.
        modes: permission bits that files must have.
        archive: path of a required tar file, with the files in it.
    """

    prompt: str
    after: Mapping[str, str | None]
    commands: tuple[str, ...]
    mistakes: Mapping[str, tuple[str, ...]]
    modes: Mapping[str, int] = field(default_factory=dict)
    archive: tuple[str, Tree] | None = None


def rename(folder: str, tree: Tree, kind: Clue, rng: Rng) -> Job:
    """Change the extension of all files of one kind."""
    new = rng.pick((".old", ".md", ".bak"))
    chosen = _of_kind(tree, kind.value)
    after: dict[str, str | None] = {}
    for path in chosen:
        after |= {path: None, path.removesuffix(kind.value) + new: tree[path]}
    loop = f'find {folder} -name "*$kind" | while IFS= read -r f; do mv "$f" "${{f%"$kind"}}{new}"; done'
    return Job(
        f"Rename every file in {folder} and its subfolders whose name has {kind.words}, so that it ends in {new}.",
        after,
        (loop,),
        {"copies": (loop.replace("do mv", "do cp"),)},
    )


def select(folder: str, tree: Tree, state: Clue, rng: Rng) -> Job:
    """Collect the lines of all files that start with a state."""
    lines = [line for path in _sorted(tree) for line in tree[path].splitlines() if line.startswith(f"{state.value} ")]
    out = f"{folder}-lines.txt"
    grep = f'{_each(folder)} grep "^$state " "$f"; done > {out}'
    return Job(
        f"Write all lines that begin with {state.words}, from all files in {folder} and its subfolders, to {out}: "
        f"files in the order of their paths (as sorted by LC_ALL=C sort), lines in the order of the file.",
        {out: _text(lines)},
        (grep,),
        {
            "tells where lines are from": (f'grep -r "^$state " {folder} > {out}',),
            "takes other lines": (grep.replace("grep ", "grep -v "),),
        },
    )


def count(folder: str, tree: Tree, state: Clue, rng: Rng) -> Job:
    """Count the lines of each file that start with a state."""
    out = f"{folder}-counts.txt"
    numbers = {
        path: sum(line.startswith(f"{state.value} ") for line in tree[path].splitlines()) for path in _sorted(tree)
    }
    loop = f'{_each(folder)} echo "$f: $(grep -c "^$state " "$f")"; done > {out}'
    return Job(
        f"Write to {out} one line for each file in {folder} and its subfolders: its relative path, a colon, a space, "
        f"and how many of its lines begin with {state.words}, in the order of the paths (as sorted by LC_ALL=C sort).",
        {out: _text([f"{path}: {number}" for path, number in numbers.items()])},
        (loop,),
        {
            "leaves the paths out": (loop.replace("$f: ", ""),),
            "counts in one sum": (f'cat {folder}/* 2>&1 | grep -c "^$state " > {out}',),
        },
    )


def collect(folder: str, tree: Tree, word: Clue, rng: Rng) -> Job:
    """Move all files that contain a word."""
    to = f"{folder}-{rng.pick(('picked', 'moved', 'chosen'))}"
    after: dict[str, str | None] = {}
    for path in _sorted(tree):
        if any(line.split()[1] == word.value for line in tree[path].splitlines()):
            after |= {path: None, f"{to}/{path.rpartition('/')[2]}": tree[path]}
    grep = f'grep -rlw "$word" {folder} | while IFS= read -r f; do mv "$f" {to}/; done'
    return Job(
        f"Move every file in {folder} and its subfolders that has a line with {word.words} to a new folder {to} (all "
        f"directly in it, under their own names).",
        after,
        (f"mkdir {to}; {grep}",),
        {
            "copies": (f"mkdir {to}; {grep.replace('do mv', 'do cp')}",),
            "into a folder of another name": (f"mkdir {to}s; {grep.replace(f'{to}/', f'{to}s/')}",),
        },
    )


def prune(folder: str, tree: Tree, state: Clue, rng: Rng) -> Job:
    """Delete the files without a state."""
    chosen = [
        path for path in _sorted(tree) if state.value not in {line.split()[0] for line in tree[path].splitlines()}
    ]
    loop = f'{_each(folder)} grep -q "^$state " "$f" || rm "$f"; done'
    return Job(
        f"Delete every file in {folder} and its subfolders in which no line begins with {state.words}. Keep the rest.",
        dict.fromkeys(chosen),
        (loop,),
        {"deletes the others": (loop.replace("||", "&&"),)},
    )


def permit(folder: str, tree: Tree, kind: Clue, rng: Rng) -> Job:
    """Set the permissions of all files of one kind."""
    mode = rng.pick((0o755, 0o600, 0o444, 0o750))
    chosen = _of_kind(tree, kind.value)
    return Job(
        f"Set the permissions of every file in {folder} and its subfolders whose name has {kind.words} to {mode:o} "
        "(octal). Leave all others as they are.",
        {path: tree[path] for path in chosen},
        (f'find {folder} -name "*$kind" -exec chmod {mode:o} {{}} +',),
        {
            "permits everything": (f"find {folder} -type f -exec chmod {mode:o} {{}} +",),
            "one bit off": (f'find {folder} -name "*$kind" -exec chmod {mode ^ 0o004:o} {{}} +',),
        },
        modes=dict.fromkeys(chosen, mode),
    )


def capitals(folder: str, tree: Tree, word: Clue, rng: Rng) -> Job:
    """Capitalize one word in all files."""
    after = {path: text.replace(f" {word.value} ", f" {word.value.upper()} ") for path, text in tree.items()}
    sed = 'sed -i "s/ $word / $(echo "$word" | tr a-z A-Z) /"'
    return Job(
        f"In every file in {folder} and its subfolders, write {word.words} in uppercase wherever it appears. Change "
        "nothing else.",
        {path: text for path, text in after.items() if text != tree[path]},
        (f"find {folder} -type f -exec {sed} {{}} +",),
        {
            "capitals everywhere": (f"find {folder} -type f -exec sed -i 's/.*/\\U&/' {{}} +",),
            "removes the word": (f'find {folder} -type f -exec sed -i "s/ $word / /" {{}} +',),
        },
    )


def archive(folder: str, tree: Tree, kind: Clue, rng: Rng) -> Job:
    """Pack all files of one kind into an archive, and delete them."""
    chosen = _of_kind(tree, kind.value)
    out = f"{folder}.tar"
    pack = f'find {folder} -name "*$kind" -print0 | tar --null -cf {out} -T -'
    delete = f'find {folder} -name "*$kind" -delete'
    return Job(
        f"Pack all files in {folder} and its subfolders whose names have {kind.words} into the tar archive {out} "
        "(uncompressed, with relative paths), and then delete them.",
        dict.fromkeys(chosen),
        (f"{pack}; {delete}",),
        {"deletes without packing": (f"tar -cf {out} -T /dev/null; {delete}",), "packs and keeps": (pack,)},
        archive=(out, {path: tree[path] for path in chosen}),
    )


def total(folder: str, tree: Tree, state: Clue, rng: Rng) -> Job:
    """Add up the numbers of each word."""
    sums: dict[str, int] = {}
    for text in tree.values():
        for line in text.splitlines():
            first, word, number = line.split()
            if first == state.value:
                sums[word] = sums.get(word, 0) + int(number)
    out = f"{folder}-totals.txt"
    read = f"find {folder} -type f -exec cat {{}} +"
    add = f"grep \"^$state \" | awk '{{ s[$2] += $3 }} END {{ for (w in s) print %s }}' | LC_ALL=C sort > {out}"
    return Job(
        f"Take all lines that begin with {state.words}, from all files in {folder} and its subfolders. Write to {out} "
        f"one line for each word in them: the word, a space, and the sum of its numbers, in alphabetical order.",
        {out: _text([f"{word} {sums[word]}" for word in sorted(sums)])},
        (f"{read} | {add.replace('%s', 'w, s[w]')}",),
        {
            "sums without words": (f"{read} | {add.replace('%s', 's[w]')}",),
            "words without sums": (f"{read} | {add.replace('%s', 'w')}",),
        },
    )


JOBS: Mapping[str, tuple[str, Callable[[str, Tree, Clue, Rng], Job]]] = MappingProxyType(
    {
        "rename": ("kind", rename),
        "select": ("state", select),
        "count": ("state", count),
        "collect": ("word", collect),
        "prune": ("state", prune),
        "permit": ("kind", permit),
        "capitals": ("word", capitals),
        "archive": ("kind", archive),
        "total": ("state", total),
    }
)
"""For each template, the kind of its clue and the function that makes the job."""


def job(name: str, folder: str, tree: Tree, split: Split, rng: Rng) -> Job | None:
    """Return a job in a folder; ``None`` if its files allow no clue, or if the job would change none or all of them.

    Args:
        name: one of ``JOBS``.
        folder: path of the folder.
        tree: files in it, by path.
        split: split of the task, which determines the measures.
        rng: draws the clue and the rest.
    """
    meant, make = JOBS[name]
    found = clue(meant, folder, tree, measures_of(name, meant, split), rng)
    if found is None:
        return None
    again = copy.deepcopy(rng)
    made = make(folder, tree, found, rng)
    if not made.after or set(tree) <= set(made.after):
        return None
    mistakes = {name: _with(found.command, commands) for name, commands in made.mistakes.items()}
    if _left(make(folder, tree, replace(found, value=found.wrong), again)) != _left(made):
        mistakes["by another measure"] = _with(found.mistake, made.commands)
    prompt = (
        f"Each line of the files in {folder} and its subfolders has a state, a word and a number. It counts toward "
        f"this state, this word, and the extension of the file name. {made.prompt}"
    )
    return replace(made, prompt=prompt, commands=_with(found.command, made.commands), mistakes=mistakes)


def _left(job: Job) -> tuple[object, ...]:
    """Return the result of a job. Two states can occur in the same files, so a wrong one may give the same result."""
    return job.after, job.modes, job.archive


def _with(assignment: str, commands: tuple[str, ...]) -> tuple[str, ...]:
    """Return the commands after an assignment as one command, since each command gets a shell of its own."""
    return ("; ".join((assignment, *commands)),)


def _of_kind(tree: Tree, kind: str) -> list[str]:
    return [path for path in _sorted(tree) if path.endswith(kind)]


def _sorted(tree: Tree) -> list[str]:
    return sorted(tree, key=str.encode)


def _each(folder: str) -> str:
    return f"find {folder} -type f | LC_ALL=C sort | while IFS= read -r f; do"


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
