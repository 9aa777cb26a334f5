"""Pictures of a sweep's best policy: their files in its folder, and what is said of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_PNG = b"\x89PNG\r\n\x1a\n"  # how such files begin


@dataclass(frozen=True)
class BestPicture:
    """A picture of the best policy.

    Attributes:
        file: Its name in the sweep's folder.
        name: What lines of text call it.
        title: Its heading on the page.
        alt: What it shows, in words.
        caption: What stands below it.
    """

    file: str
    name: str
    title: str
    alt: str
    caption: str

    @property
    def key(self) -> str:
        """The end of its id on the page."""
        return Path(self.file).stem.replace("_", "-")

    def read(self, folder: Path) -> bytes | None:
        """Return it as a sweep's folder has it; None if that has none."""
        try:
            picture = (folder / self.file).read_bytes()
        except OSError:
            return None
        return picture if picture.startswith(_PNG) else None


OPEN_LOOP = BestPicture(
    "open_loop.png",
    "Open loop",
    "What the world model expects",
    "An episode of the best policy beside what its world model expects of it",
    "An episode of the best policy, and what its world model makes of it. The model sees as many "
    "observations as the heading says; from then on it dreams, and is given only the actions that "
    "were taken. `reward` is the mean of its two-hot distribution of rewards, `goes on` the chance "
    "that the episode does not end there, times the discount. Images: what happened, what was "
    "expected, how far these are apart. It is one dream of many: in a world with chance it may "
    "part from what happened and be right.",
)
VISITS = BestPicture(
    "visits.png",
    "Visited states",
    "Visited states",
    "How often the training of the best policy has been in each cell of the grid",
    "How often a step of the best policy's training led into each cell, in powers of ten; grey: "
    "never. Counted among what it has learned from: of replayed experience that is each time.",
)
LEAGUE = BestPicture(
    "league.png",
    "League",
    "The league of self-play",
    "How each learner of the league and each of its frozen copies has fared against all others, "
    "and their Elo ratings over training",
    "The league of the best trial. Above: how the row's player has fared against the column's, of "
    "each learner its frozen copies by age and then itself; hatched: no games of these count. "
    "Small numbers are games that count, of which older ones count less; a copy takes over its "
    "learner's. Where the returns of both add up to the same in all games it is the share of games "
    "won, a draw being half a win, else the row's mean return. Below: Elo ratings that are fitted "
    "to games won, at the steps at which copies were frozen; rings: learners, now. One number for "
    "a player says nothing of circles, such as that of rock, paper and scissors: see above for "
    "these.",
)
BEST_PICTURES = (OPEN_LOOP, VISITS, LEAGUE)
"""All of them, in the page's order."""
