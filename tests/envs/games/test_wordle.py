"""Playing Wordle: published rewards, what a guess may look like, and an ending that is the task's own."""

from __future__ import annotations

import pytest

import turnwise as tw
from turnwise.envs.games.wordle import WordleEnv
from turnwise.tasks.games.wordle import LEVELS, TRIES, WORDLES, vocabulary


def started(level: int = 1, split: tw.Split = tw.Split.TRAIN, seed: int = 0) -> WordleEnv:
    env = WordleEnv()
    env.reset(options={"task": WORDLES.spec(seed, split=split, level=level)})
    return env


def wrong(env: WordleEnv) -> list[str]:
    return [word for word in vocabulary(env.game.level) if word != env.game.secret]


def test_a_win_costs_nothing_and_a_wrong_guess_one() -> None:
    env = started()
    observation, reward, terminated, _, _ = env.step(wrong(env)[0])
    assert (reward, terminated) == (-1.0, False)
    assert observation.text.endswith("5 tries left.")
    observation, reward, terminated, truncated, info = env.step(env.game.secret)
    assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, True)
    assert "You found the word." in observation.text


def test_a_bad_word_costs_a_try_and_one() -> None:
    env = started()
    for bad in ("zzz", "", "a whole sentence", "cat7"):
        observation, reward, terminated, _, info = env.step(bad)
        assert reward == -1.0
        assert not terminated
        assert info["unparsed"]
        assert "not in the list" in observation.text
    assert env.guesses == (), "bad words are answered by no letters"
    assert observation.text.endswith("2 tries left.")


def test_six_tries_are_the_end_of_the_task_not_a_truncation() -> None:
    env = started()
    for turn, word in enumerate(wrong(env)[:TRIES], 1):
        observation, reward, terminated, truncated, info = env.step(word)
        assert reward == -1.0
        assert terminated == (turn == TRIES)
        assert not truncated
    assert not info["success"]
    assert f"The word was {env.game.secret}." in observation.text


@pytest.mark.parametrize("spell", [str.upper, " ".join, "{}.".format, '"{}"'.format, " {} ".format])
def test_a_guess_may_be_written_in_several_ways(spell: object) -> None:
    env = started(level=4)
    assert callable(spell)
    assert env.step(spell(env.game.secret))[4]["success"]


def test_the_answer_is_in_words() -> None:
    env = started()
    secret = env.game.secret
    guess = next(word for word in wrong(env) if word[0] == secret[0])
    assert env.step(guess)[0].text.startswith(f"{guess[0]} green, ")
    held = started(split=tw.Split.TEST_TEMPLATE)
    assert held.step(wrong(held)[0])[0].text[1] in "+?-", "another wording, told in the rules"


def test_the_oracle_does_not_look() -> None:
    """Two games with other secrets but equal answers so far: the oracle does the same in both."""
    plays: dict[str, str] = {}
    for seed in range(60):
        env = started(seed=seed)
        for _ in range(2):
            key, guess = env.state_key(), str(env.oracle())
            assert plays.setdefault(key, guess) == guess
            if env.step(guess)[2]:
                break
    assert len(plays) < 60


def test_random_guesses_hardly_ever_win() -> None:
    env = WordleEnv()
    for level in LEVELS:
        wins = 0
        for seed in range(100):
            env.reset(options={"task": WORDLES.spec(seed, level=level)})
            rng, over = tw.Rng("random", level, seed), False
            while not over:
                _, _, terminated, truncated, info = env.step(env.random_action(rng))
                over = terminated or truncated
            wins += info["success"]
        assert wins <= 10
