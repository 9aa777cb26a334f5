"""`League`: who is in it, how they have played, who plays whom next, and whom to freeze."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trainables.core.config.policies import LEAGUE_EXPLOITER, MAIN_EXPLOITER, LeagueConfig
from trainables.core.errors import ConfigError
from trainables.runtime.league.matchmaking import opponents_of
from trainables.runtime.league.payoff import PayOffs
from trainables.runtime.league.ratings import fitted_ratings
from trainables.runtime.sampling.agents.episode_book import Match

_MOST_TOLD = 20  # copies that results have pay-offs with


class Copy(NamedTuple):
    """A frozen copy of a learner.

    Attributes:
        policy_id: Its id, which no other copy of the run has or had.
        learner: Whose copy it is.
        num_env_steps: Environment steps of the run when it was frozen.
    """

    policy_id: str
    learner: str
    num_env_steps: int


class League:
    """The book of a league; networks are elsewhere.

    All it decides follows from its state, the seed and the iteration, and so a run that is resumed
    decides as one that was not interrupted.

    Args:
        config: Its settings.
        seed: Of its draws.

    Attributes:
        config: Its settings.
        payoffs: How games between members have ended.
        copies: The frozen copies, the oldest first.
    """

    def __init__(self, config: LeagueConfig, seed: int):
        self.config, self._seed = config, seed
        self.payoffs = PayOffs(config.game_decay)
        self.copies: list[Copy] = []
        self._num_frozen = dict.fromkeys(config.learners, 0)
        self._frozen_at = dict.fromkeys(config.learners, 0)  # iterations
        self._recent: dict[str, deque[float]] = {
            learner: deque(maxlen=config.win_rate_games) for learner in config.learners
        }
        for learner in config.learners:
            self.payoffs.add_player(learner)

    # ------------------------------------------------------------------ members

    def copies_of(self, learner: str) -> list[str]:
        """Return the ids of a learner's frozen copies, the oldest first."""
        return [copy.policy_id for copy in self.copies if copy.learner == learner]

    def freeze(self, learner: str, iteration: int, num_env_steps: int) -> tuple[str, str | None]:
        """Note a new frozen copy; return its id, and that of one which is dropped for it."""
        new = Copy(f"{learner}_v{self._num_frozen[learner]}", learner, num_env_steps)
        self._num_frozen[learner] += 1
        self._frozen_at[learner] = iteration
        self._recent[learner].clear()
        self.copies.append(new)
        self.payoffs.add_player(new.policy_id, like=learner)
        its = self.copies_of(learner)
        if self.config.max_copies is None or len(its) <= self.config.max_copies:
            return new.policy_id, None
        dropped = its[1]  # the first one anchors ratings, and is what exploiters go back to
        self.copies = [copy for copy in self.copies if copy.policy_id != dropped]
        self.payoffs.remove_player(dropped)
        return new.policy_id, dropped

    def restart(self, learner: str) -> None:
        """Note that a learner went back to its first weights: its games are another one's."""
        self.payoffs.forget_games(learner)
        self._recent[learner].clear()

    # ------------------------------------------------------------------ games

    def add_games(self, matches: Iterable[Match]) -> None:
        """Count games. Those of copies that are no more, in episodes that ran on, do not count."""
        members = {*self.payoffs.players}
        for match in matches:
            if not {match.first, match.second} <= members:
                continue
            self.payoffs.add_game(*match)
            if match.first == match.second:
                continue
            score = (1 + np.sign(match.first_return - match.second_return)) / 2
            for player, own in ((match.first, score), (match.second, 1 - score)):
                if player in self._recent:
                    self._recent[player].append(float(own))

    def win_rate(self, learner: str) -> float:
        """Return a learner's share of wins in its last games with others; 0.5 before the first."""
        recent = self._recent[learner]
        return sum(recent) / len(recent) if recent else 0.5

    def ratings(self) -> dict[str, float]:
        """Return Elo ratings by member, see `fitted_ratings`; the first learner's first copy: 1000.

        Before there is a copy it is the first learner who has 1000.
        """
        players = self.payoffs.players
        rated = fitted_ratings(self.payoffs.scores, self.payoffs.games)
        anchor = self.copies[0].policy_id if self.copies else players[0]
        rated += rated[0] - rated[players.index(anchor)]
        return dict(zip(players, rated.tolist(), strict=True))

    # ------------------------------------------------------------------ decisions

    def due(self, iteration: int) -> list[str]:
        """Return the learners that are to be frozen after an iteration."""
        return [learner for learner in self.config.learners if self._is_due(learner, iteration)]

    def _is_due(self, learner: str, iteration: int) -> bool:
        every, threshold = self.config.freeze_every, self.config.freeze_at_win_rate
        if every is not None and iteration - self._frozen_at[learner] >= every:
            return True
        recent = self._recent[learner]
        return (
            threshold is not None
            and len(recent) == recent.maxlen
            and self.win_rate(learner) >= threshold
        )

    def restarts(self, learner: str, iteration: int) -> bool:
        """Tell whether a learner that was just frozen goes back to its first weights."""
        role = self.config.learners[learner]
        if role != LEAGUE_EXPLOITER:
            return role == MAIN_EXPLOITER
        key = (self._seed, iteration, zlib.crc32(learner.encode()))
        (word,) = np.random.SeedSequence(key).generate_state(1)
        return bool(word / 2**32 < self.config.reset_probability)

    def line_ups(self, agents: Sequence[Any]) -> list[dict[str, Any]]:
        """Return who plays for whom: what `policy_mapping_fn` takes.

        All learners have the same share of episodes, and each has each seat in half of its own.

        Args:
            agents: The ids of the two agents.
        """
        first, second = map(str, agents)
        copies = {learner: self.copies_of(learner) for learner in self.config.learners}
        found = []
        for learner in self.config.learners:
            chances = opponents_of(learner, self.config, self.payoffs, copies)
            for opponent, chance in chances.items():
                for seats in ((learner, opponent), (opponent, learner)):
                    policies = dict(zip((first, second), seats, strict=True))
                    found.append({"weight": chance / 2, "policies": policies})
        return found

    # ------------------------------------------------------------------ results and state

    def metrics(self) -> dict[str, float]:
        """Return numbers for results: of the league, and of each learner.

        Its row of the pay-off matrix has the pairs that have met: other learners, and of more
        copies than 20 those that were frozen last.
        """
        rated, players = self.ratings(), self.payoffs.players
        rates, games = self.payoffs.win_rates(), self.payoffs.games
        opponents = [*self.config.learners, *(c.policy_id for c in self.copies[-_MOST_TOLD:])]
        found: dict[str, float] = {"league/num_policies": len(players)}
        for learner in self.config.learners:
            found[f"league/{learner}/elo"] = rated[learner]
            found[f"league/{learner}/win_rate"] = self.win_rate(learner)
            found[f"league/{learner}/num_copies"] = len(self.copies_of(learner))
            row = players.index(learner)
            for opponent in opponents:
                column = players.index(opponent)
                if games[row, column]:
                    found[f"league/{learner}/against/{opponent}"] = float(rates[row, column])
        return found

    def get_state(self) -> dict[str, Any]:
        """Return all that later decisions follow from."""
        return {
            "seed": self._seed,
            "payoffs": self.payoffs.get_state(),
            "copies": [list(copy) for copy in self.copies],
            "num_frozen": dict(self._num_frozen),
            "frozen_at": dict(self._frozen_at),
            "recent": {learner: list(recent) for learner, recent in self._recent.items()},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over `get_state`'s.

        Raises:
            ConfigError: if it is no such state; nothing is changed then.
        """
        payoffs = PayOffs(self.config.game_decay)
        try:
            seed = int(state["seed"])
            payoffs.set_state(state["payoffs"])
            copies = [Copy(str(i), str(of), int(steps)) for i, of, steps in state["copies"]]
            num_frozen = {n: int(number) for n, number in state["num_frozen"].items()}
            frozen_at = {n: int(number) for n, number in state["frozen_at"].items()}
            recent = {n: [*map(float, state["recent"][n])] for n in self._recent}
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"the state of a league is damaged: {error!r}; needed: what get_state() returned"
            ) from None
        self._seed, self.payoffs, self.copies = seed, payoffs, copies
        self._num_frozen, self._frozen_at = num_frozen, frozen_at
        for learner, games in self._recent.items():
            games.clear()
            games.extend(recent[learner])
