"""``CustomQuestions``: a family of the user's own questions, read from a file."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from ...errors import TaskError, UsageError
from ..family import TaskFamily
from ..rng import Rng, stable_hash
from ..spec import Split, TaskSpec
from .custom_question_lines import Question, lines_of, parsed, read
from .document import Corpus, Document, phrase
from .stored import StoredCorpus
from .task import Lookup, SearchTask

PAGE = '{"id": …, "title": …, "text": …}'


class CustomQuestions(TaskFamily[SearchTask]):
    """The questions of a file (JSON Lines); the seed is the index of a question in its split.

    Every line has ``question`` and ``answers`` (or ``answer``, or Search-R1's ``golden_answers``). It may have
    ``evidence`` (for each fact, a list of page ids), ``passages`` (a text for each of some pages), ``lookups`` (pairs
    of a query and the page that it finds) and ``split``. Lines without a split go to train, dev and test_iid by a hash
    of their question, 80, 10 and 10 %.

    Args:
        path: path of the file with the questions.
        corpus: the corpus: a file that ``turnwise tasks build-corpus`` wrote; a ``.jsonl`` file with the ``id``,
            ``title`` and ``text`` of one page per line, which is loaded into memory; or the URL of a search service.

    Raises:
        UsageError: a file is missing, a line is invalid, or a line names a page or passage that the corpus lacks.
    """

    levels = (1, 2, 3, 4, 5)
    """Levels, which determine only the budget of an episode; the questions are the same."""

    def __init__(self, path: Path | str, corpus: Path | str) -> None:
        self.path, self.source = str(path), str(corpus)
        self._questions = read(Path(path))
        self.corpus = _corpus(self.source)
        if "://" not in self.source:
            for one in self._questions:
                _check(one, self.corpus, f"{path}:{one.line}")
        self.name = f"questions-{_digest(self._questions, self.corpus)}"
        self._by_split = {
            split: tuple(one for one in self._questions if one.split is split)
            for split in dict.fromkeys(one.split for one in self._questions)
        }
        self.splits = tuple(split for split in Split if split in self._by_split)

    def __len__(self) -> int:
        return len(self._questions)

    def __reduce__(self) -> Any:
        return (CustomQuestions, (self.path, self.source))

    @property
    def usual(self) -> tuple[int, ...]:
        """The middle level alone, so that evaluations do not use each question five times."""
        return (3,)

    def build(self, spec: TaskSpec, rng: Rng) -> SearchTask:
        """Return the question whose index is the seed, modulo the number of questions in the split."""
        among = self._by_split[spec.split]
        one = among[spec.seed % len(among)]
        return SearchTask(
            question=one.question,
            answers=one.answers,
            evidence=one.evidence,
            lookups=one.lookups or tuple(Lookup(one.question, fact[0]) for fact in one.evidence),
            corpus=self.corpus,
            template="default",
            kind="own",
            hops=max(1, len(one.evidence)),
            passages=one.passages,
        )


def questions_of(path: str, corpus: str) -> CustomQuestions:
    """Return the family of a file; calls share one object until the file or the corpus changes.

    Args:
        path: path of the file with the questions.
        corpus: path of the corpus, or the URL of a search service.

    Raises:
        UsageError: see ``CustomQuestions``.
    """
    return _kept(path, corpus, _stamp(path), "" if "://" in corpus else _stamp(corpus))


@lru_cache(maxsize=8)
def _kept(path: str, corpus: str, *stamps: str) -> CustomQuestions:
    return CustomQuestions(path, corpus)


def _stamp(path: str) -> str:
    """Return a text that changes with a file; empty for a missing file, which its reader reports better."""
    try:
        status = Path(path).stat()
    except OSError:
        return ""
    return f"{status.st_mtime_ns} {status.st_size}"


def _digest(questions: tuple[Question, ...], corpus: Corpus) -> str:
    """Return a digest that is equal for the same questions, in the same order, about the same pages."""
    asked = (
        (one.question, one.answers, one.evidence, one.passages, [(x.query, x.document) for x in one.lookups], one.split)
        for one in questions
    )
    return stable_hash(corpus.name, *asked).hex()[:12]


def _check(one: Question, corpus: Corpus, where: str) -> None:
    """Check a question against the corpus.

    Raises:
        UsageError: the question names a page or passage that the corpus lacks.
    """
    for id in dict.fromkeys([*(id for fact in one.evidence for id in fact), *(x.document for x in one.lookups)]):
        page = corpus.get(id)
        if page is None:
            known = next((f" (it has {other.id!r})" for other in corpus), "")
            raise UsageError(
                f"{where} names the page {id!r}, which the corpus lacks{known}; correct its id, or add the page"
            )
        if not page.text.strip():
            raise UsageError(f"{where} names the page {id!r}, which has no text; name another")
    for id, words in one.passages:
        page = corpus.get(id)
        if page is None or not phrase(words).search(page.text):
            raise UsageError(f"{where}: the passage {words!r:.80} does not occur in page {id!r}; copy it from there")


def _corpus(source: str) -> Corpus:
    if "://" in source:
        return Corpus(source, ())  # the service knows the pages
    if not source.endswith(".jsonl"):
        return StoredCorpus(source)
    pages = []
    for number, text in enumerate(lines_of(Path(source), "corpus", PAGE), 1):
        try:
            page = parsed(text)
            pages.append(Document(page["id"], page["title"], page["text"]))
            if not all(isinstance(one, str) for one in (page["id"], page["title"], page["text"])):
                raise TypeError("id, title and text must be strings")
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise UsageError(
                f"{source}:{number} is not a page ({type(error).__name__}: {error}); write {PAGE}"
            ) from None
    try:
        return Corpus(stable_hash(*((one.id, one.title, one.text) for one in pages)).hex()[:16], pages)
    except TaskError as error:
        raise UsageError(f"{source}: {error}") from None
