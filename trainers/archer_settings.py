"""Settings of an ArCHer run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import pydantic

from ..config import Config, merge_defaults
from .algorithms.archer import ActorKind, Centering, CriticKind
from .algorithms.doubly_robust import DoublyRobustConfig
from .collect.demonstrations import DemonstrationConfig
from .critics.gate import CriticGateConfig
from .critics.token_values import ValuesConfig
from .critics.utterance import CriticConfig
from .learning.objective import LossConfig
from .run.kept_episodes import refuse_keeping
from .run.may_change import MAY_CHANGE
from .run.settings import Plan, PolicyConfig, refuse_greedy

OF_RATIOS = ("kind", "ratio_level", "length_normalized", "bounds", "clip_low", "clip_high", "dual_clip", "max_kl")
"""Settings of a loss that have no effect in a single update by REINFORCE."""


class CriticPretrainingConfig(Config):
    """Updates of the critic on demonstrations, before the first step."""

    updates: int = pydantic.Field(default=500, ge=1)
    """Number of updates, each on ``batch`` turns."""
    critic: Literal["mc", "iql"] = "mc"
    """Targets: ``mc``, the returns of the demonstrations; or ``iql``, towards the best of them (``expectile``). A
    policy cloned from demonstrations returns less than they do, so V starts too high."""
    keep: bool = False
    """Leave the demonstrations in the replay, where the turns of the run replace them in time."""


class ArcherConfig(PolicyConfig):
    """Settings of an ArCHer run. A step is one iteration; the paper's values are given where the defaults differ."""

    renamed: ClassVar[Mapping[str, str]] = {"centred": "centered", "rollouts": "episodes_per_step"}

    model: str
    """The model folder to start from: a model that can act, if badly, such as one from behavior cloning."""
    out: str = "runs/archer"
    """The run's folder."""
    mode: Literal["online", "offline"] = "online"
    """``online``: every step plays episodes; ``offline``: ``demonstrations`` fill the replay once."""
    episodes_per_step: int = pydantic.Field(default=32, ge=1)
    """Episodes per step (paper: 128; 512 on WebShop)."""
    replay: int = pydantic.Field(default=10_000, ge=1)
    """Capacity of the replay in transitions (paper: 10,000; a replay of 48 rollouts was unstable)."""
    batch: int = pydantic.Field(default=256, ge=1)
    """Transitions per critic update, and states per actor update (paper: 256)."""
    critic_steps: int = pydantic.Field(default=50, ge=1)
    """Critic updates per step (paper: 50)."""
    actor_steps: int = pydantic.Field(default=3, ge=1)
    """Batches of states that the actor learns from per step (paper: 3)."""
    warmup: int = pydantic.Field(default=10, ge=0)
    """Steps in which only the critic learns (paper: 10, and 20 on Twenty Questions and WebShop)."""
    critic_gate: CriticGateConfig | None = None
    """Start of the actor by a measurement: only when the critic ranks utterances as rollouts from forked states do. A
    table ``[critic_gate]`` turns it on; ``warmup`` is then the number of steps before the first measurement."""
    gamma: float = pydantic.Field(default=0.95, ge=0, le=1)
    """Discount per turn (paper: .98 Detective, .95 Twenty Questions and Guess My City, .9 WebShop)."""
    critic: CriticKind = "td"
    """Target of the critic: ``td`` with fresh utterances, ``mc`` returns, or ``iql`` from the replay alone."""
    min_target: bool = False
    """In ``td``, let both heads learn from the smaller slow one (released code: no)."""
    td_lambda: float = pydantic.Field(default=0.0, ge=0, le=1)
    """λ per turn of the targets of Q in ``td`` and ``iql`` (paper: 0, one turn ahead). The later turns are those of the
    policy that played them, without importance weights; batches are drawn by whole episodes."""
    td_steps: int = pydantic.Field(default=1, ge=1)
    """Number of turns that these targets look ahead (n-step returns), instead of ``td_lambda``."""
    fresh_per_state: int | None = pydantic.Field(default=None, ge=1)
    """Most fresh utterances that a step's critic updates share in each state (default: each update samples its own, as
    in the paper). The policy does not change between them, so they stay samples of it; where states recur, this saves
    most of the sampling."""
    expectile: float = pydantic.Field(default=0.8, gt=0, lt=1)
    """Expectile of ``iql``: 0.5 values the data's average utterance, towards 1 its best."""
    critic_model: CriticConfig = CriticConfig()
    """The critic's networks and their optimizer."""
    critic_pretraining: CriticPretrainingConfig | None = None
    """Pre-training on ``demonstrations`` (default: none); a table ``[critic_pretraining]`` turns it on."""
    actor: ActorKind = "reinforce"
    """Loss of the actor: ``reinforce`` or ``ppo`` on fresh utterances, ``awr`` on those in the replay, or
    ``doubly_robust``: the outcomes of recent turns, with Q of fresh utterances as control variate. The last one sets
    ``utterances = 4``, ``centered = "state"`` and ``loss.max_kl = 0.1``, unless you set them."""
    doubly_robust: DoublyRobustConfig = DoublyRobustConfig()
    """Settings of the actor ``doubly_robust``."""
    utterances: int = pydantic.Field(default=1, ge=1)
    """Fresh utterances in each state of an actor update (paper: 1); ``batch`` always counts utterances."""
    centered: Centering = "none"
    """Mean to subtract from the advantages of ``reinforce`` and ``ppo`` (paper: ``none``): that of the ``batch``, or of
    the *other* utterances in the same ``state``. Errors of V are noise: their expected gradient is 0, but they add
    variance, and among utterances in one state they cancel."""
    merge_equal: bool = False
    """Let ``reinforce`` learn from equal utterances in equal states once, with the sum of their weights: the same
    gradient up to rounding, for less computation where states recur."""
    baseline: Literal["none", "token"] = "none"
    """``token``: subtract a critic of prefixes from the advantage (paper: it helps where utterances are long)."""
    values: ValuesConfig = ValuesConfig()
    """The critic of prefixes; its ``warmup`` has no effect here."""
    epochs: int = pydantic.Field(default=2, ge=1)
    """Updates per batch of utterances with the actors ``ppo`` and ``doubly_robust``; the others make one."""
    loss: LossConfig = LossConfig()
    """The loss of ``ppo`` and ``doubly_robust``, whose ``kind`` is ``ppo`` or ``cispo``. ``reinforce`` makes one update
    without ratios: it takes corrections (``is_…``) and penalties, and refuses the settings of ratios."""
    beta: float = pydantic.Field(default=1.0, gt=0)
    """Temperature of ``awr``, in units of reward: the weight of an utterance is exp(A/β)."""
    max_weight: float = pydantic.Field(default=20.0, ge=1)
    """The largest weight of an utterance in ``awr``."""
    demonstrations: DemonstrationConfig = DemonstrationConfig()
    """Demonstrations that fill the replay in ``offline`` mode, and those of ``critic_pretraining``."""

    @pydantic.field_validator("loss")
    @classmethod
    def _resolved(cls, loss: LossConfig, info: pydantic.ValidationInfo) -> LossConfig:
        return loss if info.data.get("actor") == "awr" else loss.for_sampler(info.data)  # awr has no use for a loss

    @classmethod
    def filled(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the given settings, completed by those that follow from the actor."""
        if given.get("actor") != "doubly_robust":
            return given
        return merge_defaults({"utterances": 4, "centered": "state", "loss": {"max_kl": 0.1}}, given)

    @pydantic.model_validator(mode="after")
    def _targets(self) -> Self:
        """Refuse targets of the critic that contradict each other."""
        if self.td_lambda > 0 and self.td_steps > 1:
            raise ValueError("td_lambda and td_steps are two ways to look ahead: set one of them")
        if self.critic == "mc" and (self.td_lambda > 0 or self.td_steps > 1):
            raise ValueError("the critic mc learns whole returns: td_lambda and td_steps have no effect with it")
        if self.critic != "td" and self.fresh_per_state is not None:
            raise ValueError(f"the critic {self.critic} samples no utterances: leave out fresh_per_state")
        if self.critic == "iql" and self.critic_model.histogram is not None:
            raise ValueError(
                "the critic iql learns V by expectiles, and critic_model.histogram needs targets: choose critic = td "
                "or mc"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _linear(self) -> Self:
        """Refuse merged utterances where the loss is not linear in their advantages."""
        if self.merge_equal and (self.actor != "reinforce" or self.baseline != "none"):
            raise ValueError(
                "merge_equal adds up advantages, which only actor = reinforce without a baseline allows: leave it out"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _pretrained(self) -> Self:
        """Refuse a pre-training of the critic without effect, or without targets."""
        if self.critic_pretraining is None:
            return self
        if self.mode == "offline":
            raise ValueError(
                "offline ArCHer trains its critic on the demonstrations in every step: leave out critic_pretraining, "
                "and set warmup to train the critic first"
            )
        if self.critic_pretraining.critic == "iql" and self.critic_model.histogram is not None:
            raise ValueError("critic_pretraining.critic = iql has no targets for critic_model.histogram: choose mc")
        return self

    @pydantic.model_validator(mode="after")
    def _recent(self) -> Self:
        """Refuse settings that the doubly robust actor cannot use."""
        if self.actor != "doubly_robust":
            if self.doubly_robust != DoublyRobustConfig():
                raise ValueError(f"doubly_robust has no effect with actor = {self.actor}: set actor = doubly_robust")
            return self
        if self.mode == "offline":
            raise ValueError(
                "the actor doubly_robust learns from turns that recent policies have played, and offline ArCHer plays "
                "none: choose actor = awr"
            )
        if self.baseline != "none":
            raise ValueError("the actor doubly_robust has V as its baseline: leave out baseline")
        if self.batch < 1 + self.utterances:
            raise ValueError(
                f"the actor doubly_robust needs a batch of at least 1 + utterances = {1 + self.utterances}: a recorded "
                f"utterance and the fresh ones in its state; batch is {self.batch}"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _honored(self) -> Self:
        """Refuse settings of the loss that the actor would ignore, or that would erase credit by token."""
        if self.actor in ("ppo", "doubly_robust") and self.loss.kind == "reinforce":
            raise ValueError(
                f"the actor {self.actor} reuses utterances by importance ratios, which loss.kind = reinforce leaves "
                "out: choose ppo or cispo, or actor = reinforce"
            )
        if self.actor == "ppo" and self.baseline == "token":
            self.loss.refuse_erasing("token", "baseline = token")
        if self.actor == "reinforce":
            plain, same = LossConfig(), LossConfig(kind="reinforce")
            wrong = [
                name
                for name in OF_RATIOS
                if getattr(self.loss, name) not in (getattr(plain, name), getattr(same, name))
            ]
            if wrong:
                said = ", ".join(f"loss.{name} = {getattr(self.loss, name)}" for name in wrong)
                raise ValueError(
                    f"the actor reinforce makes one update per batch, where all ratios are 1: {said} would have no "
                    "effect; choose actor = ppo, or leave this out"
                )
        return self

    @pydantic.model_validator(mode="after")
    def _heard(self) -> Self:
        """Refuse settings that would have no effect."""
        if self.mode == "offline":
            refuse_keeping(self.keep_episodes, "offline ArCHer")
        if self.mode == "online" or self.actor != "awr" or self.critic == "td":
            refuse_greedy(self.agent)  # the agent samples: episodes, or fresh utterances
        if self.loss.smoothing is not None or self.loss.kl.where == "reward":
            raise ValueError(
                "ArCHer's actor learns from single utterances: loss.smoothing and loss.kl.where = reward are for "
                "scripts that learn from whole episodes; use loss.entropy_coef and loss.kl.where = loss"
            )
        if self.actor == "awr" and (self.loss != LossConfig() or self.baseline != "none"):
            raise ValueError("the actor awr clones weighted utterances: it has neither loss settings nor a baseline")
        if self.warmup > self.steps:  # equality trains a critic first: resumed with more steps, the actor follows
            raise ValueError(
                f"warmup = {self.warmup} steps in which only the critic learns are more than all steps = {self.steps}: "
                "the actor would never learn; ask for more steps, or a shorter warmup"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _measurable(self) -> Self:
        """Refuse a gate that nothing can open."""
        if self.critic_gate is None:
            return self
        if self.mode == "offline":
            raise ValueError(
                "critic_gate measures the critic by playing, and offline ArCHer plays no episodes: leave it out, and "
                "set warmup instead"
            )
        if self.agent.program is not None:
            raise ValueError(
                "critic_gate continues from the middle of an episode, and a program cannot be forked there: leave it "
                "out, and set warmup instead"
            )
        if self.warmup > self.critic_gate.limit:
            raise ValueError(
                f"critic_gate.limit = {self.critic_gate.limit} is before the first measurement, after warmup = "
                f"{self.warmup} steps: raise the one or lower the other"
            )
        return self

    def critic_settings(self) -> CriticConfig:
        """Return ``critic_model``; a linear schedule ends with the updates of the whole run, unless it says when."""
        pretraining = self.critic_pretraining.updates if self.critic_pretraining is not None else 0
        optimizer = self.critic_model.optimizer.until(pretraining + self.steps * self.critic_steps)
        return self.critic_model.model_copy(update={"optimizer": optimizer})

    def plan(self) -> Plan:
        per_step = self.actor_steps * (self.epochs if self.actor in ("ppo", "doubly_robust") else 1)
        optimizer = self.optimizer.until(max(1, (self.steps - self.warmup) * per_step))
        gate = (f"critic_gate.{name}" for name in CriticGateConfig.model_fields)  # they affect later measurements alone
        how: dict[str, Any] = {"may_change": (*MAY_CHANGE, *gate), "correction": self.loss.is_mode}
        return Plan("archer", optimizer, many_processes=True, samples_in_learning=True, **how)
