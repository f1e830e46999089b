"""Environments as TRL uses them: its way of reading tools, one real training step where it is installed.

::

    python -m venv /tmp/trl && /tmp/trl/bin/pip install 'turnwise[train]' trl pytest …
"""

from __future__ import annotations

import importlib.util
import inspect
import json
from pathlib import Path
from typing import Any, Literal

import pytest

import turnwise as tw
from turnwise.envs import trl_environment, trl_rows
from turnwise.envs.for_trl import TrlEnvironment
from turnwise.errors import UsageError

Shop = Literal["Adler", "Blum"]


class Books(tw.ToolEnv):
    """Buy at the price of a shop."""

    max_turns = 4
    fails = False

    def start(self, task: Any, rng: tw.Rng) -> str:
        self.asking, self.bought = rng.randrange(5, 100), 0
        return "Buy the book."

    @tw.tool
    def price(self, shop: Shop, currency: str | None = None, tags: list[str] = []) -> int:  # noqa: B006
        """Ask a shop for its price.

        Args:
            shop: Name of the shop.
        """
        if Books.fails:
            raise RuntimeError("the shop burned down")
        return self.asking

    @tw.tool(ends=True)
    def buy(self, price: int) -> None:
        """Buy the book; the episode ends."""
        self.bought = price

    def judge(self) -> tw.Score:
        return tw.Score(success=self.bought == self.asking)


class Lamp(tw.ToolEnv):
    """Succeeds through the world, whether or not the agent says that it is done."""

    max_turns = 3

    def start(self, task: Any, rng: tw.Rng) -> str:
        self.lit = False
        return "Light the lamp."

    @tw.tool
    def light(self) -> str:
        """Light the lamp."""
        self.lit = True
        return "It burns."

    def judge(self) -> bool:
        return self.lit


class Wordy(tw.TurnEnv):
    """Has no tools."""

    def start(self, task: Any, rng: tw.Rng) -> str:
        return "?"

    def act(self, action: tw.Action) -> tw.Step:
        return tw.failure("!")


class Odd(Lamp):
    """Has a tool with the name of a method of TRL's."""

    @tw.tool(name="get_reward")
    def take(self) -> str:
        """Take it."""
        return "taken"


BOOKS, LAMP, WORDY, ODD = (f"trl/{name}-v0" for name in ("Books", "Lamp", "Wordy", "Odd"))
for registered, made in ((BOOKS, Books), (LAMP, Lamp), (WORDY, Wordy), (ODD, Odd)):
    tw.register(registered, made)


def schema(function: Any) -> dict[str, Any]:
    from transformers.utils.chat_template_utils import get_json_schema

    described: dict[str, Any] = get_json_schema(function)["function"]
    return described


def test_trl_reads_the_tools_of_the_environment() -> None:
    env = trl_environment(BOOKS)()
    names = {name for name, _ in inspect.getmembers(type(env), inspect.isfunction) if not name.startswith("_")}
    assert names == {"reset", "get_reward", "price", "buy"}, "every public method is a tool of TRL, or its own"
    assert type(env).__name__ == "Books", "TRL logs the reward under this name"
    price = schema(env.price)
    assert price["description"] == "Ask a shop for its price."
    shop = price["parameters"]["properties"]["shop"]
    assert (shop["type"], shop["enum"], shop["description"]) == ("string", ["Adler", "Blum"], "Name of the shop.")
    assert price["parameters"]["required"] == ["shop"]
    assert price["parameters"]["properties"]["tags"]["type"] == "array"
    assert schema(env.buy)["parameters"]["properties"]["price"]["type"] == "integer"


def test_an_episode_is_the_one_of_the_environment_itself() -> None:
    row = trl_rows(BOOKS, 3)[2]
    env, own = trl_environment(BOOKS)(), tw.make(BOOKS)
    observation, _ = own.reset(options={"task": row["task"]})
    assert env.reset(**row) == observation.text
    asked = int(env.price(shop="Blum"))
    assert asked == int(own.step(tw.ToolCall("price", {"shop": "Blum"}))[0].text)
    assert "Input should be 'Adler' or 'Blum'" in env.price(shop="Cole"), "a wrong call is answered, not raised"
    env.buy(price=asked)
    assert env.get_reward() == 1.0
    assert "no further call" in env.buy(price=asked)
    assert env.get_reward() == 1.0, "asking twice pays once"
    env.reset(**row)
    env.buy(price=asked + 1)
    assert env.get_reward() == 0.0, "an instance is used again and again"


def test_attempts_at_one_row_play_one_task() -> None:
    rows = trl_rows(BOOKS, 2)
    first, second = (trl_environment(BOOKS)() for _ in range(2))
    first.reset(**rows[0])
    second.reset(**rows[0])
    price = first.price(shop="Blum")
    assert price == second.price(shop="Blum")
    second.reset(**rows[1])
    assert price != second.price(shop="Blum")
    with pytest.raises(UsageError, match="a column 'task' or 'seed'"):
        first.reset(prompt="…")
    first.reset(prompt="…", seed=7)


def test_a_world_is_judged_where_the_model_just_stops() -> None:
    env = trl_environment(LAMP)()
    env.reset(**trl_rows(LAMP, 1)[0])
    assert env.get_reward() == 0.0
    env.reset(**trl_rows(LAMP, 1)[0])
    env.light()
    assert env.get_reward() == 1.0, "as in Turnwise, where the turn limit ends the episode of a silent agent"


def test_a_failure_of_the_environment_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    env = trl_environment(BOOKS)()
    row = trl_rows(BOOKS, 1)[0]
    env.reset(**row)
    monkeypatch.setattr(Books, "fails", True)
    with pytest.raises(RuntimeError, match="burned down"):  # TRL shows it to the model
        env.price(shop="Blum")
    assert env.get_reward() is None, "never 0: TRL leaves None out of its group"
    monkeypatch.setattr(Books, "fails", False)
    with monkeypatch.context() as starts:
        starts.setattr(Books, "start", lambda self, task, rng: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            env.reset(**row)
    assert env.get_reward() is None, "also where it never starts"
    with monkeypatch.context() as ends:
        ends.setattr(Books, "judge", lambda self: 1 / 0)
        env.reset(**row)
        assert env.get_reward() is None, "also where it fails only as the episode ends"
    env.reset(**row)
    env.buy(price=int(env.price(shop="Blum")))
    assert env.get_reward() == 1.0, "the next episode has a new environment"


@pytest.mark.parametrize(("id", "text"), [(WORDY, "has no tools"), (ODD, "'get_reward' cannot be the name of one")])
def test_what_trl_cannot_play_is_refused(id: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        trl_environment(id)


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call><|im_end|>"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of TRL and its dependencies
@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="TRL is not installed")
def test_a_step_of_grpo_learns_from_what_the_environment_paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL's own trainer, loss and optimizer; only the samples are written, since a random model calls no tool."""
    import torch
    import trl  # type: ignore[import-not-found]
    from datasets import Dataset  # type: ignore[import-not-found]

    from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    tokenizer = build_tokenizer("byte")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.eos_token = "<|im_end|>"
    tokenizer.chat_template = Path(trl.__file__).with_name("chat_templates").joinpath("qwen3.jinja").read_text()
    model = build_model(NanoConfig(tokenizer="byte", size="0.1M", context_length=4096), tokenizer)
    rows = trl_rows(BOOKS, 1)
    probe = trl_environment(BOOKS)()
    probe.reset(**rows[0])
    right = int(probe.price(shop="Blum"))
    first = [
        call("price", shop="Blum"),
        call("price", shop="nowhere"),
        call("buy", price=right),
        "I do not know.<|im_end|>",
    ]
    later = {right: call("buy", price=right), None: first[-1]}

    class Scripted(trl.GRPOTrainer):  # type: ignore[misc]
        """Samples what the test wrote."""

        def _generate_single_turn(self, prompt_ids: list[list[int]], *words: Any, **options: Any) -> Any:
            texts = [tokenizer.decode(ids) for ids in prompt_ids]
            said = first if not any("<tool_response>" in text for text in texts) else []
            said = said or [later[right if f"\n{right}\n" in text else None] for text in texts]
            return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in said], None

    config = trl.GRPOConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=4, num_generations=4, max_steps=1, learning_rate=1e-3,
        max_completion_length=512, report_to=[], use_cpu=True, bf16=False, logging_steps=1, save_strategy="no",
        gradient_checkpointing=False,
    )  # fmt: skip
    trainer = Scripted(
        model=model, args=config, processing_class=tokenizer, train_dataset=Dataset.from_list(rows),
        environment_factory=trl_environment(BOOKS),
    )  # fmt: skip
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    logged = {name: value for entry in trainer.state.log_history for name, value in entry.items()}
    assert logged["rewards/Books/mean"] == pytest.approx(0.5), "two of four bought at the right price"
    assert any(not torch.equal(before[name], value) for name, value in trainer.model.named_parameters())
    assert isinstance(trainer.environments[0], TrlEnvironment)
