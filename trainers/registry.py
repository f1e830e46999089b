"""Every algorithm that you can train with, by name. A new one is one file, and one line here.

One outside Turnwise is named by its class, ``module:Class``.

The command line, the configurations and the tests of the docs read this table. Nothing here imports an algorithm, and
with it torch, before ``load`` is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeGuard, Union

import pydantic

from ..agents.imported import PLACE
from ..inference.train_extra import train_extra


@dataclass(frozen=True, slots=True)
class Entry:
    """An algorithm that ``turnwise train`` knows by name.

    Args:
        script: module of ``trainers/`` that trains it, with a function ``train``.
        config: name of the class of the script's configuration.
        summary: one line on the algorithm.
        rule: module of ``trainers/algorithms/`` and class in it, for a script that serves several algorithms.
        algorithm: the ``algorithm.name`` that selects the rule.
    """

    script: str
    config: str
    summary: str
    rule: tuple[str, str] | None = None
    algorithm: str | None = None

    @property
    def presets(self) -> Mapping[str, Any]:
        """The settings that the name implies."""
        return {"algorithm": {"name": self.algorithm}} if self.algorithm else {}

    def load(self) -> tuple[Any, Callable[[Any], Any]]:
        """Import the configuration, a ``TrainConfig``, and the function that trains with it, and with them torch.

        Raises:
            UsageError: The packages of ``turnwise[train]`` are not installed.
        """
        with train_extra("training"):
            module = importlib.import_module(f".{self.script}", __package__)
        return getattr(module, self.config), module.train


def _on_policy(rule: str, summary: str) -> Entry:
    module, _, name = rule.partition(".")
    return Entry("on_policy", "OnPolicyConfig", summary, (module, name), module.replace("_", "-"))


def _value_based(rule: str, summary: str) -> Entry:
    module, _, name = rule.partition(".")
    return Entry("value_based", "ValueBasedConfig", summary, (module, name), module)


ALGORITHMS: Mapping[str, Entry] = {
    "bc": Entry("behavior_cloning", "CloningConfig", "behavior cloning of demonstrations, all or the best"),
    "loop": Entry("loop", "LoopConfig", "leave-one-out PPO (arXiv 2502.01600)"),
    "archer": Entry("archer", "ArcherConfig", "a critic over utterances, an actor over tokens (arXiv 2402.19446)"),
    "reinforce": _on_policy("reinforce.Reinforce", "Monte-Carlo returns, with a baseline or none"),
    "rloo": _on_policy("rloo.RLOO", "REINFORCE over trajectories, leave-one-out (arXiv 2402.14740)"),
    "grpo": _on_policy("grpo.GRPO", "group-relative advantages, clipped (arXiv 2402.03300)"),
    "m-grpo": _on_policy("m_grpo.MGRPO", "GRPO as a mean over tokens, turns, trajectories (arXiv 2505.16421)"),
    "gigpo": _on_policy("gigpo.GiGPO", "groups of attempts, and of turns in the same state (arXiv 2505.10978)"),
    "turn-credit": _on_policy("turn_credit.TurnCredit", "returns from each turn on, turn by turn (arXiv 2505.11821)"),
    "ppo": _on_policy("ppo.PPO", "generalized advantages over turns or tokens, with a critic (arXiv 1707.06347)"),
    "arpo": _on_policy("arpo.ARPO", "GRPO over attempts that branch where entropy rises (arXiv 2507.19849)"),
    "vine-ppo": _on_policy("vine_ppo.VinePPO", "PPO with values of fresh rollouts from each state (arXiv 2410.01679)"),
    "istar": _on_policy("istar.IStar", "step rewards implicit in preferences between attempts (arXiv 2509.19199)"),
    "distill": _on_policy("distill.Distill", "a stronger model grades each sampled token (arXiv 2306.13649)"),
    "ilql": _value_based("ilql.ILQL", "implicit language Q-learning from demonstrations (arXiv 2206.11871)"),
    "mc": _value_based("monte_carlo.MonteCarlo", "values of tokens by Monte-Carlo returns, from demonstrations"),
    "oreo": Entry(
        "soft_bellman",
        "SoftBellmanConfig",
        "soft-Bellman consistency on stored episodes (arXiv 2412.16145)",
        ("oreo", "OREO"),
        "oreo",
    ),
    "self-play": Entry("self_play", "SelfPlayConfig", "questions from one's own searches, solved (arXiv 2510.18821)"),
}
"""All algorithms to train with, by name."""


def is_own(word: Any) -> TypeGuard[str]:
    """Whether a word is the ``module:Class`` of an algorithm that is not one of Turnwise."""
    return isinstance(word, str) and PLACE.fullmatch(word) is not None


def own(word: str) -> Entry:
    """Return the entry of an on-policy algorithm that is not one of Turnwise; nothing is imported yet."""
    return Entry("on_policy", "OnPolicyConfig", "an algorithm of yours", algorithm=word)


def rules(script: str) -> dict[str, type[Any]]:
    """Import the algorithms that a script serves, by ``algorithm.name``."""
    return {
        entry.algorithm: getattr(importlib.import_module(f".algorithms.{entry.rule[0]}", __package__), entry.rule[1])
        for entry in ALGORITHMS.values()
        if entry.script == script and entry.rule is not None and entry.algorithm is not None
    }


def one_of(kinds: Mapping[str, type[Any]]) -> Any:
    """Return the type of a setting that may be any of these configurations; its ``name`` says which."""
    return Annotated[Union[tuple(kinds.values())], pydantic.Field(discriminator="name")]  # noqa: UP007
