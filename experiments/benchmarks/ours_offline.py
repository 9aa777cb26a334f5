"""BC, MARWIL, CQL and IQL with Tunescape itself, and SAC on data, which is not made for them.

The last line it prints is one JSON object::

    python ours_offline.py bc speed /path/to/data/cartpole/expert
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import imitation  # type: ignore[import-not-found]  # the neighbour, see there
import numpy as np
import torch
from imitation import ImitationSettings

from trainables import BCConfig, CQLConfig, IQLConfig, MARWILConfig, SACConfig

_CONFIGS: dict[str, Any] = {
    "bc": BCConfig,
    "cql": CQLConfig,
    "iql": IQLConfig,
    "marwil": MARWILConfig,
    "sac": SACConfig,
}


class Ours:
    """An algorithm of Tunescape; `iterate` is one `train()` of 100 updates."""

    def __init__(self, algorithm: str, settings: ImitationSettings) -> None:
        s = settings
        config = _CONFIGS[algorithm]()
        observation_space, action_space = s.spaces
        config.environment(observation_space=observation_space, action_space=action_space)
        config.training(lr=s.lr, gamma=s.gamma, train_batch_size_per_learner=s.batch_size)
        config.training(model={"fcnet_hiddens": [s.hidden, s.hidden]})
        config.offline_data(input_=str(s.data), dataset_num_iters_per_learner=100)
        if algorithm == "marwil":
            config.training(beta=s.beta, moving_average_sqd_adv_norm_update_rate=s.norm_rate)
        if algorithm in ("cql", "iql", "sac"):
            config.training(tau=s.tau)
        if algorithm == "iql":
            config.training(beta=s.beta, expectile=s.expectile)
        if algorithm == "cql":
            config.training(min_q_weight=s.min_q_weight, bc_iters=s.bc_iters)
            if isinstance(action_space, gym.spaces.Box):
                config.training(num_actions=s.num_actions)
        self.algo = config.debugging(seed=s.seed).build()
        self.updates = 0

    def iterate(self) -> None:
        """One training iteration."""
        self.updates = self.algo.train()["num_updates_lifetime"]

    def act(self, obs: np.ndarray) -> Any:
        """The greedy action."""
        return self.algo.compute_single_action(obs, explore=False)

    def stop(self) -> None:
        """Ends the algorithm."""
        self.algo.stop()


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    args = imitation.arguments(__doc__, tuple(_CONFIGS))
    torch.set_num_threads(1)
    imitation.run("ours", args, lambda settings: Ours(args.algorithm, settings))


if __name__ == "__main__":
    main()
