"""The report: one harmless file that says what the numbers say, whatever an episode contains."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwise import Action, Episode, ImagePart, Message, Observation, Outcome, Score, TextPart, ToolCall
from turnwise.errors import StoreError, UsageError
from turnwise.evals.collect_runs import collect_runs
from turnwise.evals.html import render_html
from turnwise.evals.markdown import render_markdown
from turnwise.evals.plots import histogram
from turnwise.evals.report import report
from turnwise.evals.sample_episodes import choose, pieces, shown
from turnwise.evals.summary import Summary, summarise
from turnwise.rollouts.store import EpisodeStore

Make = Callable[..., Episode]
EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>&{{ 7*7 }}{% raw %}</pre></details>'
VOID = {"meta", "img", "br", "hr", "input", "link"}


class Page(HTMLParser):
    """Reads a page as a browser does, strictly: every tag is closed by its own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"tags left open: {self.open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def harmless(self) -> bool:
        """No script, no handler, and nothing that is fetched from anywhere."""
        return all(
            tag not in ("script", "iframe", "object", "embed", "link", "base", "form", "a")
            and not any(name.startswith("on") for name in attributes)
            and all(
                (value or "").startswith(("#", "data:image/"))
                for name, value in attributes.items()
                if name in ("src", "href", "xlink:href", "action", "srcset")
            )
            for tag, attributes in self.tags
        )


def store(path: Path, episodes: list[Episode], **run: object) -> Path:
    with EpisodeStore(path, run=run or {"policy": "mixed:0.5"}) as opened:
        for episode in episodes:
            opened.append(episode)
    return path


def mixed(make_episode: Make, count: int = 24, chance: int = 3) -> list[Episode]:
    return [
        make_episode(
            i % chance == 0,
            seed=i // 2,
            attempt=i,
            level=1 + i // 2 % 2,
            outcome=Outcome.TRUNCATED if i % 5 == 4 else Outcome.COMPLETED,
            turn={"info": {"unparsed": True}} if i % 7 == 5 else {},
            score=Score(i % chance == 0, {"found": i % 2 == 0}),
        )
        for i in range(count)
    ]


def training(folder: Path, seeds: int = 3) -> None:
    for seed in range(seeds):
        rng = random.Random(seed)
        lines: list[dict[str, float]] = [{"step": 0, "eval/success": 0.2, "eval/return": -9.0, "eval/episodes": 50}]
        for step in range(1, 21):
            lines.append(
                {"step": step, "episodes": 72, "success": 0.2 + step / 40 + rng.random() / 20, "return": -9 + step / 5}
            )
            if step % 5 == 0:
                lines[-1] |= {"eval/success": 0.2 + step / 40, "eval/return": -9 + step / 5, "eval/episodes": 50}
        (folder / f"seed-{seed}").mkdir(parents=True)
        (folder / f"seed-{seed}" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_run_becomes_three_files_that_agree(make_episode: Make, tmp_path: Path) -> None:
    store(tmp_path / "run" / "episodes", mixed(make_episode))
    files = report(tmp_path / "run")
    assert {files.html, files.markdown, files.json} == {
        tmp_path / "run" / f"report.{end}" for end in ("html", "md", "json")
    }
    data = json.loads(files.json.read_text())
    summary = Summary.from_json(data["evaluations"][0]["summary"])
    page, text = Page(files.html.read_text()), files.markdown.read_text()
    assert page.harmless
    for words in (f"{100 * summary.success.value:.1f}", "turn limit", "wrong answer", "pass@2", "found", "mixed:0.5"):
        assert words in page.text
        assert words in text or words == "mixed:0.5"
    assert "Wall time of the scored episodes, added up, with all waiting" in page.text
    assert " %. Wall time of the scored episodes, added up, with all waiting" in text
    assert sum(f"{n} {kind}" in page.text for kind, n in summary.failures.items()) == len(summary.failures)


def test_reporting_on_a_store_itself_does_not_write_into_the_data(make_episode: Make, tmp_path: Path) -> None:
    path = store(tmp_path / "run" / "episodes", mixed(make_episode))
    before = sorted(p.name for p in path.iterdir())
    assert report(path).html == tmp_path / "run" / "report.html"
    assert sorted(p.name for p in path.iterdir()) == before


@pytest.mark.slow
def test_the_same_episodes_give_the_same_bytes(make_episode: Make, tmp_path: Path) -> None:
    episodes = mixed(make_episode)
    pages = []
    for name, order in (("a", episodes), ("b", episodes[::-1])):
        store(tmp_path / name / "run" / "episodes", order)
        files = report(tmp_path / name / "run")
        pages.append([files.html.read_bytes(), files.markdown.read_bytes(), files.json.read_bytes()])
    assert pages[0] == pages[1], "whatever the order in which they finished"


def evil_episode(make_episode: Make, seed: int, text: str, **fields: object) -> Episode:
    return make_episode(
        seed % 2 == 0,
        seed=seed,
        level=1 + seed % 2,
        template=text,
        says=text,
        text=text,
        env_id=f"demo/{text}-v0",
        score=Score(seed % 2 == 0, {text: True}),
        turn={"action": Action(text, (ToolCall(text, {text: text}),), problem=text)} if seed == 1 else {},
        final_observation=Observation((Message("tool", (TextPart(text),), name=text),)),
        **fields,
    )


def build_evil(make_episode: Make, text: str) -> list[Episode]:
    broken = evil_episode(make_episode, 9, text, outcome=Outcome.INFRA_FAILED, error=f"{text}: {text}")
    failed = evil_episode(make_episode, 7, text, outcome=Outcome.POLICY_FAILED, error=f"{text}: {text}")
    plain = [make_episode(True, seed=i, env_id=f"demo/{text}-v0") for i in (20, 21)]
    return [*(evil_episode(make_episode, i, text) for i in range(4)), broken, failed, *plain]


@pytest.mark.slow
def test_an_episode_full_of_html_is_harmless(make_episode: Make, tmp_path: Path) -> None:
    path = store(tmp_path / "run" / "episodes", build_evil(make_episode, EVIL), policy=EVIL)
    store(tmp_path / "run" / "again", build_evil(make_episode, EVIL), policy=EVIL)
    html = report(tmp_path / "run", title=EVIL).html.read_text()
    page = Page(html)
    assert page.harmless
    assert "<script" not in html
    assert "onerror" not in re.sub(r"&lt;.*?&gt;", "", html)
    assert EVIL in page.text, "it is shown as it is, to be read"
    assert "49" not in Page(report(path, title="{{ 7*7 }}").html.read_text()).text.partition("\n")[0]
    assert "default-src 'none'" in html, "even a mistake of ours could not run a script"


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40))
def test_any_text_is_harmless_and_readable(
    make_episode: Make, tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    store(folder / "episodes", build_evil(make_episode, text))
    found = collect_runs([folder])
    page = Page(render_html(found))
    assert page.harmless
    assert text in page.text
    render_markdown(found)


@pytest.mark.slow
def test_markdown_cannot_be_broken_out_of(make_episode: Make, tmp_path: Path) -> None:
    text = "````\n# not a heading | <b>\n````"
    store(tmp_path / "episodes", [make_episode(i % 2 == 0, seed=i, says=text, template="a|b") for i in range(4)])
    lines = report(tmp_path / "episodes", tmp_path).markdown.read_text().splitlines()
    fence = None
    for line in lines:
        run = re.match(r"^(`{3,})", line)
        if run and fence is None:
            fence = run.group(1)
        elif run and line == fence:
            fence = None
        elif fence is None:
            assert not line.startswith("# not"), "an episode's text stays inside its block"
            assert "<b>" not in line
    assert fence is None


def test_pictures_are_inline_and_only_of_harmless_kinds() -> None:
    png = Message("user", (TextPart("look"), ImagePart(b"\x89PNG", "image/png")))
    svg = Message("user", (ImagePart(b"<svg onload=alert(1)>", "image/svg+xml"),))
    assert [kind for kind, _ in pieces(png)] == ["text", "image"]
    assert pieces(png)[1][1] == "data:image/png;base64,iVBORw=="
    assert pieces(svg) == [("text", "[image/svg+xml, 21 bytes]")]


def test_very_long_texts_are_cut_and_say_so() -> None:
    assert shown("x" * 20_000) == "x" * 20_000
    assert shown("x" * 25_000).endswith("… 5,000 more characters are in the store")


@pytest.mark.slow
def test_two_runs_of_one_environment_are_compared(make_episode: Make, tmp_path: Path) -> None:
    store(tmp_path / "before", mixed(make_episode, 40, chance=5))
    store(tmp_path / "by-after", mixed(make_episode, 40, chance=1))
    page = Page(report([tmp_path / "before", tmp_path / "by-after"], tmp_path / "out").html.read_text())
    assert "by-after better: +" in page.text
    assert "paired by task" in page.text


def test_several_environments_are_ranked_one_by_one(make_episode: Make, tmp_path: Path) -> None:
    """The oldest of several evaluations against the newest is an arbitrary pair."""
    runs = {"a1": ("a", 5), "b1": ("b", 5), "a2": ("a", 2), "b2": ("b", 1), "c1": ("c", 1), "a3": ("a", 1)}
    for name, (env, chance) in runs.items():
        played = [replace(e, env_id=f"demo/{env}-v0") for e in mixed(make_episode, 12, chance)]
        store(tmp_path / name / "eval" / "episodes", played)
    found = collect_runs([tmp_path / name for name in runs])
    assert [each.name for each in found.evaluations] == [f"{name}/eval" for name in runs], "each has its own name"
    assert found.comparison is None
    ranked = {env: {run.name for run in ranking.runs} for env, ranking in found.rankings.items()}
    assert ranked == {"demo/a-v0": {"a1/eval", "a2/eval", "a3/eval"}, "demo/b-v0": {"b1/eval", "b2/eval"}}
    assert found.notes == ("Not compared: c1/eval is the only evaluation on demo/c-v0.",)
    text, page = render_markdown(found), Page(render_html(found)).text
    for words in ("Ranking on demo/a-v0", "Ranking on demo/b-v0", *found.notes):
        assert words in text
        assert words in page
    assert found.to_json()["rankings"].keys() == ranked.keys()


def test_three_evaluations_that_share_an_environment_are_one_table(make_episode: Make, tmp_path: Path) -> None:
    for chance, name in enumerate("abc", 1):
        store(tmp_path / name, mixed(make_episode, 12, chance))
    found = collect_runs([tmp_path])
    assert {env: len(ranking.runs) for env, ranking in found.rankings.items()} == {"demo/MadeUp-v0": 3}
    assert (found.comparison, found.notes) == (None, ())


def test_what_an_evaluation_said_of_itself_is_repeated(make_episode: Make, tmp_path: Path) -> None:
    episodes = mixed(make_episode)
    store(tmp_path / "episodes", episodes)
    summarise(episodes, planned=40, notes=["interrupted: 24 of 40 episodes; resume to play the rest"]).save(
        tmp_path / "summary.json"
    )
    files = report(tmp_path)
    assert "interrupted: 24 of 40" in Page(files.html.read_text()).text
    assert "interrupted: 24 of 40" in files.markdown.read_text()


@pytest.mark.slow
def test_training_curves_over_seeds(tmp_path: Path) -> None:
    training(tmp_path)
    files = report(tmp_path)
    page, text = Page(files.html.read_text()), files.markdown.read_text()
    assert page.harmless
    assert "Mean over 3 seeds" in page.text
    assert "episodes trained on" in page.text
    assert "held-out tasks" in page.text
    assert "| 20 | 1,440 | 70.0 % |" in text
    curves = json.loads(files.json.read_text())["trainings"][0]["curves"]
    assert [curve["metric"] for curve in curves["success"]] == ["eval/success", "success"]


@pytest.mark.slow
def test_a_training_run_and_its_evaluations_make_one_report(make_episode: Make, tmp_path: Path) -> None:
    training(tmp_path, seeds=1)
    store(tmp_path / "eval" / "episodes", mixed(make_episode))
    for folder in ("seed-0/demonstrations", "seed-0/checkpoints/step-1/pending"):
        store(tmp_path / folder, mixed(make_episode))  # training episodes are not an evaluation
    found = collect_runs([tmp_path])
    assert len(found.trainings) == 1
    assert [each.name for each in found.evaluations] == ["eval"]
    assert "One seed" in Page(render_html(found)).text


def test_a_histogram_of_one_value_is_a_bar_and_not_a_wall() -> None:
    labels = re.findall(r">([−0-9]+)</text>", histogram([2.0] * 5, [True] * 5, "turns"))
    assert {"−2", "6"} <= set(labels), "there is room on both sides"


@pytest.mark.slow
def test_pictures_on_one_page_do_not_share_ids(make_episode: Make, tmp_path: Path) -> None:
    training(tmp_path)
    for name in ("a", "b"):
        store(tmp_path / name, mixed(make_episode))
    page = Page(report(tmp_path).html.read_text())
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {(a.get("xlink:href") or "#").removeprefix("#") for _, a in page.tags if "xlink:href" in a}
    assert targets <= set(ids), "each picture finds its own parts"


@pytest.mark.parametrize(
    ("prepare", "error", "message"),
    [
        (lambda folder: folder / "none", UsageError, "there is no folder"),
        (lambda folder: folder, UsageError, "nothing to report"),
        (lambda folder: [], UsageError, "at least one folder"),
    ],
)
def test_nothing_to_report_is_said(
    tmp_path: Path, prepare: Callable[[Path], Path], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        report(prepare(tmp_path))


def test_a_folder_with_nothing_in_it_is_not_passed_over(make_episode: Make, tmp_path: Path) -> None:
    path = store(tmp_path / "run", mixed(make_episode))
    (tmp_path / "meant").mkdir()
    with pytest.raises(UsageError, match=r"nothing to report in .*meant"):
        report([path, tmp_path / "meant"])


def test_a_text_that_utf8_cannot_hold_is_reported_all_the_same(make_episode: Make, tmp_path: Path) -> None:
    episodes = [replace(e, final_observation=Observation.of("lone \udc80 surrogate")) for e in mixed(make_episode)]
    files = report(store(tmp_path / "run", episodes))
    assert r"lone \udc80 surrogate" in files.html.read_text(encoding="utf-8")


def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(
    make_episode: Make, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = store(tmp_path / "run" / "episodes", mixed(make_episode))
    request.getfixturevalue("small_files")
    with pytest.raises(UsageError, match="cannot write a report"):
        report(path)
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["episodes"]


def test_a_damaged_store_is_named(make_episode: Make, tmp_path: Path) -> None:
    path = store(tmp_path / "run", mixed(make_episode))
    next(path.glob("part-*")).write_bytes(b"not parquet")
    with pytest.raises(StoreError, match="damaged"):
        report(path)


@pytest.mark.slow
def test_a_place_that_cannot_be_written_is_one_line(make_episode: Make, tmp_path: Path) -> None:
    path = store(tmp_path / "run", mixed(make_episode))
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write a report"):
        report(path, tmp_path / "file" / "deep")


@given(order=st.permutations(range(24)))
def test_the_choice_of_episodes_is_fair(make_episode: Make, order: list[int]) -> None:
    episodes = mixed(make_episode)
    episodes[3] = make_episode(seed=99, outcome=Outcome.INFRA_FAILED, error="EnvironmentDiedError: gone")
    chosen = choose([episodes[i] for i in order])
    assert chosen == choose(episodes), "the order in which episodes finished does not matter"
    verdicts = [sample.verdict for sample in chosen]
    assert verdicts.count("solved") == 3
    assert {"wrong answer", "turn limit", "unparseable"} <= set(verdicts), "every kind of failure is shown"
    assert verdicts[-1] == "not scored: infra_failed"
    assert len({sample.episode.episode_id for sample in chosen}) == len(chosen)


def test_few_episodes_are_all_shown(make_episode: Make) -> None:
    assert len(choose([make_episode(True), make_episode(False, seed=1)])) == 2
    assert choose([]) == []


@pytest.mark.slow
def test_seeds_are_averaged_and_different_trainings_are_not(tmp_path: Path) -> None:
    """A warm start and the training after it lie in one folder; their curves must not be mixed."""
    training(tmp_path, seeds=3)
    for seed in range(3):
        config = {"env": "demo/X-v0", "seed": seed, "out": f"runs/{seed}", "lr": 0.1 if seed < 2 else 0.2}
        text = json.dumps({"algorithm": "loop", "config": config})
        (tmp_path / f"seed-{seed}" / "config.json").write_text(text)
    found = collect_runs([tmp_path])
    assert [each.title for each in found.trainings] == ["loop, 2 seeds", "loop"]
    assert found.trainings[0].names == ("seed-0", "seed-1")
    assert Page(render_html(found)).harmless


def configured(folder: Path, steps: int = 3, **config: object) -> Path:
    folder.mkdir(parents=True)
    lines = ({"step": s, "episodes": 8, "success": s / 10, "eval/success": s / 10} for s in range(1, steps + 1))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "config.json").write_text(json.dumps({"algorithm": "loop", "config": {"env": "demo/X-v0"} | config}))
    return folder


def test_a_run_that_repeats_a_seed_is_named_and_left_out(tmp_path: Path) -> None:
    """Two runs with one seed count as one seed: their interval would have no width, and would claim certainty."""
    configured(tmp_path / "again", seed=0, out="runs/again", steps=2)
    configured(tmp_path / "loop", seed=0, out="runs/loop")
    found = collect_runs([tmp_path, tmp_path / "loop"])
    (alone,) = found.trainings
    assert (alone.title, alone.names) == ("loop", ("loop",)), "the longer one stays, and a folder counts once"
    sentence = "Left out: again repeats seed 0 of loop, with the same settings."
    assert alone.repeats == (sentence,)
    assert sentence in Page(render_html(found)).text
    assert sentence in render_markdown(found)
    assert "One seed" in render_markdown(found)
    configured(tmp_path / "other", seed=1)
    (both,) = collect_runs([tmp_path]).trainings
    assert (both.title, both.repeats) == ("loop, 2 seeds", (sentence,))


def test_one_seed_from_two_models_is_two_trainings(tmp_path: Path) -> None:
    for model in "ab":
        for seed in range(2):
            configured(tmp_path / f"{model}{seed}", seed=seed, model=model)
    names = {each.names for each in collect_runs([tmp_path]).trainings}
    assert names == {("a0", "a1"), ("b0", "b1")}
    assert not any(each.repeats for each in collect_runs([tmp_path]).trainings)


def test_seeds_may_start_from_models_of_their_own(tmp_path: Path) -> None:
    for seed in range(3):
        configured(tmp_path / f"seed-{seed}", seed=seed, model=f"runs/bc-{seed}/model")
    assert [each.title for each in collect_runs([tmp_path]).trainings] == ["loop, 3 seeds"]


@pytest.mark.slow
def test_a_training_that_counts_no_episodes_is_drawn_over_steps(tmp_path: Path) -> None:
    lines = [{"step": step, "loss": 1 / step, "eval/success": 0.5} for step in range(1, 6)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = Page(report(tmp_path).html.read_text())
    assert "training steps" in page.text
    assert "loss" in page.text
