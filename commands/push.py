"""``turnwise push``: episodes as a dataset on the Hugging Face Hub."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from ..errors import InfrastructureError, UsageError
from ..rollouts.store import parts, run_of
from ..rollouts.store_files import read_table
from .stores import store_in
from .terminal import remark

CARD = "README.md"
DATA = "data"
"""Folder of the dataset that holds the parts."""
COLUMNS = ["env_id", "success", "total_reward"]


def push(
    source: Annotated[Path, typer.Argument(help="Folder of an evaluation, or an episode store.", show_default=False)],
    repo: Annotated[str, typer.Argument(help="Dataset on the Hub: OWNER/NAME.", show_default=False)],
    public: Annotated[bool, typer.Option("--public", help="Make a new dataset public.")] = False,
    message: Annotated[str, typer.Option(help="Title of the commit.")] = "Add episodes",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent, and send nothing.")] = False,
) -> None:
    """Send episodes to the Hugging Face Hub, as a dataset that `datasets` and its viewer read.

    One commit has the store's Parquet files under data/ in place of those that were there, and a card in README.md with
    the environments, the results, and the run's settings with its arguments and addresses. Episodes contain everything
    that the agent read and wrote: look for secrets in both first. A new dataset is private. The token is that of
    `hf auth login`, or HF_TOKEN.

    Examples:

        turnwise push runs/eval me/maze-episodes --dry-run

        turnwise push runs/eval me/maze-episodes
    """
    hub = _hub()
    _check(hub, repo)
    store = store_in(source)
    files = {f"{DATA}/{part.name}": part for part in parts(store)}
    if not files:
        raise UsageError(f"there are no episodes in {store} yet")
    table = pa.concat_tables(read_table(part, COLUMNS) for part in files.values())
    card = card_of(repo, table, run_of(store))
    if dry_run:
        typer.echo(card)
        for name, part in files.items():
            typer.echo(f"{name}  {part.stat().st_size:,} bytes")
        remark().print(f"nothing was sent; without --dry-run, these {len(files) + 1} files go to {repo}", markup=False)
        return
    typer.echo(_send(hub, repo, files, card, private=not public, message=message))


def card_of(repo: str, table: pa.Table, run: Mapping[str, Any]) -> str:
    """Return the dataset's card.

    Args:
        repo: name of the dataset.
        table: one row per episode, with ``COLUMNS``.
        run: description of the run, from the store's manifest.
    """
    head = ["---", "configs:", "- config_name: default", f"  data_files: {DATA}/*.parquet", "tags:"]
    head += [*(f"- {tag}" for tag in ("turnwise", "agents", "reinforcement-learning")), "---", ""]
    release = importlib.metadata.version("turnwise")
    text = [
        f"# {repo.rpartition('/')[2]}",
        "",
        f"{table.num_rows} episodes, recorded by Turnwise {release} or earlier.",
        "",
    ]
    text += ["| environment | episodes | scored | success | mean reward |", "|---|---|---|---|---|"]
    rows = table.to_pylist()
    for env in sorted({row["env_id"] for row in rows}):
        scored = [row for row in rows if row["env_id"] == env and row["success"] is not None]
        number = sum(row["env_id"] == env for row in rows)
        text.append(
            f"| {env} | {number} | {len(scored)} | {_mean(scored, 'success')} | {_mean(scored, 'total_reward')} |"
        )
    text += ["", "The run:", "", "```json", json.dumps(dict(run), indent=2, sort_keys=True, default=str), "```", ""]
    text += [
        "```python",
        "import datasets",
        "",
        f'episodes = datasets.load_dataset("{repo}", split="train")',
        "```",
        "",
    ]
    return "\n".join([*head, *text])


def _mean(rows: list[dict[str, Any]], column: str) -> str:
    return f"{sum(float(row[column]) for row in rows) / len(rows):.3f}" if rows else "–"


def _hub() -> Any:
    try:
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError:
        raise UsageError("turnwise push needs pip install 'turnwise[train]'") from None
    return huggingface_hub


def _check(hub: Any, repo: str) -> None:
    try:
        hub.utils.validate_repo_id(repo)
        if "/" not in repo:
            raise UsageError(f"{repo!r} names no owner; write OWNER/{repo}")
    except hub.errors.HFValidationError as error:
        raise UsageError(f"{repo!r} is not the name of a dataset, such as me/maze-episodes: {error}") from None


def _send(hub: Any, repo: str, files: Mapping[str, Path], card: str, *, private: bool, message: str) -> str:
    """Create the dataset if necessary, replace its data in one commit, and return its URL."""
    api = hub.HfApi(library_name="turnwise", library_version=importlib.metadata.version("turnwise"))
    try:
        url = api.create_repo(repo, repo_type="dataset", private=private, exist_ok=True)
        there = api.list_repo_files(repo, repo_type="dataset")
        stale = [name for name in there if name.startswith(f"{DATA}/") and name not in files]
        operations = [hub.CommitOperationDelete(path_in_repo=name) for name in stale]
        operations += [hub.CommitOperationAdd(CARD, card.encode())]
        operations += [hub.CommitOperationAdd(name, str(part)) for name, part in files.items()]
        api.create_commit(repo, operations, commit_message=message, repo_type="dataset")
    except hub.errors.LocalTokenNotFoundError:
        raise UsageError("the Hub needs a token: run `hf auth login`, or set HF_TOKEN") from None
    except hub.errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise UsageError(f"the Hub refuses to write {repo} (HTTP {status}): check the name and the token") from None
        raise InfrastructureError(
            f"the Hub did not take {repo} (HTTP {status}); look there before you try again"
        ) from None
    except (hub.errors.HTTPError, OSError, RuntimeError) as error:  # the last one: a part could not be uploaded
        why = str(error).partition("\n")[0] or type(error).__name__
        raise InfrastructureError(f"sending to the Hub failed: {why}; look there before you try again") from None
    return str(url)
