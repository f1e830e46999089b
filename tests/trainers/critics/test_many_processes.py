"""Critics that several processes fit together learn what one process would: loss, gradient, values and state."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.spawn import start_processes

from turnwise.errors import DivergedError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.trainers.algorithms.archer import ArcherRule
from turnwise.trainers.critics.encoder import EncoderConfig
from turnwise.trainers.critics.encoders import encoder_named, is_language_model
from turnwise.trainers.critics.token_values import ValuesConfig, token_values
from turnwise.trainers.critics.transitions import Transition
from turnwise.trainers.critics.utterance import CriticConfig, UtteranceCritic
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.learning.parallel import ProcessGroup, process_group, shard, unsharded
from turnwise.trainers.learning.scorer import Scorer

from ..learning.test_invariance import batch
from ..small import FORKS, meeting_port
from .turns import step

TOKENIZER = build_tokenizer("byte")
TINY = NanoConfig(tokenizer="byte", size="0.1M", layers=2, hidden=32, heads=2, head_dim=16, intermediate=48)
SHAPE = {"hidden": 16, "layers": 1, "heads": 2, "intermediate": 16}
STATE, SAID = ((5, 6, 7), (8, 9)), (11, 12)


def policy(*, lora: bool = False) -> Any:
    model: Any = build_model(TINY, TOKENIZER, seed=3)
    if lora:
        attach(model, LoraConfig(rank=2), seed=1)
    return model


def turns(count: int) -> list[Transition]:
    """Turns of episodes of three, some of which continue the row before them."""
    found: list[Transition] = []
    for number in range(count):
        episode, turn = divmod(number, 3)
        state = tuple(range(episode + 1, episode + 4 + 3 * turn))
        after = () if turn == 2 else tuple(range(episode + 1, episode + 7 + 3 * turn))
        found.append(step(state, after[len(state) :] or (9, 8), 1.0 + number, after, returned=2.0 * number, turn=turn))
    return found


def recorded(optimizer: Any) -> list[Tensor]:
    """Return a list that receives the gradients of every step."""
    gradients: list[Tensor] = []

    def keep(*_: object) -> None:
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        gradients.extend(each.clone() for each in unsharded([parameter.grad for parameter in parameters]))

    optimizer.register_step_pre_hook(keep)
    return gradients


def token_fits(world: ProcessGroup) -> dict[str, Any]:
    """Fit the values of tokens, fewer rows than processes among them; stop, continue, and refuse what diverges."""
    options = ValuesConfig(lr=1e-2, minibatches=3, epochs=1, microbatch_tokens=40, max_grad_norm=1e9)
    shared: dict[str, Any] = {"scorer": Scorer(world=world)}
    critic = token_values(options, policy(), TOKENIZER, **shared)
    gradients = recorded(critic._optimizer)
    metrics = []
    for seed, episodes in ((1, 1), (2, 6)):
        rows = batch(seed, episodes)
        critic.values(rows)  # reads before it fits, as in a run
        metrics.append(critic.fit(rows, torch.linspace(-1, 2, len(rows))))
    state = copy.deepcopy(critic.state_dict())
    again = token_values(options, policy(), TOKENIZER, **shared)
    again.load_state_dict(copy.deepcopy(state))
    rows = batch(3, 5)
    metrics.append(again.fit(rows, torch.linspace(0, 1, len(rows))))
    values, ends = again.values(rows), again.final([STATE[0], STATE[1], (3,)])
    rows.weight[rows.mask] = torch.where(rows.row[rows.mask] == 0, float("inf"), 1.0)
    with pytest.raises(DivergedError, match="values"):
        again.fit(rows, torch.linspace(0, 1, len(rows)))
    return {"gradients": gradients, "metrics": metrics, "values": [values, ends], "state": state}


def utterance_fits(kind: str, world: ProcessGroup) -> dict[str, Any]:
    """Update a critic of utterances; stop, and continue."""
    model = policy(lora=kind in ("shared", "frozen"))
    learner = Learner(shard(model, world), OptimizerConfig(), world=world)
    learner.logprobs(batch(1, 2))  # the policy's own pass comes first, as in a run
    config = EncoderConfig.model_validate({"kind": kind, **SHAPE, "adapter": {"rank": 2, "alpha": 4}})
    made: dict[str, Any] = {"scorer": learner.scorer, "sharded": is_language_model(config)}
    options = CriticConfig(head=8, optimizer=OptimizerConfig(lr=1e-2, max_grad_norm=1e9, microbatch_tokens=60))
    critic = UtteranceCritic(encoder_named(config, model, TOKENIZER, seed=2), options, **made)
    gradients = recorded(critic._optimizer)
    rule = ArcherRule("td", 0.9)
    metrics = []
    for count in (1, 9, 12):
        critic.advantage(STATE, [SAID, SAID])
        metrics.append(critic.update(turns(count), rule, [(20 + number, 3) for number in range(count)]))
    state = copy.deepcopy(critic.state_dict())
    critic.load_state_dict(copy.deepcopy(state))
    metrics.append(critic.update(turns(6), rule, [SAID] * 6))
    values = [critic.q(STATE, [SAID, SAID]), critic.v(STATE, slow=True), critic.advantage(STATE, [SAID, SAID])]
    return {"gradients": gradients, "metrics": metrics, "values": values, "state": state}


KINDS = ("nano", "causal", "copy", "shared", "frozen")


def everything(world: ProcessGroup) -> dict[str, dict[str, Any]]:
    return {"tokens": token_fits(world)} | {kind: utterance_fits(kind, world) for kind in KINDS}


def together(rank: int, size: int, number: int, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(number), "RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
    torch.set_num_threads(1)
    with process_group() as world:
        torch.save(everything(world), Path(folder, f"{rank}.pt"))


def differences(one: Any, other: Any, name: str) -> list[str]:
    """Return where two nested states differ by more than 1e-5."""
    if isinstance(one, Tensor):
        same = one.shape == other.shape and torch.allclose(one, other, rtol=1e-5, atol=1e-5)
        return [] if same else [f"{name}: {float((one - other).abs().max()) if one.shape == other.shape else 'shape'}"]
    if isinstance(one, dict):
        missing = [] if one.keys() == other.keys() else [f"{name}: other keys"]
        return missing or [found for key in one for found in differences(one[key], other[key], f"{name}.{key}")]
    if isinstance(one, list | tuple):
        assert len(one) == len(other), name
        return [
            f for index, (a, b) in enumerate(zip(one, other, strict=True)) for f in differences(a, b, f"{name}.{index}")
        ]
    if isinstance(one, float):
        return [] if one == pytest.approx(other, rel=1e-4, abs=1e-5) else [f"{name}: {one} and {other}"]
    return [] if one == other else [f"{name}: {one} and {other}"]


@pytest.mark.slow
@pytest.mark.shift
def test_critics_of_two_processes_learn_what_those_of_one_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))  # where the processes find this module
    started = (2, meeting_port(), str(tmp_path))
    start_processes(together, started, nprocs=2, start_method=FORKS.get_start_method())  # type: ignore[no-untyped-call]
    one = everything(ProcessGroup())
    shares = [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(2)]
    for kind, alone in one.items():
        assert alone["gradients"], kind
        for found in shares:
            for part in ("metrics", "values", "gradients", "state"):
                assert not differences(alone[part], found[kind][part], f"{kind}.{part}"), f"{kind}: {part}"
    for kind in one:
        first, second = (share[kind]["values"] for share in shares)
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True)), "the same in every process"
