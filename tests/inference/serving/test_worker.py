"""Weights through files into the real vLLM: they arrive whole, or the old ones stay and the error names why."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from turnwise.inference.models import save_model
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.serving.launch.ports import HOST
from turnwise.inference.serving.launch.process import VllmProcess

pytestmark = pytest.mark.vllm

Weights = dict[str, torch.Tensor]
PROMPT = [5, 6, 7, 8, 9, 200, 5, 6]


def call(server: VllmProcess, route: str, **body: Any) -> tuple[int, str]:
    """Status and text of one POST."""
    connection = http.client.HTTPConnection(HOST, server.port, timeout=120)
    try:
        connection.request("POST", route, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def update(server: VllmProcess, path: Path, version: str = "1") -> str:
    """Run the four phases; the text of the first that fails, empty if none does."""
    steps: list[tuple[str, dict[str, Any]]] = [
        ("/init_weight_transfer_engine", {"init_info": {}}),
        ("/start_weight_update", {}),
        ("/update_weights", {"update_info": {"path": str(path)}}),
        ("/finish_weight_update", {"weight_version": version}),
    ]
    for route, body in steps:
        status, text = call(server, route, **body)
        if status != 200:
            return text
    assert call(server, "/reset_prefix_cache")[0] == 200
    return ""


def served(server: VllmProcess) -> list[float]:
    """Log-probabilities of a fixed prompt, by the server."""
    status, text = call(server, "/v1/completions", prompt=PROMPT, max_tokens=1, temperature=1.0, prompt_logprobs=0)
    assert status == 200, text
    entries = json.loads(text)["choices"][0]["prompt_logprobs"][1:]
    return [entry[str(token)]["logprob"] for entry, token in zip(entries, PROMPT[1:], strict=True)]


def expected(model: Any) -> list[float]:
    """The same by a forward pass."""
    with torch.inference_mode():
        logits = model(torch.tensor([PROMPT])).logits[0, :-1].float()
    chosen = torch.log_softmax(logits, -1)[range(len(PROMPT) - 1), PROMPT[1:]]
    return [float(value) for value in chosen]


def model(seed: int, *, tied: bool = False) -> Any:
    shape = NanoConfig(tokenizer="byte", size="0.1M", context_length=512, tie_embeddings=tied)
    return build_model(shape, build_tokenizer("byte"), seed)


@pytest.fixture
def server(vllm_server: VllmProcess) -> Iterator[VllmProcess]:
    """The shared one, with its first weights again afterwards."""
    yield vllm_server
    assert not update(vllm_server, vllm_server.model, "0")


def test_what_is_sent_is_what_is_served(server: VllmProcess, tmp_path: Path) -> None:
    before = served(server)
    other = model(seed=1)
    save_model(other, build_tokenizer("byte"), tmp_path / "new")
    assert not update(server, tmp_path / "new", "7")
    assert served(server) == pytest.approx(expected(other), abs=1e-5)
    assert served(server) != pytest.approx(before, abs=1e-2)
    assert json.loads(call(server, "/collective_rpc", method="turnwise_report")[1])["results"][0]["path"] == str(
        tmp_path / "new"
    )


def test_weights_may_come_in_several_files_and_another_dtype(server: VllmProcess, tmp_path: Path) -> None:
    other = model(seed=2)
    weights = {name: tensor.to(torch.bfloat16) for name, tensor in other.state_dict().items()}
    names = sorted(weights)
    for number, part in enumerate((names[::2], names[1::2])):
        save_file({name: weights[name].contiguous() for name in part}, tmp_path / f"part-{number}.safetensors")
    assert not update(server, tmp_path)
    other.load_state_dict(weights)
    assert served(server) == pytest.approx(expected(other), abs=1e-5)


def lacking(weights: Weights) -> None:
    del weights["model.layers.1.self_attn.k_proj.weight"]


def headless(weights: Weights) -> None:
    del weights["lm_head.weight"]


def foreign(weights: Weights) -> None:
    weights["model.layers.1.self_attn.k_proj.lora_A.weight"] = torch.zeros(8, 64)


def narrow(weights: Weights) -> None:
    weights["model.norm.weight"] = weights["model.norm.weight"][:-1].clone()


def diverged(weights: Weights) -> None:
    weights["model.norm.weight"][3] = float("nan")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lacking, "lacks model.layers.1.self_attn.k_proj.weight"),
        (headless, "lacks lm_head.weight"),
        (foreign, "has model.layers.1.self_attn.k_proj.lora_A.weight"),
        (narrow, "model.norm.weight has shape (63,), but the served model has (64,)"),
        (diverged, "model.norm.weight has values that are not finite"),
    ],
)
def test_what_is_not_the_whole_model_changes_nothing(
    server: VllmProcess, tmp_path: Path, damage: Callable[[Weights], None], said: str
) -> None:
    before = served(server)
    weights = {name: tensor.clone() for name, tensor in model(seed=1).state_dict().items()}
    damage(weights)
    save_file(weights, tmp_path / "model.safetensors")
    assert said in update(server, tmp_path / "model.safetensors")
    call(server, "/reset_prefix_cache")
    assert served(server) == before, "a refused update must leave every weight as it was"


def test_files_that_are_not_there_or_not_whole_are_refused(server: VllmProcess, tmp_path: Path) -> None:
    assert "neither a safetensors file" in update(server, tmp_path)
    assert "neither a safetensors file" in update(server, tmp_path / "absent.safetensors")
    whole = (server.model / "model.safetensors").read_bytes()
    (tmp_path / "torn.safetensors").write_bytes(whole[: len(whole) // 2])
    assert "was it written completely" in update(server, tmp_path / "torn.safetensors")


def test_finishing_with_nothing_sent_is_an_error_and_not_a_success(server: VllmProcess) -> None:
    assert call(server, "/start_weight_update")[0] == 200
    status, text = call(server, "/finish_weight_update", weight_version="1")
    assert status == 500
    assert "no weights arrived" in text
    # The server still waits for them: what comes now is taken.
    assert call(server, "/update_weights", update_info={"path": str(server.model)})[0] == 200
    assert call(server, "/finish_weight_update", weight_version="1")[0] == 200


def test_a_second_path_in_one_update_is_refused(server: VllmProcess) -> None:
    assert call(server, "/start_weight_update")[0] == 200
    assert call(server, "/update_weights", update_info={"path": str(server.model)})[0] == 200
    status, text = call(server, "/update_weights", update_info={"path": str(server.model)})
    assert status == 500
    assert "one folder" in text


@pytest.mark.filterwarnings("default")  # of vLLM's own, which is imported in this process
def test_a_tied_checkpoint_is_completed_with_its_output_embedding() -> None:
    """Fill in the second copy that vLLM holds, and refuse another one; no server is needed to see it."""
    from turnwise.inference.serving.worker import turnwise_vllm_worker as worker

    embedding, other = torch.ones(4, 2), torch.zeros(4, 2)
    weights, shapes = {"model.embed_tokens.weight": embedding}, {"model.embed_tokens.weight": (4, 2)}
    for update in (weights, {**weights, "lm_head.weight": embedding}):
        found = worker.completed(update, shapes, tied=True, where="here")
        assert torch.equal(found["lm_head.weight"], embedding)
    assert worker.completed(weights, shapes, tied=False, where="here") == weights
    with pytest.raises(worker.WeightsError, match=r"here: lm_head\.weight differs from the input embedding"):
        worker.completed({**weights, "lm_head.weight": other}, shapes, tied=True, where="here")


@pytest.mark.shift("vllm: tied")
def test_tied_embeddings_reach_both_ends(tied_vllm_server: VllmProcess, tmp_path: Path) -> None:
    """A checkpoint of a tied model has no output embedding, and vLLM has two copies: the second one must follow."""
    server = tied_vllm_server
    save_model(model(1, tied=True), build_tokenizer("byte"), tmp_path / "1")
    assert "lm_head.weight" not in load_file(tmp_path / "1" / "model.safetensors")
    assert served(server) == pytest.approx(expected(model(0, tied=True)), abs=1e-5)
    assert not update(server, tmp_path / "1")
    assert served(server) == pytest.approx(expected(model(1, tied=True)), abs=1e-5)
    other_head = {**model(1, tied=True).state_dict(), "lm_head.weight": model(2).state_dict()["lm_head.weight"]}
    save_file({name: tensor.clone() for name, tensor in other_head.items()}, tmp_path / "untied.safetensors")
    assert "lm_head.weight differs from the input embedding" in update(server, tmp_path / "untied.safetensors")
    assert not update(server, server.model, "0"), "the server gets its own weights again"
