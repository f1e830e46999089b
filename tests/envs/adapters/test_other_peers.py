"""Reasoning Gym and TextArena by id: their own scores, episodes that keep to themselves, and certificates."""

from __future__ import annotations

import importlib.util
import random

import pytest

import turnwise as tw
from turnwise.envs.adapters.peers import PEERS, peer_of
from turnwise.envs.certify.certify import certify
from turnwise.envs.registry import find
from turnwise.errors import ContractError, UnknownEnvironmentError, UsageError
from turnwise.verdicts import Status


def needs(module: str, package: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"NOT TESTED with {package}: pip install {package}")


REASONING, ARENA = needs("reasoning_gym", "reasoning-gym"), needs("textarena", "textarena")


@pytest.mark.parametrize("id", [peer.example for peer in PEERS.values()])
def test_an_example_of_each_package_is_found_without_importing_it(id: str) -> None:
    entry = find(id)
    assert entry.source == PEERS[id.partition("/")[0]].module
    assert entry.lacks is None or entry.lacks.startswith("needs pip install 'turnwise[")


def test_names_of_other_packages() -> None:
    assert peer_of("textarena/Mastermind-v0") == (PEERS["textarena"], "Mastermind-v0")
    assert peer_of("reasoning_gym/leg_counting-v0") == (PEERS["reasoning_gym"], "leg_counting")
    assert peer_of("turnwise/Maze-v0") is None
    assert peer_of("gymnasium/FrozenLake") is None


@pytest.mark.parametrize("peer", list(PEERS))
def test_an_id_without_a_version_is_answered_with_an_example(peer: str) -> None:
    with pytest.raises(UnknownEnvironmentError, match=f"end in a version, as in {PEERS[peer].example}"):
        find(f"{peer}/Foo")
    with pytest.raises(UnknownEnvironmentError) as error:
        find("turnwise/Foo")
    assert "end in a version" not in str(error.value)


@REASONING
def test_a_question_is_scored_by_its_own_dataset() -> None:
    env = tw.make("reasoning_gym/leg_counting-v0", max_animals=4)
    first, _ = env.reset(seed=42)
    assert "how many legs" in first.text
    answer = env.oracle()
    assert env.fork().step(answer)[1:3] == (1.0, True)
    assert env.fork().step(f"Thinking <answer>7</answer> so {answer}")[4]["success"], "the last answer counts"
    for wrong in ("", "<answer></answer>", "x" * 20_000, "<answer>(((", "I do not know"):
        _, reward, terminated, _, info = env.fork().step(wrong)
        assert (terminated, info["success"]) == (True, False)
        assert reward < 1
    assert env.fork().step("")[1] == 0.0


@REASONING
@pytest.mark.parametrize("name", ["spiral_matrix", "string_insertion", "n_queens", "countdown", "simple_integration"])
def test_a_dataset_whose_scorer_runs_the_answer_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="an answer could run code in this process"):
        tw.make(f"reasoning_gym/{name}-v0")


@REASONING
@pytest.mark.slow
@pytest.mark.parametrize("name", ["leg_counting", pytest.param("chain_sum", marks=pytest.mark.shift)])
def test_datasets_are_certified(name: str) -> None:
    certificate = certify(f"reasoning_gym/{name}-v0", quick=True)
    assert certificate.passed, str(certificate)


@REASONING
def test_a_dataset_that_prints_is_named() -> None:
    assert certify("reasoning_gym/bf-v0", quick=True, laws=["prints_nothing"]).broken == ("prints_nothing",)


@REASONING
@pytest.mark.parametrize("name", ["graph_color", "rubiks_cube"])
def test_a_dataset_with_many_right_answers_has_an_oracle(name: str) -> None:
    env = tw.make(f"reasoning_gym/{name}-v0")
    env.reset(seed=0)
    assert env.step(env.get_wrapper_attr("oracle")())[1] == 1.0, "the example of the dataset is right"


@REASONING
@pytest.mark.parametrize("name", ["boxnet", "rush_hour"])
def test_a_dataset_without_answers_has_no_oracle(name: str) -> None:
    env = tw.make(f"reasoning_gym/{name}-v0")
    env.reset(seed=0)
    with pytest.raises(ContractError, match=f"{name} has no oracle"):
        env.get_wrapper_attr("oracle")()


@REASONING
def test_unknown_datasets_and_arguments_are_refused() -> None:
    with pytest.raises(UnknownEnvironmentError, match="Did you mean reasoning_gym/leg_counting-v0"):
        tw.make("reasoning_gym/leg_count-v0")
    with pytest.raises(UsageError, match="no_such"):
        tw.make("reasoning_gym/leg_counting-v0", no_such=1)


@ARENA
@pytest.mark.slow
@pytest.mark.parametrize("name", ["Mastermind-v0", pytest.param("TowerOfHanoi-v0", marks=pytest.mark.shift)])
def test_games_are_certified_with_two_named_exemptions(name: str) -> None:
    certificate = certify(f"textarena/{name}", quick=True)
    assert certificate.passed, str(certificate)
    reasons = {v.law: v.reason for v in certificate.verdicts if v.status is Status.SKIP and "exempt" in v.reason}
    assert set(reasons) == {"no_global_rng", "oracle_solves"}


@ARENA
def test_a_game_leaves_the_global_generator_alone() -> None:
    random.seed(7)
    before = random.getstate()
    one, other = tw.make("textarena/Mastermind-v0"), tw.make("textarena/Mastermind-v0")
    first = one.reset(seed=1)[0].text
    other.reset(seed=2)
    answers = [(one.step("[1 2 3 4]")[0].text, other.step("[1 2 3 4]")[0].text) for _ in range(2)]
    assert random.getstate() == before
    random.seed(8)
    alone = tw.make("textarena/Mastermind-v0")
    assert alone.reset(seed=1)[0].text == first
    assert [alone.step("[1 2 3 4]")[0].text for _ in range(2)] == [mine for mine, _ in answers]


@ARENA
def test_a_game_is_won_by_its_own_reward() -> None:
    env = tw.make("textarena/TowerOfHanoi-v0")
    assert "You are playing Tower of Hanoi" in env.reset(seed=0)[0].text
    assert "invalid move" in env.step("[Z Q]")[0].text
    moves = ["A C", "A B", "C B", "A C", "B A", "B C", "A C"]
    for move in moves[:-1]:
        observation, reward, terminated, *_ = env.step(f"[{move}]")
        assert not terminated
        assert f"[{move}]" not in observation.text, "the agent knows its own move"
    _, reward, terminated, _, info = env.step(f"[{moves[-1]}]")
    assert (reward, terminated, info["success"]) == (1.0, True, True)


@ARENA
def test_variants_and_games_for_several_players() -> None:
    assert tw.make("textarena/TowerOfHanoi-v0", variant="medium").reset(seed=0)[0].text.count("disks") > 1
    with pytest.raises(UsageError, match="not a game for one player"):
        tw.make("textarena/ConnectFour-v0")
    with pytest.raises(UnknownEnvironmentError, match="Did you mean textarena/Mastermind-v0"):
        tw.make("textarena/Mastermnd-v0")
