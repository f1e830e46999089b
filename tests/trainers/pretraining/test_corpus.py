"""Text and rows: pure functions of the seed, complete conversations, held-out tasks apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turnwise.errors import ConfigError, StoreError, UsageError
from turnwise.inference.nano import build_tokenizer
from turnwise.rollouts.demonstrations import demonstration_tasks
from turnwise.tasks.games.wordle import secrets
from turnwise.tasks.rng import Rng
from turnwise.tasks.spec import Split
from turnwise.trainers.pretraining import corpus as texts
from turnwise.trainers.pretraining.corpus import Corpus, Kind, exercises, kinds, page, shards
from turnwise.trainers.pretraining.settings import PretrainConfig, TextConfig, TranscriptConfig
from turnwise.trainers.pretraining.transcripts import SHARD, files, write_transcripts

WORDLE = TranscriptConfig(env="turnwise/Wordle-v1", episodes=6, levels=[1])


def nothing() -> None:
    return


def test_transcripts_are_a_pure_function_of_the_seed(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    first, again, other = (
        write_transcripts(WORDLE, Split.TRAIN, 6, seed, tmp_path / name, nothing)
        for seed, name in ((0, "a"), (0, "b"), (1, "c"))
    )
    assert first == again
    assert first != other
    assert all(text.startswith("<sys>Guess a secret word") for text in first)
    assert all(text.count("<ai>") == text.count("<end>") for text in first)


def test_files_that_are_there_are_not_played_again(tmp_path: Path) -> None:
    ((path, size),) = files(WORDLE, Split.TRAIN, 6, tmp_path)
    assert size == 6
    path.write_text('["kept"]')
    assert write_transcripts(WORDLE, Split.TRAIN, 6, 0, tmp_path, nothing) == ["kept"]
    path.write_text('["cut')
    with pytest.raises(StoreError, match="remove it to play its episodes again"):
        write_transcripts(WORDLE, Split.TRAIN, 6, 0, tmp_path, nothing)


def test_more_episodes_keep_the_files_of_fewer(tmp_path: Path) -> None:
    few, many = (files(WORDLE, Split.TRAIN, count, tmp_path) for count in (SHARD, 2 * SHARD + 1))
    assert many[:1] == few
    assert [size for _, size in many] == [SHARD, SHARD, 1]


def test_more_held_out_documents_are_others_and_not_the_same_again(tmp_path: Path) -> None:
    few, many = (write_transcripts(WORDLE, Split.DEV, count, 0, tmp_path, nothing) for count in (2, 5))
    assert many[:2] == few
    assert len(many) == len(set(many)) == 5, "a resumed run may raise eval.documents"


def test_environments_of_one_name_have_metrics_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "has_split", lambda config, split: True)
    monkeypatch.setattr(texts, "write_transcripts", lambda *_: ["text"])
    wanted = [TranscriptConfig(env=env) for env in ("turnwise/Wordle-v1", "mine/Wordle-v0", "mine/Copy-v0")]
    found = kinds(PretrainConfig(text=TextConfig(wikis=1, episodes=wanted)), tmp_path)
    assert [kind.name for kind in found][-3:] == ["wordle", "mine/wordle-v0", "mine/copy-v0"]


def test_transcripts_end_as_the_chat_template_writes_them(tmp_path: Path) -> None:
    tokenizer = build_tokenizer("byte")
    for text in write_transcripts(WORDLE, Split.TRAIN, 6, 0, tmp_path, nothing):
        parts = text.replace("<end>", "").replace("<sys>", "\0system\1").replace("<user>", "\0user\1")
        messages = [part.split("\1") for part in parts.replace("<ai>", "\0assistant\1").split("\0")[1:]]
        said = [{"role": role, "content": content} for role, content in messages]
        assert tokenizer.apply_chat_template(said, tokenize=False) == text


def test_held_out_transcripts_have_secrets_that_training_has_not(tmp_path: Path) -> None:
    for split in (Split.TRAIN, Split.DEV):
        config = WORDLE.model_copy(update={"skills": [1.0]})
        texts = write_transcripts(config, split, 30, 0, tmp_path, nothing)
        found = {text.rpartition("<ai>")[2].partition("<end>")[0] for text in texts if "You found the word" in text}
        assert found
        assert found <= set(secrets(1, split)), f"secrets of split {split}"


def test_every_training_task_of_the_defaults_is_of_the_training_split() -> None:
    for one in TextConfig().episodes:
        task = next(demonstration_tasks(one.env, Split.TRAIN, one.levels or (), 0, one.env_kwargs))
        assert task.split is Split.TRAIN


def test_pages_of_training_and_held_out_wikis_share_no_title() -> None:
    text = TextConfig(wikis=3, pages=60)
    titles = [{page(i, text, split=split).splitlines()[0] for i in range(80)} for split in (Split.TRAIN, Split.DEV)]
    assert titles[0] & titles[1] <= {"About this wiki"}


def test_conversations_have_one_to_three_exercises_with_their_follow_ups() -> None:
    assert {exercises("copy", index).count("<ai>") for index in range(40)} == {1, 2, 3}
    assert {exercises("hints", index).count("<ai>") for index in range(40)} == {3, 6, 9}
    assert exercises("copy", 3) == exercises("copy", 3) != exercises("copy", 3, held_out=True)


def corpus(*some: Kind) -> Corpus:
    return Corpus(some, build_tokenizer("byte"))


def test_only_answers_count_in_exercises_and_for_the_whole() -> None:
    kind = Kind("x", 1.0, lambda index: "<user>ab<ai>c<end><user>d<ai>ef<end>", answers_only=True)
    made = corpus(kind)
    ids, weights = made.encode(kind, 0)
    learned = [id for id, weight in zip(ids, weights, strict=True) if weight]
    assert made.tokenizer.decode(learned) == "c<end>ef<end>"
    assert set(weights) == {0.0, len(ids) / 5}
    assert sum(weights) == pytest.approx(len(ids)), "answers carry the weight of their questions"


def test_rows_are_full_and_a_pure_function_of_the_step() -> None:
    made = corpus(
        Kind("a", 0.5, lambda index: "x" * Rng("a", index).randint(1, 9)), Kind("b", 0.5, lambda index: "y" * 50)
    )
    ids, weights = made.rows(7, 3, 64)
    assert ids.shape == weights.shape == (3, 64)
    assert (weights == 1).all()
    assert (made.rows(7, 3, 64)[0] == ids).all()
    assert (made.rows(8, 3, 64)[0] != ids).any()


def test_kinds_get_their_share_of_the_tokens() -> None:
    """A kind of long documents does not get more tokens than its share."""
    made = corpus(Kind("short", 0.5, lambda index: "x"), Kind("long", 0.5, lambda index: "y" * 20))
    ids, _ = made.rows(0, 40, 500)
    (x,) = made.tokenizer.encode("x", add_special_tokens=False)
    assert abs(float((ids == x).float().mean()) - 0.5) < 0.05


def test_published_games_have_no_held_out_text(tmp_path: Path) -> None:
    config = PretrainConfig(
        text=TextConfig(
            wikis=2,
            pages=60,
            episodes=[WORDLE, TranscriptConfig(env="turnwise/TwentyQuestions-v1", episodes=2)],
        )
    )
    names = [[kind.name for kind in kinds(config, tmp_path, held_out=held)] for held in (False, True)]
    assert set(names[0]) - set(names[1]) == {"twentyquestions"}
    assert len(list(tmp_path.glob("*.json"))) == shards(config, tmp_path) == 3
    assert sum(kind.share for kind in kinds(config, tmp_path)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"text": {"exercises": 0.9}}, "add up to 1.4"),
        ({"text": {"episodes": []}}, "names no environment"),
        ({"text": {"episodes": [{"env": "a"}, {"env": "a"}]}}, "names a twice"),
        ({"context": 9000}, "rows of 9000 tokens exceed nano.context_length = 4096"),
        ({"nano": {"context_length": 256}}, "context_length = 256 does not hold a probe; use at least 512"),
        ({"batch_tokens": 2048}, "rows of 4096 tokens do not fit a step of batch_tokens = 2048"),
        ({"warmup": 9, "steps": 8}, "warmup = 9 is longer than the run of steps = 8"),
        ({"nano": {"tokenizer": "word"}}, "cannot write a name that it has not seen"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], said: str) -> None:
    from turnwise.config import load_config

    with pytest.raises(ConfigError, match=said):
        load_config(PretrainConfig, settings=settings)


def test_an_unknown_environment_is_named(tmp_path: Path) -> None:
    text = TextConfig(episodes=[TranscriptConfig(env="turnwise/Wordl-v1", episodes=2)])
    with pytest.raises(UsageError, match="Wordle"):
        kinds(PretrainConfig(text=text), tmp_path)
    text = TextConfig(episodes=[TranscriptConfig(env="guess.py")])
    with pytest.raises(UsageError, match="ids of installed environments, not files"):
        kinds(PretrainConfig(text=text), tmp_path)
