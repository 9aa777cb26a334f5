"""PPO with several agents with RLlib; runs in the peers' virtual environment (see README.md).

The last line it prints is one JSON object::

    python peer_rllib_agents.py cartpole_dict speed --slots 8
    python peer_rllib_agents.py spread score --agent-steps 300000
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any

# Before Ray starts: workers inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")

import agents_ppo  # type: ignore[import-not-found]  # the neighbour, see there
import ray
import torch
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.multi_agent_env import make_multi_agent
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv


class RLlib:
    """PPO of RLlib on one game, sampled in process."""

    def __init__(self, name: str, game: agents_ppo.Game, seed: int) -> None:
        self._policies = game.policies
        tune.register_env("several_agents", lambda config: made(game, dict(config)))
        self.algo = config(game, seed).build_algo()
        self.env_steps = self.agent_steps = 0

    def iterate(self) -> None:
        """One training iteration."""
        result = self.algo.train()
        self.env_steps = int(result["num_env_steps_sampled_lifetime"])
        by_agent = result["env_runners"]["num_agent_steps_sampled_lifetime"]
        self.agent_steps = int(sum(by_agent.values()))

    def act(self, agent: str, obs: Any) -> int:
        """The greedy action of an agent."""
        module = self.algo.get_module(self._policies[agent])
        with torch.no_grad():
            out = module.forward_inference({"obs": torch.as_tensor(obs)[None]})
        return int(out["action_dist_inputs"].argmax())

    def stop(self) -> None:
        """Ends the algorithm and Ray."""
        self.algo.stop()
        ray.shutdown()


def made(game: agents_ppo.Game, env_config: dict[str, Any]) -> Any:
    """The game, as RLlib's own environment of several agents."""
    if game.module is None:
        return make_multi_agent("CartPole-v1")(env_config)
    return ParallelPettingZooEnv(importlib.import_module(game.module).parallel_env(**env_config))


def config(game: agents_ppo.Game, seed: int) -> PPOConfig:
    """The settings that everyone has."""
    s = game
    return (
        PPOConfig()
        .environment("several_agents", env_config=dict(s.env_config))
        .multi_agent(
            policies=set(s.policies.values()),
            policy_mapping_fn=lambda agent_id, episode, **_: s.policies[str(agent_id)],
        )
        .env_runners(num_env_runners=0, num_envs_per_env_runner=s.slots)
        .training(
            train_batch_size_per_learner=s.batch,
            num_epochs=s.epochs,
            minibatch_size=s.minibatch_size,
            lr=s.lr,
            gamma=s.gamma,
            lambda_=s.lambda_,
            clip_param=s.clip,
            vf_loss_coeff=s.vf_coeff,
            vf_clip_param=float("inf"),
            entropy_coeff=s.entropy_coeff,
            use_kl_loss=False,
            grad_clip=s.max_grad_norm,
        )
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=list(s.network), fcnet_activation="tanh", vf_share_layers=False
            )
        )
        .debugging(seed=seed, log_level="ERROR")
    )


def start(name: str, game: agents_ppo.Game, seed: int) -> RLlib:
    """Starts Ray, then makes the algorithm."""
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    return RLlib(name, game, seed)


def score(name: str, contestant: RLlib, episodes: int) -> agents_ppo.Result:
    """How what was trained plays."""
    return agents_ppo.scored(agents_ppo.GAMES[name], contestant.act, episodes)


if __name__ == "__main__":
    agents_ppo.main("rllib", start, score)
