"""The offline data of a study: scripted episodes of mixed skill, or those of an example with a task of its own."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from types import ModuleType

import study_plan as plan
from study_config import Study

from turnwise.errors import ConfigError
from turnwise.rollouts.demonstrations import Mixture, make_demonstrations
from turnwise.rollouts.episode import Episode
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.store import load_episodes

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def play(study: Study, root: Path) -> list[Episode]:
    """Play the episodes that are still missing, and return all.

    Args:
        study: study whose learners read them.
        root: the study's folder.

    Raises:
        ConfigError: there is no such example.
    """
    data, folder = study.data, root / plan.data_folder(study)
    kwargs, levels = plan.with_files(study.env_kwargs, study, root), study.levels or ()
    if data.example:
        example = load_example(data.example)
        files = root / plan.files_folder(study)
        if not files.exists():  # runs of another harness may be reading them
            unfinished = files.with_name(f".{files.name}")
            example.prepare(unfinished, data.seed)
            unfinished.rename(files)
        asyncio.run(example.demonstrate(study.env, kwargs, folder, data.episodes, seed=data.seed, **data.demonstrator))
        return list(load_episodes(folder))
    mixture = Mixture(data.skills, data.weights, data.habits)
    options = RunOptions(env_kwargs=kwargs)
    return make_demonstrations(
        study.env, data.episodes, folder, mixture=mixture, levels=levels, seed=data.seed, options=options
    )


def load_example(name: str) -> ModuleType:
    """Load a script of ``examples/``, which has the functions ``prepare`` and ``demonstrate``.

    Raises:
        ConfigError: there is no such script, or it lacks one of them.
    """
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.exists() or spec is None or spec.loader is None:
        raise ConfigError(f"data.example={name!r}: there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if missing := [one for one in ("prepare", "demonstrate") if not hasattr(module, one)]:
        raise ConfigError(f"data.example={name!r}: {path} has no function {' and no function '.join(missing)}")
    return module
