"""`HumanTable`: where a human plays a policy, one game after another, by typing actions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from experiments.commands.evaluation.human.shown_observation import marks_text, observation_text
from experiments.commands.evaluation.human.typed_action import (
    NotAnAction,
    allowed_text,
    read_action,
)
from experiments.terminal import say
from trainables.core.config.rules import JOINT_OBS
from trainables.core.data.episode_base import row_of
from trainables.core.policy.fixed_policy import FixedPolicy, PlayEnded
from trainables.runtime.evaluation.agents_watch import AgentsWatch
from trainables.runtime.sampling.agents.group_arrays import leaves

if TYPE_CHECKING:
    from rich.console import Console

    from trainables.core.data.agents_episode import AgentsEpisode
    from trainables.runtime.envs.multi_agent.vector_env import (
        AgentGroup,
        AgentsStep,
        AgentsVectorEnv,
    )
    from trainables.runtime.evaluation.watch import Outcome

LEAVE = "q"


class HumanTable(AgentsWatch):
    """Shows a game in one slot, and asks for actions.

    Args:
        console: Where it is shown, and typed.
        num_games: Games that are to be played.
        policy_id: The policy that the human plays against.
        mask_key: The key of a Dict observation that says which actions are allowed.

    Attributes:
        has_left: Whether the human has ended it.
    """

    def __init__(self, console: Console, num_games: int, policy_id: str, mask_key: str):
        self._console, self._num_games = console, num_games
        self._policy_id, self._mask_key = policy_id, mask_key
        self._groups: Sequence[AgentGroup] = ()
        self._env: Any = None
        self._last: AgentsStep | None = None
        self._number = 0
        self._told: set[Hashable] = set()
        self.has_left = False

    def policy_class(self) -> type[FixedPolicy]:
        """Return the class of a policy that asks here what to do."""
        table = self

        class Human(FixedPolicy):
            def compute_actions(
                self, observations: Any, rng: np.random.Generator, masks: np.ndarray | None = None
            ) -> Any:
                return np.stack(
                    [
                        table._ask(
                            agent,
                            row_of(observations, row),
                            self.action_space,
                            None if masks is None else np.asarray(masks[row]).ravel() != 0,
                        )
                        for row, agent in enumerate(self.asked)
                    ]
                )

        return Human

    # ------------------------------------------------------------------ the game

    def enter(self, env: AgentsVectorEnv) -> None:
        self._env = env

    def begin(self, groups: Sequence[AgentGroup], seeds: Sequence[int]) -> None:
        self._groups, self._last = groups, None
        self._number += 1
        self._told = set()
        self._say("")
        self._say(f"Game {self._number} of {self._num_games}", "bold underline")

    def act(
        self,
        shown: AgentsStep,
        actions: list[Any],
        episodes: Sequence[AgentsEpisode],
        runs: np.ndarray,
    ) -> None:
        policy_of = episodes[0].policy_of
        for group, rows, done in zip(self._groups, shown.groups, actions, strict=True):
            for place in np.flatnonzero(rows.acts).tolist():
                agent = group.agents[place]
                if policy_of[agent] == self._policy_id:
                    words = [_words(leaf[place]) for leaf in leaves(done)]
                    self._say(f"{self._policy_id}, {agent}: {', '.join(words)}", "bold")

    def step(self, step: AgentsStep, is_over: np.ndarray) -> None:
        self._last = step

    def ended(self, slot: int, episode: AgentsEpisode, outcome: Outcome) -> None:
        returns = episode.returns
        policies = episode.policy_of
        own = {agent: r for agent, r in returns.items() if policies[agent] != self._policy_id}
        theirs = [r for agent, r in returns.items() if agent not in own]
        self._show_end([*own])
        lead = max(own.values(), default=0.0) - max(theirs, default=0.0)
        said, style = "It is a draw", "yellow"
        if lead:
            said, style = ("You have won", "green") if lead > 0 else ("You have lost", "red")
        told = ", ".join(f"{agent} {total:g}" for agent, total in returns.items())
        self._say(f"{said}. Returns: {told}.", style)

    def _show_end(self, agents: Sequence[Hashable]) -> None:
        """Show what a human's agent saw last."""
        if self._last is None:
            return
        for group, rows in zip(self._groups, self._last.groups, strict=True):
            for place, agent in enumerate(group.agents):
                if agent in agents:
                    self._show(row_of(rows.obs, place), None)
                    return

    # ------------------------------------------------------------------ asking

    def _ask(
        self, agent: Hashable, observation: Any, space: gym.Space, mask: np.ndarray | None
    ) -> np.ndarray:
        """Return the action that is typed for an agent.

        Raises:
            PlayEnded: The human leaves.
        """
        if agent not in self._told:
            marks = "" if self._drawn() is not None else f" {marks_text(observation)}"
            self._say(f"You are {agent}. Type an action, or {LEAVE} to leave.{marks.rstrip()}")
            self._told.add(agent)
        if mask is None or not mask.any():  # where a mask allows nothing, nothing is refused
            mask = np.ones(int(space.n), bool) if isinstance(space, gym.spaces.Discrete) else None
        self._show(observation, mask)
        while True:
            try:
                prompt = f"{agent}, your action ({allowed_text(space, mask)}): "
                self._console.print(prompt, end="", markup=False, highlight=False, style="cyan")
                text = input()
            except (EOFError, KeyboardInterrupt):
                self._say("")
                text = LEAVE
            if text.strip().lower() == LEAVE:
                self.has_left = True
                raise PlayEnded
            try:
                return read_action(text, space, mask)
            except NotAnAction as error:
                self._say(str(error), "red")

    def _show(self, observation: Any, mask: np.ndarray | None) -> None:
        """Show the game as its environment draws it as text, or else as an agent sees it.

        Args:
            observation: What an agent sees, not batched.
            mask: Which discrete actions are allowed.
        """
        drawn = self._drawn()
        hidden = (self._mask_key, JOINT_OBS)  # the latter is nothing to act by
        self._say(drawn if drawn is not None else observation_text(observation, mask, hidden))

    def _drawn(self) -> str | None:
        env = getattr(self._env, "env", self._env)  # below joint observations
        own = next(iter(getattr(env, "envs", ())), None)
        if own is None or getattr(own, "render_mode", None) != "ansi":
            return None
        drawn = own.render()
        return drawn if isinstance(drawn, str) else None

    def _say(self, text: str, style: str | None = None) -> None:
        say(self._console, text, style)


def _words(action: Any) -> str:
    return " ".join(f"{value:g}" for value in np.asarray(action).ravel())
