"""Loss and gradient are those of the batch, however it is cut, laid out, computed or shared out."""

from __future__ import annotations

import copy
import os
import re
import signal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import init_empty_weights
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._dynamo.utils import counters
from torch.distributed.tensor import DTensor
from torch.multiprocessing.spawn import start_processes
from transformers import OPTConfig, OPTForCausalLM

from turnwise.errors import DivergedError, InfrastructureError, UsageError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.trainers.learning.activations import layers_as
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.logprobs import score
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.objective import Objective
from turnwise.trainers.learning.output_layer import output_layer
from turnwise.trainers.learning.parallel import ProcessGroup, gather_on_main, process_group, shard, unsharded
from turnwise.trainers.learning.parallel_config import ParallelConfig
from turnwise.trainers.learning.rows import Rows, pack
from turnwise.trainers.run.shards import copied, shards_of

from ..fakes import Bigram, Said, conversation
from ..small import FORKS, meeting_port

TOKENIZER = build_tokenizer("byte")
TINY = NanoConfig(tokenizer="byte", size="0.1M", layers=2, hidden=32, heads=2, head_dim=16, intermediate=48)

DEEP = TINY.model_copy(update={"layers": 6})


@cache
def _weights() -> dict[str, Tensor]:
    return dict(build_model(TINY, TOKENIZER).state_dict())


def tiny() -> Any:
    model = build_model(TINY, TOKENIZER)
    model.load_state_dict(_weights())
    return model


def batch(seed: int = 0, episodes: int = 6) -> Rows:
    """Episodes of uneven length, some of two rows, with an advantage for each turn."""
    rng = torch.Generator().manual_seed(seed)

    def some(least: int, most: int) -> tuple[int, ...]:
        count = int(torch.randint(least, most + 1, (1,), generator=rng))
        return tuple(torch.randint(0, 250, (count,), generator=rng).tolist())

    played = [
        conversation(
            [
                Said(some(1, 12), some(1, 5), rewrites=bool(turn and turn == number % 4))
                for turn in range(1 + number % 3)
            ],
            name=str(number),
        )
        for number in range(episodes)
    ]
    rows = pack(played)
    turns = int(rows.turn.max()) + 1
    rows = rows.with_turn_advantage(torch.randn(turns, generator=rng))
    return rows.with_weight(normalizer(rows, "traj_mean"))


def outcome(model: Any, rows: Rows, objective: Objective | None = None, **options: Any) -> tuple[float, list[Tensor]]:
    """The loss of one update, and the weights after it: plain gradient descent would show the same."""
    learner = Learner(model, OptimizerConfig(lr=1e-3, max_grad_norm=1e9, **options))
    gradients: list[Tensor] = []
    learner._optimizer.register_step_pre_hook(
        lambda *_: gradients.extend(p.grad.clone() for p in learner._parameters if p.grad is not None)
    )
    update = learner.step(learner.recompute_old(rows), objective or Objective())
    return update.metrics["loss"], gradients


def close(one: list[Tensor], other: list[Tensor], tolerance: float = 1e-5) -> bool:
    assert len(one) == len(other) > 0
    largest = max(float(gradient.abs().max()) for gradient in one)
    return all(float((a - b).abs().max()) <= tolerance * max(largest, 1.0) for a, b in zip(one, other, strict=True))


OBJECTIVES = [
    Objective(),
    Objective(ratio_level="turn"),
    Objective(ratio_level="trajectory"),
    Objective(entropy_coef=0.3),
]


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES, ids=["token", "turn", "trajectory", "entropy"])
@pytest.mark.parametrize("changed", [{"microbatch_tokens": 1}, {"layout": "packed"}, {"recompute": True}], ids=str)
def test_loss_and_gradient_are_those_of_one_padded_pass(objective: Objective, changed: dict[str, Any]) -> None:
    for seed in range(3):
        loss, gradients = outcome(tiny(), batch(seed), objective, microbatch_tokens=10**6)
        found, others = outcome(tiny(), batch(seed), objective, **changed)
        assert found == pytest.approx(loss, abs=1e-6)
        assert close(gradients, others)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 249), min_size=2, max_size=12), min_size=1, max_size=6))
def test_rows_in_one_sequence_do_not_see_each_other(texts: list[list[int]]) -> None:
    model = tiny()
    rows = pack([conversation([Said(tuple(t[:1]), tuple(t[1:]))], name=str(i)) for i, t in enumerate(texts)])
    with torch.no_grad():
        packed, padded = score(model, rows, layout="packed"), score(model, rows)
        assert torch.allclose(packed.logp, padded.logp, atol=1e-5)
        assert torch.allclose(packed.entropy, padded.entropy, atol=1e-5)
        for number in range(len(texts)):
            alone = score(model, rows.select([number])).logp
            assert torch.allclose(packed.logp[rows.row == number], alone, atol=1e-5)


def test_a_model_that_cannot_tell_rows_apart_is_not_given_a_packed_sequence() -> None:
    with pytest.raises(UsageError, match="position_ids"):
        score(Bigram(), pack([conversation([Said((1,), (2,))])]), layout="packed")


def test_a_model_that_reads_across_rows_in_spite_of_its_positions_is_found_out() -> None:
    shape = OPTConfig(
        vocab_size=16,
        hidden_size=16,
        ffn_dim=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=32,
        word_embed_proj_dim=16,
    )
    torch.manual_seed(0)
    model: Any = OPTForCausalLM(shape)
    model.set_attn_implementation("eager")
    with pytest.raises(UsageError, match="OPTForCausalLM reads across rows"):
        Learner(model, OptimizerConfig(layout="packed"))
    Learner(model, OptimizerConfig(layout="padded"))
    Learner(tiny(), OptimizerConfig(layout="packed"))


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 200), st.sampled_from(["row", "episode"]), st.sampled_from(["padded", "packed"]), st.integers(0, 9)
)
def test_microbatches_keep_to_the_budget_and_lose_nothing(budget: int, whole: Any, layout: Any, seed: int) -> None:
    rows = batch(seed)
    parts = rows.numbered_microbatches(budget, whole=whole, layout=layout)
    assert sorted(int(i) for _, place in parts for i in place) == list(range(len(rows)))
    for part, place in parts:
        assert torch.equal(part.ids, rows.ids[place])
        computed = len(part) if layout == "packed" else part.padded().ids_BL.numel()
        units = part.row if whole == "row" else part.episode
        assert computed <= budget or torch.unique(units).numel() == 1, "only one unit may exceed the budget"


def test_packing_computes_no_padding() -> None:
    rows = batch()
    assert len(rows.microbatches(len(rows), layout="packed")) == 1
    assert len(rows.microbatches(len(rows), layout="padded")) > 1


def test_recomputing_is_exact_and_leaves_no_trace() -> None:
    model, plain = tiny(), tiny()
    names = {name: set(vars(module)) for name, module in model.named_modules()}
    _, gradients = outcome(plain, batch())
    _, recomputed = outcome(model, batch(), recompute=True)
    assert all(torch.equal(a, b) for a, b in zip(gradients, recomputed, strict=True)), "the very same numbers"
    assert {name: set(vars(module)) for name, module in model.named_modules()} == names
    with pytest.raises(UsageError, match="no transformer layers"):
        outcome(Bigram(250), batch(), recompute=True)


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.filterwarnings("ignore")  # the compiler has warnings of its own, in torch
def test_compiled_layers_compute_the_same_and_leave_no_trace() -> None:
    """For every layout, and for as many rows of as many lengths as come: layers compile once, not once per length."""
    for options in ({}, {"recompute": True}, {"layout": "packed"}, {"layout": "packed", "recompute": True}):
        for seed in range(3):
            rows, before = batch(seed, 4 + seed), counters["stats"]["unique_graphs"]
            plain = build_model(DEEP, TOKENIZER)
            model = copy.deepcopy(plain)
            names = {name: set(vars(module)) for name, module in model.named_modules()}
            loss, gradients = outcome(plain, rows, **options)
            found, compiled = outcome(model, rows, compiled=True, **options)
            assert found == pytest.approx(loss, rel=1e-5, abs=1e-7)
            for a, b in zip(gradients, compiled, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
            assert {name: set(vars(module)) for name, module in model.named_modules()} == names
            made = counters["stats"]["unique_graphs"] - before
            assert made == 0 if seed else made < 4 + 8 * ("layout" in options), f"{made} graphs for {options}"
    with pytest.raises(UsageError, match="no transformer layers to compile"):
        outcome(Bigram(250), batch(), compiled=True)


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.filterwarnings("ignore")
def test_trying_the_output_layer_compiles_no_layer_alone() -> None:
    """It may come first, within the block: with a cache, each layer would be compiled alone, up to torch's limit."""
    model, before = build_model(DEEP, TOKENIZER), counters["stats"]["unique_graphs"]
    with layers_as(model, compiled=True):
        assert output_layer(model) is not None
    assert counters["stats"]["unique_graphs"] <= before + 1


def test_recomputing_keeps_less() -> None:
    def kept(**options: Any) -> int:
        sizes: list[int] = []

        def pack_hook(tensor: Tensor) -> Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack_hook, lambda tensor: tensor):
            outcome(tiny(), batch(), **options)
        return sum(sizes)

    # Recomputed layers save nothing through these hooks in the forward pass; what their backward pass saves is seen
    # by the checkpoint's own hooks.
    assert kept(recompute=True) < kept() / 2


def test_training_mode_and_with_it_dropout_stays_off() -> None:
    model = tiny()
    seen: list[bool] = []
    model.model.layers[0].register_forward_hook(lambda module, *_: seen.append(module.training))
    outcome(model, batch(), recompute=True)
    assert seen
    assert not any(seen)


def test_autocast_is_near_and_leaves_weights_and_probabilities_in_32_bits() -> None:
    loss, gradients = outcome(tiny(), batch())
    model = tiny()
    found, others = outcome(model, batch(), autocast="bfloat16")
    assert found == pytest.approx(loss, abs=1e-3)
    assert close(gradients, others, tolerance=0.05)
    assert not all(torch.equal(a, b) for a, b in zip(gradients, others, strict=True)), "it did compute in 16 bits"
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    scores = score(model, batch(), autocast=torch.bfloat16)
    assert (scores.logp.dtype, scores.entropy.dtype) == (torch.float32, torch.float32)
    assert not torch.is_autocast_enabled("cpu")


# -- processes --------------------------------------------------------------------------------------------------------


def together(
    rank: int, size: int, number: int, folder: str, lora: bool, settings: dict[str, Any], options: dict[str, Any]
) -> None:
    """Run each process's part: three updates, the first of them of fewer rows than processes."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(number), "RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
    torch.set_num_threads(1)
    with process_group() as processes:
        found = three_updates(processes, lora=lora, settings=settings, **options)
        torch.save(found, Path(folder, f"{rank}.pt"))


def local(value: Tensor) -> Tensor:
    return value.to_local() if isinstance(value, DTensor) else value


def without_data() -> Any:
    with init_empty_weights(include_buffers=False):
        model = build_model(TINY, TOKENIZER)
    model.tie_weights()
    assert all(parameter.is_meta for parameter in model.parameters())
    return model


def three_updates(
    processes: ProcessGroup, *, lora: bool = False, settings: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """Learn with a model that the main process alone has in memory before it is sharded."""
    model = tiny() if processes.is_main else without_data()
    if lora:
        attach(model, LoraConfig(rank=4))
    config = ParallelConfig(**settings or {})
    learner = Learner(shard(model, processes, config), OptimizerConfig(lr=1e-3, **options), world=processes)
    gradients: list[Tensor] = []
    learner._optimizer.register_step_pre_hook(
        lambda *_: gradients.extend(unsharded([p.grad for p in learner._parameters]))
    )
    metrics = []
    for seed, episodes in ((1, 1), (2, 5), (3, 6)):
        rows = learner.recompute_old(batch(seed, episodes))
        metrics.append(learner.step(rows, Objective(ratio_level="trajectory")).metrics)
    before = unsharded(dict(model.state_dict()))
    poisoned = batch(4)
    poisoned.advantage[poisoned.mask] = torch.where(poisoned.row[poisoned.mask] == 0, float("nan"), 1.0)
    with pytest.raises(DivergedError, match="after 3 updates"):
        learner.step(poisoned, Objective())
    after = unsharded(dict(model.state_dict()))
    unmoved = all(torch.equal(before[name], after[name]) for name in before)
    kept = unsharded(learner.state_dict())
    live = shards_of(model, learner.state_dict()["optimizer"]["state"], whole=True)
    for name, copy_of in copied(live).items():
        apart = local(copy_of).data_ptr() != local(live[name]).data_ptr()
        assert apart or not local(copy_of).numel(), "what is written later must not change"
        assert torch.equal(local(copy_of), local(live[name]))
    again = Learner(model, OptimizerConfig(lr=1e-3, **options), world=processes)
    again.load_state_dict(copy.deepcopy(kept))
    last = again.step(again.recompute_old(batch(5)), Objective()).metrics
    final = unsharded(dict(model.state_dict()))
    gathered = gather_on_main(model.state_dict(), processes)
    assert gathered.keys() == (final.keys() if processes.is_main else set())
    assert all(torch.equal(value, final[name]) for name, value in gathered.items())
    return {
        "metrics": [*metrics, last],
        "gradients": gradients,
        "weights": final,
        "optimizer": kept["optimizer"],
        "unmoved": unmoved,
        "logp": again.logprobs(batch(6)),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "lora", "settings", "options"),
    [
        (2, False, {"replicas": 2}, {}),
        pytest.param(3, True, {}, {}, marks=pytest.mark.shift),
        pytest.param(2, True, {"offload": True, "reshard": False}, {}, marks=pytest.mark.shift),
        pytest.param(4, False, {"replicas": 2}, {}, marks=pytest.mark.shift),
        pytest.param(
            2, False, {}, {"layout": "packed", "logits": "chunked", "recompute": True}, marks=pytest.mark.shift
        ),
        pytest.param(2, True, {}, {"compiled": True, "recompute": True}, marks=pytest.mark.shift),
    ],
    ids=["replicas", "lora", "offload", "replicas and shards", "packed and chunked", "compiled"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_many_processes_learn_what_one_does(
    tmp_path: Path,
    size: int,
    lora: bool,
    settings: dict[str, Any],
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))  # where the processes find this module
    started = (size, meeting_port(), str(tmp_path), lora, settings, options)
    start_processes(together, started, nprocs=size, start_method=FORKS.get_start_method())  # type: ignore[no-untyped-call]
    one = three_updates(ProcessGroup(), lora=lora)
    shares = [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(size)]
    for found in shares:
        assert found["unmoved"], "a loss that is no number in one process stops all of them before anything moves"
        for mine, theirs in zip(one["metrics"], found["metrics"], strict=True):
            assert mine == pytest.approx(theirs, rel=1e-3, abs=1e-5)
        assert close(one["gradients"], found["gradients"], tolerance=1e-4)
        assert torch.allclose(one["logp"], found["logp"], atol=1e-4)
        for name, weight in one["weights"].items():
            assert torch.allclose(weight, found["weights"][name], atol=1e-4), name
        mine, theirs = (each["optimizer"]["state"] for each in (one, found))
        assert {index: set(moments) for index, moments in mine.items()} == {i: set(m) for i, m in theirs.items()}
        for index, moments in mine.items():
            assert torch.allclose(moments["exp_avg"], theirs[index]["exp_avg"], atol=1e-5)
    first = shares[0]["weights"]
    assert all(torch.equal(first[name], share["weights"][name]) for share in shares for name in first)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_every_process_gets_as_many_passes_and_each_row_is_computed_once(size: int) -> None:
    for seed in range(5):
        rows = batch(seed, episodes=1 + seed)
        shares = [list(ProcessGroup(rank, size).parts(rows, 40)) for rank in range(size)]
        assert len({len(share) for share in shares}) == 1, "a sharded pass is a joint one"
        counted = [int(place) for share in shares for part in share if part.counts for place in part.place_T]
        assert sorted(counted) == list(range(len(rows)))


def alone_at_last(rank: int, number: int, folder: str, how: str) -> None:
    """Compute together once; then process 1 stops or ends, and process 0 writes down what it learns of that."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(number), "RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
    torch.set_num_threads(1)
    try:
        with process_group(timeout=0.05) as processes:
            learner = Learner(shard(tiny(), processes), OptimizerConfig(), world=processes)
            learner.logprobs(batch(6))
            if rank == 1:
                os.kill(os.getpid(), signal.SIGSTOP if how == "stops" else signal.SIGKILL)
            learner.logprobs(batch(6))
    except InfrastructureError as error:
        Path(folder, "said").write_text(str(error))
        os._exit(0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "said"), [("stops", "not answered for 0.05 minutes"), ("ends", "process .* has ended")]
)
def test_a_process_that_is_lost_ends_the_others_with_one_line(
    tmp_path: Path, how: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))  # where the processes find this module
    arguments = [(rank, port_number, str(tmp_path), how) for port_number in [meeting_port()] for rank in range(2)]
    survivor, lost = (FORKS.Process(target=alone_at_last, args=each) for each in arguments)
    survivor.start()
    lost.start()
    try:
        survivor.join(timeout=120)
        assert survivor.exitcode == 0
        assert re.search(said, (tmp_path / "said").read_text())
        assert "\n" not in (tmp_path / "said").read_text()
    finally:
        for each in (survivor, lost):
            each.kill()
            each.join()
