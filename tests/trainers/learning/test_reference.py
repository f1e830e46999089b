from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from turnwise.errors import CheckpointError, ModelError
from turnwise.inference.models import load_model
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.reference import Reference
from turnwise.trainers.learning.rows import Rows, pack
from turnwise.trainers.learning.scorer import Scorer

from ..fakes import Bigram, Said, conversation


def some_rows() -> Rows:
    said = [[Said((0, 1), (2, 3)), Said((4,), (5,))], [Said((1,), (6,))], [Said((0, 0, 0), (1, 2, 3, 4))]]
    rows = pack([conversation(each, name=str(i)) for i, each in enumerate(said)])
    return rows.with_weight(normalizer(rows, "token_mean"))


def test_it_scores_as_the_policy_did_before_it_learnt() -> None:
    model = Bigram()
    learner = Learner(model, OptimizerConfig(lr=0.3), temperature=0.7)
    reference = Reference.copy_of(model, learner.scorer)
    rows = reference.scored(learner.recompute_old(some_rows()))
    assert torch.allclose(rows.logp_ref, rows.logp_old)
    learner.clone(some_rows())
    moved = reference.scored(learner.recompute_old(some_rows()))
    assert torch.equal(moved.logp_ref, rows.logp_ref), "the copy is frozen"
    assert not torch.allclose(moved.logp_old, rows.logp_old)
    assert not any(parameter.requires_grad for parameter in reference.model.parameters())


def test_trap_23_a_reference_with_dropout_says_the_same_twice() -> None:
    class Dropping(Bigram):
        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> Any:
            output = super().forward(input_ids, attention_mask)
            output.logits = torch.nn.functional.dropout(output.logits, 0.5, self.training)
            return output

    reference = Reference(Dropping().train())
    once, again = (reference.scored(some_rows()).logp_ref for _ in range(2))
    assert torch.equal(once, again)
    assert torch.allclose(once, Reference(Bigram()).scored(some_rows()).logp_ref)


@pytest.mark.parametrize("budget", [1, 6, 1000])
def test_micro_batches_change_nothing(budget: int) -> None:
    wanted = Reference.copy_of(Bigram()).scored(some_rows()).logp_ref
    got = Reference.copy_of(Bigram(), Scorer(microbatch_tokens=budget)).scored(some_rows()).logp_ref
    assert torch.allclose(got, wanted)
    assert not got[~some_rows().mask].any()


def test_a_resumed_run_must_have_the_same_reference() -> None:
    state = Reference.copy_of(Bigram(seed=0)).state_dict()
    Reference.copy_of(Bigram(seed=0)).load_state_dict(state)
    with pytest.raises(CheckpointError, match="its weights have changed since"):
        Reference.copy_of(Bigram(seed=1)).load_state_dict(state)
    with pytest.raises(CheckpointError, match="its weights have changed since"):
        Reference.copy_of(Bigram().bfloat16()).load_state_dict(state)


@pytest.mark.slow
def test_a_model_folder_is_one(cloned: Path) -> None:
    model, tokenizer = load_model(cloned / "model")
    loaded = Reference.load(str(cloned / "model"), tokenizer)
    Reference.copy_of(model).load_state_dict(loaded.state_dict())


def test_a_reference_must_speak_of_the_same_tokens(cloned: Path) -> None:
    class Other:
        def get_vocab(self) -> dict[str, Any]:
            return {"a": 0}

    with pytest.raises(ModelError, match="another vocabulary"):
        Reference.load(str(cloned / "model"), Other())
    with pytest.raises(ModelError, match="nowhere"):
        Reference.load(str(cloned / "nowhere"), Other())
