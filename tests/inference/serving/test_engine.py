"""The real vLLM in this process keeps the contract of every policy, and takes weights from memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from safetensors.torch import save_file

from turnwise.errors import ContractError, InfrastructureError, PromptTooLongError, UsageError
from turnwise.inference.models import load_model, save_model
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.policy import Completion, Finish, Sampling
from turnwise.inference.policy_checks import PolicyContract, Subject
from turnwise.inference.serving.engine.engine import EngineServer
from turnwise.inference.serving.launch.process import ServerOptions
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.serving.server import Pause
from turnwise.trainers.weights.canary_prompts import Questions
from turnwise.trainers.weights.vllm_transfer import Memory, Native
from turnwise.trainers.weights.weight_sync import WeightSync

from ...trainers.weights.fake import nudge

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

CONTEXT = 128
PROMPTS = ([5, 6, 7, 8, 9], [200, 3, 3, 77], [1, 2, 250, 251, 252, 90, 91])
TOLERANCE = 1e-5
ATTEMPTS = 10
"""How often weights are changed until it happens in the middle of an answer."""


def model(seed: int) -> Any:
    shape = NanoConfig(tokenizer="byte", size="0.1M", context_length=CONTEXT)
    return build_model(shape, build_tokenizer("byte"), seed)


def score(of: Any, prompt: Sequence[int], action: Sequence[int], temperature: float = 1.0) -> list[float]:
    with torch.inference_mode():
        logits = of(torch.tensor([[*prompt, *action]])).logits[0, len(prompt) - 1 : -1].float() / temperature
    return [float(row[token]) for row, token in zip(torch.log_softmax(logits, -1), action, strict=True)]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    folder = tmp_path_factory.mktemp("engine")
    save_model(model(0), build_tokenizer("byte"), folder / "model")
    options = ServerOptions(context_length=CONTEXT, max_rank=8, block=32)
    with EngineServer(folder / "model", options) as engine:
        yield engine


@pytest.fixture
async def engine(started: EngineServer) -> AsyncIterator[EngineServer]:
    """With the weights it began with, before and after."""
    yield started
    await started.resume()
    await started.init_transfer({})
    await send(started, model(0), 0)


async def send(engine: EngineServer, of: Any, version: int) -> None:
    await engine.start_update()
    await engine.update({"weights": of.state_dict()})
    await engine.finish_update(version)
    await engine.reset_prefix_cache()


async def agrees(engine: EngineServer, of: Any, **how: Any) -> bool:
    """Whether what it samples has the log-probabilities of a model."""
    served = await engine.generate(PROMPTS[0], Sampling(max_tokens=8, seed=1), **how)
    expected = score(of, PROMPTS[0], served.completion.token_ids)
    return max(abs(a - b) for a, b in zip(served.completion.logprobs, expected, strict=True)) < TOLERANCE


class TestTheContract(PolicyContract):
    @pytest.fixture(autouse=True)
    def _engine(self, started: EngineServer) -> None:
        self.engine = started

    def subject(self) -> Subject:
        policy, _ = load_model(self.engine.model)
        return Subject(
            RemotePolicy([self.engine]),
            PROMPTS,
            CONTEXT,
            score=lambda prompt, action, temperature: score(policy, prompt, action, temperature),
            tolerance=TOLERANCE,
        )


async def test_it_says_what_it_can_do(engine: EngineServer) -> None:
    can = await engine.probe()
    assert can.version.startswith("0.")
    assert (can.context_length, can.max_rank, can.adapters, can.control, can.version_spans) == (
        CONTEXT,
        8,
        True,
        True,
        True,
    )


async def test_weights_from_memory_are_what_is_served(engine: EngineServer) -> None:
    assert await agrees(engine, model(0))
    await send(engine, model(1), 1)
    assert await agrees(engine, model(1))
    assert not await agrees(engine, model(0))


async def test_weights_from_a_folder_are_what_is_served(engine: EngineServer, tmp_path: Path) -> None:
    save_model(model(2), build_tokenizer("byte"), tmp_path / "new")
    await engine.reload(tmp_path / "new")
    await engine.reset_prefix_cache()
    assert await agrees(engine, model(2))


async def test_an_update_that_is_not_whole_changes_nothing(engine: EngineServer, tmp_path: Path) -> None:
    weights = dict(model(1).state_dict())
    del weights["lm_head.weight"]
    await engine.start_update()
    with pytest.raises(InfrastructureError, match=r"lacks lm_head\.weight"):
        await engine.update({"weights": weights})
    with pytest.raises(InfrastructureError, match="no weights arrived"):
        await engine.finish_update(1)
    save_file({name: tensor.clone() for name, tensor in weights.items()}, tmp_path / "model.safetensors")
    with pytest.raises(InfrastructureError, match=r"lacks lm_head\.weight"):
        await engine.reload(tmp_path)
    await engine.reset_prefix_cache()
    assert await agrees(engine, model(0))


@pytest.mark.parametrize(
    "mode",
    [pytest.param(mode, marks=[] if mode is Pause.KEEP else pytest.mark.shift("vllm: other ways")) for mode in Pause],
)
async def test_a_trainer_sends_weights_from_memory_and_the_canary_finds_them(engine: EngineServer, mode: Pause) -> None:
    learner, policy = model(0), RemotePolicy([engine])
    questions = Questions.of(build_tokenizer("byte"), context_length=CONTEXT, temperature=0.7, dtypes=["float32"])
    transfer = WeightSync(policy, Native(policy, Memory(), mode=mode), learner, questions)
    for version in range(1, 4):
        nudge(learner, seed=version)
        await transfer.send(version)
        said = await policy.generate(PROMPTS[0], Sampling(max_tokens=8, seed=version))
        assert set(said.versions) == {version}
        expected = score(learner, PROMPTS[0], said.token_ids)
        assert list(said.logprobs) == pytest.approx(expected, abs=TOLERANCE)
        assert transfer.metrics["sync/canary_gap_max"] < 1e-4


async def test_weights_in_memory_that_are_not_sent_are_noticed(engine: EngineServer) -> None:
    learner, policy = model(0), RemotePolicy([engine])
    questions = Questions.of(build_tokenizer("byte"), context_length=CONTEXT, temperature=0.7, dtypes=["float32"])

    class Forgetful(Memory):
        def updates(self, weights: Mapping[str, torch.Tensor]) -> Iterator[Mapping[str, Any]]:
            return super().updates(model(0).state_dict())

    transfer = WeightSync(policy, Native(policy, Forgetful()), learner, questions)
    await transfer.send(1)
    nudge(learner)
    with pytest.raises(ContractError, match="what in process serves: not applied"):
        await transfer.send(2)


async def changed_midway(engine: EngineServer, mode: Pause) -> tuple[Completion, int]:
    """Change the weights of ``model(0)`` to those of ``model(1)`` in the middle of an answer of 100 tokens.

    How soon an answer begins depends on the machine: wait twice as long each time, until some tokens are there.

    Returns:
        the completion, and the place of the first token that is of the new weights.
    """
    policy = RemotePolicy([engine])
    await policy.open(control=True)
    for attempt in range(ATTEMPTS):
        old, new = 2 * attempt, 2 * attempt + 1
        await send(engine, model(0), old)
        await policy.begin_version(old)
        asking = asyncio.ensure_future(policy.generate(PROMPTS[0], Sampling(max_tokens=100, seed=3)))
        await asyncio.sleep(0.01 * 2**attempt)
        await policy.pause(mode)
        await send(engine, model(1), new)
        await policy.begin_version(new)
        await policy.resume()
        completion = await asking
        assert (len(completion.token_ids), completion.finish) == (100, Finish.LENGTH)
        changed = completion.versions.index(new) if new in completion.versions else 100
        assert completion.versions == (old,) * changed + (new,) * (100 - changed)
        if 0 < changed < 100:
            return completion, changed
    raise AssertionError(f"in {ATTEMPTS} attempts the weights never changed in the middle of an answer")


async def test_keep_tells_exactly_which_weights_sampled_which_token(engine: EngineServer) -> None:
    completion, changed = await changed_midway(engine, Pause.KEEP)
    # The cache was reset: so every token has the log-probability of its weights over all that went before.
    for of, part in ((model(0), slice(0, changed)), (model(1), slice(changed, 100))):
        expected = score(of, PROMPTS[0], completion.token_ids)[part]
        worst = max(abs(a - b) for a, b in zip(completion.logprobs[part], expected, strict=True))
        assert worst < TOLERANCE, f"tokens {part} are not of the weights they are said to be of: {worst}"


async def test_abort_is_continued_by_the_policy_with_the_new_weights(engine: EngineServer) -> None:
    completion, changed = await changed_midway(engine, Pause.ABORT)
    expected = score(model(1), PROMPTS[0], completion.token_ids)[changed:]
    assert completion.logprobs[changed:] == pytest.approx(expected, abs=TOLERANCE)


async def test_a_warm_cache_is_stale_until_it_is_reset(engine: EngineServer) -> None:
    prompt = [*range(64)]
    sampling = Sampling(max_tokens=1, temperature=0)
    await engine.generate(prompt, sampling)
    warm = await engine.generate(prompt, sampling)
    assert warm.cached >= 32, "the second time, most of the prompt must be in the cache"
    await engine.start_update()
    await engine.update({"weights": model(1).state_dict()})
    await engine.finish_update(1)
    stale = await engine.generate(prompt, sampling)
    assert stale.cached >= 32, "vLLM itself forgets nothing: old keys and values are read with new weights"
    await engine.reset_prefix_cache()
    fresh = await engine.generate(prompt, sampling)
    assert fresh.cached == 0
    assert fresh.completion.logprobs == pytest.approx(
        score(model(1), prompt, fresh.completion.token_ids), abs=TOLERANCE
    )


async def test_adapters_come_and_go(engine: EngineServer, tmp_path: Path) -> None:
    torch.manual_seed(0)
    adapted = peft.get_peft_model(model(0), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"]))
    for name, tensor in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(tensor, std=0.3)
    adapted.save_pretrained(str(tmp_path / "adapter"))
    await engine.load_adapter("v1", tmp_path / "adapter")
    assert await agrees(engine, adapted, adapter="v1")
    assert await agrees(engine, model(0)), "the base model is as it was"
    await engine.unload_adapter("v1")
    with pytest.raises(InfrastructureError, match="no adapter 'v1'"):
        await engine.generate(PROMPTS[0], Sampling(max_tokens=1), adapter="v1")
    with pytest.raises(UsageError, match="no adapter 'v1'"):
        await engine.unload_adapter("v1")


async def test_an_adapter_of_too_large_a_rank_is_refused(engine: EngineServer, tmp_path: Path) -> None:
    adapted = peft.get_peft_model(model(0), peft.LoraConfig(r=32, target_modules=["q_proj"]))
    adapted.save_pretrained(str(tmp_path / "adapter"))
    with pytest.raises(UsageError, match=r"(?i)rank"):
        await engine.load_adapter("v1", tmp_path / "adapter")
    assert await agrees(engine, model(0)), "the engine goes on"


async def test_bad_prompts_are_refused(engine: EngineServer) -> None:
    with pytest.raises(PromptTooLongError, match=str(CONTEXT)):
        await engine.generate([1] * CONTEXT, Sampling(max_tokens=1))
    for prompt in ([], [10**6], [-1]):
        with pytest.raises(ContractError):
            await engine.generate(prompt, Sampling(max_tokens=1))
    assert await agrees(engine, model(0)), "the engine goes on"


async def test_many_at_once(engine: EngineServer) -> None:
    asked = [[1 + (7 * i + j) % 250 for j in range(3 + i % 5)] for i in range(64)]
    served = await asyncio.gather(
        *(engine.generate(prompt, Sampling(max_tokens=5 + i % 7, seed=i)) for i, prompt in enumerate(asked))
    )
    of = model(0)
    for i, (prompt, one) in enumerate(zip(asked, served, strict=True)):
        assert len(one.completion.token_ids) == 5 + i % 7
        assert one.completion.logprobs == pytest.approx(score(of, prompt, one.completion.token_ids), abs=TOLERANCE)


def test_arguments_of_a_server_are_refused(started: EngineServer) -> None:
    with pytest.raises(UsageError, match="--tensor-parallel-size"):
        EngineServer(started.model, ServerOptions(extra=("--tensor-parallel-size", "2")))


async def test_it_sleeps_and_wakes_with_its_weights_as_far_as_a_cpu_can(engine: EngineServer) -> None:
    """On a CPU nothing is freed, but the scheduler stops and starts, as it does on a GPU."""
    of = model(3)
    await send(engine, of, 1)
    await engine.sleep(1)
    assert await engine.asleep()
    await engine.wake(["weights"])
    assert await engine.asleep()
    await engine.wake(["kv_cache"])
    assert not await engine.asleep()
    assert await agrees(engine, of)
    await engine.sleep(2)
    await engine.wake(restore=True)
    assert await agrees(engine, model(0)), "it loads the weights that it was started with"


async def test_on_a_cpu_sleep_mode_is_refused_in_vllms_words(started: EngineServer) -> None:
    other = EngineServer(started.model, ServerOptions(context_length=CONTEXT, block=32, sleep=True))
    with pytest.raises(InfrastructureError, match="Sleep mode is not supported on current platform"):
        other.start()
