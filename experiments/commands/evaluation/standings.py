"""What the games against an opponent came to: seat by seat and in all, as lines, a table, JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from analysis.numbers import finite_or_none
from experiments.commands.evaluation.evaluated import Versus
from experiments.commands.evaluation.summary import CONFIDENCE, mean_interval, rate_interval

if TYPE_CHECKING:
    from rich.table import Table

    from trainables.runtime.evaluation.matches.games import Tally

ALL = "all"
_RESULTS = ("wins", "draws", "losses")


def tallies(versus: Versus) -> Iterator[tuple[str, Tally]]:
    """Yield the games of each seat that has any, and then all of them."""
    for seat in versus.matches.seats:
        tally = versus.matches.tally(seat)
        if tally.games:
            yield str(seat), tally
    yield ALL, versus.matches.tally()


def standing_lines(versus: Versus) -> list[str]:
    """Return who played whom, how it ended, and what is to be known of it."""
    tally = versus.matches.tally()
    low, high = rate_interval(tally.wins, tally.games)
    games = "game" if tally.games == 1 else "games"
    lines = [
        f"{versus.policy_id} against {versus.opponent}: {tally.wins} won, {tally.draws} drawn, "
        f"{tally.losses} lost of {tally.games} {games}; wins {_percent(tally.wins, tally)}, 95 % "
        f"interval {100 * low:.0f} to {100 * high:.0f} %"
    ]
    played = [(seat, own) for seat, own in tallies(versus) if seat != ALL]
    if repeated := [seat for seat, own in played if own.games > 1 and own.num_courses == 1]:
        where = "" if len(repeated) == len(played) else f" as {', '.join(repeated)}"
        lines.append(
            f"All games{where} were the same: neither the players nor the environment act at "
            "random, and intervals say nothing. --explore samples actions."
        )
    if tally.draws == tally.games and any(tally.returns):
        lines.append(
            "All agents had the same return in each game, as agents with shared rewards do."
        )
    counts = {own.games for _, own in played}
    if len(counts) > 1:
        lines.append(
            "Seats had different numbers of games, so an advantage of one seat biases the total."
        )
    return lines


def standing_table(versus: Versus) -> Table:
    """Return a row for each seat, and one for all games."""
    from experiments.terminal import make_table

    table = make_table("")
    table.title = None
    table.add_column("seat", no_wrap=True)
    table.add_column("games", justify="right")
    for name in _RESULTS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("win rate, 95 %", justify="right", no_wrap=True)
    table.add_column("return, 95 %", justify="right", no_wrap=True)
    for seat, tally in tallies(versus):
        low, high = rate_interval(tally.wins, tally.games)
        ends = mean_interval(tally.returns)
        spread = "" if tally.games < 2 else f" ({ends[0]:.2f} to {ends[1]:.2f})"
        table.add_row(
            seat,
            f"{tally.games:,}",
            *(f"{getattr(tally, name):,}" for name in _RESULTS),
            f"{_percent(tally.wins, tally)} ({100 * low:.0f} to {100 * high:.0f} %)",
            f"{tally.return_mean:.2f}{spread}",
        )
    return table


def standings_json(versus: Versus) -> dict[str, Any]:
    """Return it as JSON; null for what is not finite, or an interval that there is not."""
    return {
        "policy_id": versus.policy_id,
        "opponent": versus.opponent,
        "confidence": CONFIDENCE,
        "standings": {seat: _numbers(tally) for seat, tally in tallies(versus)},
    }


def _numbers(tally: Tally) -> dict[str, Any]:
    low, high = rate_interval(tally.wins, tally.games)
    ends = mean_interval(tally.returns)
    return {
        "games": tally.games,
        **{name: getattr(tally, name) for name in _RESULTS},
        "win_rate": tally.wins / tally.games,
        "win_rate_low": low,
        "win_rate_high": high,
        "score": tally.score,
        "return_mean": finite_or_none(tally.return_mean),
        "return_mean_low": finite_or_none(ends[0]),
        "return_mean_high": finite_or_none(ends[1]),
        "num_courses": tally.num_courses,
    }


def _percent(count: int, tally: Tally) -> str:
    return f"{100 * count / tally.games:.0f} %"
