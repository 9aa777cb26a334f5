"""`Matches`: the games of a policy against an opponent, and what they came to, seat by seat."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean

WON, DRAWN, LOST = "won", "drawn", "lost"


@dataclass(frozen=True)
class Game:
    """A game that has ended.

    Attributes:
        episode: Its number, from 0.
        seat: The agent that the policy acted for.
        own_return: What that agent returned.
        best_other: The greatest return of the other agents.
        length: Environment steps.
        course: A number that games have in common in which agents were shown and did the same.
    """

    episode: int
    seat: Hashable
    own_return: float
    best_other: float
    length: int
    course: int

    @property
    def result(self) -> str:
        """How it ended for the policy: a game is won by the greatest return."""
        if self.own_return == self.best_other:
            return DRAWN
        return WON if self.own_return > self.best_other else LOST


@dataclass(frozen=True)
class Tally:
    """How games ended for the policy.

    Attributes:
        returns: Its returns, in order of the games.
        wins: Games that it has won.
        draws: Games without a winner.
        losses: Games that it has lost.
        num_courses: How many of the games differ from each other.
    """

    returns: Sequence[float]
    wins: int
    draws: int
    losses: int
    num_courses: int

    @property
    def games(self) -> int:
        """How many."""
        return len(self.returns)

    @property
    def return_mean(self) -> float:
        """The mean of its returns; NaN without games."""
        return fmean(self.returns) if self.returns else float("nan")

    @property
    def score(self) -> float:
        """The share of games that it has won, a draw being half a win; NaN without games."""
        return (self.wins + self.draws / 2) / self.games if self.games else float("nan")


@dataclass(frozen=True)
class Matches:
    """What was played against an opponent.

    Attributes:
        seats: The agents that the policy acted for, in turn.
        games: The games that ended, in order.
    """

    seats: Sequence[Hashable]
    games: Sequence[Game]

    def tally(self, seat: Hashable | None = None) -> Tally:
        """Return how the games ended.

        Args:
            seat: Those in which the policy acted for this agent; None: all.

        Raises:
            KeyError: if it never did.
        """
        if seat is not None and seat not in self.seats:
            raise KeyError(f"no seat {seat!r}; there are {list(self.seats)}")
        games = [game for game in self.games if seat is None or game.seat == seat]
        results = [game.result for game in games]
        return Tally(
            [game.own_return for game in games],
            results.count(WON),
            results.count(DRAWN),
            results.count(LOST),
            len({(game.seat, game.course) for game in games}),
        )
