"""``TurnEnv``: what an author writes (start, act, judge, oracle) becomes a Gymnasium environment, sync and async."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Self

import gymnasium
from typing_extensions import TypeVar

from ..errors import ContractError, TaskError, UnparseableError
from ..tasks.family import SeededFamily, TaskFamily
from ..tasks.rng import Rng
from ..tasks.score import Score
from ..tasks.spec import Split, TaskSpec
from .author_line import method_at
from .background import resolve
from .contract import Contract
from .deprecated import add_old_limits, argument_of_start, move_old_limits
from .fork import Forks, fork_env, forked
from .messages import Action, ActionLike, Observation, ObservationLike, bounded, shown
from .required import check_family, check_limit, check_required
from .reserved import refuse_assigned, refuse_replaced
from .spaces import ActionSpace, ObservationSpace
from .step import OUT_OF_TURNS, Step, running
from .tools import Tool

TaskT = TypeVar("TaskT", default=Any)
"""The type of a generated task; with the default, type checkers accept a bare ``TurnEnv``."""
NearMiss = Sequence[ActionLike] | Callable[[Any], ActionLike]
"""A way to play: all actions in advance, or a function from the environment to the next one."""
Reset = tuple[Observation, dict[str, Any]]
Stepped = tuple[Observation, float, bool, bool, dict[str, Any]]


class TurnEnv(gymnasium.Env[Observation, ActionLike], Generic[TaskT]):
    """An environment of turns: the agent sends an action, and the environment answers with an observation.

    An author writes ``start`` and ``act``, each sync or async, and for certification ``oracle``. The class does the
    rest (seeding, turn limit, unparseable actions, judging, forking, both API forms). One instance runs one episode at
    a time; ``fork()`` creates another instance in the same state.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - Gymnasium's own declaration
    max_turns: int = 50
    """Limit of actions: the task then terminates, and ``judge`` returns its score."""
    max_turns_truncates: bool = False
    """Whether ``max_turns`` only keeps episodes short, as in a game that could go on and whose prompt states no limit.
    The episode is then truncated, and learners value the state in which it stopped."""
    family: TaskFamily[TaskT] | None = None
    """Source of tasks; ``None`` means that only the seed matters."""
    forks: Forks = Forks.COPY
    """Means by which ``fork()`` works."""
    blocking: ClassVar[bool] = True
    """Whether ``start``, ``act`` and ``judge`` may take long without awaiting; the runner then gives them a thread."""
    unparsed_reward: float = 0.0
    """Reward for an action that cannot be parsed."""
    contract: Contract = Contract()
    """Limits and exemptions that certification applies to this environment."""

    _init: tuple[tuple[Any, ...], dict[str, Any]]
    _task: TaskSpec | None = None
    _turn: int = 0
    _over: bool = True
    _actions: tuple[Action, ...] = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        env = super().__new__(cls)
        vars(env)["_init"] = (args, kwargs)
        return env

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        refuse_replaced(cls)
        move_old_limits(cls)

    def __setattr__(self, name: str, value: Any) -> None:
        refuse_assigned(self, name, value)
        super().__setattr__(name, value)

    def __init__(self, *, max_turns: int | None = None, render_mode: str | None = None) -> None:
        check_required(type(self), TurnEnv)
        check_family(type(self), self.family)
        if max_turns is not None:
            if max_turns < 1:
                raise ContractError(f"max_turns must be at least 1; got {max_turns}")
            self.max_turns = max_turns
        check_limit(type(self), self.max_turns)
        if not isinstance(self.max_turns_truncates, bool):
            raise ContractError(f"max_turns_truncates must be True or False; got {self.max_turns_truncates!r}")
        self.render_mode = render_mode
        self.observation_space = ObservationSpace()
        self.action_space = ActionSpace(tuple(tool.name for tool in self.tools))

    # -- what an author writes ----------------------------------------------------------------------------------

    @abstractmethod
    def start(self, task: TaskT, rng: Rng) -> ObservationLike | Awaitable[ObservationLike]:
        """Set up the world and return the first observation.

        Args:
            task: the task that ``family`` builds; without a family, its specification, which is always ``self.task``.
            rng: the only source of randomness for the episode, seeded by the task.
        """
        raise NotImplementedError

    @abstractmethod
    def act(self, action: Action) -> Step | ObservationLike | Awaitable[Step | ObservationLike]:
        """Answer one action. If you return text, the episode continues with reward 0."""
        raise NotImplementedError

    def judge(self) -> Score | bool | Awaitable[Score | bool]:
        """Judge the world when the episode ends without a score of its own; a plain ``bool`` is the success."""
        return Score(success=False)

    def oracle(self) -> ActionLike:
        """Return the best next action that the author knows in the current state, without changing the state.

        It may read hidden state, but should ask before it answers, as an informed agent would: it makes demonstrations.
        """
        raise ContractError(
            f"{type(self).__name__} has no oracle; write oracle() to certify it or to make demonstrations"
        )

    def random_action(self, rng: Rng) -> ActionLike:
        """Return an action of an agent that knows only the rules."""
        space = ActionSpace(tuple(tool.name for tool in self.tools), seed=rng.randrange(2**31))
        return space.sample()

    def secrets(self) -> Sequence[str]:
        """Return texts that the agent has to find out by acting: none may occur in the first observation."""
        return ()

    def best_return(self) -> float | None:
        """Return the largest return that the current task allows, or ``None``. The oracle must reach it."""
        return None

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return ways to play the current task that must not succeed, by name: cheats, and errors that almost solve it.

        Each is a sequence of actions, or a function from this environment to the next action.
        """
        return {}

    def attacks(self) -> Mapping[str, Sequence[ActionLike]]:
        """Return ways to break this environment beyond odd tool arguments, by name. It must score them, not fail."""
        return {}

    def state_key(self) -> str | None:
        """Return a key of the current state, equal for equal states; step-level groups compare it."""
        return None

    def snapshot(self) -> Any:
        """Return the state as a value that ``restore`` accepts, for environments that fork by ``Forks.SNAPSHOT``."""
        raise ContractError(
            f"{type(self).__name__} declares Forks.SNAPSHOT, so it must define snapshot() and restore()"
        )

    def restore(self, snapshot: Any) -> None:
        """Enter the state of a snapshot taken from another instance of this class."""
        raise ContractError(
            f"{type(self).__name__} declares Forks.SNAPSHOT, so it must define snapshot() and restore()"
        )

    @property
    def has_oracle(self) -> bool:
        """Whether ``oracle`` returns actions: by default, whether the class defines it."""
        return type(self).oracle is not TurnEnv.oracle

    # -- what an agent can read ---------------------------------------------------------------------------------

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that the agent may call."""
        return ()

    @property
    def task(self) -> TaskSpec:
        """The specification of the current episode's task."""
        if self._task is None:
            raise ContractError("there is no task before reset()")
        return self._task

    @property
    def turn(self) -> int:
        """Number of actions taken in this episode."""
        return self._turn

    def turns_at(self, level: int) -> int | None:
        """Return the turn limit of a level if it is known without a reset, for environments that start slowly."""
        return None

    @classmethod
    def tasks(cls) -> TaskFamily[TaskT]:
        """Return the family of this environment's tasks."""
        family: TaskFamily[Any] = cls.family or SeededFamily(cls.__name__)
        return family

    # -- Gymnasium's form ---------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode.

        Args:
            seed: chooses the task when ``options`` does not name one.
            options: ``{"task": TaskSpec or its JSON}``, or any of ``split``, ``level`` and ``template``.

        Raises:
            TaskError: no such task.
        """
        task, rng = self._begin(seed, options)
        content: ObservationLike = resolve(self.start(task, rng))
        return self._begun(content)

    def step(self, action: ActionLike) -> Stepped:
        """Take one action; see ``Step`` for the results."""
        entered = self._enter(action)
        try:
            result: Step | ObservationLike = entered if isinstance(entered, Step) else resolve(self.act(entered))
        except UnparseableError as error:
            result = self._unparsed(error)
        step = self._left(result)
        if step.done and step.score is None:
            step = self._judged(step, self._score_of(resolve(self.judge())))
        return self._stepped(step)

    # -- the async form, the same in both directions ------------------------------------------------------------

    async def areset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode without blocking the event loop, if the author wrote ``async def start``."""
        task, rng = self._begin(seed, options)
        started = self.start(task, rng)
        return self._begun(await started if inspect.isawaitable(started) else started)

    async def astep(self, action: ActionLike) -> Stepped:
        """Take one action without blocking the event loop, if the author wrote ``async def act``."""
        entered = self._enter(action)
        try:
            acted = entered if isinstance(entered, Step) else self.act(entered)
            result = await acted if inspect.isawaitable(acted) else acted
        except UnparseableError as error:
            result = self._unparsed(error)
        step = self._left(result)
        if step.done and step.score is None:
            step = self._judged(step, await self._score())
        return self._stepped(step)

    def fork(self) -> Self:
        """Return an independent environment in the same state, by the means that ``forks`` declares."""
        return fork_env(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return forked(self, memo) if self.forks is Forks.COPY or self._task is None else fork_env(self)

    def render(self) -> str:
        """Return the episode so far, as text."""
        head = f"{type(self).__name__} turn {self._turn}/{self.max_turns}"
        return "\n".join([head, *(f"> {action.text or action.tool_calls}" for action in self._actions)])

    # -- the inside ---------------------------------------------------------------------------------------------

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, Rng]:
        spec = self._specified(seed, options)
        return argument_of_start(self, self.tasks().generate(spec)), Rng("env", spec.digest)

    def _specified(self, seed: int | None, options: Mapping[str, Any] | None) -> TaskSpec:
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise TaskError(f"reset seed must be a non-negative integer; got {seed!r}")
        super().reset(seed=seed)
        spec = self._choose(seed, dict(options or {}))
        vars(self).update(_task=spec, _turn=0, _over=True, _actions=())  # over, until start() has come through
        return spec

    def _choose(self, seed: int | None, options: dict[str, Any]) -> TaskSpec:
        unknown = set(options) - {"task", "split", "level", "template"}
        if unknown:
            raise TaskError(f"unknown reset option {sorted(unknown)[0]!r}; use task, split, level or template")
        family, task = self.tasks(), options.pop("task", None)
        if task is None:
            if seed is None:
                seed = int(self.np_random.integers(2**31))
            return family.spec(seed, split=options.pop("split", Split.TRAIN), **options)
        if options:
            raise TaskError(f"reset options name a task and also {sorted(options)}, which the task already determines")
        spec = task if isinstance(task, TaskSpec) else TaskSpec.from_json(task)
        family.check(spec)
        return spec

    def _begun(self, content: ObservationLike) -> Reset:
        try:
            observation = Observation.of(content)
        except TypeError:
            raise self._wrong("start", content, "the first observation: text, a tw.Message or a list of them") from None
        vars(self)["_over"] = False
        return observation, {"task": self.task.to_json(), "obs_key": self.state_key()}

    def _enter(self, action: ActionLike) -> Action | Step:
        if self._over:
            raise ContractError("step() was called before reset() or after the end of the episode; call reset() first")
        read = bounded(Action.of(action))
        vars(self).update(_actions=(*self._actions, read), _turn=self._turn + 1)
        return self._unparsed(UnparseableError(read.problem)) if read.problem else read

    def _unparsed(self, error: UnparseableError) -> Step:
        return running(str(error), self.unparsed_reward, unparsed=True)

    def _left(self, result: Step | ObservationLike) -> Step:
        try:
            step = result if isinstance(result, Step) else running(result)
        except TypeError:
            cure = "text, tw.running(text, reward), tw.success(text) or tw.failure(text)"
            raise self._wrong("act", result, cure) from None
        if not step.done and self._turn >= self.max_turns:
            cut, info = self.max_turns_truncates, {**step.info, OUT_OF_TURNS: True}
            step = replace(step, terminated=not cut, truncated=cut, info=info)
        vars(self)["_over"] = step.done
        return step

    async def _score(self) -> Score:
        judged = self.judge()
        return self._score_of(await judged if inspect.isawaitable(judged) else judged)

    def _score_of(self, judged: Any) -> Score:
        try:
            return Score.of(judged)
        except ContractError:
            raise self._wrong("judge", judged, "tw.Score(success=...) or a bool") from None

    def _judged(self, step: Step, score: Score) -> Step:
        return replace(step, score=score)

    def _wrong(self, method: str, returned: object, cure: str) -> ContractError:
        """Return the error for a method whose result cannot be used; nothing else would name its line."""
        what = "nothing" if returned is None else shown(returned)
        where = method_at(self, method)
        return ContractError(f"{type(self).__name__}.{method}() returned {what}; return {cure}{where}")

    def _stepped(self, step: Step) -> Stepped:
        info: dict[str, Any] = {"turn": self._turn, "obs_key": self.state_key(), **step.info}
        if step.score is not None:
            info["score"] = step.score
            info["success"] = step.score.success
        return step.observation, float(step.reward), step.terminated, step.truncated, info


add_old_limits(TurnEnv)
