"""Trees of episodes: complete records, the same tree at any speed, nothing counted twice, no failure scored."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents.agent import Decision, EpisodeContext
from turnwise.agents.chat import ChatAgent
from turnwise.errors import ContractError, InfrastructureError, UsageError
from turnwise.inference.policy import Completion, Finish, Sampling
from turnwise.rollouts.branching import Paths, Strategy, branch_episodes
from turnwise.rollouts.branching_entropy import EntropyBranching, dealt
from turnwise.rollouts.branching_entropy import _Brancher as Brancher
from turnwise.rollouts.branching_vine import StateValues
from turnwise.rollouts.costs import RolloutCost
from turnwise.rollouts.episode import Episode, Outcome
from turnwise.rollouts.episode_state import EpisodeState
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.rollouts.replay import replay
from turnwise.rollouts.stats import RunStats
from turnwise.tasks.games.maze import U_SHAPED_MAZE
from turnwise.trainers.collect.collect import collect
from turnwise.trainers.learning.groups import grouped

from ..agents.fakes import tokenizer
from .fakes import answering
from .walkers import Road, Walk, Walker, evenly, now_and_then, perfect_cache, road, tasks

ALWAYS = EntropyBranching(threshold=1, weight=0, vocabulary=100)
NEVER = EntropyBranching(threshold=0, weight=0, vocabulary=100)
VINE = StateValues(rollouts=3)


async def played(
    env: Any,
    agent: Any,
    strategy: Strategy,
    *,
    count: int = 2,
    size: int = 8,
    skip: Sequence[str] = (),
    stats: RunStats | None = None,
    **options: Any,
) -> list[Episode]:
    chosen = RunOptions(group_size=size, backoff=0, **options)
    async with EnvPool.of(env, isolation=chosen.isolation) as pool:
        episodes = branch_episodes(pool, agent, tasks(count), strategy=strategy, options=chosen, skip=skip, stats=stats)
        async with aclosing(episodes):
            return [episode async for episode in episodes]


def tree(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Everything that follows from the seed; the tokens' numbers do not."""
    return {e.episode_id: (e.fork, [t.action.text for t in e.turns], e.total_reward, e.attempts) for e in episodes}


def whole(episodes: Sequence[Episode]) -> None:
    """The laws of a tree's records."""
    by_id = {episode.episode_id: episode for episode in episodes}
    assert len(by_id) == len(episodes), "each member number is given once"
    for episode in episodes:
        said = [turn.action.text for turn in episode.turns]
        for index, turn in enumerate(episode.turns):
            seen = f"after {' '.join(said[:index])}" if index else f"road {episode.task.seed}"
            assert turn.observation.text == seen, "an episode is what a replay of its actions shows"
            read = [*episode.turns[index - 1].prompt_ids, *episode.turns[index - 1].action_ids] if index else []
            assert list(turn.prompt_ids[: len(read)]) == read, "and what was read and said stands before what is read"
        if episode.fork is None:
            continue
        parent, turn_ = by_id[episode.fork.parent], episode.fork.turn
        assert 0 < turn_ < len(episode.turns)
        assert episode.turns[:turn_] == parent.turns[:turn_], "until it left, both are the same"
        assert episode.turns[turn_].prompt_ids == parent.turns[turn_].prompt_ids, "both read the same there"
        assert episode.turns[turn_].action_ids != parent.turns[turn_].action_ids, "and each drew an action of its own"
        inherited = parent.fork.owners if parent.fork is not None else ()
        assert len(inherited) < turn_, "nobody leaves where its parent had just left: that place would be full"
        assert episode.fork.owners == (*inherited, *(parent.episode_id,) * (turn_ - len(inherited)))


# -- the tree ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("initial", "beam", "size"), [(None, 2, 8), (1, 2, 8), (2, 4, 9), (3, 3, 7), (8, 2, 8)])
async def test_every_member_is_played_once_and_every_record_is_complete(initial: int, beam: int, size: int) -> None:
    strategy = ALWAYS.model_copy(update={"initial": initial, "beam": beam})
    episodes = await played(road(), Walker(evenly), strategy, size=size)
    whole(episodes)
    for group in grouped(episodes):
        assert {episode.episode_id for episode in group.members} == {f"{group.group_id}-{n}" for n in range(size)}
        left = Counter((e.fork.parent, e.fork.turn) for e in group.members if e.fork is not None)
        assert all(count < beam for count in left.values()), "a place is left by beam paths at most"
        whole_ones = sum(episode.fork is None for episode in group.members)
        assert whole_ones >= (initial or size // 2)
        assert (whole_ones < size) == (strategy.initials(size) < size), "where there is a budget, it is used"


async def test_where_nobody_hesitates_the_budget_becomes_whole_episodes() -> None:
    episodes = await played(road(), Walker(evenly), NEVER)
    whole(episodes)
    assert len(episodes) == 16
    assert all(episode.fork is None for episode in episodes)


async def test_the_same_seed_makes_the_same_tree_whoever_is_fast() -> None:
    halves = EntropyBranching(vocabulary=100)
    one = await played(road(), Walker(evenly), halves, concurrency=1)
    for agent, concurrency in ((Walker(evenly), 64), (Walker(evenly, now_and_then), 3)):
        assert tree(await played(road(), agent, halves, concurrency=concurrency)) == tree(one)
    other = await played(road(), Walker(evenly), halves, seed=1)
    assert [e.fork for e in other] != [e.fork for e in one], "another seed, another tree"
    assert 0 < sum(e.fork is not None for e in one) < 8, "the test has something to show"


def test_branching_follows_the_rise_of_a_normalised_entropy() -> None:
    """ΔH and U by hand: U − w ΔH ≤ threshold."""
    settings = EntropyBranching(tokens=2, vocabulary=4, weight=0.2, threshold=0.5)
    assert settings.entropy([-1.386294, -1.386294, -9.0], 4) == pytest.approx(1, abs=1e-5), "uniform: all there can be"
    assert settings.entropy([0.0, 0.0], 4) == 0
    assert settings.entropy([-1.386294], 4) == pytest.approx(0.5, abs=1e-5), "after the end nothing is uncertain"
    assert [settings.branches(1.0, u) for u in (0.69, 0.71)] == [True, False]
    assert [settings.branches(-1.0, u) for u in (0.29, 0.31)] == [True, False]


def test_the_entropy_of_sampled_tokens_is_unbiased() -> None:
    """Exactly, over all sequences of a policy over three tokens, one of which ends the action."""
    settings = EntropyBranching(tokens=3)
    first, later = {"a": 0.7, "b": 0.2, "end": 0.1}, {"a": 0.25, "b": 0.25, "end": 0.5}

    def sequences(depth: int, chances: dict[str, float]) -> list[list[float]]:
        if depth == 0:
            return [[]]
        return [
            [chance, *rest]
            for token, chance in chances.items()
            for rest in ([[]] if token == "end" else sequences(depth - 1, later))
        ]

    every = [[math.log(p) for p in chances] for chances in sequences(3, first)]
    weights = [math.exp(sum(logs)) for logs in every]
    assert sum(weights) == pytest.approx(1)
    exact = -sum(w * sum(logs) for w, logs in zip(weights, every, strict=True)) / (3 * math.log(3))
    estimate = sum(w * settings.entropy(logs, 3) for w, logs in zip(weights, every, strict=True))
    assert estimate == pytest.approx(exact)
    assert 0 <= exact <= 1


async def test_a_place_where_the_policy_hesitates_is_left_more_often() -> None:
    """After "right" the policy is sure of itself, after "left" it is not; the first turn is in between."""

    def table(observation: str) -> dict[str, float]:
        sure = observation.endswith("right")
        return {"left": 0.5, "right": 0.5} if not sure else {"left": 1e-9, "right": 1 - 1e-9}

    hesitant = EntropyBranching(initial=1, weight=1, threshold=0.0, tokens=1, vocabulary=2)
    episodes = await played(road(), Walker(table), hesitant, count=40, size=2)
    left = [e.turns[e.fork.turn].observation.text for e in episodes if e.fork is not None]
    assert not left, "entropy never rises above that of the first turn here"
    rising = hesitant.model_copy(update={"threshold": 0.5})
    episodes = await played(road(), Walker(table), rising, count=60, size=2)
    left = [e.turns[e.fork.turn].observation.text for e in episodes if e.fork is not None]
    assert left
    assert all(text.endswith("left") for text in left), "where it is sure, U − w ΔH is 1 at least"


# -- what it costs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [ALWAYS, NEVER, VINE, EntropyBranching(vocabulary=9, beam=3)], ids=str)
async def test_the_account_is_what_was_really_done(strategy: Strategy) -> None:
    env, agent = road(), Walker(evenly)
    episodes = await played(env, agent, strategy, size=6)
    account = RolloutCost.of(episodes)
    assert account.steps == len(env.steps)
    assert account.sampled == sum(len(action) for _, _, action in agent.requests)
    assert account.prompted == sum(len(prompt) for _, prompt, _ in agent.requests)
    assert account.reused == perfect_cache(agent.requests), "what a cache serves that keeps all it saw of the session"
    assert account.shared_steps == sum(e.fork.turn for e in episodes if e.fork is not None)
    assert account.shared_sampled == 2 * account.shared_steps
    assert account.prefilled == account.prompted - account.reused


async def test_looking_ahead_costs_what_it_costs_and_a_branch_less_than_a_whole_episode() -> None:
    env = road()
    episodes = await played(env, Walker(evenly), VINE, count=1, size=2)
    assert all(len(e.lookaheads) == 3 * 4 for e in episodes)
    assert RolloutCost.of(episodes).lookaheads == 24
    assert len(env.steps) == 2 * (4 + 3 * (4 + 3 + 2 + 1))
    branched, plain = road(), road()
    await played(branched, Walker(evenly), ALWAYS)
    await played(plain, Walker(evenly), NEVER)
    assert len(branched.steps) < len(plain.steps) == 2 * 8 * 4


async def test_stats_count_a_turn_where_it_was_played() -> None:
    env, stats = road(), RunStats()
    episodes = await played(env, Walker(evenly), ALWAYS, stats=stats)
    assert stats.turns == len(env.steps)
    assert stats.episodes == len(episodes) == 16


class Recorder:
    """A policy that says one token and writes down who asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[int, ...]]] = []

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
        self.asked.append((session, tuple(prompt_ids)))
        return Completion((sampling.stop_ids[0],), (-0.5,), (0,), Finish.STOP)


@pytest.mark.parametrize("strategy", [ALWAYS.model_copy(update={"vocabulary": None}), VINE], ids=["entropy", "vine"])
async def test_a_branch_keeps_its_parents_session_and_sends_its_parents_prefix(strategy: Strategy) -> None:
    policy = Recorder()
    episodes = await played(road(), ChatAgent(policy, tokenizer(), show_tools=False), strategy, count=1, size=4)
    roots = {episode.episode_id for episode in episodes if episode.fork is None}
    asked = Counter(session for session, _ in policy.asked)
    assert set(asked) == roots, "whoever left another is known to the server by the name of who began"
    assert sum(asked.values()) > 4 * len(roots)
    for episode in episodes:
        root = episode.fork.owners[0] if episode.fork is not None else episode.episode_id
        for turn in episode.turns:
            assert (root, turn.prompt_ids) in policy.asked
    whole_prefix = [e for e in episodes if e.fork is not None]
    for episode in whole_prefix:
        assert episode.fork is not None
        before, at = episode.turns[episode.fork.turn - 1], episode.turns[episode.fork.turn]
        assert at.prompt_ids[: len(before.prompt_ids) + 1] == before.prompt_ids + before.action_ids


class Doors(tw.ToolEnv):
    """Three turns before two doors."""

    blocking = False
    max_turns = 3

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return "two doors"

    @tw.tool
    def open(self, number: int) -> str:
        """Open a door."""
        return f"door {number} leads to two doors"


@pytest.mark.parametrize("isolation", ["inline", "thread"])
async def test_a_branch_is_offered_the_tools_of_its_parent(isolation: Any) -> None:
    offered: list[list[str]] = []

    class Noting(Walker):
        def start(self, context: EpisodeContext) -> Walk:
            return Note(self, context, ())

    class Note(Walk):
        def fork(self, context: EpisodeContext) -> Walk:
            offered.append([tool.name for tool in context.tools])
            return Note(self.agent, context, self.history)

    options = RunOptions(group_size=4, isolation=isolation)
    async with EnvPool.of(Doors, isolation=isolation) as pool:
        chosen = [Doors.tasks().spec(0)]
        played_ = branch_episodes(pool, Noting(evenly), chosen, strategy=ALWAYS, options=options)
        episodes = [episode async for episode in played_]
    assert any(episode.fork is not None for episode in episodes)
    assert offered
    assert all(names == ["open"] for names in offered)


async def test_no_more_are_alive_than_may_be_and_one_suffices() -> None:
    async def slow(observation: str) -> None:
        await asyncio.sleep(0)

    for strategy in (ALWAYS, VINE):
        for concurrency in (1, 5):
            agent = Walker(evenly, slow)
            episodes = await played(road(), agent, strategy, concurrency=concurrency, size=4)
            assert len(episodes) == 8
            assert agent.most <= concurrency
            assert concurrency == 1 or agent.most > 1, "and they are played beside one another"


@pytest.mark.parametrize("isolation", ["inline", "thread"])
async def test_every_fork_is_closed(isolation: str) -> None:
    for strategy in (ALWAYS, VINE):
        env = road()
        await played(env, Walker(evenly), strategy, isolation=isolation)
        assert env.made
        assert {id(fork) for fork in env.made} <= {id(each) for each in env.closed}


@pytest.mark.slow
async def test_forks_work_in_another_process() -> None:
    def anywhere(observation: str) -> dict[str, float]:
        return {f"move {way}": 0.25 for way in ("up", "down", "left", "right")}

    options = RunOptions(group_size=4, isolation="process", env_kwargs={"max_turns": 6})
    async with EnvPool.of("turnwise/MazeU-v0", isolation="process", env_kwargs=options.env_kwargs) as pool:
        chosen = [U_SHAPED_MAZE.spec(1), U_SHAPED_MAZE.spec(2)]
        rounds = branch_episodes(pool, Walker(anywhere), chosen, strategy=ALWAYS, options=options)
        episodes = [episode async for episode in rounds]
    assert all(episode.scored for episode in episodes)
    assert sum(episode.fork is not None for episode in episodes) == 4
    assert all(replay(episode).ok for episode in episodes), "a branch replays like any other episode"


# -- what fails --------------------------------------------------------------------------------------------------------


def once(when: Any) -> Any:
    """Trouble that comes the first time that ``when`` holds."""
    left = [True]

    def trouble(env: Road) -> None:
        if left and when(env):
            left.clear()
            raise RuntimeError("the machine is lost")

    return trouble


def first_branch(env: Road) -> bool:
    """In a fork of a fork, which is what a branch plays on, after its first own turn."""
    return env in env.made and env.turn == 4


async def test_a_branch_that_fails_is_played_again_from_where_it_left() -> None:
    env, stats = road(once(first_branch)), RunStats()
    episodes = await played(env, Walker(evenly), ALWAYS, stats=stats)
    whole(episodes)
    again = [episode for episode in episodes if episode.attempts > 1]
    assert len(again) == 1
    assert again[0].fork is not None
    assert (again[0].after_action, again[0].redrawn) == (1, 1), "what failed before is counted in what is played again"
    assert all(episode.outcome is Outcome.COMPLETED for episode in episodes)
    assert stats.retries == stats.failures["EnvironmentFailedError"] == 1


async def test_a_branch_that_always_fails_is_lost_and_nothing_else_is() -> None:
    doomed: list[str] = []

    def trouble(env: Road) -> None:
        if env in env.made and env.turn == 4 and (not doomed or doomed[0] == env.said[0] + str(env.task.seed)):
            doomed[:] = [env.said[0] + str(env.task.seed)]
            raise RuntimeError("the machine is lost")

    episodes = await played(road(trouble), Walker(evenly), ALWAYS, retries=1)
    lost = [episode for episode in episodes if not episode.scored]
    assert lost
    assert all(episode.outcome is Outcome.INFRA_FAILED and episode.fork is not None for episode in lost)
    assert len(episodes) == 16, "each member number has its record"
    for group in grouped(episodes):
        assert len(group.members) + group.excluded == 8
        assert not {episode.episode_id for episode in lost} & {episode.episode_id for episode in group.members}


async def test_a_path_that_begins_anew_takes_its_branches_with_it() -> None:
    """It fails in its last turn, when branches have left it: they would repeat turns that are in no record."""
    env = road(once(lambda env: env not in env.made and env.turn == 4))
    episodes = await played(env, Walker(evenly), ALWAYS, count=1)
    whole(episodes)
    again = next(episode for episode in episodes if episode.attempts > 1)
    assert again.fork is None
    assert any(e.fork is not None and e.fork.owners[0] == again.episode_id for e in episodes), "new ones left it"
    assert len(episodes) == 8


async def test_where_no_fork_can_be_made_now_its_budget_goes_on() -> None:
    def trouble(env: Road) -> None:
        raise InfrastructureError("no memory")

    env, stats = road(fork_trouble=trouble), RunStats()
    episodes = await played(env, Walker(evenly), ALWAYS, stats=stats)
    whole(episodes)
    assert len(episodes) == 16
    assert all(episode.fork is None and episode.scored for episode in episodes)
    assert stats.failures["InfrastructureError"] > 0


async def test_a_lookahead_that_is_lost_has_no_return() -> None:
    def trouble(env: Road) -> None:
        if env in env.made and env.said[:1] == ["left"] and env.turn == 2:
            raise RuntimeError("the machine is lost")

    episodes = await played(road(trouble), Walker(evenly), VINE, count=4, size=2, retries=0)
    assert all(episode.outcome is Outcome.COMPLETED for episode in episodes)
    every = [ahead for episode in episodes for ahead in episode.lookaheads]
    lost = [ahead for ahead in every if ahead.outcome is Outcome.INFRA_FAILED]
    assert 0 < len(lost) < len(every)
    assert RolloutCost.of(episodes).lookaheads_lost == len(lost)


async def test_a_lookahead_is_played_again_from_the_very_same_state() -> None:
    env = road(once(lambda env: env in env.made and env.turn == 3))
    plain = await played(road(), Walker(evenly), VINE, count=1, size=1)
    (episode,) = await played(env, Walker(evenly), VINE, count=1, size=1)
    assert all(ahead.outcome is Outcome.COMPLETED for ahead in episode.lookaheads)
    assert [len(ahead.rewards) for ahead in episode.lookaheads] == [4, 4, 4, 3, 3, 3, 2, 2, 2, 1, 1, 1]
    differing = [
        one.rewards != other.rewards for one, other in zip(episode.lookaheads, plain[0].lookaheads, strict=True)
    ]
    assert sum(differing) <= 1, "nobody else was disturbed"


class Locked(Road):
    """Holds what cannot be copied."""

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.lock = threading.Lock()
        return super().start(task, rng)


@pytest.mark.parametrize("strategy", [ALWAYS, VINE], ids=["entropy", "vine"])
async def test_what_cannot_be_forked_is_told_at_once(strategy: Strategy) -> None:
    Locked.steps, Locked.made, Locked.closed, Locked.trouble, Locked.fork_trouble = [], [], [], None, None
    with pytest.raises(ContractError, match=r"Locked forks by copy, but its 'lock' cannot be copied .*Forks.REPLAY"):
        await played(Locked, Walker(evenly), strategy)
    with pytest.raises(UsageError, match=r"FakeAgent cannot .* no fork\(\)"):
        await played(road(), answering(), strategy)


async def test_an_agent_whose_vocabulary_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError, match=r"set branching\.vocabulary"):
        await played(road(), Walker(evenly), EntropyBranching())


@pytest.mark.slow
async def test_a_bug_in_a_branch_stops_the_run() -> None:
    class Buggy(Walker):
        async def wait(self, observation: str) -> None:
            if observation.count("right") == 2:
                raise ZeroDivisionError

    agent = Buggy(evenly)
    agent.slow = agent.wait
    for strategy in (ALWAYS, VINE):
        with pytest.raises(ContractError, match="ZeroDivisionError"):
            await played(road(), agent, strategy)


async def test_leaving_early_leaves_nothing_behind() -> None:
    before = asyncio.all_tasks()
    env = road()
    options = RunOptions(group_size=4, concurrency=2)
    for strategy in (ALWAYS, VINE):
        async with EnvPool.of(env) as pool:
            episodes = branch_episodes(pool, Walker(evenly, now_and_then), tasks(5), strategy=strategy, options=options)
            async with aclosing(episodes):
                async for _ in episodes:
                    break
    assert asyncio.all_tasks() == before
    assert {id(fork) for fork in env.made} <= {id(each) for each in env.closed}


async def test_a_branch_that_is_canceled_before_it_starts_closes_its_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = Brancher.decided

    async def void(self: Brancher, state: EpisodeState, decision: Decision) -> None:
        await decided(self, state, decision)
        if self._sprouts:
            raise InfrastructureError("the path is void before its branches have started")

    monkeypatch.setattr(Brancher, "decided", void)
    env = road()
    episodes = await played(env, Walker(evenly), ALWAYS, retries=0)
    assert Outcome.INFRA_FAILED in {episode.outcome for episode in episodes}
    assert env.made
    assert {id(fork) for fork in env.made} <= {id(each) for each in env.closed}


# -- rounds that were interrupted --------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [EntropyBranching(vocabulary=100), VINE], ids=["entropy", "vine"])
async def test_an_interrupted_round_goes_on_with_the_groups_that_are_missing(strategy: Strategy) -> None:
    options = RunOptions(group_size=4, concurrency=3)
    async with EnvPool.of(road()) as pool:
        straight = await collect(pool, Walker(evenly), tasks(4), options=options, strategy=strategy)
        keep: list[Episode] = []

        async def round(done: Sequence[Episode]) -> Any:
            return await collect(
                pool, Walker(evenly), tasks(4), options=options, strategy=strategy, done=done, keep=keep
            )

        task = asyncio.create_task(round(()))
        while not keep and not task.done():
            await asyncio.wait([task], timeout=0.001)
        task.cancel()
        await asyncio.wait([task])
        assert 0 < len(keep) < 16
        assert len(keep) % 4 == 0, "groups are kept whole"
        again = await round(tuple(keep))
    assert tree(again.episodes) == tree(straight.episodes)
    assert [e.episode_id for e in again.episodes] == [e.episode_id for e in straight.episodes]
    assert [e.lookaheads for e in again.episodes] == [e.lookaheads for e in straight.episodes]


class Patience:
    """An observer for whom an hour passes at each place."""

    def __init__(self, hour: Callable[[], None]) -> None:
        self.hour = hour

    async def play(self, paths: Paths, size: int) -> list[Episode]:
        return [(await paths.play(paths.request(0), paths.pool, watch=lambda slot: self))[0]]

    async def reached(self, state: EpisodeState) -> None:
        await asyncio.sleep(0)
        self.hour()
        await asyncio.sleep(0)

    async def decided(self, state: EpisodeState, decision: Decision) -> None:
        pass

    async def stop(self) -> None:
        pass


async def test_an_episodes_clock_stands_still_while_others_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, late = asyncio.get_running_loop(), [0.0]
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + late[0])

    def hour() -> None:
        late[0] += 3600.0

    async def slow(observation: str) -> None:
        hour()
        await asyncio.sleep(0)

    limits: dict[str, Any] = {"turn_timeout": None, "env_timeout": None, "episode_timeout": 60.0}
    (waited,) = await played(road(), Walker(evenly), Patience(hour), count=1, size=1, **limits)
    assert waited.outcome is Outcome.COMPLETED
    (dawdled,) = await played(road(), Walker(evenly, slow), Patience(lambda: None), count=1, size=1, **limits)
    assert dawdled.outcome is Outcome.POLICY_FAILED, "the agent's own time does count"


def test_what_is_dealt_is_dealt_evenly_and_wholly() -> None:
    assert dealt(range(3, 10), 3) == [[3, 6, 9], [4, 7], [5, 8]]
    assert dealt([], 2) == [[], []]
