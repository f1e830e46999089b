"""A run that cannot work is refused with one line, and nothing of it is left: on the command line, as users see it."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from turnwise.cli import main
from turnwise.errors import UsageError
from turnwise.inference.models import load_model
from turnwise.inference.nano import build_tokenizer
from turnwise.inference.serving.engine.engine import EngineServer
from turnwise.inference.serving.launch.process import VllmProcess
from turnwise.trainers.learning.learner import Learner
from turnwise.trainers.run import settings as settings_module
from turnwise.trainers.run.opening import open_run
from turnwise.trainers.run.servers import Serving

from ...inference.serving.fake_server import FakeServer
from .. import small

GIB = 2**30
REMARKS = ("turnwise: tokens are weighted by", "turnwise: the agent", "turnwise: warning: ")
"""How the lines begin that a run prints before it asks its servers."""


def refused(capsys: pytest.CaptureFixture[str], out: Path, model: Path, *words: str) -> str:
    """Train from the command line, and return the one line that says why not."""
    command = ["train", "loop", "env=turnwise/MazeU-v0", f"model={model}", f"out={out}", "progress=false"]
    before = threading.active_count()
    with pytest.raises(SystemExit) as ended:
        main([*command, "eval.split=train", "eval.episodes=2", "tracking.to=[]", *words])
    captured = capsys.readouterr()
    *remarks, line = captured.err.splitlines()
    assert not [remark for remark in remarks if not remark.startswith(REMARKS)], "one line says why"
    assert ended.value.code in (1, 2), captured.err
    assert not captured.out
    assert not list(out.glob("checkpoints/*")), "no step was begun"
    assert not (out / "metrics.jsonl").exists() or not (out / "metrics.jsonl").read_text()
    assert threading.active_count() <= before + 1, "no engine is left behind"
    return line


def test_a_profile_of_a_device_that_is_not_there(
    tmp_path: Path, cloned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, tmp_path / "run", cloned / "model", "hardware.profile=h100")
    assert "hardware.profile = h100 is for a GPU, and this run's device is cpu" in line
    assert not (tmp_path / "run").exists()


def test_a_model_that_cannot_fit_names_the_smallest_change_that_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a card of 80 GB as the driver would report it; a folder with shapes alone shows that nothing is loaded."""
    card = SimpleNamespace(name="NVIDIA H100 80GB HBM3", total_memory=int(79.1 * GIB), major=9)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device=None: card)
    monkeypatch.setattr(settings_module, "available_device", torch.device)
    shape = {"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32}
    shape |= {"num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12_288, "vocab_size": 151_936}
    (tmp_path / "8b").mkdir()
    (tmp_path / "8b" / "config.json").write_text(json.dumps(shape))
    line = refused(capsys, tmp_path / "run", tmp_path / "8b", "optimizer.lr=1e-6", "device=cuda")
    assert "needs" in line
    assert "H100 80GB HBM3 has 79; the smallest change that fits: lora.rank=16" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("version", "cure"), [("0.19.0", "upgrade it"), ("0.99.1", "use an older one")])
def test_servers_of_another_version(
    tmp_path: Path, cloned: Path, capsys: pytest.CaptureFixture[str], version: str, cure: str
) -> None:
    model, tokenizer = load_model(cloned / "model")
    with FakeServer(model, tokenizer, version=version) as server:
        line = refused(capsys, tmp_path / "run", cloned / "model", f'server.urls=["{server.url}"]')
        assert f"runs vLLM {version}, but Turnwise supports" in line
        assert cure in line
        assert not server.calls("/pause")
        assert not server.calls("/init_weight_transfer_engine")
    with FakeServer(model, tokenizer) as server:  # with a good one, the same folder begins
        words = ["steps=1", "tasks_per_step=1", "group_size=2", f'server.urls=["{server.url}"]', "eval.episodes=0"]
        out, agent = f"out={tmp_path / 'run'}", ["agent.context=last:1", "agent.max_tokens=4", "agent.show_tools=false"]
        command = ["train", "loop", "env=turnwise/MazeU-v0", f"model={cloned / 'model'}", out, "progress=false"]
        with pytest.raises(SystemExit) as ended:
            main([*command, *words, *agent, "tracking.to=[]"])
        assert ended.value.code == 0


def test_a_server_with_another_tokenizer(tmp_path: Path, cloned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = load_model(cloned / "model")
    with FakeServer(model, build_tokenizer("byte")) as server:
        line = refused(capsys, tmp_path / "run", cloned / "model", f'server.urls=["{server.url}"]')
        assert "the tokenizer of the run's model differs from that of server" in line
        assert not server.calls("/pause")


@pytest.mark.parametrize(("version", "said"), [("0.25.1", "upgrade it"), ("0.40.0", "use an older one")])
def test_an_engine_of_another_version_is_not_created(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch, version: str, said: str
) -> None:
    module: Any = ModuleType("vllm")
    module.__version__ = version
    monkeypatch.setitem(sys.modules, "vllm", module)
    engine = EngineServer(cloned / "model")
    with pytest.raises(UsageError, match=rf"the engine in this process runs vLLM {version}.*{said}"):
        engine.start()
    assert not any(thread.name == "turnwise-engine" for thread in threading.enumerate())


def test_an_installed_vllm_that_is_too_old_is_not_started(tmp_path: Path, cloned: Path) -> None:
    (tmp_path / "venv" / "lib" / "python3.12" / "site-packages" / "vllm-0.19.0.dist-info").mkdir(parents=True)
    server = VllmProcess(cloned / "model", python=tmp_path / "venv" / "bin" / "python", log=tmp_path / "log")
    with pytest.raises(UsageError, match=r"is 0\.19, and Turnwise supports .*install a newer one"):
        server.start()
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"transfer": "ipc"}, "the learner is on cpu"),
        (
            {"sleep": 1, "overlap": True},
            "server.sleep = 1 stops sampling while the learner learns, but overlap.enabled",
        ),
        ({"sleep": 2, "transfer": "adapter", "lora": True}, "server.sleep = 2 drops the weights of servers"),
    ],
)
async def test_ways_of_sharing_a_card_that_cannot_work(
    tmp_path: Path, cloned: Path, settings: dict[str, Any], said: str
) -> None:
    changes: dict[str, Any] = {"overlap": {"enabled": settings.pop("overlap", False)}}
    if settings.pop("lora", False):
        changes["lora"] = {"rank": 2}
    config = small.looping(
        tmp_path / "run", cloned / "model", server={"urls": ["http://127.0.0.1:9"], **settings}, **changes
    )
    with pytest.raises(UsageError, match=said) as error:
        async with open_run(config):
            pytest.fail("it must not begin")
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_servers_start_before_the_optimizers_state_takes_their_memory(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.run(small.looping(tmp_path / "run", cloned / "model", steps=1, eval={"episodes": 0}))
    order: list[str] = []
    restore = Learner.load_state_dict

    async def opened(self: Serving) -> None:
        order.append("servers")

    def restored(self: Learner, state: Any) -> None:
        order.append("optimizer")
        restore(self, state)

    monkeypatch.setattr(Serving, "open", opened)
    monkeypatch.setattr(Learner, "load_state_dict", restored)
    server = {"urls": ["http://127.0.0.1:9"]}
    again = small.looping(tmp_path / "run", cloned / "model", steps=2, resume=True, server=server, eval={"episodes": 0})

    async def resumed() -> None:
        async with open_run(again):
            assert order == ["servers", "optimizer"], "vLLM refuses a GPU with too little free memory"

    asyncio.run(resumed())
