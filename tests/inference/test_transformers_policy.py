"""Continuous batching: exact ids, the log-probabilities of what was sampled, any order of coming and going."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.errors import ContractError, InfrastructureError, ModelError, PolicyError, PromptTooLongError
from turnwise.inference.continuous import Row, buckets, nucleus, sample
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.policy import Completion, Finish, Sampling
from turnwise.inference.policy_checks import PolicyContract, Subject, self_check
from turnwise.inference.transformers_policy import TransformersPolicy, _Request

TOKENIZER = build_tokenizer("byte")
VOCABULARY = len(TOKENIZER)
CONFIG = NanoConfig(tokenizer="byte", size="0.1M", context_length=128)


def nano(seed: int = 0, **changes: Any) -> Any:
    model = build_model(CONFIG, TOKENIZER, seed)
    for key, value in changes.items():
        for module in model.modules():
            if hasattr(module, key):
                setattr(module, key, value)
    return model


MODEL = nano()


def score(prompt: Sequence[int], action: Sequence[int], temperature: float = 1.0, model: Any = MODEL) -> list[float]:
    """Teacher forcing: one unbatched, unpadded, uncached forward pass."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*prompt, *action]])).logits[0].float()
    logprobs = torch.log_softmax(logits / temperature, dim=-1)
    return [float(logprobs[len(prompt) - 1 + i, token]) for i, token in enumerate(action)]


def prompt_of(rng: random.Random, longest: int = 40) -> list[int]:
    return [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, longest))]


class TestContract(PolicyContract):
    def subject(self) -> Subject:
        rng = random.Random(4)
        prompts = [prompt_of(rng) for _ in range(5)]
        return Subject(TransformersPolicy(MODEL, TOKENIZER), prompts, CONFIG.context_length, score)


class TestThreadedContract(PolicyContract):
    def subject(self) -> Subject:
        rng = random.Random(4)
        prompts = [prompt_of(rng) for _ in range(5)]
        return Subject(TransformersPolicy(MODEL, TOKENIZER, threaded=True), prompts, CONFIG.context_length, score)


class TestTheChecksThemselves:
    """A contract suite that passes everything is worth nothing: planted faults must be named."""

    @pytest.mark.parametrize(
        ("fault", "law"),
        [
            ("drops the stop id", "the stop id is kept"),
            ("logprobs at temperature 1", "log probabilities are those of the distribution sampled"),
            ("cuts the prompt", "a prompt that fills the context is refused"),
            ("ignores the seed", "a seed makes a request reproducible"),
            ("always the same seed", "without a seed requests differ"),
            ("reads another prompt", "the prompt is read as given"),
            ("one token too many", "length is named"),
        ],
    )
    async def test_a_planted_fault_is_named(self, fault: str, law: str) -> None:
        class Faulty(TransformersPolicy):
            async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
                prompt, own = tuple(prompt_ids), sampling
                if fault == "cuts the prompt":
                    prompt = prompt[-self.context_length // 2 :]
                if fault == "reads another prompt":
                    prompt = (*prompt[:-1], 65)
                if fault == "ignores the seed":
                    own = Sampling(own.temperature, own.max_tokens, own.stop_ids)
                if fault == "always the same seed":
                    own = Sampling(own.temperature, own.max_tokens, own.stop_ids, seed=3)
                if fault == "one token too many":
                    own = Sampling(own.temperature, own.max_tokens + 1, own.stop_ids, own.seed)
                found = await super().generate(prompt, own, session=session)
                ids, logprobs = found.token_ids, found.logprobs
                if fault == "logprobs at temperature 1":
                    logprobs = tuple(score(prompt, ids))
                if fault == "drops the stop id" and found.finish is Finish.STOP:
                    ids, logprobs = ids[:-1], logprobs[:-1]
                return Completion(ids, logprobs, found.versions[: len(ids)], found.finish)

        rng = random.Random(4)
        prompts = [prompt_of(rng) for _ in range(3)]
        broken = await self_check(Subject(Faulty(MODEL), prompts, CONFIG.context_length, score))
        assert law in broken, f"a policy that {fault} passed; what failed was {broken}"

    async def test_a_sound_policy_breaks_nothing(self) -> None:
        subject = TestContract().subject()
        assert await self_check(subject) == {}


@settings(max_examples=25)
@given(seed=st.integers(0, 10**9), max_batch=st.integers(1, 9), count=st.integers(1, 14))
@pytest.mark.slow
def test_log_probabilities_hold_for_any_order_of_arrival(seed: int, max_batch: int, count: int) -> None:
    """Rows join and leave at random steps; each must equal an unbatched forward pass of its own ids."""
    rng = random.Random(seed)
    plans = [
        (prompt_of(rng, 60), Sampling(rng.choice([0.0, 0.5, 1.0, 2.0]), rng.randint(1, 25), seed=i), rng.randrange(30))
        for i in range(count)
    ]

    async def one(policy: TransformersPolicy, prompt: list[int], sampling: Sampling, wait: int) -> Completion:
        for _ in range(wait):
            await asyncio.sleep(0)
        return await policy.generate(prompt, sampling)

    async def run() -> list[Completion]:
        policy = TransformersPolicy(MODEL, TOKENIZER, max_batch=max_batch)
        return await asyncio.gather(*(one(policy, *plan) for plan in plans))

    for (prompt, sampling, _), completion in zip(plans, asyncio.run(run()), strict=True):
        expected = score(prompt, completion.token_ids, sampling.temperature or 1.0)
        worst = max(abs(a - b) for a, b in zip(completion.logprobs, expected, strict=True))
        assert worst <= 1e-5, f"log-probabilities are off by {worst} from the unbatched forward pass"
        assert len(completion.token_ids) <= sampling.max_tokens
        assert (completion.token_ids[-1] == TOKENIZER.eos_token_id) == (completion.finish is Finish.STOP)


@pytest.mark.slow
@given(seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_a_request_is_its_own_whatever_the_company(seed: int) -> None:
    """Ids depend on prompt, sampling and seed alone; log-probabilities too, up to the noise of batch shapes."""
    rng = random.Random(seed)
    prompts = [prompt_of(rng) for _ in range(6)]

    async def run(order: list[int], max_batch: int) -> dict[int, Completion]:
        policy = TransformersPolicy(MODEL, TOKENIZER, max_batch=max_batch)
        made = await asyncio.gather(*(policy.generate(prompts[i], Sampling(max_tokens=12, seed=i)) for i in order))
        return dict(zip(order, made, strict=True))

    one = asyncio.run(run([0, 1, 2, 3, 4, 5], 6))
    other = asyncio.run(run([3, 1, 5, 0, 4, 2], 2))
    for i in range(6):
        assert one[i].token_ids == other[i].token_ids, "another batch composition gave other ids"
        assert one[i].logprobs == pytest.approx(other[i].logprobs, abs=1e-5)


@pytest.mark.slow
def test_a_run_in_the_event_loop_is_reproducible_to_the_last_bit() -> None:
    """With instantaneous environments and ``threaded=False``, two runs give identical ids and log-probabilities."""

    async def run() -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
        policy = TransformersPolicy(MODEL, TOKENIZER, max_batch=5, seed=9)
        rng, seen = random.Random(2), []

        async def episode(number: int) -> None:
            prompt = prompt_of(rng)
            for _ in range(1 + number % 4):
                seed = None if number % 2 else number
                completion = await policy.generate(prompt, Sampling(max_tokens=1 + number % 7, seed=seed))
                seen.append((completion.token_ids, completion.logprobs))
                prompt = [*prompt, *completion.token_ids, 65]
                if number % 3 == 0:
                    await asyncio.sleep(0)

        await asyncio.gather(*(episode(i) for i in range(16)))
        return seen

    assert asyncio.run(run()) == asyncio.run(run()), "two runs of the same program differ"


def test_sampling_follows_the_distribution() -> None:
    """Inverting the distribution function: a row that draws u gets the token at quantile u, never one of no mass."""
    probabilities = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    grid = [(i + 0.5) / 1000 for i in range(1000)]
    rows = [Row((1,), 1.0, 1, frozenset(), _Draws(u)) for u in grid]
    sample(rows, probabilities.log().expand(1000, -1), version=7)
    counts = [sum(row.tokens[0] == token for row in rows) for token in range(6)]
    assert counts == [0, 250, 0, 500, 250, 0], "tokens do not come in proportion to their probability"
    assert rows[0].versions == [7]


@pytest.mark.parametrize("temperature", [0.25, 1.0, 3.0])
def test_the_recorded_log_probability_is_that_of_the_tempered_distribution(temperature: float) -> None:
    """Trap 17: by hand on three logits. A ratio of old to new at this temperature is then 1 when nothing changed."""
    logits = torch.tensor([[2.0, 1.0, -1.0]])
    row = Row((1,), temperature, 1, frozenset(), _Draws(0.9999))
    sample([row], logits, 0)
    weights = [float(torch.tensor(x / temperature).exp()) for x in (2.0, 1.0, -1.0)]
    expected = torch.tensor(weights[row.tokens[0]] / sum(weights)).log()
    assert row.logprobs[0] == pytest.approx(float(expected), abs=1e-6)


def test_top_p_keeps_the_likeliest_tokens_and_records_what_was_drawn_from() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log().repeat(3, 1)
    filtered = nucleus(torch.log_softmax(logits, -1), torch.tensor([0.7, 0.05, 1.0])).exp()
    wanted = torch.tensor([[0.625, 0.375, 0, 0], [1, 0, 0, 0], [0.5, 0.3, 0.15, 0.05]])
    torch.testing.assert_close(filtered, wanted)
    rows = [Row((1,), 1.0, 1, frozenset(), random.Random(seed), top_p=0.7) for seed in range(300)]
    sample(rows, logits[:1].repeat(300, 1), 0)
    assert {row.tokens[0] for row in rows} == {0, 1}
    assert {round(row.logprobs[0], 4) for row in rows} == {round(math.log(p), 4) for p in (0.625, 0.375)}


def test_greedy_records_the_log_probability_at_temperature_one() -> None:
    row = Row((1,), 0.0, 1, frozenset(), _Draws(0.999))
    sample([row], torch.tensor([[0.0, 3.0, 1.0]]), 0)
    assert row.tokens == [1]
    assert row.logprobs[0] == pytest.approx(float(torch.log_softmax(torch.tensor([0.0, 3.0, 1.0]), -1)[1]))


class _Draws(random.Random):
    def __init__(self, value: float) -> None:
        super().__init__(0)
        self.value = value

    def random(self) -> float:
        return self.value


@given(st.lists(st.integers(1, 3000), min_size=0, max_size=60))
def test_buckets_keep_every_row_once_and_waste_little(lengths: list[int]) -> None:
    rows = [Row(tuple([0] * n), 1.0, 1, frozenset(), random.Random(0)) for n in lengths]
    found = buckets(rows)
    assert sorted(id(row) for bucket in found for row in bucket) == sorted(map(id, rows)), "a row was lost or doubled"
    for bucket in found:
        sizes = [len(row.prompt) for row in bucket]
        assert max(sizes) <= 2 * min(sizes) + 16, "more than half of a prefill is padding"


async def test_a_prompt_that_requests_share_is_read_once_and_each_goes_on_by_itself() -> None:
    model, rng = nano(), random.Random(7)
    shared, other = prompt_of(rng), prompt_of(rng)
    read: list[int] = []
    hook = model.register_forward_pre_hook(
        lambda _, args, kwargs: read.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    policy = TransformersPolicy(model, TOKENIZER)
    asked = [policy.generate(p, Sampling(max_tokens=6, seed=i)) for i, p in enumerate([shared, other, *[shared] * 6])]
    answers = await asyncio.gather(*asked)
    hook.remove()
    assert read[0] == 2, f"two different prompts are read, not eight: rows per pass {read}"
    assert len({answer.token_ids for answer in answers}) > 4, "what is said is each request's own"
    for prompt, answer in zip([shared, other, *[shared] * 6], answers, strict=True):
        assert list(answer.logprobs) == pytest.approx(score(prompt, answer.token_ids, model=model), abs=1e-4)


async def test_dropout_is_off_while_sampling_and_the_training_mode_comes_back() -> None:
    """Trap 23: a model left in training mode gives the log-probabilities of evaluation mode, bit for bit."""
    model = nano(attention_dropout=0.5)
    prompt, sampling = list(range(30)), Sampling(max_tokens=8, seed=1)
    reference = await TransformersPolicy(model, TOKENIZER).generate(prompt, sampling)
    model.train()
    frozen = model.model.layers[0]
    frozen.eval()
    before = [module.training for module in model.modules()]
    assert score(prompt, reference.token_ids, model=model) != score(prompt, reference.token_ids, model=model), (
        "this test needs a model whose dropout does something"
    )
    again = await TransformersPolicy(model, TOKENIZER).generate(prompt, sampling)
    assert (again.token_ids, again.logprobs) == (reference.token_ids, reference.logprobs), "dropout was on"
    assert [module.training for module in model.modules()] == before, "some module did not get its own mode back"


async def test_the_training_mode_comes_back_after_a_failure() -> None:
    model = nano().train()
    policy = TransformersPolicy(model, TOKENIZER)
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(PolicyError, match="not finite"):
        await policy.generate([1, 2], Sampling())
    assert model.training


async def test_a_failing_forward_pass_fails_every_request_and_the_next_ones_work() -> None:
    model = nano()
    policy = TransformersPolicy(model, TOKENIZER)
    broken, model.forward = model.forward, _explode
    results = await asyncio.gather(*(policy.generate([1, 2], Sampling()) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [InfrastructureError] * 3
    assert "out of memory" in str(results[0])
    model.forward = broken
    assert (await policy.generate([1, 2], Sampling(max_tokens=3))).token_ids


def _explode(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("out of memory")


async def test_cancelling_frees_the_row_at_the_next_step() -> None:
    policy = TransformersPolicy(MODEL, max_batch=2)
    long = Sampling(temperature=1.0, max_tokens=100, seed=0)
    doomed = [asyncio.ensure_future(policy.generate([1, 2, 3], long)) for _ in range(2)]
    waiting = asyncio.ensure_future(policy.generate([4, 5], Sampling(max_tokens=2, seed=1)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done(), "the batch has two rows and both are taken"
    for task in doomed:
        task.cancel()
    completion = await asyncio.wait_for(waiting, 60)
    assert len(completion.token_ids) == 2
    assert all(task.cancelled() for task in doomed)


@pytest.mark.parametrize("threaded", [False, True])
async def test_abort_returns_what_there_is(threaded: bool) -> None:
    policy = TransformersPolicy(MODEL, threaded=threaded)
    task = asyncio.ensure_future(policy.generate([1, 2, 3], Sampling(max_tokens=120, seed=0), session="a"))
    other = asyncio.ensure_future(policy.generate([1, 2, 3], Sampling(max_tokens=20, seed=0), session="b"))
    for _ in range(15):
        await asyncio.sleep(0 if not threaded else 0.002)
    assert policy.abort("a") == 1
    completion = await task
    assert completion.finish is Finish.ABORT
    assert len(completion.token_ids) == len(completion.logprobs) < 120
    whole = await other
    assert whole.finish is Finish.LENGTH
    shared = min(len(whole.token_ids), len(completion.token_ids))
    assert completion.token_ids[:shared] == whole.token_ids[:shared], "aborted ids are a beginning of the full ones"
    assert policy.abort() == 0


async def test_an_abort_in_the_middle_of_a_token_leaves_that_token_out() -> None:
    row = Row((1, 2), 1.0, 9, frozenset(), random.Random(0))
    row.take(5, -0.5, 3)
    row.tokens.append(6)  # a pass in another thread has come so far with the next one
    row.logprobs.append(-0.7)
    request = _Request(row, "a", asyncio.get_running_loop().create_future())
    request.resolve(Finish.ABORT)
    completion = await request.answer
    assert (completion.token_ids, completion.logprobs, completion.versions) == ((5,), (-0.5,), (3,))


async def test_new_weights_change_the_numbers_and_the_version_from_the_next_token_on() -> None:
    model, other = nano(), nano(seed=1)
    policy = TransformersPolicy(model, version=3)
    task = asyncio.ensure_future(policy.generate([1, 2, 3], Sampling(max_tokens=60, seed=0)))
    for _ in range(20):
        await asyncio.sleep(0)
    policy.update(other.state_dict(), 4)
    completion = await task
    assert set(completion.versions) == {3, 4}, "a version is recorded per token, across an update"
    assert list(completion.versions) == sorted(completion.versions)
    after = await policy.generate([1, 2, 3], Sampling(max_tokens=5, seed=0))
    assert after.logprobs == pytest.approx(score([1, 2, 3], after.token_ids, model=other), abs=1e-5), (
        "after update() the policy must sample from the new weights"
    )


async def test_weights_that_do_not_fit_change_nothing() -> None:
    model = nano()
    policy = TransformersPolicy(model)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = dict(nano(seed=1).state_dict())
    for broken, word in (
        ({**state, "extra.weight": torch.zeros(1)}, "unknown"),
        ({k: v for k, v in state.items() if "norm" not in k}, "missing"),
        ({**state, "lm_head.weight": torch.zeros(2, 2)}, "another shape"),
    ):
        with pytest.raises(ModelError, match=word):
            policy.update(broken, 1)
    assert policy.version == 0
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


async def test_a_trainer_that_changes_the_model_in_place_only_names_the_version() -> None:
    model = nano()
    policy = TransformersPolicy(model)
    with torch.no_grad():
        model.lm_head.weight.mul_(2)
    policy.update(None, 5)
    completion = await policy.generate([5, 6], Sampling(max_tokens=4, seed=0))
    assert set(completion.versions) == {5}
    assert completion.logprobs == pytest.approx(score([5, 6], completion.token_ids, model=model), abs=1e-5)


def test_one_policy_serves_one_loop_after_another() -> None:
    policy = TransformersPolicy(MODEL, TOKENIZER)

    async def leave_something_behind() -> tuple[int, ...]:
        task = asyncio.ensure_future(policy.generate([1, 2], Sampling(max_tokens=100, seed=0)))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not task.done()
        return (await policy.generate([7], Sampling(max_tokens=5, seed=1))).token_ids

    assert asyncio.run(leave_something_behind()) == asyncio.run(leave_something_behind())


@pytest.mark.parametrize("prompt", [[], [VOCABULARY], [-1, 3], [10**9]])
async def test_ids_outside_the_vocabulary_are_refused_before_they_hurt_others(prompt: list[int]) -> None:
    policy = TransformersPolicy(MODEL, TOKENIZER)
    good = asyncio.ensure_future(policy.generate([1, 2], Sampling(max_tokens=3, seed=0)))
    with pytest.raises(ContractError, match="0 to"):
        await policy.generate(prompt, Sampling())
    assert (await good).token_ids


async def test_a_prompt_too_long_says_how_long_and_what_to_do() -> None:
    policy = TransformersPolicy(MODEL, TOKENIZER, context_length=20)
    with pytest.raises(PromptTooLongError, match=r"20 tokens.*context of 20.*last:k"):
        await policy.generate([1] * 20, Sampling())


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ModelError, match="max_batch must be at least 1; got 0"):
        TransformersPolicy(MODEL, max_batch=0)
    with pytest.raises(ModelError, match="exceeds the model's 128 positions"):
        TransformersPolicy(MODEL, context_length=4096)


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2"])
async def test_other_families_of_models_are_batched_as_exactly(family: str) -> None:
    """Grouped heads, learned positions, biases, tied embeddings: positions and masks hold for all of them."""
    model = _other(family)
    rng = random.Random(1)
    prompts = [[rng.randrange(40) for _ in range(rng.randint(1, 20))] for _ in range(6)]
    policy = TransformersPolicy(model, max_batch=4)
    made = await asyncio.gather(*(policy.generate(p, Sampling(max_tokens=2 + i)) for i, p in enumerate(prompts)))
    for prompt, completion in zip(prompts, made, strict=True):
        assert completion.logprobs == pytest.approx(score(prompt, completion.token_ids, model=model), abs=1e-5)


def _other(family: str) -> Any:
    import transformers

    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "initializer_range": 0.3}
    heads = {"num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64}
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "llama": ("Llama", {**shape, **heads}),
        "qwen2": ("Qwen2", {**shape, **heads, "tie_word_embeddings": True}),
        "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.3}),
    }
    name, settings = kinds[family]
    head = "GPT2LMHeadModel" if family == "gpt2" else f"{name}ForCausalLM"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = getattr(transformers, f"{name}Config")(vocab_size=40, eos_token_id=None, bos_token_id=None, **settings)
        return getattr(transformers, head)(config).eval()


def test_a_sliding_window_model_is_refused_with_a_reason() -> None:
    from transformers import MistralConfig, MistralForCausalLM

    small = MistralConfig(
        vocab_size=16,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        sliding_window=4,
    )
    with pytest.raises(ModelError, match="full attention"):
        TransformersPolicy(MistralForCausalLM(small))
