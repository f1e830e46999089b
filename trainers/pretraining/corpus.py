"""``Corpus``: documents of every kind of text, and rows of tokens that are a pure function of seed and step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...inference.nano import ROLES, STOP
from ...tasks.rng import Rng
from ...tasks.search.wiki.pages import wiki
from ...tasks.spec import Split
from ...tasks.text.skills import SKILLS, exercise
from .settings import PretrainConfig, TextConfig, TranscriptConfig
from .transcripts import files, has_split, write_transcripts

MEASURED = 64
"""Documents that the mean length of a kind is measured on."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of text.

    Args:
        name: name in metrics.
        share: share of all tokens.
        text: function from an index to a document, a pure function.
        answers_only: whether only the agent's messages count towards the loss, with the weight of the whole document.
    """

    name: str
    share: float
    text: Callable[[int], str]
    answers_only: bool = False


def exercises(skill: str, index: int, *, seed: int = 0, held_out: bool = False) -> str:
    """Return a conversation of one to three exercises of a skill, with their follow-up questions."""
    count = Rng("conversation", skill, seed, index, held_out).randint(1, 3)
    some = (exercise(skill, 3 * index + at, seed=seed, held_out=held_out) for at in range(count))
    pairs = (pair for one in some for pair in one.conversation)
    return "".join(f"{ROLES['user']}{question}{ROLES['assistant']}{answer}{STOP}" for question, answer in pairs)


def page(index: int, text: TextConfig, *, seed: int = 0, split: Split = Split.TRAIN) -> str:
    """Return a page of a fictional wiki."""
    rng = Rng("page", seed, index, str(split))
    about = wiki(split, rng.randrange(text.wikis), text.pages)
    document = rng.pick(list(about.corpus))
    return f"{document.title}\n{document.text}{STOP}"


def kinds(
    config: PretrainConfig, folder: Path, *, held_out: bool = False, done: Callable[[], None] = lambda: None
) -> list[Kind]:
    """Return every kind of text that has a share, after playing the transcripts that ``folder`` lacks.

    Args:
        config: settings of the run.
        folder: folder of the transcripts.
        held_out: whether to return held-out text: other names, and tasks of the split ``dev``.
        done: called after each file of transcripts.
    """
    text, seed = config.text, config.seed
    split = Split.DEV if held_out else Split.TRAIN
    found: list[Kind] = []
    for skill in SKILLS:
        share = text.exercises / len(SKILLS)
        found.append(Kind(skill, share, _exercises(skill, seed, held_out), answers_only=True))
    found.append(Kind("wiki", text.documents, lambda index: page(index, text, seed=seed, split=split)))
    total = sum(one.weight for one in text.episodes)
    folder.mkdir(parents=True, exist_ok=True)
    for one in played(config, split):
        count = config.eval.documents if held_out else one.episodes
        texts = write_transcripts(one, split, count, seed, folder, done)
        short = one.env.rpartition("/")[2].partition("-v")[0].lower()
        name = one.env.lower() if short in {kind.name for kind in found} else short  # each metric is of one kind
        found.append(Kind(name, text.transcripts * one.weight / total, _listed(texts)))
    return [kind for kind in found if kind.share > 0]


def played(config: PretrainConfig, split: Split) -> list[TranscriptConfig]:
    """Return the environments whose transcripts are learned, or those of them that have held-out tasks.

    Raises:
        UsageError: there is no such environment.
    """
    wanted = config.text.episodes if config.text.transcripts else []
    return [one for one in wanted if has_split(one, split)]


def shards(config: PretrainConfig, folder: Path) -> int:
    """Return the number of files of transcripts, training and held-out."""
    training = [files(one, Split.TRAIN, one.episodes, folder) for one in played(config, Split.TRAIN)]
    held_out = [files(one, Split.DEV, config.eval.documents, folder) for one in played(config, Split.DEV)]
    return sum(map(len, [*training, *held_out]))


def _exercises(skill: str, seed: int, held_out: bool) -> Callable[[int], str]:
    return lambda index: exercises(skill, index, seed=seed, held_out=held_out)


def _listed(texts: Sequence[str]) -> Callable[[int], str]:
    return lambda index: texts[index % len(texts)]


class Corpus:
    """Rows of tokens for training, and the tokens of single documents.

    Args:
        kinds: kinds of text with their shares.
        tokenizer: tokenizer of the model.
        seed: seed of the order.
    """

    def __init__(self, kinds: Sequence[Kind], tokenizer: Any, *, seed: int = 0) -> None:
        self.kinds, self.tokenizer, self.seed = list(kinds), tokenizer, seed
        self._answer = tokenizer.convert_tokens_to_ids(ROLES["assistant"])
        self._end = tokenizer.convert_tokens_to_ids(STOP)
        lengths = (sum(len(self.encode(kind, i)[0]) for i in range(MEASURED)) / MEASURED for kind in self.kinds)
        self._weights = [kind.share / length for kind, length in zip(self.kinds, lengths, strict=True)]

    def encode(self, kind: Kind, index: int) -> tuple[list[int], list[float]]:
        """Return the ids of a document, and the weight of each id in the loss.

        Answers to exercises carry the weight of their questions too: a short answer to a long question counts as much
        as the tokens that were read for it.
        """
        ids: list[int] = self.tokenizer.encode(kind.text(index), add_special_tokens=False)
        return ids, self._answers(ids) if kind.answers_only else [1.0] * len(ids)

    def _answers(self, ids: Sequence[int]) -> list[float]:
        learned, inside = [], False
        for id in ids:
            learned.append(inside)
            inside = id == self._answer or (inside and id != self._end)
        weight = len(ids) / max(1, sum(learned))
        return [weight * each for each in learned]

    def rows(self, step: int, count: int, length: int) -> tuple[Tensor, Tensor]:
        """Return the ids and weights of a step, two tensors of shape [rows, tokens].

        Documents fill each row one after the other; the last one is cut.

        Args:
            step: number of the step.
            count: number of rows.
            length: tokens of a row.
        """
        both = [self._row(Rng("row", self.seed, step, row), length) for row in range(count)]
        return torch.tensor([ids for ids, _ in both]), torch.tensor([weights for _, weights in both])

    def _row(self, rng: Rng, length: int) -> tuple[list[int], list[float]]:
        ids: list[int] = []
        weights: list[float] = []
        while len(ids) < length:
            kind = rng.choices(self.kinds, self._weights)[0]
            more, learned = self.encode(kind, rng.randrange(2**31))
            ids += more
            weights += learned
        return ids[:length], weights[:length]


def sample_texts(kinds: Sequence[Kind], count: int) -> Mapping[str, list[str]]:
    """Return the first documents of every kind, to learn a tokenizer from."""
    return {kind.name: [kind.text(index) for index in range(count)] for kind in kinds}
