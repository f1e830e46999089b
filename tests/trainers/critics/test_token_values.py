"""The value model: where it reads, what it learns, that it changes nothing else, and that it goes on as it was."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from turnwise.errors import DivergedError, UsageError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.trainers.critics.backbone_copy import backbone_copy
from turnwise.trainers.critics.token_values import TokenValues, ValuesConfig, token_values
from turnwise.trainers.critics.value_replay import ValueReplay
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.rows import Rows, pack

from ..fakes import Said, conversation

TINY = NanoConfig(size="0.1M", layers=2, hidden=16, heads=2, head_dim=8, intermediate=32, context_length=64)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return build_tokenizer("byte")


@pytest.fixture
def policy(tokenizer: Any) -> Any:
    return build_model(TINY, tokenizer, seed=1)


def rows_of(*talks: list[Said]) -> Rows:
    rows = pack([conversation(said, name=f"e{index}") for index, said in enumerate(talks)])
    return rows.with_weight(normalizer(rows, "token_mean"))


TALKS = (
    [Said((1, 2), (3, 4)), Said((5,), (6,))],
    [Said((7, 8, 9, 10, 11), (12,))],
    [Said((1,), (2, 3, 4, 5))],
)


def taught(values: TokenValues, rows: Rows, target: float | Tensor, times: int = 1) -> dict[str, float]:
    target_T = torch.full((len(rows),), target) if isinstance(target, float) else target
    metrics: dict[str, float] = {}
    for _ in range(times):
        metrics = values.fit(rows, target_T)
    return metrics


def critic(policy: Any, tokenizer: Any, **settings: Any) -> TokenValues:
    return token_values(ValuesConfig.model_validate(settings), policy, tokenizer)


def stirred(values: TokenValues) -> TokenValues:
    """The same with a head that says something."""
    nn.init.normal_(values.head.weight, generator=torch.Generator().manual_seed(3))
    nn.init.constant_(values.head.bias, 0.25)
    return values


class Echo(nn.Module):
    """A backbone whose state at a place says which id stands there: what reads which place can be seen."""

    def __init__(self, vocabulary: int = 16) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.arange(float(vocabulary))[:, None])

    def forward(self, input_ids: Tensor, use_cache: bool) -> State:
        assert not use_cache
        return State(self.table[input_ids])


@dataclass
class State:
    last_hidden_state: Tensor


def echo(**settings: Any) -> TokenValues:
    values = TokenValues(Echo(), 1, ValuesConfig.model_validate(settings))
    nn.init.ones_(values.head.weight)
    return values


def test_a_value_is_of_what_stands_left_of_the_token() -> None:
    rows = rows_of(*TALKS)
    wanted = [0, 0, 2, 3, 0, 5, 0, 0, 0, 0, 0, 11, 0, 1, 2, 3, 4]
    assert echo().values(rows).tolist() == wanted
    assert echo(microbatch_tokens=1).values(rows).tolist() == wanted, "however they are cut"
    assert echo().final([(4, 9), (3,), (1, 2, 5)]).tolist() == [9, 3, 5]
    assert echo(microbatch_tokens=1).final([(4, 9), (3,), (1, 2, 5)]).tolist() == [9, 3, 5]
    assert echo().final([]).tolist() == []


def test_trap_26_padding_changes_no_value(policy: Any, tokenizer: Any) -> None:
    """Trap 26: a row's values are the same alone, beside a longer one, and cut from a longer one."""
    values = stirred(critic(policy, tokenizer))
    together = values.values(rows_of(*TALKS))
    alone = torch.cat([values.values(rows_of(said)) for said in TALKS])
    assert torch.allclose(together, alone, atol=1e-6)
    longer = values.values(rows_of([*TALKS[0], Said((9, 9, 9), (1, 1))]))
    assert torch.allclose(longer[:6], alone[:6], atol=1e-6), "one pass over an episode values each of its turns"
    whole = values.final([(1, 2), (1, 2, 3, 4, 5), (7,) * 30])
    assert torch.allclose(whole[:2], torch.stack([alone[2], alone[5]]), atol=1e-6), "the same state, asked otherwise"


def test_what_the_environment_said_is_read(policy: Any, tokenizer: Any) -> None:
    values = stirred(critic(policy, tokenizer))
    heard = [values.values(rows_of([Said((1, 2), (3,)), Said((seen,), (6,))])) for seen in (5, 50)]
    assert heard[0][2] == heard[1][2], "the first turn could not know"
    assert heard[0][4] != heard[1][4]


def test_a_copy_of_the_policy_reads_as_it_does_and_shares_nothing(policy: Any, tokenizer: Any) -> None:
    before = copy.deepcopy(policy.state_dict())
    values = critic(policy, tokenizer, lr=0.1)
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(
        values.backbone(input_ids=ids).last_hidden_state, policy.base_model(input_ids=ids).last_hidden_state
    )
    taught(values, rows_of(*TALKS), torch.arange(17.0), times=2)
    assert all(torch.equal(before[name], value) for name, value in policy.state_dict().items())
    assert all(parameter.grad is None for parameter in policy.parameters()), "no gradient of a value reaches it"
    own = dict(values.backbone.named_parameters())
    assert any(not torch.equal(own[name], value) for name, value in policy.base_model.named_parameters())


def test_a_copy_of_a_frozen_policy_learns(policy: Any) -> None:
    policy.requires_grad_(False)
    values = TokenValues(backbone_copy(policy), 16, ValuesConfig())
    assert all(parameter.requires_grad for parameter in values.backbone.parameters())
    assert not any(parameter.requires_grad for parameter in policy.parameters())


def test_a_copy_of_a_policy_with_adapters_has_them_merged(policy: Any) -> None:
    attach(policy, LoraConfig(rank=2))
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(4))
    drawn = torch.get_rng_state()
    made = backbone_copy(policy)
    assert torch.equal(drawn, torch.get_rng_state())
    ids = torch.tensor([[1, 2, 3]])
    wanted = policy.base_model(input_ids=ids).last_hidden_state
    assert torch.allclose(made(input_ids=ids).last_hidden_state, wanted, atol=1e-5)
    assert not any("lora_" in name for name, _ in made.named_parameters())
    own = {parameter.data_ptr() for parameter in policy.parameters()}
    assert not own & {parameter.data_ptr() for parameter in made.parameters()}


def test_a_nano_critic_is_a_function_of_the_seed(policy: Any, tokenizer: Any) -> None:
    options = ValuesConfig(init="nano", nano=TINY)
    one, same, other = (token_values(options, policy, tokenizer, seed=seed) for seed in (5, 5, 6))
    rows = rows_of(*TALKS)
    values = [stirred(made).values(rows) for made in (one, same, other)]
    assert torch.equal(values[0], values[1])
    assert not torch.equal(values[0], values[2])


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "scale"), [("huber", "running"), ("squared", "fixed")])
def test_it_learns_returns_far_from_zero(policy: Any, tokenizer: Any, loss: str, scale: str) -> None:
    values = critic(policy, tokenizer, lr=1e-2, loss=loss, scale=scale, center=-60.0, spread=20.0)
    rows = rows_of(TALKS[0], TALKS[1], [Said((13,), (2, 3, 4, 5))])  # no state in common
    target_T = torch.where(rows.episode == 0, -70.0, torch.where(rows.episode == 1, -10.0, -90.0))
    first = taught(values, rows, target_T)
    last = taught(values, rows, target_T, times=12)
    assert torch.allclose(values.values(rows)[rows.mask], target_T[rows.mask], atol=4.0)
    assert last["value_loss"] < first["value_loss"] / 10
    assert last["value_explained"] > 0.95 > first["value_explained"]
    assert last["value_target"] == pytest.approx(float(target_T[rows.mask].mean()), abs=1e-3)


def gradients(values: TokenValues, rows: Rows, target_T: Tensor) -> list[Tensor]:
    """Return the optimizer's inputs in one fit of one minibatch."""
    caught: list[Tensor] = []
    step = values._optimizer.step

    def catching(*args: Any, **kwargs: Any) -> Any:
        caught.extend(p.grad.clone() for p in values._parameters if p.grad is not None)
        return step(*args, **kwargs)

    values._optimizer.step = catching  # type: ignore[method-assign]
    values.fit(rows, target_T)
    return caught


ONE = {"epochs": 1, "minibatches": 1, "max_grad_norm": 1e9, "scale": "none"}


def test_the_gradient_is_the_weighted_sum_in_closed_form() -> None:
    rows = rows_of([Said((5,), (1,))], [Said((3,), (1,))])
    rows = replace(rows, weight=torch.where(rows.mask, torch.tensor([0.0, 3.0, 0.0, 1.0]), 0.0))
    target_T = torch.tensor([0.0, 7.0, 0.0, 3.5])
    head_weight = gradients(echo(**ONE, loss="squared"), rows, target_T)[1]
    # Σ w (V − target) · hidden, with weights that sum to 1: V is what stands there, 5 and 3.
    assert float(head_weight) == pytest.approx(0.75 * (5 - 7) * 5 + 0.25 * (3 - 3.5) * 3)
    head_weight = gradients(echo(**ONE, loss="huber"), rows, target_T)[1]
    assert float(head_weight) == pytest.approx(0.75 * -1 * 5 + 0.25 * (3 - 3.5) * 3), "linear beyond 1"


def test_only_the_ratios_of_weights_count_and_micro_batches_do_not(policy: Any, tokenizer: Any) -> None:
    rows = rows_of(*TALKS)
    target_T = torch.arange(float(len(rows)))
    found = []
    for factor, budget in ((1.0, 10_000), (100.0, 10_000), (1.0, 1)):
        values = stirred(critic(policy, tokenizer, **ONE, microbatch_tokens=budget))
        found.append(gradients(values, replace(rows, weight=rows.weight * factor), target_T))
    for other in found[1:]:
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found[0], other, strict=True))


def test_tokens_without_weight_teach_nothing(policy: Any, tokenizer: Any) -> None:
    rows = rows_of(*TALKS)
    heard = replace(rows, weight=torch.where(rows.episode == 1, rows.weight, 0.0))
    found = []
    for elsewhere in (0.0, float("nan")):
        values = stirred(critic(policy, tokenizer, **ONE))
        found.append(gradients(values, heard, torch.where(rows.episode == 1, 4.0, elsewhere)))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert values.fit(replace(rows, weight=torch.zeros(len(rows))), torch.zeros(len(rows))) == {}
    assert values.fits == 1


def test_a_clipped_value_is_moved_no_further() -> None:
    """PPO's value clipping: beyond the clip, on the way to the target, there is no gradient; back there is one."""
    rows = rows_of([Said((5,), (1,))])
    output = torch.tensor([5.0], requires_grad=True)
    for before, target, wanted in ((5.0, 9.0, -4.0), (4.0, 9.0, 0.0), (4.0, 1.0, 4.0)):
        values = echo(clip=0.5, loss="squared", scale="none")
        loss = values._loss(output, torch.tensor([target]), torch.tensor([before]))
        assert float(torch.autograd.grad(loss.sum(), output)[0]) == wanted
    assert gradients(echo(clip=0.5, **ONE, loss="squared"), rows, torch.full((len(rows),), 9.0))[1] == -20.0


def test_the_order_of_minibatches_is_a_function_of_seed_and_fit(policy: Any, tokenizer: Any) -> None:
    rows, target_T = rows_of(*TALKS), torch.arange(float(len(rows_of(*TALKS))))
    made = []
    for noise in (0, 1):
        torch.manual_seed(noise)
        values = critic(policy, tokenizer)
        taught(values, rows, target_T, times=2)
        made.append(values.values(rows))
    assert torch.equal(*made), "the global generator has no part in it"


def test_it_goes_on_from_its_state_bit_for_bit(policy: Any, tokenizer: Any, tmp_path: Path) -> None:
    rows = rows_of(*TALKS)
    whole = critic(policy, tokenizer, minibatches=2)
    taught(whole, rows, torch.arange(float(len(rows))), times=3)
    torch.save(whole.state_dict(), tmp_path / "state.pt")
    resumed = critic(build_model(TINY, tokenizer, seed=99), tokenizer, minibatches=2)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for values in (whole, resumed):
        taught(values, rows, -torch.arange(float(len(rows))), times=2)
    assert torch.equal(whole.values(rows), resumed.values(rows))
    assert whole.fits == resumed.fits == 5


def even(rows: Rows) -> Rows:
    return rows.with_weight(rows.mask.float())


def test_a_fit_with_kept_steps_equals_a_fit_on_all_rows(policy: Any, tokenizer: Any) -> None:
    first, second = even(rows_of(*TALKS[:2])), even(rows_of(TALKS[2]))
    both = even(rows_of(TALKS[2], *TALKS[:2]))
    one_T, two_T = torch.arange(float(len(first))), torch.arange(float(len(second))) - 9
    settings = {"scale": "none", "minibatches": 2, "lr": 0.01}
    replayed, direct = critic(policy, tokenizer, **settings, replay=1), critic(policy, tokenizer, **settings)
    for values in (replayed, direct):
        values.fit(first, one_T)
    kept, whole = replayed.fit(second, two_T), direct.fit(both, torch.cat([two_T, one_T]))
    assert torch.equal(replayed.values(both), direct.values(both))
    assert kept["value_loss"] == whole["value_loss"]
    assert kept["value_target"] == pytest.approx(float(two_T[second.mask].mean())), "metrics describe the new rows"


def test_a_replay_drops_the_oldest_step_and_keeps_no_row_without_weight() -> None:
    weighted = even(rows_of(*TALKS))
    weighted = weighted.with_weight(torch.where(weighted.episode == 1, 0.0, weighted.weight))
    replay = ValueReplay(2)
    for target in (1.0, 2.0, 3.0):
        replay.joined(weighted, torch.full((len(weighted),), target))
    joined, target_T = replay.joined(rows_of(TALKS[0]), torch.full((6,), 4.0))
    numbers = [sorted(set(joined.row[target_T == target].tolist())) for target in (4, 3, 2, 1)]
    assert list(map(len, numbers)) == [1, 2, 2, 0]
    assert len(set().union(*numbers)) == 5, "every row has its own index"
    assert joined.ids[target_T == 3].tolist() == weighted.ids[weighted.episode != 1].tolist()


def test_it_resumes_with_its_replay(policy: Any, tokenizer: Any, tmp_path: Path) -> None:
    rows, target_T = rows_of(*TALKS), torch.arange(17.0)
    whole = critic(policy, tokenizer, replay=3)
    taught(whole, rows, target_T, times=2)
    torch.save(whole.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    resumed, without = (critic(policy, tokenizer, replay=3) for _ in range(2))
    resumed.load_state_dict(state)
    without.load_state_dict({name: each for name, each in state.items() if name != "replay"})  # as release 0.1 wrote
    for values in (whole, resumed, without):
        taught(values, rows, -target_T)
    assert torch.equal(whole.values(rows), resumed.values(rows))
    assert not torch.equal(whole.values(rows), without.values(rows))


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_target_that_is_no_number_stops_with_the_batch_saved(
    policy: Any, tokenizer: Any, tmp_path: Path, poison: float
) -> None:
    values = token_values(ValuesConfig(), policy, tokenizer, dump=tmp_path / "run" / "diverged.pt")
    rows = rows_of(*TALKS)
    before = values.values(rows)
    with pytest.raises(DivergedError, match=r"after 0 fits of the critic a target .*diverged\.pt") as caught:
        taught(values, rows, poison)
    assert "\n" not in str(caught.value)
    assert torch.equal(values.values(rows), before)
    saved = torch.load(tmp_path / "run" / "diverged.pt", weights_only=True)
    assert torch.equal(saved["ids"], rows.ids)
    assert "target" in saved


def spoilt(values: TokenValues, weight: Tensor, number: float) -> TokenValues:
    with torch.no_grad():
        weight.fill_(number)
    return values


def test_a_loss_or_gradient_that_is_no_number_stops() -> None:
    rows = rows_of(*TALKS)
    values = echo(scale="none")
    with pytest.raises(DivergedError, match="the loss is nan"):
        taught(spoilt(values, values.head.bias, float("nan")), rows, 1.0)
    values = echo(scale="none")
    with pytest.raises(DivergedError, match=r"the (loss|gradient norm) is (inf|nan)"):
        taught(spoilt(values, next(values.backbone.parameters()), 1e38), rows, -1e38)


def test_nothing_is_cut_off_silently(policy: Any, tokenizer: Any) -> None:
    values = critic(policy, tokenizer)
    with pytest.raises(UsageError, match="65 tokens does not fit the critic's context of 64"):
        values.values(rows_of([Said((1,) * 64, (2,))]))
    with pytest.raises(UsageError, match="65 tokens"):
        values.final([(1,) * 65])
    with pytest.raises(UsageError, match="empty prompt"):
        values.final([(1,), ()])


@pytest.mark.parametrize("init", ["policy", "nano"])
def test_the_critic_of_a_16_bit_policy_is_32_bit(init: str) -> None:
    tokenizer = build_tokenizer("byte")
    model: Any = build_model(NanoConfig(tokenizer="byte", size="0.1M", layers=1), tokenizer, seed=0)
    values = token_values(ValuesConfig.model_validate({"init": init}), model.to(torch.bfloat16), tokenizer)
    assert {p.dtype for p in values.backbone.parameters()} == {torch.float32}, "small steps must count"
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}, "and the policy stays what it is"
