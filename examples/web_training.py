"""Clone a model that finds its way through a web shop without a browser, and measure it there and in Chromium.

    python examples/web_training.py                  the whole run
    python examples/web_training.py --short          two steps, as a quick check
    python examples/web_training.py --no-chromium    without Chromium

This does the same as ``turnwise train bc --config bc-web`` and two evaluations.
"""

import argparse
from pathlib import Path

import turnwise as tw
from turnwise.trainers import CloningConfig

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
SHORT = ("steps=2", "demonstrations.count=12", "batch=4", "eval.episodes=2")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--short", action="store_true", help="run only a few steps")
    words.add_argument("--no-chromium", action="store_true", help="measure only without a browser")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--out", default="runs/web", help="output folder")
    said = words.parse_args()
    out = Path(said.out)
    learnt = tw.load_config(
        CloningConfig, CONFIGS / "bc-web.toml", [f"out={out}/bc", f"seed={said.seed}", *(SHORT if said.short else ())]
    )
    tw.train(learnt)
    ids = ["turnwise/WebHTML-v1", *([] if said.no_chromium else ["turnwise/Web-v1"])]
    for id in ids:
        found = tw.evaluate(
            id,
            f"{out}/bc/model",
            env_kwargs=learnt.episodes.env_kwargs,
            n=2 if said.short else 100,
            splits="test_iid",
            levels=1,
            concurrency=8,
            temperature=0.0,
            out=out / f"eval-{id.split('/')[1]}",
            overwrite=True,
        ).success
        print(f"{id:22} success {found.value:6.1%}  ({found.low:.1%} – {found.high:.1%})")


if __name__ == "__main__":
    main()
