from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Action, Episode, Outcome, Score, Split, TaskSpec
from turnwise.agents.agent import CHAT_API
from turnwise.errors import StoreError, UsageError
from turnwise.inference.models import load_model, load_tokenizer
from turnwise.rollouts.store import MANIFEST, EpisodeStore, load_episodes
from turnwise.trainers.archer_settings import ArcherConfig
from turnwise.trainers.behavior_cloning import CloningConfig
from turnwise.trainers.collect.demonstrations import DemonstrationConfig, encoded, filtered, readable
from turnwise.trainers.learning.rows import pack
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.model_files import ModelFiles
from turnwise.trainers.run.offline import demonstrations, minibatch
from turnwise.trainers.run.settings import AgentConfig, TrainConfig
from turnwise.trainers.value_based import ValueBasedConfig

from . import small
from .fakes import Said, conversation, episode, returning, turn


def test_cloning_learns_what_was_shown(cloned: Path) -> None:
    losses = [line["loss"] for line in read_metrics(cloned / "metrics.jsonl") if "loss" in line]
    assert losses[-1] < 0.5 * losses[0]
    tokenizer = load_tokenizer(cloned / "model")
    assert len(tokenizer) < 100, "a vocabulary of the demonstrations' own words"


@pytest.mark.slow
def test_demonstrations_are_kept_with_the_run_and_can_be_cloned_again(tmp_path: Path, cloned: Path) -> None:
    stored = load_episodes(cloned / "demonstrations")
    assert len(stored) == 12
    again = small.clone(
        small.cloning(tmp_path / "again", steps=1, demonstrations={"store": str(cloned / "demonstrations"), "top": 0.5})
    )
    assert again.steps == 1
    assert not (tmp_path / "again" / "demonstrations").exists()


async def test_settings_of_play_beside_a_store_are_told(cloned: Path, caplog: pytest.LogCaptureFixture) -> None:
    """``skills`` chooses how demonstrations are played; those of a store have been played already."""
    store = str(cloned / "demonstrations")
    for wanted, levels, said in (
        ({"store": store}, None, []),
        ({"store": store, "skills": [0.5]}, None, ["demonstrations.skills has no effect on the demonstrations: "]),
        ({"store": store, "count": 5}, [1], ["demonstrations.count and levels have no effect on the demonstrations: "]),
    ):
        caplog.clear()
        config = CloningConfig.model_validate({"env": small.ENV, "levels": levels, "demonstrations": wanted})
        assert await demonstrations(config, config.demonstrations)
        assert [text[: len(start)] for text, start in zip(caplog.messages, said, strict=True)] == said


async def test_a_nano_model_that_is_not_built_is_told(cloned: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = {"env": small.ENV, "model": str(cloned / "model"), "demonstrations": {"store": f"{cloned}/demonstrations"}}
    for nano, told in (({}, []), ({"size": "2M"}, ["nano has no effect: the run starts from model="])):
        caplog.clear()
        await CloningConfig.model_validate({**given, "nano": nano}).start(ModelFiles("float32"), None)
        assert [text[: len(start)] for text, start in zip(caplog.messages, told, strict=True)] == told


@pytest.mark.slow
def test_cloning_starts_from_a_given_model(tmp_path: Path, cloned: Path) -> None:
    result = small.clone(small.cloning(tmp_path / "more", steps=1, model=str(cloned / "model")))
    first = read_metrics(result.folder / "metrics.jsonl")[1]["loss"]
    assert first < read_metrics(cloned / "metrics.jsonl")[1]["loss"], "it goes on from what was learnt"


@pytest.mark.parametrize(
    ("script", "settings"), [(CloningConfig, {}), (ValueBasedConfig, {}), (ArcherConfig, {"mode": "offline"})]
)
def test_keeping_episodes_is_refused_where_none_are_played(script: type[TrainConfig], settings: dict[str, str]) -> None:
    whole = {"env": small.ENV, "model": "somewhere", **settings}
    script.model_validate(whole)
    with pytest.raises(pydantic.ValidationError, match=r"keep_episodes = 'all': .* plays no training episodes"):
        script.model_validate({**whole, "keep_episodes": "all"})


def test_a_store_of_another_environment_is_refused(tmp_path: Path) -> None:
    with EpisodeStore(tmp_path / "store") as store:
        store.append(returning(1.0))
    with pytest.raises(StoreError, match="episodes of test/Fake-v0"):
        small.clone(small.cloning(tmp_path / "run", demonstrations={"store": str(tmp_path / "store")}))


def test_a_store_of_held_out_tasks_is_refused(tmp_path: Path) -> None:
    held_out = TaskSpec("maze", "pillars", split=Split.TEST_IID)
    with EpisodeStore(tmp_path / "store") as store:
        store.append(replace(returning(1.0), env_id=small.ENV, task=held_out))
    with pytest.raises(StoreError, match="of split test_iid, and this run trains on train"):
        small.clone(small.cloning(tmp_path / "run", demonstrations={"store": str(tmp_path / "store")}))


def test_demonstrations_without_sampled_ids_say_so(tmp_path: Path, cloned: Path) -> None:
    shown = {"store": str(cloned / "demonstrations"), "sampled_ids": True}
    with pytest.raises(UsageError, match=r"set demonstrations\.sampled_ids=false"):
        small.clone(small.cloning(tmp_path / "run", demonstrations=shown))


def test_a_demonstration_beyond_the_context_is_refused_not_cut(tmp_path: Path) -> None:
    nano = {"size": "0.1M", "layers": 1, "hidden": 32, "context_length": 64}
    agent = {"context": "full", "max_tokens": 4, "show_tools": False}
    with pytest.raises(UsageError, match="the model's context holds 64"):
        small.clone(small.cloning(tmp_path / "run", nano=nano, agent=agent))


def test_demonstrations_of_other_constructor_arguments_are_not_taken_over(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="context holds"):  # dies after it played, before it learned
        small.clone(small.cloning(tmp_path / "run", nano={"context_length": 8}))
    longer = small.cloning(tmp_path / "run", episodes={"env_kwargs": {"max_turns": 5}})
    with pytest.raises(StoreError, match="env_kwargs is"):
        small.clone(longer)


@pytest.mark.slow
def test_demonstrations_of_another_count_are_refused_with_a_way_to_start_over(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="context holds"):  # dies after it played, before it learned
        small.clone(small.cloning(tmp_path / "run", nano={"context_length": 8}))
    fewer = small.cloning(tmp_path / "run", demonstrations={"count": 6, "skills": [0.5]}, steps=1)
    played = tmp_path / "run" / "demonstrations"
    with pytest.raises(StoreError, match=f"belongs to another run: .*; remove {re.escape(str(played))} to play"):
        small.clone(fewer)
    shutil.rmtree(played)
    assert small.clone(fewer).steps == 1
    assert len(load_episodes(played)) == 6


def test_demonstrators_may_have_habits_which_make_other_demonstrations(tmp_path: Path) -> None:
    shown = {"count": 6, "skills": [1.0]}
    for habits in (0.0, 1.0):
        folder = tmp_path / f"run-{habits}"
        settings = small.cloning(folder, nano={"context_length": 8}, demonstrations=shown | {"habits": habits})
        with pytest.raises(UsageError, match="context holds"):  # dies after it played, before it learned
            small.clone(settings)
    plain, habitual = (load_episodes(tmp_path / f"run-{habits}" / "demonstrations") for habits in (0.0, 1.0))
    assert all(episode.success for episode in plain)
    assert not all(episode.success for episode in habitual), "the oracle is never asked"
    with pytest.raises(StoreError, match="belongs to another run"):
        small.clone(small.cloning(tmp_path / "run-1.0", nano={"context_length": 8}, demonstrations=shown))


def test_a_store_that_is_damaged_is_not_told_to_be_of_another_run(tmp_path: Path) -> None:
    played = tmp_path / "run" / "demonstrations"
    played.mkdir(parents=True)
    (played / MANIFEST).write_text("{")
    with pytest.raises(StoreError) as caught:
        small.clone(small.cloning(tmp_path / "run"))
    assert "is damaged" in str(caught.value)
    assert "remove" not in str(caught.value)


outcomes = st.sampled_from(list(Outcome))


@given(st.lists(st.tuples(st.integers(-9, 9), st.booleans(), outcomes), max_size=12), st.floats(0.05, 1), st.booleans())
def test_filters_keep_the_best_of_what_was_played_to_an_end(
    drawn: list[tuple[int, bool, Outcome]], top: float, only_success: bool
) -> None:
    episodes = [
        episode([turn((1,), (2,), float(reward))], name=str(i), outcome=outcome, success=success)
        for i, (reward, success, outcome) in enumerate(drawn)
    ]
    config = DemonstrationConfig(top=top, only_success=only_success)
    usable = [e for e in episodes if e.trainable and (e.success or not only_success)]
    if not usable:
        with pytest.raises(UsageError, match=f"of {len(episodes)} episodes"):
            filtered(episodes, config)
        return
    kept = filtered(episodes, config)
    assert len(kept) == max(1, round(top * len(usable)))
    lost = [e for e in usable if e not in kept]
    assert all(k.total_reward >= x.total_reward for k in kept for x in lost)
    assert kept == [e for e in episodes if e in kept], "the order stays"


def test_demonstrations_are_encoded_as_the_agent_would_have_said_them(cloned: Path) -> None:
    model, tokenizer = load_model(cloned / "model")
    agent = AgentConfig(context="full", show_tools=False).agent(model, tokenizer)
    shown = load_episodes(cloned / "demonstrations")[0]
    (coded,) = encoded([shown], agent, ())
    for before, after in zip(shown.turns, coded.turns, strict=True):
        assert tokenizer.decode(after.action_ids[:-1]) == before.action.text
        assert after.action_ids[-1] == tokenizer.eos_token_id, "the closer is part of what is learnt"
    rows = pack([coded])
    assert int(rows.row.max()) == 0, "a full context is one row"
    assert rows.tokens == sum(len(t.action_ids) for t in coded.turns)


def unreadable(shown: Episode, words: str = "Let me call") -> Episode:
    """The episode as a chat API's, whose first action could not be read."""
    first, *rest = (replace(turn, info={CHAT_API: {"model": "m"}}) for turn in shown.turns)
    bad = Action(words, problem="Tool call 1, of move: its arguments are not JSON.")
    return replace(shown, turns=(replace(first, action=bad), *rest))


def test_an_action_that_could_not_be_read_is_context_and_not_learned(cloned: Path) -> None:
    model, tokenizer = load_model(cloned / "model")
    agent = AgentConfig(context="full", show_tools=False).agent(model, tokenizer)
    shown = next(e for e in load_episodes(cloned / "demonstrations") if len(e.turns) > 2)
    words = shown.turns[0].action.text  # the nano model has no others
    (coded,) = encoded([unreadable(shown, words)], agent, ())
    (kept,), left_out = readable([coded])
    assert left_out == 1
    rows = pack([kept])
    assert rows.tokens == sum(len(turn.action_ids) for turn in coded.turns[1:])
    whole = pack(encoded([shown], agent, ()))
    assert rows.ids.tolist() == whole.ids.tolist(), "what was said is still read before the next action"
    with pytest.raises(UsageError, match=r"none of the 1 actions in the demonstrations could be read .*not JSON"):
        readable([replace(coded, turns=coded.turns[:1])])


@pytest.mark.slow
def test_a_run_says_how_many_actions_it_left_out(tmp_path: Path, cloned: Path) -> None:
    with EpisodeStore(tmp_path / "store") as store:
        for shown in load_episodes(cloned / "demonstrations"):
            store.append(unreadable(shown))
    result = small.clone(small.cloning(tmp_path / "run", steps=1, demonstrations={"store": str(tmp_path / "store")}))
    assert result.note.startswith("12 of "), result.note
    assert "demonstrated actions could not be read, and were left out" in result.note


@given(st.integers(1, 20), st.integers(1, 8), st.integers(0, 3))
def test_an_epoch_shows_every_row_at_most_once(count: int, size: int, seed: int) -> None:
    rows = pack([conversation([Said((1,), (2,))], name=str(i)) for i in range(count)])
    size = min(size, count)
    for epoch in range(2):
        steps = range(epoch * (count // size), (epoch + 1) * (count // size))
        seen = [i for step in steps for i in set(minibatch(rows, size, step=step, seed=seed).row.tolist())]
        assert len(seen) == len(set(seen)) == size * (count // size)


def test_skills_out_of_range_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="skills"):
        small.clone(small.cloning(tmp_path / "run", demonstrations={"skills": [1.5]}))


async def test_a_vocabulary_has_the_words_of_episodes_that_a_filter_leaves_out(tmp_path: Path, cloned: Path) -> None:
    """Learners that start from the clone may read the whole store, failures included."""
    solved, failed = load_episodes(cloned / "demonstrations")[:2]
    other = replace(failed.turns[0], action=Action("sideways"))
    with EpisodeStore(tmp_path / "store") as store:
        store.append(replace(solved, score=Score(True)))
        store.append(replace(failed, score=Score(False), turns=(other, *failed.turns[1:])))
    wanted = {"store": str(tmp_path / "store"), "only_success": True}
    start = await small.cloning(tmp_path / "run", demonstrations=wanted).start(None, None)  # type: ignore[arg-type]
    assert [episode.episode_id for episode in start.demonstrations] == [solved.episode_id]
    assert start.tokenizer.decode(start.tokenizer.encode("sideways")) == "sideways"


def test_an_environment_without_an_oracle_is_refused_before_it_is_played(tmp_path: Path) -> None:
    settings = {"env": "gymnasium/FrozenLake-v1", "demonstrations": {"skills": [0.5]}}
    with pytest.raises(UsageError, match=r"FrozenLake-v1 has no oracle \(.*demonstrations\.skills=\[0\]"):
        small.clone(small.cloning(tmp_path / "run", **settings))


def test_a_run_whose_demonstrations_all_fail_says_so(tmp_path: Path) -> None:
    lost = Episode(
        "e-0",
        small.ENV,
        returning(0.0).task,
        "g",
        (),
        Outcome.INFRA_FAILED,
        error="gone",
    )
    with EpisodeStore(tmp_path / "store") as store:
        store.append(lost)
    said = r"no demonstration is left: of 1 episodes 0 were played to an end .*; name another store .*, or filter less"
    with pytest.raises(UsageError, match=said):
        small.clone(small.cloning(tmp_path / "run", demonstrations={"store": str(tmp_path / "store")}))
