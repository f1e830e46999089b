"""Train a model to write programs: filtered cloning, then LOOP. Every answer runs in a sandbox.

    python examples/code_training.py                 a quarter of an hour on two cores
    python examples/code_training.py --short         two steps of each, as a quick check

This does the same as ``turnwise train bc --config bc-code`` and ``turnwise train loop --config loop-code``.
"""

import argparse
from pathlib import Path

import turnwise as tw
from turnwise.trainers import CloningConfig, LoopConfig

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
SHORT = {
    "bc": ("steps=2", "demonstrations.count=12", "batch=4"),
    "loop": ("steps=2", "tasks_per_step=2", "group_size=2", "minibatch=4", "eval.episodes=2", "eval.every=2"),
}


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--short", action="store_true", help="run only a few steps")
    words.add_argument("--sandbox", help="bubblewrap or docker (default: the first that works)")
    words.add_argument("--out", default="runs/code", help="output folder")
    said = words.parse_args()
    more = [f"episodes.env_kwargs.sandbox={said.sandbox}"] if said.sandbox else []

    def settings(word: str) -> list[str]:
        return [f"out={said.out}/{word}", *more, *(SHORT[word] if said.short else ())]

    tw.train(tw.load_config(CloningConfig, CONFIGS / "bc-code.toml", settings("bc")))
    start = f"model={said.out}/bc/model"
    tw.train(tw.load_config(LoopConfig, CONFIGS / "loop-code.toml", [start, *settings("loop")]))


if __name__ == "__main__":
    main()
