"""``AppsEnv``: do a user's work by calling their apps, judged by the final rows of the apps' database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from ...errors import ToolError, UsageError
from ...tasks.apps.family import APPS_FAMILY, AppsFamily, open_world
from ...tasks.apps.levels import LEVELS
from ...tasks.apps.simulators.app import LoginNeeded, TooManyCalls
from ...tasks.apps.simulators.catalogue import APPS, IDLE
from ...tasks.apps.simulators.world import World
from ...tasks.apps.templates.plan import Act, plan
from ...tasks.apps.templates.play import violations, watched
from ...tasks.apps.templates.talk import Heard, reply
from ...tasks.apps.templates.task import AppTask
from ...tasks.family import TaskFamily
from ...tasks.rng import Rng, stable_hash
from ...tasks.rows.expected import Reason
from ...tasks.rows.judge import Ending, judge
from ...tasks.score import Score
from ..base import NearMiss, Stepped
from ..contract import Contract
from ..fork import Forks
from ..messages import ActionLike, ObservationLike
from ..program.env import ProgramEnv
from ..step import CHANGES, Step
from ..toolenv import ToolEnv
from ..tools import Tool, tool
from .attacks import attacks_on
from .calls import apps_text, docs_of, tools_for
from .near_misses import near_misses
from .oracle import Tried, next_action

Answer = str | int | float | list[str | int | float]
Described = Literal["all", "docs"]


@dataclass(frozen=True)
class AppSnapshot:
    """State of an episode, as stored by a fork."""

    work: AppTask
    world: World
    heard: Heard
    ending: Ending | None
    tried: tuple[Tried, ...]
    turns: int


class AppsByCalls(ToolEnv[AppTask]):
    """``AppsEnv`` without programs.

    Args:
        described: ``"all"``: list every tool with its parameters; ``"docs"``: list only the tools that describe the
            others, which can still be called.
        templates: names of the templates to draw tasks from; omitted, all.
        brief: begin with the request alone, without an introduction; for models with a short context.
        variation: a number that selects among the ways in which the oracle solves a task.
        max_turns: limit of actions per episode; omitted, the level's own.
        render_mode: Gymnasium's render mode.

    Raises:
        UsageError: ``described`` or a template is unknown.
    """

    family: TaskFamily[AppTask] | None = APPS_FAMILY
    blocking = False
    forks = Forks.SNAPSHOT
    max_turns = 60
    contract = Contract(max_observation_chars=30_000, random_floor=0.005)

    work: AppTask | None = None
    world: World
    heard: Heard
    ending: Ending | None
    tried: tuple[Tried, ...]
    planned: dict[bool, tuple[Act, ...]]
    """Solutions of the task from its beginning, by whether they read descriptions first; computed on first use."""

    def __init__(
        self,
        *,
        described: Described = "all",
        templates: Sequence[str] | None = None,
        brief: bool = False,
        variation: int = 0,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if described not in ("all", "docs"):
            raise UsageError(f"tools are described 'all' or by 'docs'; got {described!r}")
        self.described, self.brief, self.variation = described, brief, variation
        self._limited = max_turns is not None
        if templates is not None:
            self.tasks = partial(AppsFamily.only, templates)  # type: ignore[method-assign]
            self.tasks()  # fails here if a template is unknown
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    # -- the episode ------------------------------------------------------------------------------------------------

    def start(self, task: AppTask, rng: Rng) -> ObservationLike:
        """Open the task's world and return the request."""
        self.work, self.world = task, open_world(self.task, task)
        self.heard, self.ending, self.tried = Heard(), None, ()
        self.planned = {}
        if not self._limited:
            self.max_turns = LEVELS[self.task.level].turns
        return self.work.prompt if self.brief else f"{self._introduction()}\n{self.work.prompt}"

    def _introduction(self) -> str:
        assert self.work is not None
        profile = self.world.db.row("SELECT * FROM profile")
        assert profile is not None
        return (
            f"You work for {profile['first_name']} {profile['last_name']} <{profile['email']}> through these apps: "
            f"{apps_text(self.work.shown)}. It is {self.world.now:%A, %Y-%m-%d %H:%M}. Call task_answer when the task "
            "is done (with the answer, if the user asked a question), or task_refuse if it cannot or must not be done. "
            "Keep answers short: numbers without units, dates as 2024-03-09, several values as a list."
        )

    def offered(self) -> Sequence[Tool]:
        """Return the calls of the task's apps, and those that end the task; before the first episode, all calls."""
        return self._calls()

    def _calls(self) -> Sequence[Tool]:
        if self.work is None:
            return tools_for(type(self), tuple(app.name for app in APPS), talks=True)
        return tools_for(type(self), self.work.shown, talks=self.work.talk is not None)

    @property
    def tools(self) -> Sequence[Tool]:
        """Tools listed to the agent: all that are offered, or those that describe the others."""
        described = self.offered() if self.described == "all" else [one for one in self.offered() if _guides(one.name)]
        return tuple(one.bind(self) for one in described)

    def made(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run a call of an app and return its answer.

        Raises:
            ToolError: the app refuses the call.
        """
        assert self.work is not None
        again = False
        try:
            return self.world.call(name, arguments)
        except (LoginNeeded, TooManyCalls):
            again = True
            raise
        finally:
            self._note(name, arguments, again)
            self.heard = watched(self.work, self.world, self.heard, IDLE)

    @tool(strict=True)
    def docs_app(self, app: str) -> dict[str, str]:
        """List the calls of an app, each with a one-line description.

        Args:
            app: name of the app.
        """
        self._note("docs_app", {"app": app})
        return dict(docs_of(self._calls(), app))

    @tool(strict=True)
    def docs_call(self, name: str) -> dict[str, Any]:
        """Describe a call and its arguments.

        Args:
            name: name of the call, such as account_profile.
        """
        self._note("docs_call", {"name": name})
        found = next((one for one in self._calls() if one.name == name), None)
        if found is None:
            raise ToolError(f"404 call {name[:40]!r} does not exist; docs_app lists the calls of an app")
        return found.to_json()["function"]  # type: ignore[no-any-return]

    @tool(strict=True)
    def say(self, text: str) -> str:
        """Send the user a message and get a reply.

        Args:
            text: a question, or exactly what you are about to do.
        """
        assert self.work is not None
        if self.work.talk is None:
            raise ToolError("409 the user is not available to talk")
        self._note("say", {"text": text})
        answer, self.heard = reply(self.work.talk, self.heard, text)
        return answer

    @tool(ends=True, strict=True)
    def task_answer(self, answer: Answer | None = None) -> str:
        """Report that the task is done. This ends the task.

        Args:
            answer: answer to the user's question: text, a number, or a list of them; omit it if there was no question.
        """
        self.ending = Ending(done=True, answer=answer)
        return "The task has ended."

    @tool(ends=True, strict=True)
    def task_refuse(self, reason: Reason, evidence: str | int | float) -> str:
        """Report that the task cannot or must not be done. This ends the task.

        Args:
            reason: not_found if something that the task names does not exist, not_allowed if it is forbidden,
                not_possible if a limit prevents it, conflict if it contradicts existing data.
            evidence: the fact that shows it, as short as possible, such as the balance that is too low.
        """
        self.ending = Ending(reason=reason, evidence=evidence)
        return "The task has ended."

    def said(self, text: str) -> Step | ObservationLike:
        """Send a message without calls to the user, if the task has a conversation, and return the reply."""
        if self.work is None or self.work.talk is None:
            return super().said(text)  # type: ignore[return-value]  # which awaits nothing
        return self.say(text)

    def judge(self) -> Score:
        """Score the rows that had to change, those that must not change, and the way in which the episode ended."""
        assert self.work is not None
        return judge(self.work, self.world.changes(), self.ending, IDLE, violations(self.work, self.heard, self.ending))

    def _stepped(self, step: Step) -> Stepped:
        changes = self.world.latest()
        return super()._stepped(replace(step, info={**step.info, CHANGES: changes}) if changes else step)

    # -- for certification, demonstrations and forks ----------------------------------------------------------------

    def oracle(self) -> ActionLike:
        """Return the first action of the solution that is still open."""
        return self.follow(self._plan(curious=self.task.level >= 3))

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return plays that almost solve the task, or only claim to."""
        assert self.work is not None
        acts, rng = self._plan(curious=False), Rng("near misses", self.task.digest)
        found = near_misses(self.work, self._opened(), acts, self.world.simulators, rng)
        return {name: _following(miss) for name, miss in found.items()}

    def attacks(self) -> Mapping[str, Sequence[ActionLike]]:
        """Return calls with extreme arguments, endless calls and loops, for every app that the task shows."""
        assert self.work is not None
        return attacks_on(self._opened(), self.work.shown)

    def secrets(self) -> Sequence[str]:
        """Return facts that the agent can learn only by looking."""
        return self.work.secrets if self.work is not None else ()

    def best_return(self) -> float:
        """Return the best return: 1 for success."""
        return 1.0

    def state_key(self) -> str:
        """Return a key for the changed rows, the logins, and the progress of the conversation and the task."""
        changes = [(change.table, change.id, change.after) for change in self.world.changes()]
        sessions = sorted(self.world.situation.sessions)
        return stable_hash(repr((changes, sessions, self.heard, self.ending))).hex()[:32]

    def snapshot(self) -> AppSnapshot:
        """Return the episode's state; it contains a copy of the world and of its database."""
        assert self.work is not None
        return AppSnapshot(self.work, self.world.fork(), self.heard, self.ending, self.tried, self.max_turns)

    def restore(self, snapshot: AppSnapshot) -> None:
        """Continue from a snapshot, which does not change."""
        self.work, self.world = snapshot.work, snapshot.world.fork()
        self.heard, self.ending, self.tried = snapshot.heard, snapshot.ending, snapshot.tried
        self.max_turns, self.planned = snapshot.turns, {}

    def _opened(self) -> World:
        assert self.work is not None
        return open_world(self.task, self.work)

    def _plan(self, *, curious: bool) -> tuple[Act, ...]:
        if curious not in self.planned:
            assert self.work is not None
            rng = Rng("plan", self.task.digest, self.variation)
            self.planned[curious] = plan(self.work, self._opened(), rng, curious=curious)
        return self.planned[curious]

    def follow(self, acts: Sequence[Act]) -> ActionLike:
        """Return the first of some actions that is still open."""
        return next_action(acts, self.tried, self._calls(), self.world)

    def _note(self, name: str, arguments: Mapping[str, Any], again: bool = False) -> None:
        self.tried = (*self.tried, Tried.of(name, arguments, again))


class AppsEnv(ProgramEnv[AppTask], AppsByCalls):
    """Work with a user's apps in one database; the task knows which rows must, may and must not change.

    The agent ends its task with ``task_answer``, or with ``task_refuse`` if it cannot or must not be done. In tasks
    with a conversation, ``say`` sends the user a message, and so does a message without calls.

    Args:
        actions: ``"tools"``: the calls are tools; ``"python"``: programs in a sandbox make the calls.
        kwargs: further arguments of ``ProgramEnv`` and ``AppsByCalls``.
    """

    groups = (*(app.name for app in APPS), "docs", "task")


def _following(acts: Sequence[Act]) -> NearMiss:
    return lambda env: env.unwrapped.follow(acts)


def _guides(name: str) -> bool:
    return name.startswith(("docs_", "task_")) or name == "say"
