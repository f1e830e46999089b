"""Whole episodes for TRL: what its trainer gets, with a fake of the trainer's generation, and one real step of it.

::

    python -m venv v && v/bin/pip install 'turnwise[train]' trl==1.16.0
    TRL_PYTHON=v/bin/python pytest tests/rollouts/test_for_trl.py
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import turnwise as tw
from turnwise.agents import AgentSettings
from turnwise.envs import trl_rows
from turnwise.errors import InfrastructureError, UnknownEnvironmentError, UsageError
from turnwise.inference.nano import build_tokenizer
from turnwise.rollouts import RunOptions, TrlRollout, trl_reward, trl_rollout

TOKENIZER = build_tokenizer("byte")
END = TOKENIZER.eos_token


class Relay(tw.TurnEnv):
    """Repeat a number, two to four times; each answer pays 0.25, and success 1."""

    blocking = False
    max_turns = 6
    fault: ClassVar[Callable[[Relay], Any] | None] = None

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.number, self.left = rng.randrange(100, 1000), 2 + task.seed % 3
        return f"Say {self.number}, {self.left} times."

    async def act(self, action: tw.Action) -> Any:
        if Relay.fault is not None and self.turn == 2:
            await Relay.fault(self)
        if action.text != str(self.number):
            return tw.running(f"I heard {action.text}.")
        self.left -= 1
        return tw.success("Done.", 1.0) if not self.left else tw.running(f"{self.left} times more.", reward=0.25)


class Safe(tw.ToolEnv):
    """Open a safe."""

    max_turns = 3

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.opened = False
        return "Open the safe."

    @tw.tool
    def turn_key(self) -> str:
        """Turn the key."""
        self.opened = True
        return "It opens."

    def judge(self) -> bool:
        return self.opened


RELAY, SAFE = "trl/Relay-v0", "trl/Safe-v0"
tw.register(RELAY, Relay)
tw.register(SAFE, Safe)


def number_in(text: str) -> str:
    """The number that the last episode in a prompt asks for."""
    return text.rpartition("Say ")[2].partition(",")[0]


def obedient(text: str) -> str:
    """Say the number, and go on talking after the end of the message."""
    return f"{number_in(text)}{END}and more"


class Trainer:
    """The parts of TRL's GRPOTrainer that a ``rollout_func`` touches; ``say`` writes its samples."""

    def __init__(self, say: Callable[[str], str] = obedient, *, logprobs: bool = False, context: int | None = None):
        self.say, self.with_logprobs = say, logprobs
        self.processing_class, self.eos_token_ids = TOKENIZER, [TOKENIZER.eos_token_id]
        self.use_vllm, self.args = logprobs, SimpleNamespace(vllm_max_model_length=None)
        self.model = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=context))
        self.state, self.chat_template_kwargs = SimpleNamespace(global_step=7), None
        self.accelerator: Any = SimpleNamespace(num_processes=1, device="cpu")
        self.batches: list[list[str]] = []
        self.threads: set[int] = set()

    def _generate_single_turn(self, prompts: list[list[int]], images: None, fields: dict[str, Any], each: int) -> Any:
        assert (images, fields, each) == (None, {}, 1), "prompts differ from the second turn on"
        self.threads.add(threading.get_ident())
        texts = [str(TOKENIZER.decode(ids)) for ids in prompts]
        self.batches.append(texts)
        ids = [TOKENIZER.encode(self.say(text), add_special_tokens=False) for text in texts]
        return ids, [[-0.5 - place for place in range(len(one))] for one in ids] if self.with_logprobs else None


@pytest.fixture(autouse=True)
def no_fault() -> Iterator[None]:
    Relay.fault = None
    yield
    Relay.fault = None


def prompts(count: int, id: str = RELAY, each: int = 1) -> list[Any]:
    return [row["prompt"] for row in trl_rows(id, count, in_prompt=True) for _ in range(each)]


def spec(prompt: Any) -> tw.TaskSpec:
    return tw.TaskSpec.from_json(json.loads(prompt[0]["content"]))


def sampled(found: dict[str, Any], row: int) -> str:
    ids, mask = found["completion_ids"][row], found["env_mask"][row]
    return str(TOKENIZER.decode([id_ for id_, own in zip(ids, mask, strict=True) if own]))


def fast(**fields: Any) -> RunOptions:
    return RunOptions(backoff=0, **fields)


def test_an_episode_is_one_sequence_of_the_tokens_that_were_sampled() -> None:
    trainer, asked = Trainer(), prompts(3)
    found = trl_rollout(RELAY)(asked, trainer)
    assert set(found) == {
        "prompt_ids", "completion_ids", "env_mask", "logprobs", "reward", "success", "outcome", "turns",
    }  # fmt: skip
    for row, prompt in enumerate(asked):
        own = tw.make(RELAY)
        text = own.reset(options={"task": spec(prompt)})[0].text
        times = 2 + spec(prompt).seed % 3
        assert text in TOKENIZER.decode(found["prompt_ids"][row]), "rows are in the order of the prompts"
        assert sampled(found, row) == f"{number_in(text)}{END}" * times, "nothing after a stop token is kept"
        whole = TOKENIZER.decode(found["completion_ids"][row])
        assert all(f"{left} times more." in whole for left in range(1, times))
        assert "Done." not in whole, "the last observation was never read"
        assert found["turns"][row] == times
        assert found["reward"][row] == 1 + 0.25 * (times - 1)
    assert found["success"] == [True] * 3
    assert found["outcome"] == ["completed"] * 3
    assert found["logprobs"] is None, "only vLLM knows them"
    assert [len(batch) for batch in trainer.batches] == [3, 3, 2, 1], "one batch for each turn of all that still play"
    assert trainer.threads == {threading.get_ident()}, "the trainer is used by the thread that called"


def test_every_prompt_is_the_sequence_up_to_its_turn() -> None:
    trainer, asked = Trainer(), prompts(1)
    found = trl_rollout(RELAY)(asked, trainer)
    whole, own = found["prompt_ids"][0] + found["completion_ids"][0], [0] * len(found["prompt_ids"][0])
    own += found["env_mask"][0]
    read = [text for batch in trainer.batches for text in batch]
    starts = [i for i in range(1, len(own)) if own[i] and not own[i - 1]]
    assert [TOKENIZER.decode(whole[:start]) for start in starts] == read, "trained in the context it was sampled in"


def test_log_probabilities_stand_beside_their_tokens() -> None:
    found = trl_rollout(RELAY)(prompts(2), Trainer(logprobs=True))
    for ids, mask, logprobs in zip(found["completion_ids"], found["env_mask"], found["logprobs"], strict=True):
        assert len(ids) == len(mask) == len(logprobs)
        expected: list[float] = []
        for own in mask:
            expected.append((expected[-1] - 1 if expected and expected[-1] else -0.5) if own else 0.0)
        assert logprobs == expected, "each turn's own, 0 for the environment's tokens"


def test_a_log_probability_that_vllm_does_not_know_is_not_a_number() -> None:
    class Unsure(Trainer):
        def _generate_single_turn(self, prompts: list[list[int]], *rest: Any) -> Any:
            ids, logprobs = super()._generate_single_turn(prompts, *rest)
            return ids, [[None, *some[1:]] for some in logprobs]

    found = trl_rollout(RELAY)(prompts(1), Unsure(logprobs=True))
    assert [math.isnan(each) for each in found["logprobs"][0][:2]] == [True, False]


def test_tools_are_called_in_the_models_own_dialect() -> None:
    call = f'<tool_call>\n{{"name": "turn_key", "arguments": {{}}}}\n</tool_call>{END}'
    trainer = Trainer(lambda text: call if "It opens." not in text else f"Done.{END}")
    found = trl_rollout(SAFE, agent=AgentSettings(system="Think first."))(prompts(2, SAFE), trainer)
    assert found["success"] == [True, True]
    assert "Think first." in trainer.batches[0][0]
    assert "Turn the key." in trainer.batches[0][0], "the tools are described"


async def raises(env: Relay) -> None:
    if env.task.seed % 3 == 0:
        raise RuntimeError("the relay burned down")


async def hangs(env: Relay) -> None:
    import asyncio

    if env.task.seed % 3 == 0:
        await asyncio.Event().wait()


@pytest.mark.parametrize("fault", [raises, hangs])
def test_a_failed_episode_is_left_out(fault: Any, caplog: pytest.LogCaptureFixture) -> None:
    Relay.fault = fault
    trainer, asked = Trainer(logprobs=True), prompts(4)
    broken = [spec(prompt).seed % 3 == 0 for prompt in asked]
    assert 0 < sum(broken) < 4
    found = trl_rollout(RELAY, options=fast(retries=1, env_timeout=0.2))(asked, trainer)
    for row, failed in enumerate(broken):
        if failed:
            assert found["reward"][row] is None, "never 0: TRL leaves None out of its group"
            assert found["success"][row] is found["turns"][row] is None
            assert found["outcome"][row] == "infra_failed"
            assert found["env_mask"][row] == [0], "and no token of it is trained"
            assert len(found["prompt_ids"][row]) == len(found["completion_ids"][row]) == len(found["logprobs"][row])
        else:
            assert found["reward"][row] > 1
    assert f"{sum(broken)} of 4 episodes failed and are left out" in caplog.text


def test_a_failure_is_repeated_without_sampling_again() -> None:
    left = [1]

    async def once(env: Relay) -> None:
        if left and left.pop():
            raise RuntimeError("a hiccup")

    Relay.fault = once
    trainer = Trainer()
    found = trl_rollout(RELAY, options=fast())(prompts(1), trainer)
    assert found["outcome"] == ["completed"]
    assert len(trainer.batches) == found["turns"][0], "the recorded actions are played again"


def test_where_every_episode_fails_training_stops() -> None:
    Relay.fault = lambda env: 1 / 0
    with pytest.raises(InfrastructureError, match="none of 2 episodes of trl/Relay-v0 can be trained on"):
        trl_rollout(RELAY, options=fast(retries=0))(prompts(2), Trainer())


def test_growing_out_of_the_context_is_never_better_than_the_worst_attempt() -> None:
    first = iter(["no", "no", None])

    def say(text: str) -> str:
        if text.count("<ai>") > 1:
            return f"{'x' * 400 if 'times more' in text else 'no'}{END}"
        return f"{next(first) or number_in(text)}{END}"

    found = trl_rollout(RELAY)(prompts(1, each=3), Trainer(say, context=400))
    assert found["outcome"] == ["completed", "completed", "policy_failed"]
    assert found["reward"] == [0.0, 0.0, 0.0], "not the 0.25 that it had when it ended, and not left out"
    assert "x" * 200 in sampled(found, 2), "it is trained on as a failure"
    sizes = [len(found["prompt_ids"][row]) + len(found["completion_ids"][row]) for row in range(3)]
    assert max(sizes) <= 400, "no episode is longer than the context"
    assert found["success"] == [False] * 3


def test_where_no_prompt_fits_training_stops() -> None:
    with pytest.raises(UsageError, match=r"none of 2 episodes of trl/Relay-v0 can be trained on.* context of 9"):
        trl_rollout(RELAY, context_length=9)(prompts(2), Trainer())


class Processes:
    """Two processes, as threads, which meet in every ``gather_object`` of accelerate's."""

    def __init__(self) -> None:
        self.meeting, self.given = threading.Barrier(2, timeout=30), dict[str, list[int]]()

    def gather_object(self, own: list[int]) -> list[int]:
        self.given[threading.current_thread().name] = own
        self.meeting.wait()
        both = [each for name in sorted(self.given) for each in self.given[name]]
        self.meeting.wait()
        return both


def test_processes_that_generate_together_take_part_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelerate.utils.gather_object", Processes().gather_object)
    asked = prompts(3)
    shares = [[asked[0]], asked[1:]]
    trainers = [Trainer(), Trainer()]
    found: list[Any] = [None, None]

    def play(index: int) -> None:
        trainers[index].accelerator = SimpleNamespace(num_processes=2)
        found[index] = trl_rollout(RELAY)(shares[index], trainers[index])

    threads = [threading.Thread(target=play, args=(index,)) for index in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    sizes = [[len(batch) for batch in trainer.batches] for trainer in trainers]
    assert sizes[0] == sizes[1], "a collective of unequal calls or sizes hangs, or mixes up answers"
    turns = [found[0]["turns"], found[1]["turns"]]
    assert len(sizes[0]) == max(turns[0] + turns[1]) > min(max(turns[0]), max(turns[1])), "also when one has ended"
    alone = trl_rollout(RELAY)(asked, Trainer())
    both = [*found[0]["completion_ids"], *found[1]["completion_ids"]]
    assert both == alone["completion_ids"], "what fills a batch up is thrown away"


def test_an_error_of_the_trainer_ends_the_episodes() -> None:
    def fails(text: str) -> str:
        raise MemoryError("out of memory")

    play = trl_rollout(RELAY)
    with pytest.raises(MemoryError, match="out of memory"):
        play(prompts(2), Trainer(fails))
    assert play(prompts(2), Trainer())["outcome"] == ["completed"] * 2, "and the next step is not affected"


async def test_it_plays_where_an_event_loop_runs() -> None:
    """A notebook's cells run in one."""
    assert trl_rollout(RELAY)(prompts(1), Trainer())["outcome"] == ["completed"]


class Watched(Relay):
    """Counts the environments that were closed."""

    closed: ClassVar[int] = 0

    def close(self) -> None:
        Watched.closed += 1


def test_environments_stay_open_until_the_end() -> None:
    tw.register("trl/Watched-v0", Watched)
    play, asked = trl_rollout("trl/Watched-v0", options=fast(concurrency=2)), prompts(5, "trl/Watched-v0")
    Watched.closed = 0  # the rows came from one, too
    for _ in range(2):
        found = play(asked, Trainer())
        assert found["outcome"] == ["completed"] * 5, "fewer at a time than there are prompts"
    assert Watched.closed == 0
    play.close()
    assert Watched.closed == 2
    assert isinstance(play, TrlRollout)


@pytest.mark.parametrize(
    ("settings", "options", "text"),
    [
        ({"context": "last:2"}, {}, "'last:2' rewrites an episode's history"),
        ({"context": "summary"}, {}, "'summary' rewrites an episode's history"),
        ({"temperature": 0.5}, {}, "agent.temperature is TRL's here"),
        ({"max_tokens": 64}, {}, "agent.max_tokens is TRL's here"),
        ({}, {"group_size": 4}, "num_generations of GRPOConfig"),
    ],
)
def test_what_is_trls_or_rewrites_history_is_refused(settings: Any, options: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text) as refused:
        trl_rollout(RELAY, agent=AgentSettings(**settings), options=RunOptions(**options))
    assert "\n" not in str(refused.value)


def test_other_wrong_input_is_refused_in_one_line() -> None:
    with pytest.raises(UnknownEnvironmentError):
        trl_rollout("trl/Relais-v0")
    with pytest.raises(UsageError, match="at least 2"):
        trl_rollout(RELAY, context_length=1)
    for wrong in ("Say 7.", [{"role": "user", "content": ""}], [], [{"role": "user", "content": '{"level": 3}'}]):
        with pytest.raises(UsageError, match="a prompt must be a task, as turnwise"):
            trl_rollout(RELAY)([wrong], Trainer())
    with pytest.raises(UsageError, match="this version of TRL"):
        trl_rollout(RELAY)(prompts(1), object())


def test_the_reward_function_passes_on_what_the_environment_paid() -> None:
    logged: dict[str, float] = {}
    given: Sequence[float | None] = [1.0, None, 0.5]
    columns = {"success": [True, None, False], "turns": [2, None, 4], "completions": [""] * 3}
    assert trl_reward(reward=given, log_metric=logged.__setitem__, **columns) == [1.0, None, 0.5]
    assert logged == {"episodes/left_out": 1 / 3, "episodes/success": 0.5, "episodes/turns": 3.0}


STEP = """
import json, sys
import torch, trl
from datasets import Dataset
from tests.rollouts.test_for_trl import END, RELAY, TOKENIZER, Relay, number_in
from turnwise.envs import trl_rows
from turnwise.inference.nano import NanoConfig, build_model
from turnwise.rollouts import RunOptions, trl_reward, trl_rollout

failed, kept, sizes = [], [], []

async def fault(env):
    if env.task.seed == 0 or 1 not in failed:  # all attempts at the first task, and one at the second
        failed.append(env.task.seed)
        raise RuntimeError("the relay burned down")

Relay.fault = fault

class Scripted(trl.GRPOTrainer):
    def _generate_single_turn(self, prompts, *rest):
        ids, logprobs = super()._generate_single_turn(prompts, *rest)
        sizes.append(len(prompts))
        for place, prompt in enumerate(prompts):
            text = TOKENIZER.decode(prompt)
            right = f"<ai>{number_in(text)}{END}" in text if text.count("<ai>") > 1 else place % 2 == 0
            if right:
                ids[place] = TOKENIZER.encode(number_in(text) + END, add_special_tokens=False)
        return ids, logprobs

    def _generate_and_score_completions(self, inputs):
        kept.append((inputs, super()._generate_and_score_completions(inputs)))
        return kept[-1][1]

config = trl.GRPOConfig(
    output_dir=sys.argv[1], per_device_train_batch_size=8, num_generations=4, max_steps=1, learning_rate=1e-3,
    max_completion_length=12, report_to=[], use_cpu=True, bf16=False, logging_steps=1, save_strategy="no",
    gradient_checkpointing=False, shuffle_dataset=False,
)
model = build_model(NanoConfig(tokenizer="byte", size="0.1M", context_length=512), TOKENIZER)
trainer = Scripted(
    model=model, args=config, processing_class=TOKENIZER,
    train_dataset=Dataset.from_list(trl_rows(RELAY, 2, in_prompt=True)),
    reward_funcs=trl_reward, rollout_func=trl_rollout(RELAY, options=RunOptions(retries=0)),
)
before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
trainer.train()
inputs, output = kept[0]
after = dict(trainer.model.named_parameters())
print(json.dumps({
    "seeds": [json.loads(each["prompt"][0]["content"])["seed"] for each in inputs],
    "rewards": [each["reward"] for each in inputs],
    "advantages": output["advantages"].tolist(),
    "trained": (output["tool_mask"] * output["completion_mask"]).sum(1).tolist(),
    "sizes": sizes,
    "changed": any(not torch.equal(before[name], value) for name, value in after.items()),
    "finite": all(bool(value.isfinite().all()) for value in after.values()),
    "logged": {name: value for entry in trainer.state.log_history for name, value in entry.items()},
}))
"""
"""Real generation and training by TRL; half of the attempts say what the test wrote, since a random model is never
right."""


@pytest.mark.skipif(
    "TRL_PYTHON" not in os.environ,
    reason="NOT TESTED with TRL's own trainer: see the head of this file, and set TRL_PYTHON=v/bin/python",
)
def test_a_step_of_grpo_learns_from_whole_episodes(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    given = {"PYTHONPATH": f"{root / 'src'}:{root}", "TRL_EXPERIMENTAL_SILENCE": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [os.environ["TRL_PYTHON"], "-c", STEP, str(tmp_path)]
    ran = subprocess.run(
        command, env=os.environ | given, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["seeds"] == [0] * 4 + [1] * 4
    assert found["rewards"][:4] == [None] * 4, "a whole group can fail"
    second = found["rewards"][4:]
    assert second.count(None) == 1
    scored = [each for each in second if each is not None]
    assert set(scored) == {0.0, 1.5}, "three answers in a row, or none"
    for reward, advantage, trained in zip(found["rewards"], found["advantages"], found["trained"], strict=True):
        if reward is None:
            assert advantage == trained == 0, "left out: neither an advantage nor a token"
        else:
            assert (advantage > 0) == (reward > sum(scored) / 3), "the baseline is the mean of those that were played"
            assert trained > 0
    assert found["sizes"][0] == 8 > found["sizes"][-1], "several turns, of fewer and fewer episodes"
    assert found["changed"]
    assert found["finite"]
    assert found["logged"]["rewards/trl_reward/mean"] == pytest.approx(sum(scored) / 3)
    assert found["logged"]["episodes/left_out"] == pytest.approx(5 / 8)
