"""Agent loops for verl: with a stand-in for its base class, and by verl's own worker code on a CPU.

::

    python -m venv v && v/bin/pip install turnwise verl==0.9.1
    VERL_PYTHON=v/bin/python pytest --shift all tests/rollouts/test_for_verl.py
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from turnwise.envs import trl_rows
from turnwise.errors import UsageError
from turnwise.rollouts import verl_agent_loop

ROOT = Path(__file__).parents[2]
ECHO = '''
"""An agent loop for verl: an environment of Turnwise that wants numbers repeated."""

import turnwise as tw
from turnwise.rollouts import verl_agent_loop


class Echo(tw.TurnEnv):
    """Repeat three numbers."""

    max_turns = 5

    def start(self, task, rng):
        self.right, self.seed = 0, task.seed
        return [tw.message("system", "You repeat."), tw.message("user", f"Say {self.seed}.")]

    def act(self, action):
        if self.seed == 1:
            raise RuntimeError("no echo")
        if action.text != str(self.seed + self.right):
            return tw.running("No.", -0.25)
        self.right += 1
        return tw.success("Good.") if self.right == 3 else tw.running(f"Say {self.seed + self.right}.", 0.5)


tw.register("verl/Echo-v0", Echo)
'''
LOOP = '\n\nLoop = verl_agent_loop("verl/Echo-v0")\n'


def decode(ids: list[int], *, skip_special_tokens: bool = False) -> str:
    """The text of tokens."""
    return "".join(map(chr, ids)).replace("|", "" if skip_special_tokens else "|")


class AgentLoopBase:
    """A stand-in for verl's base class: a token is a character, and ``|`` ends a message."""

    def __init__(self, replies: list[str], response_length: int = 1000, **turns: int) -> None:
        self.rollout_config = SimpleNamespace(response_length=response_length, multi_turn=turns)
        self.replies, self.server_manager, self.asked = replies, self, [""]
        self.stop_reason = "completed"
        self.tokenizer = SimpleNamespace(decode=decode)

    async def generate(self, request_id: str, prompt_ids: list[int], sampling_params: Any) -> Any:
        """Sample the next reply."""
        self.asked.append("".join(map(chr, prompt_ids)))
        reply = self.replies.pop(0)
        ids = list(map(ord, reply.removesuffix("…") if reply.endswith("…") else f"{reply}|"))
        return SimpleNamespace(
            token_ids=ids,
            log_probs=[-0.5] * len(ids),
            extra_fields={"max_global_steps": 7},
            stop_reason=self.stop_reason,
        )

    async def ct_build_initial_tokens(self, messages: list[dict[str, str]]) -> list[int]:
        """Tokens of messages."""
        return [ord(letter) for each in messages for letter in f"{each['role']}: {each['content']}|"]

    async def ct_merge_assistant_token(
        self, ids: list[int], new: list[int], mask: list[int], logprobs: Any, assistant_logprobs: Any
    ) -> Any:
        """Append sampled tokens."""
        return SimpleNamespace(token_ids=ids + new), mask + [1] * len(new), logprobs + assistant_logprobs

    async def ct_merge_context_msg(
        self, before: list[Any], after: list[Any], ids: list[int], mask: list[int], logprobs: Any
    ) -> Any:
        """Append the tokens of new messages."""
        new = await self.ct_build_initial_tokens(after[len(before) :])
        return SimpleNamespace(token_ids=ids + new), mask + [0] * len(new), logprobs + [0.0] * len(new)


@pytest.fixture
def Loop(monkeypatch: pytest.MonkeyPatch) -> Any:
    names = ["verl", "verl.experimental", "verl.experimental.agent_loop", "verl.experimental.agent_loop.agent_loop"]
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules[names[-1]], "AgentLoopBase", AgentLoopBase, raising=False)
    monkeypatch.setattr(sys.modules[names[-1]], "AgentLoopOutput", SimpleNamespace, raising=False)
    module: dict[str, Any] = {"__name__": "echoes"}
    exec(ECHO + LOOP, module)
    return module["Loop"]


def ran(loop: Any, seed: int = 4, **row: Any) -> Any:
    """The output of a loop for the task of a seed."""
    task = trl_rows("verl/Echo-v0", seed + 1)[seed]["task"]
    return asyncio.run(loop.run({}, extra_info={"task": task}, **row))


def test_an_episode_is_one_sequence_of_sampled_tokens(Loop: Any) -> None:
    loop = Loop(["4", "<think>5?</think>9", "5", "6"])
    output = ran(loop, raw_prompt=[{"role": "user", "content": ""}])
    assert "".join(map(chr, output.prompt_ids)) == "system: You repeat.|user: Say 4.|"
    text = "4|user: Say 5.|<think>5?</think>9|user: No.|5|user: Say 6.|6|"
    assert "".join(map(chr, output.response_ids)) == text
    sampled = "".join(chr(id) for id, keep in zip(output.response_ids, output.response_mask, strict=True) if keep)
    assert sampled == "4|<think>5?</think>9|5|6|", "sampled tokens as they are, thoughts included"
    assert len(output.response_logprobs) == len(output.response_ids)
    assert {p for p, keep in zip(output.response_logprobs, output.response_mask, strict=True) if keep} == {-0.5}
    extra = output.extra_fields
    assert (output.reward_score, extra["turn_scores"]) == (1.75, [0.5, -0.25, 0.5, 1.0])
    assert extra["reward_extra_info"] == {"success": 1.0, "turns": 4}
    assert (extra["max_global_steps"], output.num_turns) == (7, 8)


@pytest.mark.parametrize(
    ("limit", "turns", "messages"),
    [
        ({"max_assistant_turns": 1}, 1, 2),
        ({"response_length": 15}, 1, 2),
        ({"response_length": 2}, 1, 2),
        ({"response_length": 1}, 0, 2),
    ],
)
def test_where_verl_stops_the_world_is_judged(Loop: Any, limit: dict[str, int], turns: int, messages: int) -> None:
    output = ran(Loop(["4", "5", "6"], **limit))
    assert output.extra_fields["reward_extra_info"] == {"success": 0.0, "turns": turns}
    assert output.reward_score == sum(output.extra_fields["turn_scores"]) == 0.5 * turns - 0.25 * (5 - turns)
    assert "".join(map(chr, output.response_ids)) == "4|"[: limit.get("response_length", 2)]
    assert output.num_turns == messages, "no observation without room for a reply"


def test_verls_limit_of_observations_counts_them(Loop: Any) -> None:
    output = ran(Loop(["4", "5", "6"], max_user_turns=1))
    assert output.extra_fields["reward_extra_info"] == {"success": 0.0, "turns": 2}
    assert output.num_turns == 4, "a prompt, two replies, and an observation"


def test_a_complete_last_reply_that_fills_the_response_acts(Loop: Any) -> None:
    output = ran(Loop(["4", "5", "6"], response_length=len("4|user: Say 5.|5|user: Say 6.|6|")))
    assert output.extra_fields["reward_extra_info"] == {"success": 1.0, "turns": 3}
    assert (output.reward_score, output.num_turns) == (2.0, 6)


@pytest.mark.parametrize("reason", ["aborted", "length", "completed", None])
def test_a_reply_that_the_server_cut_off_does_not_act(Loop: Any, reason: str | None) -> None:
    loop = Loop(["4", "5…", "6"])
    sample = loop.generate

    async def generate(**arguments: Any) -> Any:
        output = await sample(**arguments)
        output.stop_reason = reason if output.token_ids == [ord("5")] else "completed"
        return output

    loop.generate = generate
    output = ran(loop)
    assert output.extra_fields["reward_extra_info"] == {"success": 0.0, "turns": 1}
    assert "".join(map(chr, output.response_ids)) == "4|user: Say 5.|5", "it stays in the sequence"
    assert output.num_turns == 4


def test_a_server_that_says_why_it_stopped_needs_no_special_token(Loop: Any) -> None:
    loop = Loop(["4…", "5…", "6…"])
    loop.stop_reason = "stop"
    assert ran(loop).reward_score == 2.0


def test_a_failure_is_raised_and_a_row_without_task_refused(Loop: Any) -> None:
    with pytest.raises(RuntimeError, match="no echo"):
        ran(Loop(["1"]), 1)
    with pytest.raises(UsageError, match="needs a column 'task'"):
        asyncio.run(Loop([]).run({}, raw_prompt=[]))


def test_without_verl_one_line_says_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"pip install verl==0\.9\.1"):
        verl_agent_loop("turnwise/Maze-v0")


OWN = r"""
import asyncio, re
import numpy as np
import verl.experimental.agent_loop.agent_loop as verl_loop
from omegaconf import OmegaConf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput
from turnwise.envs import trl_rows
import echoes  # registers the environment

bytes_ = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
made = Tokenizer(models.BPE(vocab=bytes_, merges=[]))
made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|pad|>")
tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
tokenizer.chat_template = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
sampled = []


class Server:
    async def generate(self, request_id, *, prompt_ids, sampling_params, **rest):
        text = tokenizer.decode(prompt_ids)
        ids = tokenizer.encode(re.findall(r"Say (\d+)\.", text)[-1] + "<|im_end|>", add_special_tokens=False)
        sampled.append(ids)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))


config = OmegaConf.create({
    "actor_rollout_ref": {"rollout": {"prompt_length": 128, "response_length": 256,
                                      "multi_turn": {"max_assistant_turns": None}}},
    "data": {"apply_chat_template_kwargs": {}},
})
worker = object.__new__(verl_loop.AgentLoopWorker)
vars(worker).update(config=config, rollout_config=config.actor_rollout_ref.rollout, llm_client=Server(),
                    tokenizer=tokenizer, processor=None, hf_model_type=None, dataset_cls=RLHFDataset, tools=[],
                    mm_processor_kwargs={}, distillation_enabled=False, reward_loop_worker_handles=None)
verl_loop._agent_loop_registry["echo"] = OmegaConf.create({"_target_": "echoes.Loop"})


async def main():
    rows = [trl_rows("verl/Echo-v0", 9)[seed] for seed in (4, 8)]
    outputs = []
    for number, row in enumerate(rows):
        trajectory = {"step": 0, "sample_index": number, "rollout_n": 0, "validate": False}
        outputs.append(await worker._run_agent_loop(
            {}, trajectory, agent_name="echo", trace=False, raw_prompt=row["prompt"],
            extra_info={"task": row["task"]}))
    names = np.array(["echo"] * 2, dtype=object)
    return worker._postprocess(outputs, input_non_tensor_batch={"agent_name": names})


batch = asyncio.run(main())
for number in range(2):
    mask = batch.batch["response_mask"][number].bool()
    kept = batch.batch["responses"][number][mask].tolist()
    assert kept == [id for ids in sampled[3 * number : 3 * number + 3] for id in ids], tokenizer.decode(kept)
    assert batch.batch["rollout_log_probs"][number][mask].eq(-0.5).all()
text = tokenizer.decode(batch.batch["responses"][0][batch.batch["attention_mask"][0][128:].bool()])
said = "<|im_start|>user\nSay {}.<|im_end|>\n<|im_start|>assistant\n{}<|im_end|>"
assert text == "4<|im_end|>" + said.format(5, 5) + said.format(6, 6), repr(text)
prompt = tokenizer.decode(batch.batch["prompts"][0][batch.batch["attention_mask"][0][:128].bool()])
system = "<|im_start|>system\nYou repeat.<|im_end|>\n"
assert prompt == system + "<|im_start|>user\nSay 4.<|im_end|>\n<|im_start|>assistant\n", repr(prompt)
assert batch.batch["rm_scores"].sum(-1).tolist() == [2.0, 2.0]
assert list(batch.non_tensor_batch["success"]) == [1.0, 1.0]
print("played")
"""


@pytest.mark.shift
@pytest.mark.skipif("VERL_PYTHON" not in os.environ, reason="NOT TESTED with verl's own code; see above")
def test_verls_own_worker_plays_it(tmp_path: Path) -> None:
    (tmp_path / "echoes.py").write_text(ECHO + LOOP)
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}"}
    command = [os.environ["VERL_PYTHON"], "-c", OWN]
    made = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, env=environ)
    assert made.returncode == 0, made.stderr[-3000:]
    assert made.stdout.strip().endswith("played"), made.stdout
