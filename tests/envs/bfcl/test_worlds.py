"""Every episode has a world of its own, and nothing that an agent sends can break it or leave it."""

from __future__ import annotations

import decimal
import importlib
import pickle
from typing import Any, cast

import pytest

import turnwise as tw
from turnwise.envs.bfcl.env import BfclEnv
from turnwise.envs.bfcl.functions import functions_of
from turnwise.envs.bfcl.world import World
from turnwise.tasks.bfcl.suite import CLASSES, BfclFamily, BfclTask, descriptions

Answers = list[tuple[str, float]]


def made(name: str = "Base") -> BfclEnv:
    return cast(BfclEnv, tw.make(f"turnwise/BFCLMultiTurn{name}-v0"))


def played(env: BfclEnv) -> Answers:
    """Return everything that the oracle observes until the end."""
    answers: Answers = []
    while True:
        observation, reward, terminated, _, _ = env.step(env.oracle())
        answers.append((observation.text, reward))
        if terminated:
            return answers


def task_with(name: str, *, category: str = "base") -> int:
    """The seed of a task that involves a class."""
    family = BfclFamily(category)
    return next(seed for seed in range(200) if name in family.generate(family.spec(seed)).classes)


def call(env: BfclEnv, function: str, /, **arguments: Any) -> str:
    return env.step(tw.ToolCall(function, arguments))[0].text


# -- one world per episode ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Base", "MissFunc", "LongContext"])
@pytest.mark.parametrize("seeds", [(0, 0), (3, 120), (60, 160)])
def test_two_interleaved_episodes_are_what_each_is_alone(name: str, seeds: tuple[int, int]) -> None:
    alone = []
    for seed in seeds:
        env = made(name)
        env.reset(seed=seed)
        alone.append(played(env))
    both = [made(name), made(name)]
    for env, seed in zip(both, seeds, strict=True):
        env.reset(seed=seed)
    together: list[Answers] = [[], []]
    for _ in range(100):
        for i, env in enumerate(both):
            if not env._over:
                observation, reward, *_ = env.step(env.oracle())
                together[i].append((observation.text, reward))
    assert together == alone


@pytest.mark.parametrize("name", ["Base", "LongContext"])
@pytest.mark.parametrize("seed", [0, 60, 110, 160])
def test_a_task_left_dirty_begins_anew(name: str, seed: int) -> None:
    env = made(name)
    reset_result = env.reset(seed=seed)
    first, rng = played(env), tw.Rng("dirt", seed)
    for other in (env, made(name)):
        other.reset(seed=seed)
        for _ in range(40):
            if not other._over:
                other.step(other.random_action(rng))
        assert other.reset(seed=seed) == reset_result, "the same instance begins as it did the first time"
        assert played(other) == first


def test_what_the_suites_modules_share_stays_as_it_is() -> None:
    """In long contexts the suite puts the very records of a module into every instance; booking then changes them."""
    family = BfclFamily("long_context")
    task = family.generate(family.spec(task_with("TravelAPI", category="long_context")))
    shared = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.func_source_code.long_context")
    before = pickle.dumps((shared.CREDIT_CARD_EXTENSION, shared.BOOKING_RECORD_EXTENSION))
    world = World(task)
    cards = world.instances["TravelAPI"].credit_card_list
    assert set(shared.CREDIT_CARD_EXTENSION) & set(cards), "this test needs a card that the module put there"
    for record in cards.values():
        record["balance"] = -1
    assert pickle.dumps((shared.CREDIT_CARD_EXTENSION, shared.BOOKING_RECORD_EXTENSION)) == before
    assert not World(task).differences(World(task))
    assert world.differences(World(task)) == ["TravelAPI.credit_card_list"]


def test_a_fork_goes_on_alone() -> None:
    env = made()
    env.reset(seed=0)
    env.step(env.oracle())
    fork, key = env.fork(), env.state_key()
    rest = played(fork)
    assert env.state_key() == key
    assert played(env) == rest
    assert rest[-1][1] == 1.0


# -- what agents send --------------------------------------------------------------------------------------------

CODE = ("__import__('os').system('true')", "ls()", "'); import os #", "{{7*7}}", "\x00", "\ud800", "A" * 50_000, "")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("no_such_function", {}),
        ("__init__", {}),
        ("_load_scenario", {"scenario": {}}),
        ("__import__('os').system", {}),
        ("cd", {}),
        ("cd", {"folder": 1}),
        ("cd", {"folder": None}),
        ("cd", {"folder": ["document"]}),
        ("cd", {"folder": "document", "extra": 1}),
        ("tail", {"file_name": "a", "lines": "10"}),
        ("tail", {"file_name": "a", "lines": True}),
        ("tail", {"file_name": "a", "lines": 10**4000}),
        ("ls", {"a": "yes"}),
        ("ls", [1]),
        ("ls", "a"),
    ],
)
def test_a_call_that_does_not_fit_is_answered_and_changes_nothing(name: str, arguments: Any) -> None:
    env = made()
    env.reset(seed=0)
    key = env.state_key()
    observation, _, terminated, truncated, info = env.step(tw.ToolCall(name, arguments))
    assert observation.text.startswith("Error: ")
    assert not terminated
    assert not truncated
    assert info["tool_errors"]
    assert env.state_key() == key
    assert played(env)[-1][1] == 1.0, "the task can still be solved"


@pytest.mark.slow
@pytest.mark.parametrize("text", CODE)
def test_text_in_an_argument_is_text(text: str) -> None:
    for name in CLASSES:
        env = made()
        env.reset(seed=task_with(name))
        for tool in env.tools:
            required = tool.parameters["required"]
            kinds = {word: tool.parameters["properties"][word]["type"] for word in required}
            values: dict[str, Any] = {"string": text, "integer": 1, "number": 1.5, "boolean": True, "array": [text]}
            env.steps = 0
            call(env, tool.name, **{word: values.get(str(kind), {}) for word, kind in kinds.items()})
            env.state_key()
            env.fork()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("logarithm", {"value": 2.0, "base": 10.0, "precision": 10**9}),
        ("square_root", {"number": 2.0, "precision": 10**9}),
        ("round_number", {"number": 2, "decimal_places": -(10**9)}),
        ("power", {"base": 9, "exponent": 10**9}),
        ("power", {"base": 10**5000, "exponent": 2}),
        ("add", {"a": float("nan"), "b": 1.0}),
        ("mean", {"numbers": [1.0, "2"]}),
    ],
)
def test_a_computation_without_end_is_refused(name: str, arguments: Any) -> None:
    env = made()
    env.reset(seed=task_with("MathAPI"))
    assert call(env, name, **arguments).startswith("Error: ")
    assert "Exceeds the limit" in call(env, "power", base=10**12, exponent=10_000), "the suite's own error text"


def test_precision_is_given_back() -> None:
    env, mp = made(), importlib.import_module("mpmath").mp
    env.reset(seed=task_with("MathAPI"))
    before = mp.dps, decimal.getcontext().prec
    for precision in (0, 3, 999):
        call(env, "logarithm", value=2.0, base=10.0, precision=precision)
        call(env, "square_root", number=2.0, precision=precision)
        assert (mp.dps, decimal.getcontext().prec) == before


@pytest.mark.slow
def test_a_tree_of_files_cannot_grow_without_end() -> None:
    env = made()
    env.reset(seed=task_with("GorillaFileSystem"))
    env.max_turns = 10_000
    call(env, "mkdir", dir_name="d")
    key = env.state_key()
    assert "too large" in call(env, "cp", source="d", destination="d"), "a folder in itself has no end"
    assert env.state_key() == key
    for _ in range(60):
        env.steps = 0
        said = call(env, "mkdir", dir_name="deep")
        call(env, "cd", folder="deep")
    assert "too large" in said
    assert not env.world.differences(env.fork().world)
    env.reset(seed=task_with("GorillaFileSystem"))
    for i in range(40):  # each folder holds two copies of the one before
        env.steps = 0
        call(env, "mkdir", dir_name=f"{i + 1}")
        call(env, "cp", source=f"{i}", destination=f"twin {i}")
        call(env, "mv", source=f"{i}", destination=f"{i + 1}")
        said = call(env, "mv", source=f"twin {i}", destination=f"{i + 1}")
        env.state_key()


def test_the_suite_gives_up_after_twenty_one_messages_in_one_turn() -> None:
    env = made()
    env.reset(seed=0)
    for _ in range(20):
        assert not env.step(tw.ToolCall("pwd"))[2]
    assert not env.step(tw.ToolCall("pwd", {"x": 1}))[2], "what was refused was not run, and does not count"
    _, reward, terminated, truncated, info = env.step(tw.ToolCall("pwd"))
    assert (reward, terminated, truncated, info["gave_up"]) == (0.0, True, False, True)


# -- what is offered ---------------------------------------------------------------------------------------------


def test_a_function_held_back_comes_with_its_turn() -> None:
    env = made("MissFunc")
    first, _ = env.reset(seed=0)
    assert "sort" not in {tool.name for tool in env.tools}
    assert "there is no tool 'sort'" in call(env, "sort", file_name="final_report.pdf")
    at = next(i for i, turn in enumerate(env.played.turns) if turn.added)
    said = first.text
    while env.at < at:
        said = env.step(env.oracle())[0].text
    assert said.endswith("I have updated some more functions you can choose from. What about now?")
    assert '"name": "sort"' in said, "an agent's prompt has the tools that it began with; the new one is described"
    assert "sort" in {tool.name for tool in env.tools}
    assert played(env)[-1][1] == 1.0


def test_what_was_wrong_is_said_at_the_end() -> None:
    env = made()
    env.reset(seed=0)
    turns = len(env.played.turns)
    call(env, "mkdir", dir_name="wrong")
    for _ in range(turns):
        info = env.step("Done.")[4]
    assert not info["success"]
    assert info["problems"]["turn 1"] == "the state differs: GorillaFileSystem.root"
    assert info["problems"]["turn 2"] == "no call was made"
    assert info["score"].checks == {f"turn {i + 1}": False for i in range(turns)}


def test_every_function_is_described_in_json_schema() -> None:
    kinds = {"object", "array", "string", "integer", "number", "boolean"}
    tools = functions_of(CLASSES)
    assert len(tools) == len({tool.name for tool in tools}) == sum(len(descriptions(name)) for name in CLASSES) == 128

    def check(schema: dict[str, Any]) -> None:
        assert {schema["type"]} <= kinds if isinstance(schema["type"], str) else set(schema["type"]) <= kinds
        for part in schema.get("properties", {}).values():
            check(part)
        if "items" in schema:
            check(schema["items"])

    for tool in tools:
        check(tool.parameters)
        assert tool.description


def test_defaults_are_the_suites_own() -> None:
    """Omitted arguments are omitted in the call: a description says "None" where the function has none at all."""
    env = made()
    env.reset(seed=task_with("GorillaFileSystem"))
    assert call(env, "find") == call(env, "find", path=".")


def test_families_have_two_hundred_tasks_that_differ() -> None:
    for category in ("base", "miss_func", "miss_param", "long_context"):
        family: tw.TaskFamily[BfclTask] = BfclFamily(category)
        tasks = [family.generate(spec) for spec in family.sample(200)]
        assert len({task.id for task in tasks}) == 200
        assert pickle.loads(pickle.dumps(family)).generate(family.spec(7)) == tasks[7]
