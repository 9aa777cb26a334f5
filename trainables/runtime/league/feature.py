"""A league as a feature: what it decides, done to an algorithm's policies."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainables.core.config.agents.league import first_copy, first_line_up
from trainables.core.config.agents.module_overrides import merge_overrides
from trainables.core.config.policies import LeagueConfig, PolicySpec, all_policies
from trainables.core.errors import ConfigError
from trainables.core.features import Feature, Running
from trainables.core.logs import logger
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.make import env_name
from trainables.runtime.league.average import AveragePolicy
from trainables.runtime.league.league import League
from trainables.runtime.random_streams import draw_seed, random_streams


class LeaguePlay(Running):
    """Freezes copies of learners, maps agents to learners and copies, and keeps the book.

    Args:
        algorithm: Whose policies play.
        seed: Of the league's draws.

    Attributes:
        book: Members, pay-offs and ratings.

    Raises:
        ConfigError: if its environment is none for a league.
    """

    name = "league"

    def __init__(self, algorithm: Any, seed: int):
        self._algorithm: Callable[[], Any] = weakref.ref(algorithm)  # which has this
        config = algorithm.config
        groups = algorithm.agent_groups
        agents = [agent for group in groups or () for agent in group.agents]
        if len(agents) != 2 or len(groups) != 1:
            raise ConfigError(
                f"league: env {env_name(config.env)!r} has the agents "
                f"{', '.join(map(str, agents)) or 'of one alone'}; allowed: two agents with equal "
                "spaces"
            )
        self._agents: Sequence[Any] = agents
        self.book = League(LeagueConfig.of(config.league), seed)

    def begin(self) -> None:
        """Freeze the initial policies, and let all play from the first episode on.

        An algorithm that is rebuilt from a checkpoint has them: its book is taken over later.
        """
        algorithm = self._algorithm()
        learners = [*self.book.config.learners]
        if first_copy(learners[0]) not in all_policies(algorithm.config):
            self._freeze(learners, [], 0)

    def end_iteration(self) -> dict[str, float]:
        """Count an iteration's games, freeze who is due, and say who plays whom next."""
        algorithm, book = self._algorithm(), self.book
        book.add_games(algorithm.episodes.take_matches())
        iteration = algorithm.iteration + 1
        metrics = book.metrics()
        due = book.due(iteration)
        restarted = [learner for learner in due if book.restarts(learner, iteration)]
        if due:
            self._freeze(due, restarted, iteration)
        else:
            algorithm.policy_changes.map_agents(book.line_ups(self._agents))
        if restarted:
            first = {learner: book.copies_of(learner)[0] for learner in restarted}
            policies = algorithm.policies
            algorithm.set_weights({m: policies[old].get_weights() for m, old in first.items()})
        return metrics

    def _freeze(self, learners: Sequence[str], restarted: Sequence[str], iteration: int) -> None:
        """Add frozen copies of learners, drop those that are too many, and map agents anew."""
        algorithm, book = self._algorithm(), self.book
        config = algorithm.config
        specs = algorithm.policy_changes.specs_with_spaces()
        trained = config.policies_to_train or [m for m, s in specs.items() if not s.is_fixed]
        states = {}
        overrides = config.algorithm_config_overrides_per_module
        for learner in learners:
            new, dropped = book.freeze(learner, iteration, algorithm.num_env_steps_sampled)
            states[new] = algorithm.policies[learner].get_state()
            spec = specs[learner]
            own = merge_overrides(type(config), spec.config, overrides.get(learner, {}))
            specs[new] = PolicySpec(None, spec.observation_space, spec.action_space, own)
            if dropped is not None:
                del specs[dropped]
            if learner in restarted:
                book.restart(learner)
            logger.info("league: froze %s as %s", learner, new)
        line_ups = book.line_ups(self._agents)
        changed = algorithm.policy_changes.changed_config(specs, line_ups, trained)
        algorithm.change_policies(changed, states)

    def get_state(self) -> dict[str, Any]:
        """Return the state of the book."""
        return self.book.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over `get_state`'s."""
        self.book.set_state(state)

    # ------------------------------------------------------------------ what it offers

    def average_policy(self, learner: str) -> AveragePolicy:
        """Return the mixture of a learner's frozen copies, each as likely.

        Raises:
            KeyError: if there is no such learner.
        """
        if learner not in self.book.config.learners:
            raise KeyError(f"no learner {learner!r}; there are {[*self.book.config.learners]}")
        policies: Mapping[str, Policy] = self._algorithm().policies
        return AveragePolicy({m: policies[m] for m in self.book.copies_of(learner)})


class LeagueFeature(Feature):
    """Self-play against frozen copies."""

    def complete(self, config: Any) -> None:
        """Have the first line-up play at first, unless the settings say who plays whom."""
        if config.policy_mapping_fn is None:
            config.policy_mapping_fn = first_line_up(config)

    def set_up(self, algorithm: Any, seed: int) -> LeaguePlay:
        """Return the league of an algorithm."""
        return LeaguePlay(algorithm, draw_seed(random_streams(seed, 0, 0, 2).module))


FEATURE = LeagueFeature()
