"""One copy of a large model for actor and critic: the policy's frozen backbone, with adapters of the critic's own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, cast

import peft
import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, register_fsdp_forward_method

from ...errors import UsageError
from .encoder import AdapterConfig
from .sequences import right_padded


class SharedEncoder(nn.Module):
    """The policy's own backbone with an adapter of the critic's (LoRA, arXiv 2106.09685).

    The policy has a frozen base and the actor's adapter. This class adds the adapter ``critic``. A copy of it, as a
    critic makes for its slow networks, adds ``target``: one large model in memory, three small sets of weights. Only
    the adapter's weights are parameters of this module: ``parameters()`` and ``state_dict()`` have nothing of base or
    actor. After each call, the actor's adapter is active again.

    The vector is the last hidden state: of a state, at the end of the prompt; of an utterance, at the end of prompt and
    utterance. ``pairs`` computes both in one causal pass.

    Args:
        model: the policy's model, with adapters (``learning/lora.py``, or a ``peft.PeftModel``).
        config: settings of a new adapter.
        adapter: name of this encoder's adapter, which is added unless the model has it.
        seed: seed of a new adapter's weights; the global generator keeps its state.

    Raises:
        UsageError: the policy has no adapters, or its base is trained too.
    """

    def __init__(self, model: Any, config: AdapterConfig, *, adapter: str = "critic", seed: int = 0) -> None:
        super().__init__()
        model = model.get_base_model() if isinstance(model, peft.PeftModel) else model
        refuse_unfrozen(model)
        # Not a submodule: base and actor belong to other modules.
        object.__setattr__(self, "_model", model)
        self.config, self.adapter = config, adapter
        self.width = int(model.config.hidden_size)
        self.context = getattr(model.config, "max_position_embeddings", None)
        if not _weights(model, adapter):
            self._add(model, seed)
        self.weights = nn.ParameterList(_weights(model, adapter))
        self.weights.requires_grad_(True)

    def forward(self, sequences: Sequence[tuple[int, ...]]) -> Tensor:
        """Return the hidden state after the last token; see ``Encoder``."""
        last_B = torch.tensor([len(ids) for ids in sequences]) - 1
        return self._read(sequences, [last_B])[0]

    def pairs(self, states: Sequence[tuple[int, ...]], actions: Sequence[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
        """Return vectors of B states, and of the utterance that follows each, ``[B, H]`` each, in one pass."""
        both = [(*state, *action) for state, action in zip(states, actions, strict=True)]
        state_B = torch.tensor([len(ids) for ids in states]) - 1
        action_B = torch.tensor([len(ids) for ids in both]) - 1
        state_BH, action_BH = self._read(both, [state_B, action_B])
        return state_BH, action_BH

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Make the slow copy: another adapter on the same base, with the same weights."""
        target, number = "target", 2
        while _weights(self._policy, target):
            target, number = f"target{number}", number + 1
        twin = type(self)(self._policy, self.config, adapter=target)
        with torch.no_grad():
            for mine, its in zip(self.weights, twin.weights, strict=True):
                its.copy_(mine)
        memo[id(self)] = twin
        return twin

    # -- the inside ---------------------------------------------------------------------------------------------

    @property
    def _policy(self) -> Any:
        return self.__dict__["_model"]

    def _add(self, model: Any, seed: int) -> None:
        settings = peft.LoraConfig(
            r=self.config.rank, lora_alpha=self.config.alpha, lora_dropout=0.0, target_modules=self.config.targets
        )
        before = set(_layers(model))
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), active_adapters(model):
            torch.manual_seed(seed)
            warnings.filterwarnings("ignore", message="Already found a `peft_config`")  # several adapters are intended
            try:
                peft.inject_adapter_in_model(settings, model, adapter_name=self.adapter)
            except ValueError as error:
                raise UsageError(
                    f"critic_model.encoder.adapter.targets = {self.config.targets} does not fit "
                    f"{type(model).__name__}: name its linear layers as q_proj, or all-linear"
                ) from error
            for layer in set(_layers(model)) - before:
                layer.set_adapter([])  # layers without the actor's adapter stay as they were for it
        for weight in _weights(model, self.adapter):
            weight.data = weight.data.float()  # 32-bit like the actor's, in a base of any precision

    def _read(self, sequences: Sequence[tuple[int, ...]], places: Sequence[Tensor]) -> list[Tensor]:
        """Return the last hidden state at one index of each sequence, for each list of indices."""
        longest = max(len(ids) for ids in sequences)
        if not all(sequences):
            raise UsageError("an empty sequence has no last token to read a value at")
        if self.context is not None and longest > self.context:
            raise UsageError(
                f"the critic is to read {longest} tokens, and the policy's backbone holds {self.context}: use a "
                "shorter agent.context (last:K)"
            )
        device = self.weights[0].device
        ids_BL, _ = right_padded(sequences)  # padding is on the right, so a causal model needs no mask
        with active_adapters(self._policy, [self.adapter]):
            hidden_BLH = backbone_of(self._policy)(input_ids=ids_BL.to(device), use_cache=False).last_hidden_state
        row_B = torch.arange(len(sequences), device=device)
        return [hidden_BLH[row_B, place_B.to(device)].float() for place_B in places]


def refuse_unfrozen(model: Any) -> None:
    """Refuse a policy without a frozen base that a critic could read with.

    Raises:
        UsageError: the policy has no adapters, or its base is trained too.
    """
    if not _layers(model):
        raise UsageError(
            "a shared critic reads through adapters on a frozen policy, and this policy has none: train it with "
            "LoRA, or choose the critic encoder nano or transformers"
        )
    base = [name for name, parameter in model.named_parameters() if parameter.requires_grad and "lora_" not in name]
    if base:
        raise UsageError(
            f"the policy's base learns too ({base[0]} and {len(base) - 1} more): what the critic reads through "
            "would move under it; train the policy's adapter alone"
        )


@contextmanager
def active_adapters(model: Any, adapters: Sequence[str] | None = None) -> Iterator[None]:
    """Activate adapters for a block (``None``: change nothing), and restore the active ones after it.

    Trainable weights stay the same.
    """
    before = [(layer, list(layer.active_adapters)) for layer in _layers(model)]
    learning = {parameter for parameter in model.parameters() if parameter.requires_grad}

    def use(wanted: Sequence[tuple[BaseTunerLayer, list[str]]]) -> None:
        for layer, adapters in wanted:
            layer.set_adapter(adapters)
        for parameter in model.parameters():  # switching would also change which weights are trainable
            parameter.requires_grad_(parameter in learning)

    try:
        if adapters is not None:
            use([(layer, list(adapters)) for layer, _ in before])
        yield
    finally:
        use(before)


def backbone_of(model: Any) -> Callable[..., Any]:
    """Return the forward pass of a model's backbone; a sharded model is gathered for it as for its own."""
    if not isinstance(model, FSDPModule):
        return cast(Callable[..., Any], model.base_model)
    whole: Any = model
    if not hasattr(whole, "read_backbone"):
        whole.read_backbone = lambda **inputs: whole.base_model(**inputs)
        register_fsdp_forward_method(whole, "read_backbone")
    return cast(Callable[..., Any], whole.read_backbone)


def _layers(model: Any) -> list[BaseTunerLayer]:
    """Return the layers with adapters."""
    return [module for module in model.modules() if isinstance(module, BaseTunerLayer)]


def _weights(model: Any, adapter: str) -> list[nn.Parameter]:
    """Return an adapter's weights, in order of their names."""
    named = sorted(model.named_parameters(), key=lambda pair: pair[0])
    return [weight for name, weight in named if "lora_" in name and adapter in name.split(".")]
