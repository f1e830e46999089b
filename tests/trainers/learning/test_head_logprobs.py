"""Log-probabilities from hidden states are those of whole logits, in value and gradient, however they are chunked."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import Gemma2Config, Gemma2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from turnwise.errors import UsageError
from turnwise.trainers.learning import logprobs, token_logprobs
from turnwise.trainers.learning.head_logprobs import head_logp
from turnwise.trainers.learning.kl import reference_metrics
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.logprobs import Scores, score
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.objective import Objective
from turnwise.trainers.learning.output_layer import output_layer
from turnwise.trainers.learning.reference import Reference
from turnwise.trainers.learning.rows import Rows
from turnwise.trainers.learning.utterances import Utterance, pack_utterances

from ...shifts import core_sample

SHAPE: dict[str, Any] = {
    "vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "intermediate_size": 48, "initializer_range": 0.3, "max_position_embeddings": 128,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def built(*, tied: bool = True, bias: bool = False) -> Any:
    torch.manual_seed(0)
    model: Any = Qwen3ForCausalLM(Qwen3Config(**SHAPE, tie_word_embeddings=tied))
    model.eval()
    if bias:
        model.lm_head.bias = nn.Parameter(torch.randn(SHAPE["vocab_size"]))
    return model


def batch(seed: int = 0) -> Rows:
    rng = torch.Generator().manual_seed(seed)
    said = []
    for length in (3, 9, 14, 6, 2):
        ids = tuple(torch.randint(3, 61, (length,), generator=rng).tolist())
        said.append(Utterance(ids[: length // 2], ids[length // 2 :], (-3.0,) * (length - length // 2)))
    rows = pack_utterances(said)
    return rows.with_turn_advantage(torch.randn(5, generator=rng)).with_weight(normalizer(rows, "token_mean"))


def plainly(hidden: Tensor, weight: Tensor, ids: Tensor, temperature: float, bias: Tensor) -> tuple[Tensor, Tensor]:
    logp = ((hidden @ weight.T + bias) / temperature).log_softmax(-1)
    return logp.gather(-1, ids[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


@pytest.fixture
def small_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_logprobs, "CHUNK", 4 * SHAPE["vocab_size"])
        yield


@settings(max_examples=80, deadline=None)
@given(
    tokens=st.integers(0, 12),
    width=st.integers(1, 9),
    vocabulary=st.integers(2, 40),
    temperature=st.floats(0.2, 3.0),
    entropy=st.booleans(),
    frozen=st.sampled_from(["", "head", "hidden"]),
    chunk=st.sampled_from([1, 50, 1 << 24]),
    seed=st.integers(0, 2**31),
)
def test_values_and_gradients_are_those_of_64_bits(
    tokens: int, width: int, vocabulary: int, temperature: float, entropy: bool, frozen: str, chunk: int, seed: int
) -> None:
    rng = torch.Generator().manual_seed(seed)
    given_ = torch.randn(tokens, width, generator=rng), torch.randn(vocabulary, width, generator=rng)
    bias = torch.randn(vocabulary, generator=rng)
    ids = torch.randint(0, vocabulary, (tokens,), generator=rng)
    by_logp, by_entropy = torch.randn(2, tokens, generator=rng)
    learns = frozen != "hidden", frozen != "head", frozen != "head"
    found = [each.clone().requires_grad_(it) for each, it in zip((*given_, bias), learns, strict=True)]
    exact = [each.double().requires_grad_() for each in (*given_, bias)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_logprobs, "CHUNK", chunk)
        logp, spread = head_logp(found[0], found[1], ids, temperature, bias_V=found[2], entropy_gradient=entropy)
        ((by_logp * logp).sum() + (by_entropy * spread).sum()).backward()
    wanted_logp, wanted_spread = plainly(exact[0], exact[1], ids, temperature, exact[2])
    ((by_logp * wanted_logp).sum() + (by_entropy * wanted_spread * entropy).sum()).backward()
    assert torch.allclose(logp.double(), wanted_logp, atol=1e-5)
    assert torch.allclose(spread.double(), wanted_spread, atol=1e-5)
    assert spread.requires_grad == entropy
    for mine, theirs, it in zip(found, exact, learns, strict=True):
        assert (mine.grad is not None) == it
        if mine.grad is not None and theirs.grad is not None:
            largest = max(1.0, float(theirs.grad.abs().max())) if theirs.grad.numel() else 1.0
            assert torch.allclose(mine.grad.double(), theirs.grad, atol=1e-5 * largest)


def updated(model: Any, rows: Rows, objective: Objective, **options: Any) -> tuple[float, dict[str, Tensor]]:
    learner = Learner(model, OptimizerConfig(max_grad_norm=1e9, **options), temperature=0.7)
    gradients: dict[str, Tensor] = {}
    learner._optimizer.register_step_pre_hook(
        lambda *_: gradients.update({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    )
    return learner.step(learner.recompute_old(rows), objective).metrics["loss"], gradients


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kind", core_sample(["tied", "untied", "biased", "lora"], 2, key="heads"))
@pytest.mark.parametrize(
    "options",
    [{}, {"layout": "packed"}, {"recompute": True, "microbatch_tokens": 20}],
    ids=["padded", "packed", "again"],
)
@pytest.mark.parametrize("objective", [Objective(), Objective(entropy_coef=0.3)], ids=["plain", "entropy"])
def test_an_update_is_that_of_whole_logits(kind: str, options: dict[str, Any], objective: Objective) -> None:
    model = built(tied=kind != "untied", bias=kind == "biased")
    if kind == "lora":
        attach(model, LoraConfig(rank=2))
    wanted, gradients = updated(copy.deepcopy(model), batch(), objective, logits="whole", **options)
    found, others = updated(model, batch(), objective, logits="chunked", **options)
    assert found == pytest.approx(wanted, abs=1e-6)
    assert gradients.keys() == others.keys() != set()
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    for name, gradient in gradients.items():
        assert float((gradient - others[name]).abs().max()) <= 1e-5 * max(largest, 1.0), name


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("layout", ["padded", "packed"])
@pytest.mark.parametrize("autocast", [None, "bfloat16"])
@pytest.mark.parametrize("head", [None, "float32"])
def test_the_kl_to_the_reference_is_exactly_0_and_every_ratio_1(layout: Any, autocast: Any, head: Any) -> None:
    model = built()
    options = OptimizerConfig(layout=layout, autocast=autocast, head=head, logits="chunked", microbatch_tokens=20)
    learner = Learner(model, options, temperature=0.7)
    rows = learner.recompute_old(batch())
    assert reference_metrics(Reference(copy.deepcopy(model), learner.scorer).scored(rows)) == {
        "kl_ref": 0.0,
        "kl_ref_k3": 0.0,
    }
    for part in learner.scorer.parts(rows):
        scores = learner.scorer.score(model, part.rows)
        assert torch.equal(scores.logp.detach(), part.rows.logp_old), "with a graph as without"


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("entropy", [False, True])
def test_no_tensor_of_the_size_of_the_logits_is_saved_or_returned(entropy: bool) -> None:
    model, rows = built(), batch()
    saved: list[tuple[int, ...]] = []

    def note(tensor: Tensor) -> Tensor:
        saved.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        score(model, rows, logits="chunked", entropy_gradient=entropy)
        assert (SHAPE["vocab_size"], SHAPE["hidden_size"]) in saved, "the weights are"
        assert not any(shape[-1:] == (SHAPE["vocab_size"],) for shape in saved)
        score(model, rows, logits="whole", entropy_gradient=entropy)
    assert any(shape[-1:] == (SHAPE["vocab_size"],) for shape in saved)


def test_whole_logits_stay_where_the_vocabulary_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = built(), batch()
    auto, whole = score(model, rows).logp, score(model, rows, logits="whole").logp
    assert torch.equal(auto, whole)
    monkeypatch.setattr(logprobs, "chosen_logp", lambda *_, **__: pytest.fail("whole logits"))
    monkeypatch.setattr(logprobs, "LARGE", SHAPE["vocab_size"])
    assert torch.allclose(score(model, rows).logp, whole, atol=1e-5)


def test_a_head_in_32_bits_does_not_round_logits() -> None:
    """Only the last product differs: its logits are those of the same hidden states in 32 bits."""
    model, rows = built(), batch()
    seen: list[Tensor] = []
    handle = model.model.register_forward_hook(lambda module, inputs, output: seen.append(output.last_hidden_state))

    def exact(given_: Scores) -> float:
        hidden = seen[-1].flatten(0, 1)[rows.padded().flat_T[rows.mask] - 1].double()
        weight = model.lm_head.weight.double()
        wanted, _ = plainly(hidden, weight, rows.ids[rows.mask], 1.0, torch.zeros(1, dtype=torch.float64))
        return float((given_.logp[rows.mask].double() - wanted).abs().max())

    with torch.no_grad():
        for logits in ("whole", "chunked"):
            options: dict[str, Any] = {"autocast": torch.bfloat16, "logits": logits}
            assert exact(score(model, rows, **options)) > 1e-3
            if logits == "chunked":
                assert exact(score(model, rows, head=torch.float32, **options)) < 1e-5
    handle.remove()
    with torch.no_grad():
        whole = score(model, rows, autocast=torch.bfloat16, head=torch.float32, logits="whole").logp
        chunked = score(model, rows, autocast=torch.bfloat16, head=torch.float32, logits="chunked").logp
    assert torch.allclose(whole, chunked, atol=1e-5)


def test_heads_that_are_more_than_a_product_keep_whole_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    capped: Any = Gemma2ForCausalLM(Gemma2Config(**SHAPE, final_logit_softcapping=3.0))
    capped.eval()
    adapted: Any = built(tied=False)
    attach(adapted, LoraConfig(rank=2, targets=["lm_head"]))
    for model in (capped, adapted):
        assert output_layer(model) is None
        wanted = score(model, batch(), logits="whole").logp
        with monkeypatch.context() as patch:
            patch.setattr(logprobs, "LARGE", 2)
            assert torch.equal(score(model, batch()).logp, wanted)
        with pytest.raises(
            UsageError, match=r"optimizer\.logits = chunked needs an output layer.*leave the setting out"
        ):
            score(model, batch(), logits="chunked")
        with pytest.raises(UsageError, match=r"optimizer\.head = float32 needs"):
            score(model, batch(), head=torch.float32)
    plain = built()
    assert output_layer(plain) is plain.lm_head
    assert "forward" not in vars(plain.lm_head), "put back"
    assert output_layer(plain, least=62) is None


TRITON_CASES = """
import sys, torch
from turnwise.trainers.learning import row_kernels, token_logprobs
row_kernels.BLOCK = 16
rng = torch.Generator().manual_seed(0)
worst = 0.0
for count, vocabulary, temperature, dtype in [
    (0, 5, 1.0, torch.float32), (1, 2, 1.0, torch.float32), (3, 37, 0.6, torch.float32), (4, 64, 2.0, torch.float32),
    (3, 37, 0.6, torch.bfloat16), (2, 16, 1.0, torch.float32),
]:
    z = (4 * torch.randn(count, vocabulary, generator=rng)).to(dtype)
    ids = torch.randint(0, vocabulary, (count,), generator=rng)
    if count > 2:
        z[0, : min(20, vocabulary - 1)] = -torch.inf  # a whole first block of impossible tokens
        ids[0] = vocabulary - 1
    exact = z.double().requires_grad_()
    logp = (exact / temperature).log_softmax(-1)
    chosen = logp.gather(-1, ids[:, None])[:, 0]
    entropy = torch.special.entr(logp.exp()).sum(-1)
    found = row_kernels.measure(z.clone(), ids, temperature)
    wanted = torch.stack([(exact / temperature).logsumexp(-1), chosen, entropy])
    assert torch.allclose(found.double(), wanted, atol=1e-5), (found, wanted)
    assert torch.allclose(token_logprobs.measure(z.clone(), ids, temperature).double(), wanted, atol=1e-5)
    for by in [torch.randn(2, count, generator=rng), (torch.randn(count, generator=rng), None)]:
        given = z.clone(), ids, found[0], found[2], by[0], by[1], temperature
        plain = token_logprobs.slope(*given)
        slope = row_kernels.slope(*given)
        assert slope.dtype == dtype
        limit = 1e-5 if dtype == torch.float32 else 2e-2
        assert torch.allclose(slope.float(), plain.float(), atol=limit), (slope, plain)
        probability = logp.detach().exp()
        hit = torch.zeros_like(probability).scatter_(-1, ids[:, None], 1.0)
        by_entropy = torch.zeros(count) if by[1] is None else by[1]
        spread = torch.where(probability > 0, probability * (logp.detach() + entropy.detach()[:, None]), 0.0)
        by_z = (by[0][:, None] * (hit - probability) - by_entropy[:, None] * spread) / temperature
        assert torch.allclose(slope.double(), by_z, atol=limit), (slope, by_z)
print("ok")
"""


def test_the_kernels_compute_in_tritons_interpreter_what_torch_computes() -> None:
    """In a process of its own: the interpreter is chosen when the kernels are defined."""
    pytest.importorskip("triton", reason="TRITON IS NOT INSTALLED: the kernels for GPUs were not checked")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    finished = subprocess.run(
        [sys.executable, "-c", TRITON_CASES], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert finished.stdout.strip() == "ok", finished.stderr
