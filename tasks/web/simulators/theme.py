"""``Theme``: look and labels of the sites in an episode. They vary, so that models cannot memorize them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...rng import Rng

Listing = Literal["table", "cards", "lines"]
PALETTES = (
    ("#1d3557", "#f7f9fb", "#457b9d"),
    ("#2f3e2e", "#fafaf5", "#6a8d5b"),
    ("#4a2040", "#fdf8fb", "#a0527f"),
    ("#3b2f2f", "#fbf7f2", "#b0703c"),
    ("#14343a", "#f4fafa", "#2a8c82"),
    ("#26264d", "#f8f8fd", "#5b5bd6"),
)
FONTS = ("system-ui, sans-serif", "Georgia, serif", "Verdana, sans-serif", "'Trebuchet MS', sans-serif")


@dataclass(frozen=True)
class Theme:
    """Look of one site in one episode.

    Args:
        listing: format of lists.
        side: whether the navigation is beside the page.
        search_first: whether the search form is above the results.
        label_above: whether labels are above their fields.
        seed: seed for the site's own random choices.
        ink: color of the header.
        paper: color of the background.
        accent: color of buttons and links.
        font: CSS font of all text.
        labels: labels by key.
    """

    listing: Listing
    side: bool
    search_first: bool
    label_above: bool
    seed: int
    ink: str
    paper: str
    accent: str
    font: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def word(self, what: str) -> str:
        """Return the label of a key.

        Raises:
            KeyError: no site has such a label.
        """
        return self.labels[what]

    def order(self, names: list[str], what: str) -> list[str]:
        """Return names in the random order of this theme.

        Args:
            names: names in their plain order.
            what: name of the list, so that two lists get different orders.
        """
        mixed = list(names)
        Rng("theme", self.seed, what).shuffle(mixed)
        return mixed


def theme_of(rng: Rng, labels: Mapping[str, tuple[str, ...]], *, plain: bool = False) -> Theme:
    """Draw a theme.

    Args:
        rng: random numbers of the task.
        labels: labels of the site with their variants (``Site.label_variants``).
        plain: whether to use the first variant of everything, for the easiest level.
    """
    drawn = {what: variants[0] if plain else rng.pick(variants) for what, variants in labels.items()}
    ink, paper, accent = PALETTES[0] if plain else rng.pick(PALETTES)
    if plain:
        return Theme("table", False, True, False, 0, ink, paper, accent, FONTS[0], drawn)
    return Theme(
        rng.pick(("table", "table", "cards", "lines")),
        rng.random() < 0.4,
        rng.random() < 0.7,
        rng.random() < 0.5,
        rng.randrange(2**31),
        ink,
        paper,
        accent,
        rng.pick(FONTS),
        drawn,
    )
