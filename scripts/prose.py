"""Report English that a reader stumbles over, by the rules of CONTRIBUTING.md; fail if there is any.

    python scripts/prose.py               # check every file
    python scripts/prose.py docs agents   # check files and folders

It reads Markdown without code, docstrings, comments, the messages of errors and ``help=`` texts. Standard library only.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = ("src/", "docs/developers/log/", "scripts/prose.py", "tests/test_prose.py")
"""Links to the package, history that is not rewritten, and files that quote the faults."""
LONGEST = 35
"""The most words of a sentence."""


class Rule(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    cure: str
    kinds: str = "markdown docstring comment error help"


class Text(NamedTuple):
    kind: str
    line: int
    text: str


class Fault(NamedTuple):
    path: str
    line: int
    kind: str
    rule: str
    words: str
    cure: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.words!r}; {self.cure}"


def _rule(name: str, pattern: str, cure: str, **options: str) -> Rule:
    return Rule(name, re.compile(pattern.replace(" ", r"\s"), re.IGNORECASE), cure, **options)


_FALSE_FRIENDS = {
    r"(?<!capital )(?<!-case )(?<!Greek )letters(?! and digits|, digits)": "'characters'",
    "machinery": "'infrastructure'",
    "mend|mends|mended|mending": "'fix'",
    "anew": "'again'",
    "begun": "'started'",
    "shall": "'must' or 'will'",
    "(?:a|the|that|this|one) persons?": "'a user' or 'people'",
    "as one reads": "'human-readable'",
    "(?:is|are|go|goes|going|went) on (?:from|with|to)": "'continue' or 'resume'",
    "pictures?": "'image' or 'screenshot'",
    "half-way": "'midway'",
    "of ours": "'our', or name the owner",
    "from there on|ever since|so to say": "plainer words, or leave it out",
}
_BRITISH = (
    r"\b(?:[^\W_]*(?:behaviour|colour|favour|honour|neighbour|labour|flavour)\w*"
    r"|[^\W_]*(?:author|canonical|categor|character|custom|discret|emphas|factor|final|formal|general|initial|local|maxim"
    r"|memor|minim|normal|optim|organ|parallel|parametr|penal|prior|quant|random|real|recogn|regular|sanit|serial"
    r"|special|stabil|standard|summar|symbol|synchron|token|util|vector|visual)is(?:e|ed|es|ing|ation|ations|er|ers)"
    r"|(?:pa)?ralyse\w*|analys(?:e|ed|ing)|artefacts?|catalogues?|centres?|centred|defence|fulfil|grey|judgement"
    r"|licence|metres?|(?:un)?labell\w+|modell\w+|programmes?|signall\w+|travell\w+|whilst|amongst|learnt|burnt)\b"
    r"(?! ?=)"  # a setting keeps the name that users' files have
)
RULES = (
    _rule(
        "relative summary",
        r"\A\W*(?:What|Who|Whom|Whose|Whoever|Whatever|Which|Where|That which|Those|All that|One that|That)\b[^.\n]*",
        "begin with a noun phrase or an imperative",
        kinds="docstring help",
    ),
    _rule(
        "entry begins mid-clause",
        r"(?<=\n)\*{0,2}\w+:\x20(?:of|by|as|that|which|what|who|whom|whose|where|with|to|from|in|on|at|under|is|are|was"
        r"|has|may|must|can|nobody|nothing)\b[^.\n]*",
        "describe the argument with a complete phrase: type, shape, unit",
        kinds="docstring",
    ),
    _rule(
        "overused word",
        r"\b(?:nobody|somebody|anybody|everybody|whoever|whomever|told|tells of|said)\b(?!:)",
        "name who does what: a user, the caller, another process; or write 'given', 'set', 'no one', 'reported'",
    ),
    _rule(
        "stative passive",
        r"\b(?:is|are|was|were|been|be) (?:(?:not|never|also|only|then|still) )?"
        r"(?:asked|begun|gone|had|heard|held(?! out)|lent|over(?=[.,;:)]| and\b| when\b|$)|owed|spared|spoken)\b",
        "use an active verb with a subject",
    ),
    _rule(
        "is no",
        r"(?<!there )\b(?:is|are|was|were) no (?!longer|more|less|fewer|better|worse|one\b|such|need|way)\w+",
        "write 'is not a'",
    ),
    *(_rule("false friend", rf"\b(?:{words})\b", f"write {cure}") for words, cure in _FALSE_FRIENDS.items()),
    _rule("British spelling", _BRITISH, "use American spelling"),
)
SENTENCE = re.compile(r"(?<=[.!?])[\"')*]*\s+|\n[ \t]*\n|\n[ \t]*(?:[-*#>|]|\d+\.|Args:|Returns:|Raises:|Yields:) ?|\|")


def faults_in(path: str, source: str) -> Iterator[Fault]:
    """Yield the faults of one Markdown or Python file."""
    for kind, start, text in _markdown(source) if path.endswith(".md") else _python(source):
        text = re.sub(r"\n[ \t]+(?=\S)", "\n", text)
        found = [(rule.name, m, rule.cure) for rule in RULES if kind in rule.kinds for m in rule.pattern.finditer(text)]
        for name, match, cure in found:
            line = start + text.count("\n", 0, match.start())
            yield Fault(path, line, kind, name, " ".join(match[0].split())[:60], cure)
        if kind in ("markdown", "docstring", "error", "help"):
            for line, words in _long_sentences(text):
                yield Fault(
                    path, start + line, kind, "long sentence", f"{' '.join(words[:8])} …", f"split: {len(words)} words"
                )


def _long_sentences(text: str) -> Iterator[tuple[int, list[str]]]:
    begin = 0
    for border in [*SENTENCE.finditer(text), None]:
        end = border.start() if border else len(text)
        words = [word for word in text[begin:end].split() if any(map(str.isalnum, word))]
        if len(words) > LONGEST:
            yield text.count("\n", 0, begin), words
        begin = border.end() if border else end


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _code(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "x", match[0])


def _markdown(source: str) -> Iterator[Text]:
    text = re.sub(r"^ *```.*?^ *```|<!--.*?-->", _blank, source, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)\s]*\)|https?://\S+", _blank, text)
    yield Text("markdown", 1, re.sub(r"`[^`]+`", _code, text))


def _python(source: str) -> Iterator[Text]:
    tree, inside = ast.parse(source), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno != node.lineno:
            inside |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        for child in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                text = re.sub(r"^ *>>>.*(?:\n(?! *\n| *>>>).*)*", _blank, child.value.value, flags=re.MULTILINE)
                text = re.sub(r"^( *).*::\n\n(?:\1 +.*\n|\n)+", _blank, text, flags=re.MULTILINE)
                yield Text("docstring", child.lineno, re.sub(r"`[^`]+`", _code, text))
        if isinstance(node, ast.Call):
            yield from _messages(node)
    yield from _comments(source, inside)


def _messages(call: ast.Call) -> Iterator[Text]:
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    values = [(k.value, "help") for k in call.keywords if k.arg in ("help", "epilog")]
    if name.endswith(("Error", "Failure")) or name == "complain":
        values += [(value, "error") for value in call.args]
    for value, kind in values:
        parts = list(ast.walk(value))
        joined = [part for part in parts if isinstance(part, ast.JoinedStr)]
        for whole in joined:
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "xx" for part in whole.values)
            yield Text(kind, whole.lineno, text)
        for part in parts:
            alone = not any(part in whole.values for whole in joined)
            if alone and isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield Text(kind, part.lineno, part.value)


def _comments(source: str, inside: set[int]) -> Iterator[Text]:
    block: list[str] = []
    for number, line in enumerate([*source.splitlines(), ""], 1):
        found = None if number in inside else re.search(r"^\s*#(?![!:]) ?(.*)|\s\s# (?!noqa|type:|pragma)(.*)", line)
        if found is None or found[1] is None:
            if block:
                yield Text("comment", number - len(block), "\n".join(block))
            block = []
        if found is not None and found[1] is not None:
            block.append(found[1])
        elif found is not None:
            yield Text("comment", number, found[2])


def files(wanted: Sequence[str]) -> Iterator[str]:
    """Yield the Markdown and Python files that git knows or could add, under the given paths."""
    for path in _git("ls-files", "-co", "--exclude-standard", "--", *(wanted or ["*.md", "*.py"])):
        if path.endswith((".md", ".py")) and not path.startswith(SKIPPED) and (ROOT / path).is_file():
            yield path


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="Files and folders to check; everything by default.")
    parser.add_argument("--totals", action="store_true", help="Print the number of faults by rule.")
    options = parser.parse_args()
    found = [fault for path in files(options.paths) for fault in faults_in(path, (ROOT / path).read_text("utf-8"))]
    if options.totals:
        print("\n".join(f"{n:6} {rule}" for rule, n in Counter(fault.rule for fault in found).most_common()))
    elif found:
        print("\n".join(map(str, found)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
