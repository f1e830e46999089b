"""One step of TRL's GRPO on every environment with tools that comes with Turnwise; the oracle's calls are the samples.

::

    python -m venv v && v/bin/pip install 'turnwise[train]' trl==1.16.0
    TRL_PYTHON=v/bin/python pytest --shift all tests/envs/test_trl_steps.py
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import turnwise as tw
from turnwise.envs.builtin import IDS
from turnwise.envs.registry import find

from .test_builtin import ELSEWHERE, marks

PLAYED = tuple(
    f"turnwise/{name}"
    for name in (
        *("CodeSynthesis-v1", "CodeRepair-v3", "CodeEfficiency-v3", "CodeShell-v2", "CodeSQL-v2"),
        *("Apps-v2", "WebHTML-v1", "Web-v1"),
        *("Search-v1", "SearchTags-v1", "SearchDocuments-v1", "SearchPropose-v1"),
        *("BFCLMultiTurnBase-v0", "BFCLMultiTurnMissFunc-v0", "BFCLMultiTurnMissParam-v0"),
        *("BFCLMultiTurnLongContext-v0", "MiniWoB-ClickTest2-v1"),
    )
)
"""Every id with tools; one page stands for MiniWoB's 128."""
UNPAID = ("turnwise/BFCL", ELSEWHERE)
"""A message without a call ends an episode of TRL, and in BFCL only the user's first turn. MiniWoB has no oracle."""
STEP = """
import json, sys
from pathlib import Path

import torch, trl
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import turnwise as tw
from turnwise.envs import trl_environment, trl_rows

END = "<|im_end|>"

def said(env):
    '''What the oracle would say next, as Qwen3 writes it; nothing of effect where there is no oracle.'''
    try:
        action = tw.Action.of(env.oracle())
    except tw.errors.ContractError:
        action = tw.Action.of(tw.ToolCall("noop", {}))
    made = [json.dumps({"name": call.name, "arguments": dict(call.arguments)}) for call in action.tool_calls]
    return action.text + "".join(f"<tool_call>\\n{call}\\n</tool_call>" for call in made) + END

def tokenizer_for(text):
    '''Bytes, and the common strings of these tools: prompts of 130 tools are long.'''
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    sizes = {"vocab_size": 1000, "initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "show_progress": False}
    raw.train_from_iterator([text], trainers.BpeTrainer(**sizes))
    made = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=END, pad_token="<|endoftext|>")
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    made.chat_template = Path(trl.__file__).with_name("chat_templates").joinpath("qwen3.jinja").read_text()
    return made

class Scripted(trl.GRPOTrainer):
    '''The first attempt at the task is the oracle's; the second says nothing.'''

    def _generate_single_turn(self, prompt_ids, *words, **options):
        texts = ["I do not know." + END] * len(prompt_ids)
        played = self.environments[0]
        if not played._over:  # a later call is for the first attempt alone
            texts[0] = said(played._env)
        return [self.processing_class(text, add_special_tokens=False)["input_ids"] for text in texts], None

def step(id, out):
    rows = trl_rows(id, 1)
    probe = tw.make(id)
    tokenizer = tokenizer_for(json.dumps([tool.to_json() for tool in probe.tools]))
    probe.close()
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=200_000, pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id,
    ))
    config = trl.GRPOConfig(
        output_dir=out, per_device_train_batch_size=2, num_generations=2, max_steps=1, learning_rate=1e-3,
        max_completion_length=150_000, report_to=[], use_cpu=True, bf16=False, logging_steps=1, save_strategy="no",
        gradient_checkpointing=False, disable_tqdm=True,
    )
    trainer = Scripted(
        model=model, args=config, processing_class=tokenizer, train_dataset=Dataset.from_list(rows),
        environment_factory=trl_environment(id),
    )
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    logged = {name: value for entry in trainer.state.log_history for name, value in entry.items()}
    return {
        "mean": logged[f"rewards/{type(trainer.environments[0]).__name__}/mean"],
        "calls": logged["tools/call_frequency"], "failures": logged["tools/failure_frequency"],
        "tokens": logged["completions/max_length"],
        "changed": any(not torch.equal(before[name], value) for name, value in trainer.model.named_parameters()),
        "finite": all(bool(value.isfinite().all()) for value in trainer.model.parameters()),
    }

for id in sys.argv[2:]:
    print(json.dumps(step(id, sys.argv[1])), flush=True)
"""


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(
    "TRL_PYTHON" not in os.environ,
    reason="NOT TESTED with TRL's own trainer: see the head of this file, and set TRL_PYTHON=v/bin/python",
)
@pytest.mark.parametrize("id", [pytest.param(id, marks=marks(id)) for id in PLAYED])
def test_a_step_of_grpo_on_every_environment_with_tools(id: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    given = {"PYTHONPATH": f"{root / 'src'}:{root}", "TRL_EXPERIMENTAL_SILENCE": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [os.environ["TRL_PYTHON"], "-c", STEP, str(tmp_path), id]
    ran = subprocess.run(
        command, env=os.environ | given, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["calls"] > 0
    assert found["failures"] == 0, "TRL called every tool by the arguments that the oracle names"
    assert found["finite"]
    assert found["mean"] == (0 if id.startswith(UNPAID) else 0.5), "of two attempts, the oracle's is paid"
    assert found["changed"] != id.startswith(UNPAID), "a group of equal rewards teaches nothing"


@pytest.mark.slow
@pytest.mark.shift
def test_every_environment_with_tools_is_among_them() -> None:
    for id, *_ in IDS:
        if find(id).lacks is not None or (id.startswith(ELSEWHERE) and id not in PLAYED):
            continue
        env = tw.make(id)
        assert bool(env.tools) == (id in PLAYED)
        env.close()
