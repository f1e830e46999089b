"""Rows in one sequence are computed as if each stood alone, without a mask, in every kernel that is chosen."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from turnwise.errors import UsageError
from turnwise.inference import attention
from turnwise.inference.attention import NAMES, faster_alone, rows_apart, settle, transformers_name
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.logprobs import score
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.learning.rows import Rows
from turnwise.trainers.learning.utterances import Utterance, pack_utterances

SHAPE = {
    "vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "initializer_range": 0.3, "max_position_embeddings": 128,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "Qwen3": {"head_dim": 8},
    "Llama": {},
    "Mistral": {"sliding_window": 5},
    "Gemma3": {"head_dim": 8, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]},
}
CONFIGS = {"Gemma3": "Gemma3TextConfig"}
LENGTHS = (3, 9, 14, 6, 2)


def built(family: str, **changes: Any) -> Any:
    kind = getattr(transformers, CONFIGS.get(family, f"{family}Config"))
    torch.manual_seed(0)
    return getattr(transformers, f"{family}ForCausalLM")(kind(**SHAPE | MODELS[family] | changes)).eval()


def batch(lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> Rows:
    rng = torch.Generator().manual_seed(seed)
    said = []
    for length in lengths:
        ids = tuple(torch.randint(3, 40, (length,), generator=rng).tolist())
        said.append(Utterance(ids[:1], ids[1:], (0.0,) * (length - 1)))
    rows = pack_utterances(said)
    return rows.with_weight(torch.where(rows.mask, torch.rand(len(rows), generator=rng), 0.0))


@pytest.fixture
def masks() -> Iterator[list[tuple[int, ...] | None]]:
    """Shapes of the masks that reach the kernel, ``None`` for a call without one."""
    seen: list[tuple[int, ...] | None] = []

    def spy(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **options: Any) -> Tensor:
        seen.append(None if attn_mask is None else tuple(attn_mask.shape))
        return scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
        yield seen


def cloned(model: Any, rows: Rows, **options: Any) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients of one update by cloning."""
    learner = Learner(model, OptimizerConfig(max_grad_norm=1e9, **options))
    gradients: dict[str, Tensor] = {}
    learner._optimizer.register_step_pre_hook(
        lambda *_: gradients.update({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    )
    return learner.clone(rows).metrics["loss"], gradients


@pytest.mark.slow
@pytest.mark.parametrize("lora", [None, LoraConfig(rank=2)], ids=["whole", "lora"])
@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize("family", MODELS)
def test_packed_rows_have_the_loss_and_gradients_of_padded_rows(
    family: str, recompute: bool, lora: LoraConfig | None
) -> None:
    model = built(family)
    if lora is not None:
        attach(model, lora)
    wanted, gradients = cloned(copy.deepcopy(model), batch())
    model.set_attn_implementation("sdpa")
    found, others = cloned(model, batch(), layout="packed", recompute=recompute)
    assert model.config._attn_implementation == NAMES["auto"]
    assert found == pytest.approx(wanted, rel=1e-6)
    assert gradients.keys() == others.keys() != set()
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    for name, gradient in gradients.items():
        assert float((gradient - others[name]).abs().max()) <= 1e-5 * max(largest, 1.0), name


@pytest.mark.parametrize("family", MODELS)
def test_no_mask_is_as_long_as_the_sequence(family: str, masks: list[tuple[int, ...] | None]) -> None:
    model, rows = built(family), batch()
    score(model, rows, layout="packed")
    calls, window = len(LENGTHS) * 2, model.config.sliding_window if family in ("Mistral", "Gemma3") else None
    if window is None:
        assert masks == [None] * calls, "one call without a mask for each row and layer"
    else:
        assert all(mask is None or max(mask) < 2 * window for mask in masks), "blocks of a window, not of a sequence"
        assert any(mask is not None for mask in masks), "the window hides what is further back"
    masks.clear()
    score(built(family, attn_implementation="eager"), rows, layout="packed")
    assert not masks


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(2, 17), min_size=1, max_size=5).map(tuple),
    window=st.integers(1, 9),
    seed=st.integers(0, 999),
)
def test_windows_hide_the_same_tokens_as_a_mask(lengths: tuple[int, ...], window: int, seed: int) -> None:
    rows = batch(lengths, seed)
    with torch.no_grad():
        packed = score(built("Mistral", sliding_window=window), rows, layout="packed").logp
        masked = score(built("Mistral", sliding_window=window, attn_implementation="eager"), rows, layout="padded").logp
    assert torch.allclose(packed, masked, atol=2e-5)


def test_without_named_rows_nothing_changes_to_the_bit() -> None:
    rows = batch()
    for family in MODELS:
        plain, ours = built(family), built(family)
        settle(ours, "sdpa")
        assert ours.config._attn_implementation == NAMES["sdpa"]
        ids = torch.tensor([[0, 0, 5, 6], [7, 8, 9, 10]])
        padding = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
        with torch.no_grad():
            assert torch.equal(score(plain, rows).logp, score(ours, rows).logp)
            left = [model(input_ids=ids, attention_mask=padding).logits[:, -1] for model in (plain, ours)]
            assert torch.equal(*left), "a mask for padding on the left counts as before"


def test_layers_of_another_kind_keep_their_mask() -> None:
    model = built("Qwen3")
    model.config.layer_types = ["full_attention", "linear_attention"]
    with rows_apart(model, [1, 2]) as arguments:
        assert arguments == {}
    assert model.config._attn_implementation == "sdpa"
    model.config._attn_implementation = "flash_attention_2"
    with rows_apart(model, [1, 2]) as arguments:
        assert arguments["cu_seq_lens_q"].tolist() == [0, 1, 3]
        assert arguments["max_length_k"] == 2


@pytest.mark.parametrize("window", [None, 5])
@pytest.mark.parametrize("grouped", [True, False], ids=["torch takes groups", "torch repeats keys"])
def test_the_arguments_of_torchs_kernel_mean_the_same_rows(
    window: int | None, grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel itself needs a GPU: a function with its signature and documented meaning stands in for it."""

    def meant(q: Tensor, k: Tensor, v: Tensor, ends: Tensor, scale: float, window_size: tuple[int, int]) -> Tensor:
        assert k.shape[1] == v.shape[1] == q.shape[1]
        found = torch.zeros_like(q)
        for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            place = torch.arange(last - first)
            behind = place[:, None] - place
            seen = (behind >= -window_size[1]) & ((window_size[0] < 0) | (behind <= window_size[0]))
            scores = torch.einsum("qhd,khd->hqk", q[first:last], k[first:last]) * scale
            weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
            found[first:last] = torch.einsum("hqk,khd->qhd", weights, v[first:last])
        return found

    def new(q, k, v, cu_seq_q, cu_seq_k, max_q, max_k, *, scale, window_size, enable_gqa=False):  # type: ignore[no-untyped-def]
        assert torch.equal(cu_seq_q, cu_seq_k)
        assert cu_seq_q.dtype == torch.int32
        assert max_q == max_k == max(LENGTHS)
        assert enable_gqa
        groups = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        return meant(q, k, v, cu_seq_q, scale, window_size)

    def old(q, k, v, cu_seq_q, cu_seq_k, max_q, max_k, *, scale, window_size):  # type: ignore[no-untyped-def]
        return meant(q, k, v, cu_seq_q, scale, window_size)

    monkeypatch.setattr(attention, "varlen_kernel", lambda: new if grouped else old)
    model, rows = built("Mistral", sliding_window=window), batch()
    plain = score(copy.deepcopy(model), rows, layout="packed").logp
    used: list[bool] = []

    def fits(query: Tensor, *, required: bool) -> bool:
        used.append(required)
        return True

    monkeypatch.setattr(attention, "_fits_varlen", fits)
    found = score(model, rows, layout="packed").logp
    assert torch.allclose(found, plain, atol=2e-5)
    assert used == [False, False], "once in each layer"
    with torch.no_grad():
        settle_to = copy.deepcopy(model)
        settle_to.config._attn_implementation = NAMES["sdpa"]
        assert torch.equal(score(settle_to, rows, layout="packed").logp, plain.detach())
    assert used == [False, False], "sdpa never takes torch's kernel"


def test_torchs_own_kernel_has_the_arguments_that_we_pass() -> None:
    kernel = attention.varlen_kernel()
    if kernel is None:
        pytest.skip(f"torch {torch.__version__} has no attention over rows of any length with windows")
    q = torch.zeros(3, 2, 8, dtype=torch.bfloat16, device="meta")
    ends = torch.tensor([0, 1, 3], dtype=torch.int32, device="meta")
    options: dict[str, Any] = {"scale": 0.5, "window_size": (-1, 0)}
    assert kernel(q, q, q, ends, ends, 2, 2, **options).shape == q.shape


def test_absent_kernels_are_refused_in_words() -> None:
    cpu = torch.device("cpu")
    assert transformers_name("auto", cpu) is None
    assert transformers_name("eager", cpu) == "eager"
    assert transformers_name("sdpa", cpu) == "sdpa"
    with pytest.raises(UsageError, match="flash is for a GPU, and the device is cpu; choose auto or sdpa"):
        transformers_name("flash", cpu)
    with pytest.raises(UsageError, match="flex has no gradient on a CPU"):
        transformers_name("flex", cpu)
    assert transformers_name("flex", torch.device("cuda")) == "flex_attention"


def test_flash_falls_back_to_a_package_and_then_to_words(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = torch.device("cuda")
    monkeypatch.setattr(attention, "varlen_kernel", lambda: len)
    assert transformers_name("flash", cuda) == "sdpa", "settled as ours after loading"
    monkeypatch.setattr(attention, "varlen_kernel", lambda: None)
    monkeypatch.setattr(attention, "is_flash_attn_2_available", lambda: True)
    assert transformers_name("flash", cuda) == "flash_attention_2"
    monkeypatch.setattr(attention, "is_flash_attn_2_available", lambda: False)
    with pytest.raises(UsageError, match=r"torch\.nn\.attention\.varlen.*or the package flash-attn"):
        transformers_name("flash", cuda)


def test_flash_in_32_bits_is_refused_in_words() -> None:
    model = built("Qwen3")
    settle(model, "flash")
    assert model.config._attn_implementation == NAMES["flash"]
    with pytest.raises(UsageError, match=r"computes in 16 bits.*float32 and 8: set optimizer.autocast=bfloat16"):
        score(model, batch(), layout="packed")


def test_a_learner_tries_packed_rows_in_the_precision_of_its_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """``flash`` computes in 16 bits only, which autocast provides: the first try of the layout needs it too."""

    def kernel(q: Tensor, k: Tensor, v: Tensor, ends: Tensor, *_: Any, **options: Any) -> Tensor:
        assert q.dtype == torch.bfloat16
        rows = [slice(first, last) for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        found = []
        for row in rows:
            one, two, three = (each[row].transpose(0, 1) for each in (q, k, v))
            found.append(scaled_dot_product_attention(one, two, three, is_causal=True).transpose(0, 1))
        return torch.cat(found)

    monkeypatch.setattr(attention, "varlen_kernel", lambda: kernel)
    fits = attention._fits_varlen
    monkeypatch.setattr(attention, "_fits_varlen", lambda query, *, required: fits(query, required=required) or True)
    model = built("Qwen3")
    settle(model, "flash")
    learner = Learner(model, OptimizerConfig(layout="packed", autocast="bfloat16"))
    assert learner.logprobs(batch()).isfinite().all()
    with pytest.raises(UsageError, match="computes in 16 bits"):
        Learner(model, OptimizerConfig(layout="packed"))


@pytest.mark.parametrize(
    ("lengths", "capability", "alone"),
    [
        ((8192, 8192), (9, 0), True),
        ((8192, 0), (9, 0), True),
        ((8192, 64, 64), (9, 0), False),
        ((2048,) * 8, (9, 0), False),
        ((8192, 8192), (8, 0), False),
        ((8192, 8192), (10, 0), True),
    ],
)
def test_long_rows_are_computed_alone_where_that_was_faster(
    lengths: tuple[int, ...], capability: tuple[int, int], alone: bool
) -> None:
    assert faster_alone(lengths, capability) == alone


def test_a_model_that_reads_forward_is_refused() -> None:
    model = built("Qwen3")
    for layer in model.model.layers:
        layer.self_attn.is_causal = False
    with pytest.raises(UsageError, match="reads forward"):
        score(model, batch(), layout="packed")
