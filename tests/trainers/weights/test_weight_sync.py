"""Weights to servers: they arrive by every transport, and every way in which they may not is named."""

from __future__ import annotations

import asyncio
import copy
import errno
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from turnwise import Completion, Finish, Sampling
from turnwise.errors import ContractError, InfrastructureError, ModelError, UsageError
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.serving.server import Pause, ServerResponse
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.learning.scorer import Scorer
from turnwise.trainers.weights import shared_folder as shared_folder_module
from turnwise.trainers.weights.adapter import Adapter
from turnwise.trainers.weights.canary import logprobs_of
from turnwise.trainers.weights.canary_prompts import Kind, Questions, answered
from turnwise.trainers.weights.diagnosis import Cause
from turnwise.trainers.weights.reload import Reload
from turnwise.trainers.weights.shared_folder import LEDGER, SharedFolder
from turnwise.trainers.weights.vllm_transfer import Files, Native
from turnwise.trainers.weights.weight_sync import WeightSync

from ...logged import events
from .fake import ANY, FakeServer, nano, nudge, tokenizer

WORDS: Any = tokenizer()
LORA = LoraConfig(rank=2, alpha=4.0)
SAMPLING = Sampling(max_tokens=6, seed=3)


def questions(temperature: float = 0.7) -> Questions:
    return Questions.of(WORDS, context_length=512, temperature=temperature, dtypes=["float32"])


class Stage:
    """A learner's model, servers, and the transfer between them."""

    def __init__(
        self,
        folder: Path,
        how: str = "native",
        *,
        sabotage: str = "",
        mode: Pause = Pause.KEEP,
        replicas: int = 1,
        tied: bool = False,
        **can: Any,
    ) -> None:
        self.model = nano(WORDS, tied=tied)
        self.servers = [
            FakeServer(self.model, WORDS, sabotage, replace(ANY, **can), address=f"fake:{n}", lora=LORA)
            for n in range(1, replicas + 1)
        ]
        if how == "adapter":
            attach(self.model, LORA)
        self.policy = RemotePolicy(self.servers, patience=1.0)
        self.exchange = SharedFolder(folder / "exchange")
        self.transport = self._transport(how, mode)
        self.transfer = WeightSync(self.policy, self.transport, self.model, questions())

    def _transport(self, how: str, mode: Pause) -> Native | Reload | Adapter:
        if how == "native":
            return Native(self.policy, Files(self.exchange), mode=mode, timeout=60)
        if how == "reload":
            return Reload(self.policy, self.exchange, mode=mode, timeout=60)
        base = {"path": "base", "digest": ""}
        return Adapter(self.policy, self.exchange, self.model, rank=2, base=base, mode=mode, timeout=60)

    def sabotage(self, how: str) -> None:
        for server in self.servers:
            server.sabotage = how


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(Pause))
@pytest.mark.parametrize("how", ["native", "reload", "adapter"])
async def test_weights_arrive_at_every_replica(tmp_path: Path, how: str, mode: Pause) -> None:
    stage = Stage(tmp_path, how, mode=mode, replicas=2)
    prompt = tuple(WORDS.encode("what is the answer"))
    said = []
    for version in range(4):
        await stage.transfer.send(version)
        completion = await stage.policy.generate(prompt, SAMPLING)
        assert set(completion.versions) == {version}
        said.append(completion)
        nudge(stage.model, seed=version + 1)
    assert len({one.logprobs for one in said}) == 4, "each version says something else"
    assert stage.transfer.metrics["sync/canary_gap_max"] < 1e-4
    assert stage.transfer.metrics["sync/replicas"] == 2
    for server in stage.servers:
        assert not server.paused
        assert server.log.count("reset") == 4, "the prefix cache is reset in every path"
        assert len(server.adapters) <= (2 if mode is Pause.KEEP else 1), "old adapters are unloaded"
        assert len(set(server.loaded)) == (4 if how == "adapter" else 0)
    left = [path.name for path in stage.exchange.folder.iterdir() if path.is_dir()]
    assert len(left) <= {"native": 0, "reload": 1, "adapter": 2}[how], f"old files are removed, not {left}"
    await stage.transfer.close()
    assert not any(server.adapters for server in stage.servers)


WARNED = [
    ("wrong log-probabilities", Cause.LOGPROBS),
    ("ignores the temperature", Cause.LOGPROBS),
    ("rounds", Cause.NUMERICS),
    ("retokenizes the prompt", Cause.RETOKENIZED),
    ("retokenizes the answer", Cause.RETOKENIZED),
    ("truncates the prompt", Cause.TRUNCATED),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "sabotage", "cause"),
    [
        ("native", "ignores the update", Cause.NOT_APPLIED),
        ("native", "ignores and says so", Cause.NOT_SENT),
        ("native", "applies old weights", Cause.NOT_APPLIED),
        ("native", "keeps its cache", Cause.CACHED),
        ("native", "keeps its output embedding", Cause.OTHER_WEIGHTS),
        ("native", "retokenizes the prompt and says so", Cause.RETOKENIZED),
        ("native", "truncates the prompt and says so", Cause.TRUNCATED),
        ("native", "cuts the answer", Cause.TRUNCATED),
        ("native", "misnames", Cause.MISNAMED),
        ("reload", "ignores the update", Cause.NOT_APPLIED),
        ("reload", "keeps its cache", Cause.CACHED),
        ("adapter", "drops the adapter", Cause.ADAPTER_DROPPED),
        *(("native", *warned) for warned in WARNED),
    ],
)
async def test_sabotage_is_detected_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str, sabotage: str, cause: Cause
) -> None:
    """A step that did not arrive stops the run; if it did, numbers that do not fit are a warning."""
    stage = Stage(tmp_path, how)
    await stage.transfer.send(0)
    nudge(stage.model)
    await stage.transfer.send(1)
    assert stage.transfer.metrics["canary/warnings"] == stage.transfer.metrics["canary/asked_again"] == 0
    stage.sabotage(sabotage)
    nudge(stage.model, seed=2)
    if (sabotage, cause) not in WARNED:
        with pytest.raises(
            ContractError, match=f"^weights of version 2 are not what fake:1 serves: {cause.value}: "
        ) as raised:
            await stage.transfer.send(2)
        assert "What to do: " in str(raised.value)
        return
    for version in (2, 3):
        await stage.transfer.send(version)
        assert stage.transfer.metrics["canary/warnings"] == stage.transfer.metrics["canary/asked_again"] == 1
    found = [(fields["cause"], fields["version"]) for kind, fields in events(caplog.records) if kind == "canary"]
    assert found == [(cause.value, 2)], "once, until it changes"
    assert f"differ at fake:1, and the run goes on: {cause.value}: " in caplog.text
    assert "What to do: " in caplog.text
    stage.sabotage("")
    await stage.transfer.send(4)
    assert stage.transfer.metrics["canary/warnings"] == 0


@pytest.mark.parametrize("sabotage", ["ignores the update", "ignores and says so", "applies old weights"])
async def test_steps_far_below_the_tolerance_are_missed_when_they_do_not_arrive(tmp_path: Path, sabotage: str) -> None:
    stage = Stage(tmp_path, sabotage=sabotage)
    await stage.transfer.send(0)

    async def learn() -> None:
        for version in range(1, 30):
            nudge(stage.model, size=2e-6, seed=version)
            await stage.transfer.send(version)

    with pytest.raises(ContractError, match=r"not (sent|applied): since the version before"):
        await learn()
    gap = max(answer.gap.mean for answers in stage.transfer._last.values() for answer in answers.values())
    assert gap < stage.transfer.noise.limit.mean, "the limit alone would have let them pass"


async def test_a_server_of_another_model_is_named_before_it_is_trained_against(tmp_path: Path) -> None:
    stage = Stage(tmp_path, sabotage="ignores the update")
    stage.servers[0].model = nano(WORDS, seed=9)
    with pytest.raises(ContractError, match="not applied: it answers exactly as it did before the update"):
        await stage.transfer.send(0)


async def test_adapters_of_another_base_are_named(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "adapter")
    stage.servers[0].model = stage.servers[0].base = nano(WORDS, seed=9)
    with pytest.raises(ContractError, match="other weights: the base model that it serves is not the one"):
        await stage.transfer.send(0)
    assert [name for name, each in stage.model.named_parameters() if each.requires_grad] == [
        name for name, _ in stage.model.named_parameters() if "lora_" in name
    ], "what is trained stays as it was"


async def test_weights_that_did_not_change_are_no_reason_to_stop(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for version in (0, 0, 1, 2):
        await stage.transfer.send(version)


async def test_the_temperature_of_the_run_is_what_log_probabilities_are_held_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path, sabotage="ignores the temperature")
    stage.transfer.questions = questions(1.0)
    await stage.transfer.send(0)
    stage.transfer.questions = questions(0.7)
    await stage.transfer.send(0)
    assert "only at temperature 0.7 they are wrong" in caplog.text


async def test_a_sabotage_at_the_first_sync_is_not_taken_for_noise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path, sabotage="wrong log-probabilities")
    for version in range(2):
        await stage.transfer.send(version)
        assert stage.transfer.metrics["canary/warnings"] == 1
    assert stage.transfer.noise.limit == stage.transfer.noise.bounds.most, "nothing was measured"
    assert f"the run goes on: {Cause.LOGPROBS.value}: " in caplog.text
    stage.sabotage("")
    await stage.transfer.send(2)
    assert stage.transfer.noise.limit == stage.transfer.noise.bounds.least
    assert stage.transfer.metrics["canary/warnings"] == 0


async def test_a_tolerance_that_you_set_is_the_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked = Questions.of(WORDS, context_length=512, temperature=0.7, dtypes=["float32"], tolerance=1.0)
    stage = Stage(tmp_path, sabotage="wrong log-probabilities")
    stage.transfer = WeightSync(stage.policy, stage.transport, stage.model, asked)
    await stage.transfer.send(0)
    assert not caplog.text
    assert stage.transfer.metrics["canary/limit_mean"] == 1.0
    assert stage.transfer.metrics["canary/gap_mean"] == pytest.approx(0.7, abs=0.01)
    stage.sabotage("ignores the update")
    nudge(stage.model)
    await stage.transfer.send(1)
    nudge(stage.model, size=0.5, seed=2)
    with pytest.raises(ContractError, match="not applied: "):
        await stage.transfer.send(2)


async def test_a_stale_cache_is_caught_at_the_very_first_sync(tmp_path: Path) -> None:
    stage = Stage(tmp_path, sabotage="keeps its cache")
    nudge(stage.model)
    with pytest.raises(ContractError, match=r"serves: cached: 2\d\d tokens of the prompt came from its cache"):
        await stage.transfer.send(0)


@pytest.mark.parametrize("how", ["native", "reload"])
async def test_a_tied_output_embedding_is_sent(tmp_path: Path, how: str) -> None:
    stage = Stage(tmp_path, how, tied=True)
    assert stage.model.config.tie_word_embeddings
    nudge(stage.model)
    await stage.transfer.send(1)
    assert {"lm_head.weight", "model.embed_tokens.weight"} <= set(stage.servers[0].before)


async def test_adapters_go_merged_where_the_server_takes_whole_weights(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "native")
    attach(stage.model, LORA)
    for version in range(2):
        await stage.transfer.send(version)
        nudge(stage.model)


async def test_weights_are_written_in_files_of_a_size_and_as_the_servers_hold_them(tmp_path: Path) -> None:
    model = nano(WORDS, tied=True)
    seen: dict[str, torch.dtype] = {}
    exchange = SharedFolder(tmp_path / "x", dtype=torch.bfloat16, chunk=5000, there=Path("/mnt/there"))
    assert exchange.write("v1", model.state_dict()) == Path("/mnt/there/v1")
    files = sorted((tmp_path / "x" / "v1").iterdir())
    assert len(files) > 3
    for file in files:
        seen |= {name: value.dtype for name, value in load_file(file).items()}
    assert seen.keys() == model.state_dict().keys()
    assert set(seen.values()) == {torch.bfloat16}


async def test_a_full_disk_is_one_line_and_the_servers_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path)
    await stage.transfer.send(0)

    def full(tensors: Any, path: Path, **_: Any) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shared_folder_module, "save_file", full)
    with pytest.raises(ModelError, match=r"cannot be written to the exchange folder .*No space left.*--resume"):
        await stage.transfer.send(1)
    assert not list(stage.exchange.folder.rglob("*.safetensors")), "nothing of what was begun is left"
    assert not stage.servers[0].paused
    assert set((await stage.policy.generate((5, 6), SAMPLING)).versions) == {0}
    monkeypatch.undo()
    await stage.transfer.send(1)


@pytest.mark.parametrize("mode", list(Pause))
async def test_a_note_that_cannot_be_written_leaves_servers_that_go_on(tmp_path: Path, mode: Pause) -> None:
    stage = Stage(tmp_path, "adapter", mode=mode)
    await stage.transfer.send(0)
    (stage.exchange.folder / LEDGER).unlink()
    (stage.exchange.folder / LEDGER).mkdir()  # what no file can take the place of
    with pytest.raises(ModelError, match=r"cannot be written to the exchange folder .*--resume"):
        await stage.transfer.send(1)
    assert not stage.servers[0].paused
    assert set((await stage.policy.generate((5, 6), SAMPLING)).versions) == {0}


@pytest.mark.parametrize("mode", list(Pause))
async def test_adapters_that_are_refused_leave_servers_that_go_on_with_the_last(tmp_path: Path, mode: Pause) -> None:
    stage = Stage(tmp_path, "adapter", mode=mode)
    await stage.transfer.send(0)
    (server,) = stage.servers
    loading = server.load_adapter

    async def refuse(name: str, folder: Path) -> None:
        raise UsageError(f"server fake:1 refuses adapter {name!r}: it does not see {folder}")

    server.load_adapter = refuse  # type: ignore[method-assign]
    with pytest.raises(
        UsageError, match=r"does not see .*\. Servers that are there go on with what they had.*--resume"
    ):
        await stage.transfer.send(1)
    assert not server.paused
    assert set((await stage.policy.generate((5, 6), SAMPLING)).versions) == {0}
    server.load_adapter = loading  # type: ignore[method-assign]
    await stage.transfer.send(1)
    assert set((await stage.policy.generate((5, 6), SAMPLING)).versions) == {1}


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["start_update", "update", "finish_update", "reset_prefix_cache"])
async def test_an_update_that_fails_half_way_says_that_servers_stay_paused_and_the_next_one_mends_it(
    tmp_path: Path, phase: str
) -> None:
    stage = Stage(tmp_path)
    await stage.transfer.send(0)
    (server,) = stage.servers
    whole = getattr(server, phase)

    async def fail(*arguments: Any) -> None:
        raise InfrastructureError("server fake:1: failed (500): CUDA out of memory")

    setattr(server, phase, fail)
    with pytest.raises(InfrastructureError, match=r"out of memory\. Servers .* stay paused, .*--resume") as raised:
        await stage.transfer.send(1)
    assert "\n" not in str(raised.value)
    assert server.paused
    setattr(server, phase, whole)
    again = Stage(tmp_path)  # the run that is resumed, in another process
    again.policy = RemotePolicy(stage.servers, patience=1.0)
    again.servers = stage.servers
    again.transport = Native(again.policy, Files(again.exchange), timeout=60)
    again.transfer = WeightSync(again.policy, again.transport, again.model, questions())
    nudge(again.model, seed=7)
    await again.transfer.send(2)
    assert not server.paused


@pytest.mark.usefixtures("small_files")
async def test_a_disk_that_is_full_for_the_library_that_writes_is_one_line_too(tmp_path: Path) -> None:
    exchange = SharedFolder(tmp_path / "x")
    with pytest.raises(ModelError, match=r"cannot be written to the exchange folder .*--resume"):
        exchange.write("v", {"w": torch.zeros(10_000)})
    assert not list((tmp_path / "x").iterdir())


async def test_what_does_not_fit_is_known_before_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = SharedFolder(tmp_path / "x")
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(ModelError, match="400 bytes are needed and 100 are free"):
        exchange.write("v", {"w": torch.zeros(100)})


async def test_what_a_killed_trainer_left_behind_is_cleared(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "adapter")
    for version in range(2):
        await stage.transfer.send(version)
        nudge(stage.model, seed=version)
    (server,) = stage.servers
    left = set(server.adapters)
    again = Stage(tmp_path, "adapter")  # the process after it, which knows nothing but the folder
    again.servers[0].adapters = server.adapters
    await again.transfer.send(2)
    assert left.isdisjoint(again.servers[0].adapters)
    assert len(list(again.exchange.folder.glob("turnwise-*"))) == 1


async def test_an_update_that_a_killed_trainer_left_open_is_closed_and_paused_servers_go_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    (server,) = stage.servers
    server.updating = True
    await server.pause(Pause.KEEP)
    await asyncio.wait_for(stage.transfer.send(3), 60)
    assert not server.paused


@pytest.mark.slow
async def test_a_replica_that_dies_is_left_out_and_the_run_goes_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path, replicas=2)
    await stage.transfer.send(0)
    stage.servers[1].dead = True
    nudge(stage.model)
    await stage.transfer.send(1)
    assert stage.transfer.metrics["sync/replicas"] == 1
    assert {v for n in range(8) for v in (await stage.policy.generate((5, n), SAMPLING, session=str(n))).versions} == {
        1
    }
    stage.servers[1].dead = False
    stage.servers[1].can = replace(ANY, started=2.0)
    for _ in range(2):  # the first finds out that it is back
        nudge(stage.model, seed=5)
        await stage.transfer.send(2)
        await asyncio.sleep(0.3)
        await asyncio.gather(*(stage.policy.generate((5, n), SAMPLING, session=str(n)) for n in range(8)))
    assert stage.transfer.metrics["sync/replicas"] == 2


async def test_when_the_last_server_is_gone_the_error_names_it_and_the_way_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.transfer.send(0)
    stage.servers[0].dead = True
    with pytest.raises(InfrastructureError, match=r"fake:1.*--resume"):
        await stage.transfer.send(1)


@pytest.mark.parametrize(
    ("how", "can", "said"),
    [
        ("native", {"transfer": None}, "was started without weight transfer"),
        ("native", {"transfer": "nccl"}, "with the backend 'nccl'"),
        ("reload", {"reload": False}, "cannot load a new checkpoint"),
        ("adapter", {"adapters": False}, "loads no adapters while it runs"),
        ("adapter", {"max_rank": 1}, r"takes adapters up to rank 1, and lora\.rank = 2"),
        ("native", {"control": False}, "without its development mode"),
        ("native", {"version_spans": False}, "does not report which weights sampled which token"),
    ],
)
async def test_a_server_that_cannot_do_it_is_refused_in_words(
    tmp_path: Path, how: str, can: dict[str, Any], said: str
) -> None:
    stage = Stage(tmp_path, how, **can)
    with pytest.raises(UsageError, match=said):
        await stage.transfer.send(0)


async def test_servers_that_name_no_versions_are_told_from_one_another_by_the_ledger(tmp_path: Path) -> None:
    stage = Stage(tmp_path, sabotage="names no version", mode=Pause.ABORT, version_spans=False)
    for version in range(3):
        await stage.transfer.send(version)
        assert set((await stage.policy.generate((5, 6), SAMPLING)).versions) == {version}
        nudge(stage.model, seed=version)


async def test_an_interruption_within_a_sync_leaves_servers_that_go_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.transfer.send(0)
    (server,) = stage.servers
    nudge(stage.model)
    sending = asyncio.create_task(stage.transfer.send(1))
    while not server.paused:  # noqa: ASYNC110
        await asyncio.sleep(0)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert server.log[-1] == "resume"
    assert server.version == 1


async def test_a_server_that_hangs_is_named(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.transport.timeout = 0.05
    stage.servers[0].start_update = lambda: asyncio.sleep(60)  # type: ignore[method-assign]
    with pytest.raises(InfrastructureError, match=r"fake:1 did not start an update within 0\.05 s"):
        await stage.transfer.send(0)


def test_long_questions_are_longer_than_a_block_of_any_cache_and_short_ones_shorter() -> None:
    asked = {each.kind: each for each in questions().asked(1, adapter=True)}
    assert len(asked[Kind.WARM].prompt_ids) > 256
    assert len(asked[Kind.SHORT].prompt_ids) < 16 > len(asked[Kind.PLAIN].prompt_ids)
    assert asked[Kind.FRESH] != {each.kind: each for each in questions().asked(2)}[Kind.FRESH]
    short = Questions.of(WORDS, context_length=20, temperature=1.0, dtypes=["float32"])
    assert all(len(q.prompt_ids) + q.sampling.max_tokens <= 20 for q in short.asked(1)), "within a small context, too"


def test_a_copy_is_what_a_fake_serves() -> None:
    model = nano(WORDS)
    server = FakeServer(model, WORDS)
    before = copy.deepcopy(server.model.state_dict())
    nudge(model)
    assert all(torch.equal(before[name], value) for name, value in server.model.state_dict().items())


def test_answers_of_many_replicas_share_forward_passes_and_are_scored_as_alone() -> None:
    model, passes = nano(WORDS), []
    heard = []
    for replica in range(20):
        for question in questions().asked(1):
            length = 8 - (replica == 3) - 8 * (replica == 5)  # one was cut, one is empty
            ids = tuple((7 * place + (replica if replica > 15 else 0)) % 200 + 5 for place in range(length))
            completion = Completion(ids, (-1.0,) * length, (0,) * length, Finish.LENGTH)
            heard.append((question, ServerResponse(completion, question.prompt_ids)))
    alone = [answered(model, [one], Scorer())[0] for one in heard]
    handle = model.register_forward_pre_hook(lambda *_: passes.append(1))
    together = answered(model, heard, Scorer())
    handle.remove()
    assert len(passes) <= 3, "one for each length of prompts, and not one for each of 80 answers"
    for mine, wanted, (question, served) in zip(together, alone, heard, strict=True):
        assert (mine.question, mine.served) == (question, served)
        assert mine.mine == pytest.approx(wanted.mine, abs=1e-5)
        assert mine.best == pytest.approx(wanted.best, abs=1e-5)
        if mine.ids and question.sampling.temperature == 0:
            assert mine.mine == pytest.approx(logprobs_of(model, question.prompt_ids, mine.ids), abs=1e-5)
    assert len(answered(model, heard, Scorer(microbatch_tokens=1))) == len(heard), "however small a pass is"
