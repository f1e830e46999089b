"""How many bytes does a forward pass keep for its gradient, and what does `turnwise plan` predict?

    python benchmarks/saved_bytes.py
    python benchmarks/saved_bytes.py --before-after     # with masks and whole logits, and without

Runs the learner's forward pass at the widths of real models and counts the bytes of the tensors that autograd saves,
each storage once and without the weights. ``qwen3-0.6b`` has its whole depth; the others have two layers and a small
vocabulary, since depth and vocabulary are plain factors. With ``recompute``, the inside of one layer is added, which
exists while its gradient is computed. The device is the CPU; on a GPU the fused kernels save the same arrays.
Only sizes count, so matrix products are not computed, and weights not drawn: zeros of their shapes stand for them.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from turnwise.trainers.learning import logprobs
from turnwise.trainers.learning.activations import layers_as
from turnwise.trainers.learning.logprobs import Logits, score
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.learning.utterances import Utterance, pack_utterances
from turnwise.trainers.planning.memory import SAVED, saved_bytes, saved_logits
from turnwise.trainers.planning.shapes import KNOWN, ModelShape
from turnwise.trainers.planning.workload import Passes

MODELS: tuple[tuple[str, int | None, int], ...] = (
    ("qwen3-0.6b", None, 64),
    ("qwen3-4b", 2, 256),
    ("qwen3-8b", 2, 256),
    ("qwen2.5-0.5b", 2, 256),
    ("llama-3.2-1b", 2, 256),
)
"""Models, number of layers (``None`` for all), and tokens of a pass."""
ATEN = torch.ops.aten


class SizesOnly(TorchDispatchMode):
    """Replace the results of matrix products by zeros, and leave random weights as they were allocated."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (ATEN.mm.default, ATEN.bmm.default, ATEN.addmm.default):
            one, other = args[-2:]
            return one.new_zeros(*one.shape[:-1], other.shape[-1])
        if func in (ATEN.normal_.default, ATEN.uniform_.default):
            return args[0]
        return func(*args, **(kwargs or {}))


def built(shape: ModelShape, width: int, rank: int | None) -> Any:
    """Build a model of a shape, with whatever its memory holds as weights."""
    sizes = {
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "intermediate_size": shape.intermediate,
        "vocab_size": shape.vocabulary,
        "tie_word_embeddings": shape.tied,
        "pad_token_id": 0,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    dtype = torch.float32 if width == 4 else torch.bfloat16
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with SizesOnly():
            model: Any
            if shape.head_norms:
                model = Qwen3ForCausalLM(Qwen3Config(**sizes, head_dim=shape.head_dim))
            elif shape.biased:
                model = Qwen2ForCausalLM(Qwen2Config(**sizes))
            else:
                model = LlamaForCausalLM(LlamaConfig(**sizes))
    finally:
        torch.set_default_dtype(before)
    model.eval()
    return model if rank is None else attach(model, LoraConfig(rank=rank))


def measured(
    model: Any, passes: Passes, tokens: int, rows: int | None = None, *, casts: bool = True, computed: bool = False
) -> int:
    """Return the bytes that one forward pass saves, without weights.

    Args:
        model: the model.
        passes: how it is trained.
        tokens: tokens of the pass; the policy sampled the second half of each row.
        rows: number of rows (default: 2 if they are packed, otherwise 1).
        casts: whether copies of weights in 16 bits count, which do not grow with the tokens; their shape tells,
            which must not be that of an activation.
        computed: whether matrix products are computed.
    """
    shapes = {shape for each in model.parameters() for shape in (each.shape, each.shape[::-1])} if not casts else set()
    own = {each.untyped_storage()._cdata for each in [*model.parameters(), *model.buffers()]}
    seen: dict[int, Tensor] = {}

    def note(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage()._cdata not in own and tensor.shape not in shapes:
            seen.setdefault(tensor.untyped_storage()._cdata, tensor)  # kept, so that no storage comes twice
        return tensor

    count = rows or (2 if passes.packed else 1)
    half = tokens // count // 2
    one = Utterance(tuple([1] * half), tuple([2] * half), tuple([0.0] * half))
    batch, layout = pack_utterances([one] * count), "packed" if passes.packed else "padded"
    autocast = torch.bfloat16 if passes.autocast else None
    inside = layers_as(model, recompute=True) if passes.recompute else nullcontext()
    products = nullcontext() if computed else SizesOnly()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor), inside, products:
        score(model, batch, layout=layout, autocast=autocast, logits=passes.logits)  # type: ignore[arg-type]
    return sum(tensor.untyped_storage().nbytes() for tensor in seen.values())


def variants(shape: ModelShape, tokens: int, logits: Sequence[Logits]) -> Iterator[Passes]:
    """Yield every way of training: precision, adapters, recomputation, layout, logits."""
    for (adapted, width, autocast), recompute, packed, kind in itertools.product(
        SAVED, (False, True), (False, True), logits
    ):
        rank = 16 if adapted else None
        plain = Passes(shape, width, rank, autocast, recompute, packed, tokens, tokens, 1, 1.0, 1.0, 0.5)
        yield replace(plain, logits=kind)


def compared(
    shape: ModelShape, tokens: int, logits: Sequence[Logits] = ("whole", "chunked")
) -> Iterator[tuple[Passes, int, int]]:
    """Yield each way with measured and predicted bytes."""
    models: dict[tuple[int, int | None], Any] = {}
    for passes in variants(shape, tokens, logits):
        kind = (passes.width, passes.rank)
        if kind not in models:
            models.clear()  # one at a time
            models[kind] = built(shape, *kind)
        found = measured(models[kind], passes, tokens)
        if passes.recompute:
            found += _inside_a_layer(passes, tokens)
        yield passes, found, saved_bytes(passes, tokens) + saved_logits(passes, tokens)


def _inside_a_layer(passes: Passes, tokens: int) -> int:
    """Return what one layer saves while it is recomputed: the difference of two layers and one."""
    return _of_a_layer(replace(passes, recompute=False, logits="whole"), tokens)[1]


def _of_a_layer(passes: Passes, tokens: int, rows: int | None = None) -> tuple[int, int]:
    """Return what a model of one layer with a small vocabulary saves, and what each layer more adds."""
    found = []
    for layers in (1, 2):
        model = built(replace(passes.shape, layers=layers, vocabulary=64), passes.width, passes.rank)
        found.append(measured(model, passes, tokens, rows, casts=rows is None))
    return found[0], found[1] - found[0]


@contextmanager
def as_before() -> Iterator[None]:
    """Compute packed rows in the block as transformers does by itself: with a mask of all pairs of tokens."""
    ours = logprobs.rows_apart
    logprobs.rows_apart = lambda *_: nullcontext({})  # type: ignore[assignment]
    try:
        yield
    finally:
        logprobs.rows_apart = ours


def _of_heads(passes: Passes, tokens: int, rows: int) -> list[int]:
    """Return what the real vocabulary adds, with whole logits and by chunks."""
    wide, narrow = (
        built(replace(passes.shape, layers=1, vocabulary=v), 4, None) for v in (passes.shape.vocabulary, 64)
    )
    kinds: tuple[Logits, ...] = ("whole", "chunked")
    found = [measured(wide, replace(passes, logits=kind), tokens, rows, casts=False) for kind in kinds]
    return [each - measured(narrow, replace(passes, logits="whole"), tokens, rows, casts=False) for each in found]


def before_and_after(name: str, tokens: int, rows: int) -> None:
    """Print bytes per token with masks and whole logits, and without, at real widths and vocabulary.

    One layer and two are measured, with a vocabulary of 64; the other layers are extrapolated. The output layer is
    measured without layers of its own: as the difference that the real vocabulary makes to one layer.
    """
    shape = KNOWN[name]
    plain = Passes(shape, 4, None, True, False, False, tokens, tokens // rows, rows, 1.0, 1.0, 0.5)
    heads = _of_heads(plain, tokens, rows)
    plain = replace(plain, logits="whole")
    for packed, recompute in itertools.product((False, True), (False, True)):
        passes, found = replace(plain, packed=packed, recompute=recompute), []
        for head, how in zip(heads, (as_before(), nullcontext()), strict=True):
            with how:
                first, more = _of_a_layer(passes, tokens, rows)
                if recompute:  # one layer at a time has its inside too
                    first += _of_a_layer(replace(passes, recompute=False), tokens, rows)[1]
            found.append((first + (shape.layers - 1) * more + head) / tokens)
        what = f"{'packed' if packed else 'padded'}{' recompute' if recompute else ''}"
        print(
            f"{name:12}{shape.layers:3} layers {rows} rows of {tokens // rows} {what:18}"
            f"{found[0] / 1024:9.1f} KiB/token before {found[1] / 1024:9.1f} after ({found[0] / found[1]:.2f} x)",
            flush=True,
        )


def main() -> None:
    """Print one line for each model and way, and the largest error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", default=",".join(name for name, _, _ in MODELS), help="models, with commas")
    parser.add_argument("--logits", default="whole,chunked", help="whole, chunked or both, with a comma")
    parser.add_argument("--before-after", action="store_true", help="bytes per token of qwen3-0.6b and qwen3-4b only")
    parser.add_argument("--tokens", type=int, default=384, help="tokens of a pass in --before-after")
    parser.add_argument("--rows", type=int, default=3, help="rows of a pass in --before-after")
    arguments = parser.parse_args()
    chosen, logits = arguments.models.split(","), arguments.logits.split(",")
    warnings.simplefilter("ignore")
    if arguments.before_after:
        for name in ("qwen3-0.6b", "qwen3-4b"):
            before_and_after(name, arguments.tokens, arguments.rows)
        return
    worst = 0.0
    for name, layers, tokens in MODELS:
        if name not in chosen:
            continue
        whole = KNOWN[name]
        shape = whole if layers is None else replace(whole, layers=layers, vocabulary=8192)
        for passes, found, predicted in compared(shape, tokens, logits):
            error = predicted / found - 1
            worst = max(worst, abs(error))
            what = ["fp32" if passes.width == 4 else "bf16", *(["autocast"] if passes.autocast else [])]
            what += [*(["LoRA"] if passes.rank else []), *(["recompute"] if passes.recompute else [])]
            layout = "packed" if passes.packed else "padded"
            print(
                f"{name:14}{shape.layers:3} layers {tokens:4} tokens {layout} {passes.logits:7} {' '.join(what):32}"
                f"{found / 2**20:9.2f} MiB measured {predicted / 2**20:9.2f} predicted {error:+7.2%}",
                flush=True,
            )
    print(f"largest error {worst:.2%}")


if __name__ == "__main__":
    main()
