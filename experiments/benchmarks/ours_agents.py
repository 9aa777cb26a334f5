"""PPO with several agents with Tunescape itself.

The last line it prints is one JSON object::

python ours_agents.py cartpole speed --slots 8
python ours_agents.py spread score --agent-steps 300000
"""

from __future__ import annotations

from typing import Any

import agents_ppo  # type: ignore[import-not-found]  # the neighbour, see there
import numpy as np

from trainables import PolicySpec, PPOConfig
from trainables.runtime.envs.multi_agent.independent_agents import make_multi_agent

RANDOM, LEARNER = "random", "learner"


class Ours:
    """PPO of Tunescape on one game."""

    def __init__(self, name: str, game: agents_ppo.Game, seed: int) -> None:
        self._policies, self._is_in_turns = game.policies, name == "tictactoe"
        self.algo = config(name, game).debugging(seed=seed).build()
        self.env_steps = self.agent_steps = 0

    def iterate(self) -> None:
        """One training iteration."""
        self.algo.train()
        self.env_steps = self.algo.num_env_steps_sampled
        # Of the policies that learn, each row of which is learned from.
        self.agent_steps = self.algo.num_env_steps_trained

    def act(self, agent: str, obs: Any) -> int:
        """The greedy action of an agent."""
        policy = LEARNER if self._is_in_turns else self._policies[agent]
        return int(self.algo.compute_single_action(obs, policy_id=policy, explore=False))

    def stop(self) -> None:
        """Ends the algorithm."""
        self.algo.stop()


def config(name: str, game: agents_ppo.Game) -> PPOConfig:
    """The settings that everyone has."""
    s = game
    env: Any = f"pettingzoo:{s.module}".replace("pettingzoo:pettingzoo.", "pettingzoo:")
    if s.module is None:
        is_dict = name == "cartpole_dict"
        env = make_multi_agent("CartPole-v1") if is_dict else "multi_agent_cartpole"
    model = {"fcnet_hiddens": list(s.network), "fcnet_activation": "tanh", "vf_share_layers": False}
    if name == "images":
        model |= {"conv_filters": [[16, 8, 8], [32, 4, 4], [32, 3, 2]], "vf_share_layers": True}
    policies = {policy: PolicySpec() for policy in s.policies.values()}
    if RANDOM in policies:
        policies[RANDOM] = PolicySpec(policy_class=RANDOM)
    return (
        PPOConfig()
        .environment(env, env_config=dict(s.env_config))
        .multi_agent(
            policies=policies,
            policy_mapping_fn=in_turns if name == "tictactoe" else dict(s.policies),
        )
        .env_runners(num_envs_per_env_runner=s.slots)
        .training(
            train_batch_size_per_learner=s.batch,
            num_epochs=s.epochs,
            minibatch_size=s.minibatch_size,
            lr=s.lr,
            gamma=s.gamma,
            lambda_=s.lambda_,
            clip_param=s.clip,
            vf_loss_coeff=s.vf_coeff,
            entropy_coeff=s.entropy_coeff,
            grad_clip=s.max_grad_norm,
            model=model,
        )
        .evaluation(evaluation_duration=100)
    )


def in_turns(agent_id: str, episode: Any, **_: Any) -> str:
    """The learner is the first player in every other episode, else the second."""
    return LEARNER if agent_id == f"player_{1 + episode.episode_id % 2}" else RANDOM


def score(name: str, contestant: Ours, episodes: int) -> agents_ppo.Result:
    """How what was trained plays: by policy on cart poles, else the game itself."""
    if name == "images":
        return {"returns": []}  # whether it runs was the question
    game = agents_ppo.GAMES[name]
    if game.module is not None:
        result: agents_ppo.Result = agents_ppo.scored(game, contestant.act, episodes)
        return result
    played = contestant.algo.evaluate(episodes_to_play(episodes))
    found = {
        p: played[f"module/{p}/episode_return_mean"] for p in sorted({*game.policies.values()})
    }
    assert all(np.isfinite(value) for value in found.values()), found
    return {"by_policy": found}


def episodes_to_play(episodes: int) -> Any:
    """For `evaluate`: as many, and no more."""
    return lambda played: max(0, episodes - played)


if __name__ == "__main__":
    agents_ppo.main("ours", Ours, score)
