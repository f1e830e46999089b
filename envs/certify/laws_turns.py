"""Laws of turns: counting, the end of an episode, and observations."""

from __future__ import annotations

import json
import re
from typing import Any

from ...errors import ContractError, EnvironmentDiedError, EnvironmentFailedError
from ...verdicts import NotApplicable
from ..author_line import at, author_line, noted
from ..base import TurnEnv
from ..messages import Action, ActionLike, Observation, ToolCall
from ..step import OUT_OF_TURNS
from .findings import Broken, blaming
from .harness import Harness
from .law import Law
from .trace import plain, player

COUNTED = "turns?|actions?|steps?|moves?|tries|guesses|questions?|attempts?"
"""Words for turns in a prompt that states its turn limit."""
UP_TO_TWENTY = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
TENS = {30: "thirty", 40: "forty", 50: "fifty", 60: "sixty", 100: "(?:a|one)[ -]hundred"}
"""Words for larger numbers, as regular expressions."""
HUGE = "A" * 100_000
LONG_SECRET = 8
"""Characters from which a secret stands in no other word by chance."""


def episodes_play(harness: Harness) -> None:
    """Play some episodes; whatever is raised breaks the law."""
    for spec in harness.few:
        for who in harness.players:
            try:
                harness.first_play(spec, who)
            except (Broken, NotApplicable):
                raise
            except Exception as error:
                where, shared = at(author_line(error)), harness.changed() if harness.first else ""
                raise Broken(
                    f"{type(error).__name__}: {error}{where}{noted(error)}{shared}", spec, policy=who
                ) from error


def turns_counted(harness: Harness) -> None:
    """``info["turn"]`` and ``env.turn`` are 1, 2, 3, … and never exceed the limit."""
    for spec in harness.few:
        for who in harness.players:
            env, play = harness.make(), player(who)
            env.reset(options={"task": spec})
            if env.turn != 0:
                raise Broken(f"after reset() the turn is {env.turn}, not 0", spec)
            turn, over = 0, False
            while not over:
                _, _, terminated, truncated, info = harness.answer(env, ("step", {"action": play(env)}))
                turn, over = turn + 1, terminated or truncated
                if info.get("turn") != turn or env.turn != turn:
                    text = f"after {turn} actions info['turn'] is {info.get('turn')!r} and env.turn is {env.turn!r}"
                    raise Broken(text, spec, policy=who)
                if turn >= env.max_turns and not over:
                    raise Broken(f"the episode continues after max_turns = {env.max_turns} actions", spec, policy=who)


def limits_end(harness: Harness) -> str | None:
    """Move the turn limit: an end that moves with it must be reported as ``max_turns_truncates`` declares."""
    if harness.sample is not harness.sample.unwrapped:
        raise NotApplicable("the turn limit of a wrapped environment belongs to its wrappers")
    for spec in harness.few:
        cuts = _declared(harness, spec)
        declared = f"not as {'truncated' if cuts else 'terminated'}, although max_turns_truncates is {cuts}"
        for who in harness.players:
            ends = harness.whole(who, spec)
            if not ends.over:
                raise Broken(
                    f"the episode continues after {len(ends.beats)} actions, beyond its limit", spec, policy=who
                )
            last, turns = ends.beats[-1], len(ends.beats)
            if last.terminated and last.truncated:
                raise Broken(f"turn {turns} is both terminated and truncated", spec, policy=who)
            if ends.success and not last.terminated:
                cure = f"end the episode with tw.success(...) where it is solved{harness.at('act')}"
                text = f"the task is solved at turn {turns}, but reported as truncated; {cure}"
                raise Broken(text, spec, policy=who)
            if harness.wire is not None:  # a server's limit does not move
                if last.info.get(OUT_OF_TURNS) and (last.terminated, last.truncated) != (not cuts, cuts):
                    text = f"turn {turns} is out of turns, and reported as {last.truncated=}, {declared}"
                    raise Broken(text, spec, policy=who)
                continue
            limited = _limited(harness, spec, ends.actions(), turns + 5) == (False, False)
            if limited and (last.terminated, last.truncated) != (not cuts, cuts):
                said = "terminated" if last.terminated else "truncated"
                raise Broken(f"the turn limit at turn {turns} is reported as {said}, {declared}", spec, policy=who)
            if turns > 1:
                cut = _limited(harness, spec, ends.actions()[: turns - 1], turns - 1)
                if cut != (not cuts, cuts):
                    said = f"{{'terminated': {cut[0]}, 'truncated': {cut[1]}}}"
                    text = f"with max_turns = {turns - 1} the limit is reported as {said}, {declared}"
                    raise Broken(text, spec, policy=who)
    return "the limit was not moved, since it is the server's" if harness.wire is not None else None


def _declared(harness: Harness, spec: Any) -> bool:
    """Return whether the turn limit of a task truncates.

    Raises:
        Broken: it does, although the first observation states it, so that it is part of the task.
    """
    env = harness.make()
    observation, _ = env.reset(options={"task": spec})
    stated = rf"\b{_number(env.max_turns)}(?:[ -](?:more|remaining))?[\s-]+({COUNTED})\b"
    stated_limit = re.search(stated, observation.text, re.IGNORECASE)
    if env.max_turns_truncates and stated_limit:
        text = f"the first observation speaks of {stated_limit[0]!r}, so the limit is part of the task and must end it"
        raise Broken(f"{text}: remove max_turns_truncates{harness.at('start')}", spec)
    return env.max_turns_truncates


def _number(number: int) -> str:
    """Return a regular expression of a number in digits or, where prompts use one, as a word."""
    words = dict(enumerate(UP_TO_TWENTY.split(), start=1)) | TENS
    return f"(?:{number}|{words[number]})" if number in words else str(number)


def _limited(harness: Harness, spec: Any, actions: list[Action], limit: int) -> tuple[bool, bool]:
    """Return how the last of ``actions`` is answered when ``max_turns`` is ``limit``: terminated, truncated."""
    env = harness.make()
    env.max_turns = limit
    env.reset(options={"task": spec})
    env.max_turns = limit  # once more, for an environment that sets it by the task
    flags = (False, False)
    for action in actions:
        _, _, terminated, truncated, _ = harness.answer(env, ("step", {"action": action}))
        flags = (terminated, truncated)
        if any(flags):
            break
    return flags


def over_means_over(harness: Harness) -> None:
    """No step is taken before the first reset or after the end."""
    env = harness.make()
    _refuses(env, "before the first reset()", harness)
    for spec in harness.few:
        env = harness.make()
        # OpenEnv's servers know no turn limit, so saying nothing may never end an episode there.
        trace = harness.whole("random" if _openenv(harness) else "null", spec, env=env)
        if trace.over and not (_openenv(harness) and trace.beats[-1].truncated):
            _refuses(env, f"after the end (turn {len(trace.beats)})", harness, spec)
            if harness.wire is None:
                _refuses(env.fork(), "in a fork of an ended episode", harness, spec)


def _refuses(env: TurnEnv, when: str, harness: Harness, spec: Any = None) -> None:
    action: ActionLike = ""
    if harness.wire is not None:
        vars(env.unwrapped)["_over"] = False  # the client itself would refuse; ask the server
        action = player("random")(env) if _openenv(harness) else ""  # one that it does not refuse in any case
    try:
        info = harness.answer(env, ("step", {"action": action}))[4]
        if _openenv(harness) and (info.get("unparsed") or info.get("tool_errors")):
            return
    except ContractError:
        return
    except (EnvironmentFailedError, EnvironmentDiedError):
        if harness.wire is not None:  # a server refuses by an error of its own
            return
        raise
    cure = "do not override step() and its kin; write act()" if harness.wire is None else "refuse it on the server"
    raise Broken(f"a step {when} is accepted; it must raise ContractError: {cure}", spec, policy="null")


def _openenv(harness: Harness) -> bool:
    return harness.wire is not None and harness.wire.protocol == "openenv"


def odd_actions(env: TurnEnv) -> list[Action]:
    """Return actions that no agent should send, and some will."""
    texts = [
        "", " \n\t ", "\x00", "🙂" * 50, HUGE, "9" * 5000, "-1", "1e309", "NaN", "null", "{}", '{"name":', "[[[[",
        "'; DROP TABLE users; --", "../../../etc/passwd", "{{7*7}} ${7*7} %s%n", "<|im_end|>\n<|im_start|>system\n",
        "__import__('os').system('true')", "<tool_call>{}</tool_call>",
    ]  # fmt: skip
    calls: list[tuple[str, dict[str, Any]]] = [
        ("", {}),
        ("no_such_tool", {"a": [{}]}),
        (HUGE, {}),
        ("__init__", {}),
        ("reset", {}),
    ]
    actions = [Action(text) for text in texts]
    actions += [Action(tool_calls=(ToolCall(name, arguments),)) for name, arguments in calls]
    actions += [Action(problem="That could not be read."), Action("both", (ToolCall("no_such_tool"),))]
    actions += [Action(tool_calls=(ToolCall("no_such_tool"),) * 500)]
    return actions


def any_action_is_answered(harness: Harness) -> None:
    """Nothing that an agent sends raises."""
    for spec in harness.few[:2]:
        for action in odd_actions(harness.sample):
            env = harness.make()
            env.reset(options={"task": spec})
            shown = f"{action!r:.120}"
            cure = "raise tw.UnparseableError where an action cannot be read: its text becomes the observation"
            with blaming(f"step({shown})", spec, cure=cure):
                observation = harness.answer(env, ("step", {"action": action}))[0]
            if not isinstance(observation, Observation):
                raise Broken(f"step({shown}) returned a {type(observation).__name__}, not an Observation", spec)


def observations_bounded(harness: Harness) -> None:
    """No observation is longer than declared, also in answer to an endless action."""
    bound = harness.sample.contract.max_observation_chars
    for spec in harness.few:
        for who in harness.players:
            env, play = harness.make(), player(who)
            observation, _ = env.reset(options={"task": spec})
            over, turn = False, 0
            while not over:
                if len(observation.text) > bound:
                    text = f"the observation after turn {turn} has {len(observation.text):,} characters"
                    raise Broken(f"{text}; {_shorter(harness, bound, turn)}", spec, policy=who)
                observation, _, terminated, truncated, _ = harness.answer(env, ("step", {"action": play(env)}))
                over, turn = terminated or truncated, turn + 1
        for action in odd_actions(harness.sample):
            env = harness.make()
            env.reset(options={"task": spec})
            try:
                observation = harness.answer(env, ("step", {"action": action}))[0]
            except (Broken, NotApplicable):
                raise
            except Exception:  # any_action_is_answered says so
                continue
            if len(observation.text) > bound:
                text = f"step({action!r:.60}) is answered with {len(observation.text):,} characters"
                raise Broken(f"{text}; {_shorter(harness, bound, 1)}", spec)


def _shorter(harness: Harness, bound: int, turn: int) -> str:
    place = harness.at("act" if turn else "start")
    return (
        f"max_observation_chars is {bound:,}: shorten what is shown, or declare a larger bound in its contract{place}"
    )


def _tells(text: str, secret: str) -> bool:
    """Whether a text contains a secret; a short one must be a word of its own, as "pear" is not in "appear"."""
    text, secret = text.casefold(), secret.casefold()
    if len(secret) >= LONG_SECRET:
        return secret in text
    return re.search(rf"(?<![a-z0-9]){re.escape(secret)}(?![a-z0-9])", text) is not None


def answer_not_leaked(harness: Harness) -> None:
    """No secret stands in the first observation."""
    found = False
    for spec in harness.specs:
        env = harness.make()
        observation, info = env.reset(options={"task": spec})
        text = observation.text
        shown = json.dumps(plain({k: v for k, v in info.items() if k not in ("task", "obs_key")}), ensure_ascii=False)
        for secret in env.secrets():
            found = True
            if _tells(text, secret):
                raise Broken(f"the first observation contains the secret {secret!r}{harness.at('start')}", spec)
            if _tells(shown, secret):
                raise Broken(f"the info of reset() contains the secret {secret!r}", spec)
    if not found:
        raise NotApplicable("secrets() declares none")


def answers_keep_still(harness: Harness) -> None:
    """Observations and info do not change after the step that returned them, and can be written as JSON."""
    for spec in harness.few:
        for who in harness.players:
            env, play = harness.make(), player(who)
            given: list[Any] = [env.reset(options={"task": spec})]
            then = [json.dumps(plain(given[0]))]
            over = False
            while not over and len(given) <= harness.effort.turns:
                answer = harness.answer(env, ("step", {"action": play(env)}))
                given.append(answer)
                then.append(json.dumps(plain(answer)))
                over = answer[2] or answer[3]
            for turn, (answer, text) in enumerate(zip(given, then, strict=True)):
                if json.dumps(plain(answer)) != text:
                    raise Broken(f"the answer of turn {turn} changed later in the episode", spec, policy=who)
                info = {key: value for key, value in answer[-1].items() if key != "score"}
                try:
                    json.dumps(info)
                except (TypeError, ValueError) as error:
                    raise Broken(f"the info of turn {turn} cannot be recorded: {error}", spec, policy=who) from None


TURN_LAWS = (
    Law(
        "episodes_play",
        "playing raises nothing, and no call takes more than max_seconds",
        episodes_play,
        gate=True,
    ),
    Law("turns_counted", "turns count 1, 2, 3, … and end at the limit", turns_counted),
    Law("limits_end", "the task's own turn limit terminates, another truncates, and no end is both", limits_end),
    Law("over_means_over", "no step is accepted before reset or after the end", over_means_over),
    Law("any_action_is_answered", "nothing that an agent sends raises", any_action_is_answered),
    Law("observations_bounded", "no observation is longer than max_observation_chars", observations_bounded),
    Law("answer_not_leaked", "no secret stands in the first observation or its info", answer_not_leaked),
    Law("answers_keep_still", "observations and infos never change once given, and infos are JSON", answers_keep_still),
)
"""Laws of turns."""
