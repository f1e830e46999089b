"""A server in memory over a nano model, with one switch for each way to cheat that the canary has to name."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import DynamicCache

from turnwise import Completion, Finish, Sampling
from turnwise.errors import InfrastructureError, UsageError
from turnwise.inference.kv_cache import cache_argument
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.serving.launch.process import FILES
from turnwise.inference.serving.server import Capabilities, Pause, ServerResponse
from turnwise.trainers.learning.lora import LoraConfig, attach, load_adapter, merged

TEXTS = ["what is the answer to all of this", "go north and then go south", "pick up the red key please"]
BLOCK = 16
ANY = Capabilities(
    version="0.32.0+fake",
    model="policy",
    context_length=512,
    control=True,
    version_spans=True,
    transfer=FILES,
    reload=True,
    adapters=True,
    max_rank=8,
    started=1.0,
)


def tokenizer() -> Any:
    """Byte-pair merges: most sequences of ids are not what their text encodes to."""
    return build_tokenizer("bpe", TEXTS, vocab_size=300)


def nano(tokenizer: Any, *, tied: bool = False, seed: int = 0) -> Any:
    config = NanoConfig(size="0.1M", layers=1, hidden=32, context_length=512, tie_embeddings=tied)
    return build_model(config, tokenizer, seed=seed)


def nudge(model: Any, size: float = 0.05, seed: int = 1) -> None:
    """A step of learning. The embedding of padding stays 0, as in training: normalized, it would be all noise."""
    padding = model.config.pad_token_id
    with torch.no_grad():
        for number, (name, parameter) in enumerate(model.named_parameters()):
            if parameter.requires_grad:
                generator = torch.Generator().manual_seed(seed * 1000 + number)
                step = size * torch.randn(parameter.shape, generator=generator)
                if name.endswith("embed_tokens.weight"):
                    step[padding] = 0
                parameter.add_(step)


@dataclass
class FakeServer:
    """One replica. Its sabotage is a word, or none.

    Args:
        model: model that it was started with.
        tokenizer: tokenizer that it would retokenize with.
        sabotage: see ``generate`` and ``_take``.
        can: capabilities that it reports.
        address: its name.
        lora: how adapters are made; only their shape matters.
    """

    model: Any
    tokenizer: Any
    sabotage: str = ""
    can: Capabilities = ANY
    address: str = "fake:1"
    lora: LoraConfig = field(default_factory=lambda: LoraConfig(rank=2))

    def __post_init__(self) -> None:
        self.model = copy.deepcopy(self.model).requires_grad_(False)
        self.base = copy.deepcopy(self.model)
        self.version: int | None = None
        self.adapters: dict[str, Any] = {}
        self.loaded: list[str] = []
        self.log: list[str] = []
        self.paused = self.updating = self.dead = False
        self.staged: dict[str, torch.Tensor] = {}
        self.before: dict[str, torch.Tensor] = dict(copy.deepcopy(self.model.state_dict()))
        self.cache: dict[tuple[Any, ...], Any] = {}
        self.going = asyncio.Event()
        self.going.set()

    # -- sampling -----------------------------------------------------------------------------------------------

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "", adapter: str | None = None
    ) -> ServerResponse:
        self._alive()
        await self.going.wait()
        self._alive()
        sent = read = tuple(prompt_ids)
        cheat = self.sabotage
        if cheat.startswith("retokenizes the prompt"):
            read = tuple(self.tokenizer.encode(self.tokenizer.decode(sent)))
        if cheat.startswith("truncates the prompt"):
            read = sent[-64:]
        model = self.model if adapter is None or cheat == "drops the adapter" else self.adapters[adapter]
        ids, logprobs, cached = self._sample(model, read, sampling, adapter)
        if cheat == "wrong log-probabilities":
            logprobs = tuple(value - 0.7 for value in logprobs)
        if cheat == "retokenizes the answer":
            ids = tuple((token + 1) % len(self.tokenizer) for token in ids)
        if cheat == "cuts the answer":
            ids, logprobs = ids[:3], logprobs[:3]
        reported = read if cheat.endswith("and says so") else sent
        version = 0 if cheat == "ignores and says so" else self.version
        spans = () if version is None or cheat == "names no version" else ((version, 0, len(ids)),)
        if cheat == "misnames" and version is not None:
            spans = ((version + 1, 0, len(ids)),)
        finish = Finish.LENGTH
        return ServerResponse(Completion(ids, logprobs, (0,) * len(ids), finish), reported, spans, cached)

    @torch.no_grad()
    def _sample(
        self, model: Any, prompt: tuple[int, ...], sampling: Sampling, adapter: str | None
    ) -> tuple[tuple[int, ...], tuple[float, ...], int]:
        key = (prompt, adapter) if len(prompt) >= BLOCK else ()
        past, cached = self.cache.get(key), 0
        if past is None:
            past = DynamicCache(config=model.config)
            if len(prompt) > 1:
                model(torch.tensor([prompt[:-1]]), use_cache=True, **cache_argument(model, past))
            if key:
                self.cache[key] = copy.deepcopy(past)
        else:
            past, cached = copy.deepcopy(past), len(prompt) // BLOCK * BLOCK
        generator = random.Random(sampling.seed)
        ids: list[int] = []
        logprobs: list[float] = []
        last = prompt[-1]
        for _ in range(sampling.max_tokens):
            logits = model(torch.tensor([[last]]), use_cache=True, **cache_argument(model, past)).logits[0, -1].float()
            if self.sabotage == "rounds":
                logits = logits.to(torch.bfloat16).float()
            tempered = (logits / (sampling.temperature or 1.0)).log_softmax(-1)
            if sampling.temperature == 0:
                last = int(tempered.argmax())
            else:
                last = generator.choices(range(len(tempered)), weights=tempered.exp().tolist())[0]
            said = logits.log_softmax(-1) if self.sabotage == "ignores the temperature" else tempered
            ids.append(last)
            logprobs.append(float(said[last]))
        return tuple(ids), tuple(logprobs), cached

    # -- control ------------------------------------------------------------------------------------------------

    async def probe(self) -> Capabilities:
        self._alive()
        return self.can

    async def pause(self, mode: Pause) -> None:
        self._alive()
        self.log.append(f"pause {mode.value}")
        self.paused = True
        self.going.clear()

    async def resume(self) -> None:
        self._alive()
        self.log.append("resume")
        self.paused = False
        self.going.set()

    async def reset_prefix_cache(self) -> None:
        self._alive()
        self.log.append("reset")
        if self.sabotage != "keeps its cache":
            self.cache.clear()

    async def load_adapter(self, name: str, folder: Path) -> None:
        self._alive()
        if name in self.adapters:
            raise UsageError(f"adapter {name} is loaded already")
        made = attach(copy.deepcopy(self.base), self.lora)
        load_adapter(made, folder)
        whole = copy.deepcopy(self.base)
        whole.load_state_dict(merged(made, made.state_dict()))
        self.adapters[name] = whole
        self.loaded.append(name)

    async def unload_adapter(self, name: str) -> None:
        self._alive()
        if name not in self.adapters:
            raise UsageError(f"there is no adapter {name}")
        del self.adapters[name]

    async def reload(self, folder: Path) -> None:
        self._alive()
        self._take(_read(folder))

    async def init_transfer(self, info: Mapping[str, Any]) -> None:
        self._alive()
        self.log.append("init")

    async def start_update(self) -> None:
        self._alive()
        if self.updating:
            raise InfrastructureError("start_weight_update called while a weight update is already active")
        self.updating = True

    async def update(self, info: Mapping[str, Any]) -> None:
        self._alive()
        if "path" not in info:
            self.updating = False
            raise InfrastructureError("Invalid update_info: path is missing")
        assert self.paused, "weights change while it is paused"
        self.staged = _read(Path(info["path"]))

    async def finish_update(self, version: int) -> None:
        self._alive()
        self.updating = False
        self._take(self.staged)
        self.version = version

    async def name_version(self, version: int) -> None:
        self._alive()
        if self.can.version_spans:
            self.version = version

    async def close(self) -> None:
        self.log.append("close")

    def _take(self, weights: dict[str, torch.Tensor]) -> None:
        late, self.before = self.before, weights
        if self.sabotage.startswith("ignores") and not self.sabotage.endswith("temperature"):
            return
        if self.sabotage == "applies old weights":
            weights = late
        if self.sabotage == "keeps its output embedding":
            weights = {name: value for name, value in weights.items() if name != "lm_head.weight"}
        self.model.load_state_dict(weights, strict=False)

    def _alive(self) -> None:
        if self.dead:
            raise InfrastructureError(f"server {self.address} cannot be reached: connection refused")


def _read(folder: Path) -> dict[str, torch.Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    assert files, f"there is nothing in {folder}"
    return {name: value for file in files for name, value in load_file(file).items()}
