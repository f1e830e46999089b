"""Profiles: the settings that suit a GPU, filled in where the user has set nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_args

import pydantic
import torch

from ...config import Config, merge_defaults
from ...errors import UsageError
from ...inference.attention import Attention
from ...inference.hardware import ProfileName, can_compile, detected_profile, engine_settings, training_settings


class HardwareConfig(Config):
    """The hardware that a run is made for."""

    profile: ProfileName = "auto"
    """Settings that suit a device: ``auto`` for those of the run's device, ``cpu`` for the plain defaults, ``gpu`` for
    any GPU with bfloat16, or the name of one. A profile fills only settings that you did not set."""
    tf32: bool = False
    """Compute 32-bit matrix products in TF32 (19 bits), which is much faster on a GPU."""
    attention: Attention = "auto"
    """Implementation of attention. ``auto`` is the model's own, ``sdpa`` for most, and computes packed rows without a
    mask: by torch's flash kernel on a GPU in 16 bits, otherwise one after another. ``flash`` requires flash kernels,
    from torch or the package ``flash-attn``; ``sdpa`` computes packed rows one after another; ``flex`` compiles kernels
    for sparse masks, on a GPU; ``eager`` builds every mask, for comparisons. ``flash_attention_2`` is the package's."""
    peak_tflops: float | None = pydantic.Field(default=None, gt=0)
    """Peak of the device in TFLOP/s, of which ``perf/mfu`` is a share (default: that of the profile's GPU in bfloat16;
    none on a CPU)."""
    chosen: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Settings that the profile filled in, by name. The run writes it; changing it has no effect."""

    @pydantic.field_validator("attention", mode="before")
    @classmethod
    def _recorded(cls, attention: Any) -> Any:
        return "auto" if attention is None else attention  # as release 0.1 recorded the default


def profiled(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the given settings of a run, completed by those of its profile.

    Args:
        given: nested settings; tables may be ``Config`` instances, of which the fields that were set count.
    """
    own = _table(given.get("hardware", {}))
    if own is None or not isinstance(own.get("profile", "auto"), str):
        return given  # pydantic says what is wrong
    profile, detected = own.get("profile", "auto"), own.get("profile", "auto") == "auto"
    if detected:
        profile = detected_profile(str(given.get("device", "auto")))
    if profile not in get_args(ProfileName):
        return given
    wanted = training_settings(profile)
    if wanted:
        wanted["optimizer"]["compiled"] = _compiles(given, own) and (not detected or can_compile())
    server = _table(given.get("server"))
    if wanted and server is not None:
        engine = {} if server.get("engine") is None else {"engine": engine_settings(profile)}
        wanted["server"] = {"dtype": "bfloat16", **engine}
    chosen = {name: value for name, value in _flat(wanted) if not _set(given, name)}
    named = {**own, "profile": profile, "chosen": {**own.get("chosen", {}), **chosen}}
    return merge_defaults(wanted, {**given, "hardware": named})


def _compiles(given: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Return whether a profile compiles layers: where a GPU has measured it (docs/hardware.md), with all weights.

    Args:
        given: settings of the run.
        own: those of its hardware.
    """
    return given.get("lora") is None and own.get("attention", "auto") in (None, "auto", "sdpa")


def refuse_absent(profile: str, device: str) -> None:
    """Refuse a profile of a GPU for a run on another kind of device.

    Args:
        profile: name of the profile, resolved.
        device: device of the run, resolved.

    Raises:
        UsageError: the run's device is not a GPU.
    """
    if profile != "cpu" and not device.startswith("cuda"):
        raise UsageError(
            f"hardware.profile = {profile} is for a GPU, and this run's device is {device}: leave the profile "
            "out, or run where torch sees a GPU (`turnwise plan` needs none)"
        )


def profile_remark(hardware: HardwareConfig) -> str:
    """Return what the profile chose in one line; "" if nothing."""
    if not hardware.chosen:
        return ""
    settings = ", ".join(f"{name}={_shown(value)}" for name, value in hardware.chosen.items())
    return f"hardware profile {hardware.profile} (docs/hardware.md says what was measured): {settings}"


@contextmanager
def matrix_precision(config: HardwareConfig) -> Iterator[None]:
    """Compute 32-bit matrix products within the block as configured."""
    before = torch.get_float32_matmul_precision()
    if config.tf32:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        if config.tf32:
            torch.set_float32_matmul_precision(before)


def _table(value: Any) -> Mapping[str, Any] | None:
    """Return the settings of a table that were given; ``None`` for what is not a table."""
    if isinstance(value, Config):
        return value.model_dump(exclude_unset=True)
    return value if isinstance(value, Mapping) else None


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings by their whole names."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _set(given: Mapping[str, Any], name: str) -> bool:
    """Return whether a setting was given."""
    first, _, rest = name.partition(".")
    if not rest:
        return first in given
    inside = _table(given.get(first))
    return (first in given and inside is None) or (inside is not None and _set(inside, rest))


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
