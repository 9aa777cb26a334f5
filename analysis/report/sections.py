"""The order of a report's figures, and how each is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from analysis.overview.overview import ReportData

if TYPE_CHECKING:
    import plotly.graph_objects as go

Drawn = "go.Figure | list[go.Figure] | str | None"
"""What a figure's function gives: one or several figures, why there is none, or nothing at all."""


@dataclass(frozen=True)
class Part:
    """A figure of a section.

    Attributes:
        source: Its function as `module:name`.
        title: Its heading; may be empty.
        of_surrogate: Whether it is read off the forests alone: it is folded away where these
            explain nothing.
    """

    source: str
    title: str = ""
    of_surrogate: bool = False

    def draw(self, data: ReportData) -> Any:
        """Call the function; see `Drawn`."""
        module, _, name = self.source.partition(":")
        home = import_module(f"analysis.{module}")
        function: Callable[[ReportData], Any] = getattr(home, name)
        return function(data)


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading; it is left out where it has nothing to show."""

    key: str
    title: str
    parts: tuple[Part, ...] = ()
    lead: str = ""


@dataclass
class Panel:
    """A figure on the page.

    Attributes:
        key: Its id.
        title: Its heading; may be empty.
        figure: The figure as plotly's JSON values.
        alt: What it shows, in words.
        caption: What stands below it.
    """

    key: str
    title: str
    figure: dict[str, Any]
    alt: str
    caption: str = ""

    @property
    def height(self) -> int:
        """In pixels; the page keeps the place before the figure is drawn."""
        return int(self.figure["layout"].get("height") or 420)


@dataclass
class Panels:
    """What a section's figures became.

    Attributes:
        rows: Panels side by side.
        noise: Those that mean nothing, for who wants to see them all the same.
        reasons: Why others are missing.
    """

    rows: list[list[Panel]] = field(default_factory=list)
    noise: list[list[Panel]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show or to say."""
        return not self.rows and not self.noise and not self.reasons

    @property
    def all(self) -> list[Panel]:
        """The panels, folded or not."""
        return [panel for row in (*self.rows, *self.noise) for panel in row]


SECTIONS = (
    Section(
        "curves",
        "Learning curves",
        (
            Part("figures.curves:curves_by_steps", "By steps"),
            Part("figures.curves:curves_by_time", "By wall clock"),
            Part("figures.policies:returns_by_policy", "By policy"),
        ),
    ),
    Section("parallel", "Parallel coordinates", (Part("figures.parallel:parallel_coordinates"),)),
    Section(
        "importance",
        "Which settings mattered",
        (
            Part("figures.importance:importance_bars", "Importance of each setting", True),
            Part("figures.importance:interactions_bars", "Interactions of settings", True),
            Part("figures.effects:effects", "Effect of each setting"),
        ),
    ),
    Section(
        "slices",
        "Slices and contours",
        (
            Part("figures.slices:slices"),
            Part("figures.contours:contours", "Pairs of settings", True),
        ),
    ),
    Section("rungs", "Early stopping", (Part("figures.rungs:rungs"),)),
    Section(
        "lineage",
        "Lineage of the population",
        (
            Part("figures.lineage:lineage_tree", "Clones and their donors"),
            Part("figures.schedule:winner_schedule", "The winner's settings over its budget"),
        ),
    ),
    Section("seeds", "Seeds of the winner", (Part("figures.seeds:winner_seeds"),)),
    Section("final", "Held-out seeds", (Part("figures.seeds:final_seeds"),)),
    Section("cost", "Return against cost", (Part("figures.pareto:cost_front"),)),
    Section(
        "agreement",
        "How well estimates ranked the trials",
        (Part("figures.agreement:estimates_and_truth"),),
    ),
)


def draw(section: Section, data: ReportData, prefix: str) -> Panels:
    """Make a section's figures.

    Args:
        section: The section.
        data: The sweep.
        prefix: What the figures' ids begin with.
    """
    panels = Panels()
    for number, part in enumerate(section.parts):
        folded = part.of_surrogate and data.explains_nothing
        drawn_panels(
            panels, part.draw(data), part.title, f"{prefix}{section.key}-{number}", folded=folded
        )
    return panels


def drawn_panels(panels: Panels, drawn: Any, title: str, key: str, *, folded: bool = False) -> None:
    """Add what a figure's function gave, see `Drawn`.

    Args:
        panels: What it is added to.
        drawn: What the function gave.
        title: The heading.
        key: What the figures' ids begin with.
        folded: Whether the figures mean nothing.
    """
    if drawn is None:
        return
    if isinstance(drawn, str):
        panels.reasons.append(drawn)
        return
    figures = drawn if isinstance(drawn, list) else [drawn]
    if figures:
        row = [_panel(figure, title, f"{key}-{index}") for index, figure in enumerate(figures)]
        (panels.noise if folded else panels.rows).append(row)


def _panel(figure: go.Figure, title: str, key: str) -> Panel:
    document = figure.to_plotly_json()
    meta = document["layout"].pop("meta", None) or {}
    # A template of plotly's own, some thousand bytes in each figure, would win over the page's.
    document["layout"].pop("template", None)
    return Panel(
        key, meta.get("title") or title, document, meta.get("alt", ""), meta.get("caption", "")
    )
