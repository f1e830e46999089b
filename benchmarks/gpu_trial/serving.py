"""vLLM and a learner on one card: start, canary, speed, training steps, the engine in process, sleep, CUDA IPC.

vLLM is that of this interpreter, or of the one that ``VLLM_PYTHON`` names. Without it, each check says so.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from trial import Trial, random_model, start

from turnwise.inference.models import save_model
from turnwise.inference.nano import build_tokenizer
from turnwise.inference.policy import Sampling
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.launch.process import FILES, IPC, ServerOptions, VllmProcess
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.serving.server import Pause
from turnwise.trainers.learning.scorer import Scorer
from turnwise.trainers.weights.canary_prompts import Questions
from turnwise.trainers.weights.ipc import Ipc
from turnwise.trainers.weights.shared_folder import SharedFolder
from turnwise.trainers.weights.vllm_transfer import Files, Native
from turnwise.trainers.weights.weight_sync import WeightSync

GIB = 2**30
ECHO = Path(__file__).with_name("echo.py")
SHARE = 0.4
"""Share of the card for vLLM."""


class SkippedError(Exception):
    """A check that cannot run here, with the reason."""


class Card:
    """Servers of one model, at most one at a time.

    Args:
        trial: the part's trial.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial, self.python = trial, vllm_python()
        self.folder = trial.out / "served"
        self.process: VllmProcess | None = None
        self.options: ServerOptions | None = None
        self.context = 1024 if trial.plan else 16_384
        self.usual: dict[str, Any] = {"transfer": FILES if trial.plan else IPC}

    def server(self, **changes: Any) -> VllmProcess:
        """Return a server with these options, started unless it runs already."""
        if self.python is None:
            raise SkippedError("no vLLM here: install it, or name its interpreter in VLLM_PYTHON")
        plan = self.trial.plan
        settings: dict[str, Any] = {"context_length": self.context, **self.usual}
        if plan:
            settings |= {"max_seqs": 16}
        else:
            settings |= {"dtype": "bfloat16", "batched_tokens": 8192, "max_seqs": 256, "memory_share": SHARE}
        options = ServerOptions(**settings | changes)
        if self.process is not None and self.process.running and options == self.options:
            return self.process
        self.stop()
        self.options = options
        self.process = VllmProcess(self.model(), options, python=self.python, log=self.trial.out / "vllm.log")
        return self.process.start()

    def stop(self) -> None:
        """Stop the server, if one runs."""
        if self.process is not None:
            self.process.stop()
            self.process = None

    def model(self) -> Path:
        """Return the folder of the random model, written once, whose tokenizer has a word for almost every id."""
        if not (self.folder / "config.json").is_file():
            model = random_model(plan=self.trial.plan, device=self.trial.device)
            size = model.config.vocab_size
            tokenizer = build_tokenizer("word", [" ".join(f"w{n}" for n in range(size - 64))], vocab_size=size - 64)
            assert len(tokenizer) <= size
            model.config.eos_token_id, model.config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
            save_model(model, tokenizer, self.folder)
        return self.folder


def vllm_python() -> str | None:
    """Return the interpreter that has vLLM; ``None`` without one."""
    if named := os.environ.get("VLLM_PYTHON"):
        return named
    return sys.executable if importlib.util.find_spec("vllm") is not None else None


def only_on_a_gpu(trial: Trial, what: str) -> None:
    """Skip a check on a CPU."""
    if trial.device == "cpu":
        raise SkippedError(f"{what}: on a GPU only")


def free_gib() -> float:
    """Return the free memory of the GPU in GiB, all processes counted."""
    return torch.cuda.mem_get_info()[0] / GIB


def started(card: Card, **usual: Any) -> dict[str, Any]:
    """Start the server of the next checks on the card; if it fails, they have the one before."""
    before = free_gib() if card.trial.device == "cuda" else 0.0
    card.model()
    began = time.perf_counter()
    card.server(**usual)
    card.usual |= usual
    found = {"start_seconds": time.perf_counter() - began}
    return found | ({"taken_gib": before - free_gib()} if card.trial.device == "cuda" else {})


def sync_of(card: Card, server: VllmProcess, backend: Any = None, *, sleep: int = 0) -> tuple[Any, WeightSync]:
    """Return a learner's model in 32 bits, and the transfer of its weights to a server."""
    from turnwise.inference.models import load_model

    model, tokenizer = load_model(card.model(), device=card.trial.device)
    rounded = card.trial.device == "cuda"
    policy = RemotePolicy([ServerClient(server.url)])
    files = Files(SharedFolder(card.trial.out / "exchange", dtype=torch.bfloat16 if rounded else torch.float32))
    scorer = Scorer(autocast=torch.bfloat16 if rounded else None)
    dtypes = ["float32", "bfloat16"] if rounded else ["float32"]
    asked = Questions.of(tokenizer, context_length=card.context, temperature=1.0, dtypes=dtypes, scorer=scorer)
    return model, WeightSync(policy, Native(policy, backend or files, mode=Pause.WAIT), model, asked, sleep=sleep)


def move(model: Any, rate: float = 1e-6) -> None:
    """Move every weight as far as one update of AdamW does."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(rate * torch.randn_like(parameter).sign())


def sent(card: Card, times: int, backend: Any = None) -> dict[str, Any]:
    """Send weights again and again: how far do both sides differ, and does the canary warn without a reason?"""
    model, transfer = sync_of(card, card.server(), backend)
    gaps: list[Mapping[str, float]] = []

    async def send() -> None:
        for version in range(3 if card.trial.plan else times):
            await transfer.send(version)
            gaps.append(dict(transfer.metrics))
            move(model)
        await transfer.close()

    asyncio.run(send())
    seconds = [gap["sync/export_seconds"] + gap["sync/paused_seconds"] for gap in gaps]
    found = {name: max(gap[f"canary/{name}"] for gap in gaps) for name in ("gap_mean", "gap_p99", "warnings")}
    canaries = max(gap["sync/canary_seconds"] for gap in gaps[1:])
    return found | {"send_seconds": sorted(seconds)[len(seconds) // 2], "canary_seconds": canaries}


def sampled(card: Card, requests: int, **options: Any) -> dict[str, Any]:
    """Sample many completions at once."""
    policy = RemotePolicy([ServerClient(card.server(**options).url)])
    size = 8 if card.trial.plan else 256
    prompts = torch.randint(5, 400, (requests, 64), generator=torch.Generator().manual_seed(0)).tolist()

    async def play() -> float:
        await policy.generate(prompts[0], Sampling(max_tokens=2, seed=0))
        began = time.perf_counter()
        asked = (
            policy.generate(ids, Sampling(max_tokens=size, seed=number, stop_ids=()), session=str(number))
            for number, ids in enumerate(prompts)
        )
        said = await asyncio.gather(*asked)
        seconds = time.perf_counter() - began
        await policy.close()
        return sum(len(each.token_ids) for each in said) / seconds

    return {"tokens_per_second": asyncio.run(play())}


def trained(card: Card, name: str, *words: str, python: str = sys.executable, check: bool = True) -> dict[str, Any]:
    """Take steps of LOOP on echo episodes, and return the seconds of each part of the last one."""
    plan, out = card.trial.plan, card.trial.out / "runs" / name
    turns, size = (2, 4) if plan else (20, 200)
    tasks, attempts = (1, 2) if plan else (4, 8)
    limits = [f"tasks_per_step={tasks}", f"group_size={attempts}", f"agent.max_tokens={size}"]
    fixed = ["eval.episodes=0", "tracking.to=[]", "progress=false", "optimizer.lr=1e-6", "agent.show_tools=false"]
    fixed += ["server.pause=wait"] if name == "loop" else []
    words_all = [f"env={ECHO}", f"model={card.model()}", f"out={out}", f"device={card.trial.device}", *limits, *fixed]
    environment = os.environ | {"TRIAL_TURNS": str(turns), "TRIAL_WORDS": str(size), "TRIAL_VOCABULARY": "400"}
    done = subprocess.run(
        [python, "-W", "ignore", "-m", "turnwise", "train", "loop", *words_all, *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    (card.trial.out / f"serving-{name}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    last = [line for line in lines if "seconds/step" in line][-1]
    names = {"seconds/collect": "collect", "seconds/learn": "learn", "seconds/sync": "sync", "perf/mfu": "mfu"}
    names |= {"memory/gpu_peak_gib": "peak_gib", "action_tokens": "sampled", "canary/gap_mean": "gap_mean"}
    return {short: last[long] for long, short in names.items() if long in last}


def looped(card: Card) -> dict[str, Any]:
    """Train over the server."""
    url = card.server().url
    return trained(card, "loop", f"steps={1 if card.trial.plan else 2}", f'server.urls=["{url}"]')


def engine_resumed(card: Card) -> dict[str, Any]:
    """Train with the engine in the learner's process, then resume: with the optimizer's state it must start again."""
    if card.python is None:
        raise SkippedError("no vLLM here: install it, or name its interpreter in VLLM_PYTHON")
    card.stop()
    words = [f"server.engine.context_length={card.context}", "checkpoint_every=1"]
    words += ["server.engine.max_seqs=16"] if card.trial.plan else [f"server.engine.memory_share={SHARE}"]
    first = trained(card, "engine", "steps=1", *words, python=card.python)
    again = trained(card, "engine", "steps=2", "resume=true", *words, python=card.python)
    return {"resumed": True, **{f"{name}_resumed": value for name, value in again.items()}, **first}


def slept(card: Card) -> dict[str, Any]:
    """Put a server to sleep and wake it, at both levels, with weights and canary after each."""
    only_on_a_gpu(card.trial, "vLLM sleeps")
    found: dict[str, Any] = {}
    server = card.server()
    for level in (1, 2):
        model, transfer = sync_of(card, server, sleep=level)

        async def around(level: int = level, model: Any = model, transfer: WeightSync = transfer) -> None:
            await transfer.send(0)
            before = free_gib()
            began = time.perf_counter()
            await transfer.rest()
            found[f"sleep_seconds_{level}"] = time.perf_counter() - began
            found[f"freed_gib_{level}"] = free_gib() - before
            move(model)
            began = time.perf_counter()
            await transfer.send(1)
            found[f"wake_seconds_{level}"] = time.perf_counter() - began
            await transfer.close()

        asyncio.run(around())
    return found


def by_ipc(card: Card) -> dict[str, Any]:
    """Send weights through a buffer that the server on the same card reads."""
    only_on_a_gpu(card.trial, "CUDA IPC")
    return sent(card, 20, Ipc(torch.device("cuda", 0), dtype=torch.bfloat16))


def graphs(card: Card) -> dict[str, Any]:
    """Start a server with CUDA graphs that can sleep."""
    only_on_a_gpu(card.trial, "CUDA graphs")
    card.usual = {"transfer": FILES}  # what stays if it does not start
    return started(card, eager=False, sleep=True)


def unless_skipped(check: Any) -> dict[str, Any]:
    """Run a check; one that cannot run here says why."""
    try:
        found: dict[str, Any] = check()
    except SkippedError as reason:
        return {"skipped": True, "note": str(reason)}
    return found


def main() -> None:
    """Run the checks: those of one server first, then those that start another."""
    trial = start("serving")
    card = Card(trial)
    checks: dict[str, Any] = {"start": partial(started, card), "weights by CUDA IPC": partial(by_ipc, card)}
    checks["tokens/s, 64 requests, eager"] = partial(sampled, card, 4 if trial.plan else 64)
    checks["start, CUDA graphs"] = partial(graphs, card)
    checks["weights through files"] = partial(sent, card, 5)
    for requests in (4,) if trial.plan else (16, 64, 128):
        checks[f"tokens/s, {requests} requests"] = partial(sampled, card, requests)
    checks["sleep and wake"] = partial(slept, card)
    checks["LOOP, echo episodes"] = partial(looped, card)
    checks["engine, then resume"] = partial(engine_resumed, card)
    try:
        for name, check in checks.items():
            trial.check(name, partial(unless_skipped, check))
    finally:
        card.stop()


if __name__ == "__main__":
    main()
