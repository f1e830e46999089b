"""Notes of an evaluation on a model that cannot do well: it cannot read the prompts, or is cut off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import turnwise as tw
from turnwise import Action, Episode, Rng, Step, TaskSpec
from turnwise.agents.chat import ChatAgent
from turnwise.evals.evaluation import run_evaluation
from turnwise.evals.formatting import cut_note
from turnwise.evals.settings import EvalConfig
from turnwise.evals.summary import Summary, summarise
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.policy import Finish, Sampling
from turnwise.inference.transformers_policy import TransformersPolicy

WORDS = "the quick brown fox jumps over lazy dogs"


class Listening(tw.TurnEnv):
    """Accepts any action."""

    def start(self, task: TaskSpec, rng: Rng) -> str:
        return WORDS

    def act(self, action: Action) -> Step:
        return tw.success("thanks")


def evaluated(store: Path, words: str) -> Summary:
    """Evaluate a model with these words, whose every action ends at the token limit."""
    tokenizer = build_tokenizer("word", [words])
    model = build_model(NanoConfig(size="0.1M", layers=1, hidden=16), tokenizer)
    agent = ChatAgent(TransformersPolicy(model, tokenizer), tokenizer, sampling=Sampling(max_tokens=1))
    config = EvalConfig(env="test/Listening-v0", n=4, splits="train")  # type: ignore[arg-type]
    return run_evaluation(config, agent, store=store, env=Listening)


def test_a_model_of_other_words_is_named_and_needs_no_more_tokens(tmp_path: Path) -> None:
    """Its success of 0 % says nothing about the token limit; evaluating it is allowed, unlike training it."""
    summary = evaluated(tmp_path / "store", "guess a letter in six tries")
    (note,) = (note for note in summary.notes if "tokens" in note or "token limit" in note)
    assert note.endswith(
        "% of the tokens in the first prompts of Listening are unknown to the model's vocabulary: it was made "
        "for another environment"
    )
    assert summary.cut_actions


def test_a_model_that_can_read_is_cut_off(tmp_path: Path) -> None:
    summary = evaluated(tmp_path / "store", WORDS)
    assert summary.notes[-1].startswith(f"{summary.cut_actions} of 4 actions ended at the token limit")


@pytest.mark.parametrize(
    ("cut", "note"), [(5, ""), (6, "6 of 100 actions ended at the token limit; raise agent.max_tokens?")]
)
def test_a_few_actions_at_the_token_limit_need_no_note(
    make_episode: Callable[..., Episode], cut: int, note: str
) -> None:
    ended = [Finish.LENGTH] * cut + [Finish.STOP] * (50 - cut)
    summary = summarise(make_episode(True, seed=i, turn={"finish": finish}) for i, finish in enumerate(ended))
    assert cut_note(summary) == note
