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
    "Predictions of the world model",
    "An episode of the best policy beside the predictions of its world model",
    "An episode of the best policy beside the predictions of its world model. The model sees as "
    "many observations as the heading says. After that it gets only the actions of the episode. "
    "`reward` is the mean of its two-hot distribution of rewards, `goes on` the probability that "
    "the episode continues, times the discount. Images: real, predicted, difference. The picture "
    "is one sample of many: in a random world it may differ from the episode and still be right.",
)
VISITS = BestPicture(
    "visits.png",
    "Visited states",
    "Visited states",
    "Visits to each cell of the grid in the training of the best policy",
    "Visits to each cell in the training of the best policy, in powers of ten; grey: never. The "
    "count is over the rows that it learned from, so a replayed row counts each time.",
)
LEAGUE = BestPicture(
    "league.png",
    "League",
    "The league of self-play",
    "Results between the learners of the league and their frozen copies, and their Elo ratings "
    "over training",
    "The league of the best trial. Above: results of the row's player against the column's. Each "
    "learner comes after its frozen copies, which are ordered by age. Hatched: no games between "
    "these count. Small numbers are the games that count. Older games count less, and a copy "
    "inherits the games of its learner. A cell is the share of games won, with a draw as half a "
    "win, if the returns of both have the same sum in all games; otherwise it is the row's mean "
    "return. Below: Elo ratings fitted to games won, at the steps of the copies; rings: learners "
    "now. A rating cannot show circles, such as rock, paper and scissors; the table above does.",
)
BEST_PICTURES = (OPEN_LOOP, VISITS, LEAGUE)
"""All of them, in the page's order."""
