"""The page on which a user reads a recording: HTML that only grows, so that it is complete at any moment."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup, escape

from ....tasks.spec import TaskSpec

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' file:"
"""Runs no scripts and loads nothing from elsewhere."""
STYLE = """
:root { color-scheme: light dark; --line: #8884; --agent: #1f6f5c22; --world: #8882; --quiet: #888; }
body { margin: 0 auto; max-width: 84rem; padding: 1.5rem; font: 15px/1.5 system-ui, "DejaVu Sans", Arial, sans-serif; }
h1 { font-size: 1.3rem; } li { margin: .2rem 0; }
section { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.3fr); gap: .5rem 1.5rem;
  border-top: 1px solid var(--line); padding: 1rem 0; }
h2 { font-size: .85rem; font-weight: 500; color: var(--quiet); margin: 0; grid-column: 1 / -1; }
pre { margin: 0 0 .6rem; padding: .5rem .8rem; border-radius: .5rem; background: var(--world);
  white-space: pre-wrap; overflow-wrap: anywhere; font: .82rem/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
pre.agent { background: var(--agent); }
summary { cursor: pointer; color: var(--quiet); }
img { max-width: 100%; border: 1px solid var(--line); }
@media (max-width: 50rem) { section { display: block; } }
"""


@dataclass(frozen=True, slots=True)
class Shot:
    """One turn as it is recorded; number 0 is the beginning, before the agent has acted.

    Args:
        number: the number of the turn.
        said: the text of the agent, and its calls in human-readable form.
        told: the text of the observation that answered.
        reward: the reward of the turn.
        ``picture``: the name of the file with a screenshot of the window; empty if there is none.
        lacks: the reason why there is none.
        given: the names of the files with images that the agent received.
    """

    number: int
    said: str
    told: str
    reward: float
    picture: str = ""
    lacks: str = ""
    given: tuple[str, ...] = ()


def label(task: TaskSpec) -> str:
    """A task in one line."""
    return f"{task.family} · {task.template} · level {task.level} · {task.split} · seed {task.seed}"


def head(title: str) -> str:
    """The beginning of a page.

    Args:
        title: the title of the page.
    """
    return Markup(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{0}</title>\n'
        '<meta http-equiv="Content-Security-Policy" content="{1}">\n'
        "<style>{2}</style></head>\n<body>\n<h1>{0}</h1>\n"
    ).format(title, POLICY, Markup(STYLE))


def section(shot: Shot) -> str:
    """Return a turn as HTML: action and observation on one side, the screenshot on the other.

    Args:
        shot: the turn.
    """
    name = f"turn {shot.number}" if shot.number else "the beginning"
    parts = [Markup("<section><h2>{}{}</h2>\n<div>").format(name, f" · reward {shot.reward:g}" if shot.reward else "")]
    if shot.said:
        parts.append(Markup('<pre class="agent">{}</pre>').format(shot.said))
    opened = Markup(" open") if not shot.number else ""
    parts.append(Markup("<details{}><summary>what it was told</summary><pre>{}</pre>").format(opened, shot.told))
    parts += [_picture(one, "what the agent was shown") for one in shot.given]
    parts.append(Markup("</details></div>\n<div>"))
    parts.append(_picture(shot.picture, name) if shot.picture else Markup("<p>no picture: {}</p>").format(shot.lacks))
    parts.append(Markup("</div></section>\n"))
    return "".join(parts)


def remark(text: str) -> str:
    """A line of its own.

    Args:
        text: the text of the note.
    """
    return f"<section><h2>{escape(text)}</h2></section>\n"


def entry(folder: str, title: str, verdict: str) -> str:
    """A line in the list of recordings.

    Args:
        folder: the folder of the recording, beside the list.
        title: the title of the recording.
        verdict: the ending of the episode.
    """
    return Markup('<li><a href="{}/index.html">{}</a> · {}</li>\n').format(folder, title, verdict)


def _picture(file: str, name: str) -> Markup:
    return Markup('<a href="{0}"><img src="{0}" alt="{1}" loading="lazy"></a>').format(file, name)
