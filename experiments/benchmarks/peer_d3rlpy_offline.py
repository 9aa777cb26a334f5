"""BC, CQL and IQL with d3rlpy, without MARWIL there; runs in the peers' environment (README.md).

The last line it prints is one JSON object::

    python peer_d3rlpy_offline.py bc score /path/to/data/cartpole/expert

Its BC of continuous actions is the default one: deterministic, of the squared error. Its CQL of
discrete actions is double DQN with hard target updates, so these come as often as 1 / tau updates.
"""

from __future__ import annotations

import logging
from typing import Any

import d3rlpy  # type: ignore[import-not-found]
import gymnasium as gym
import imitation  # type: ignore[import-not-found]  # the neighbour, see there
import numpy as np
import structlog  # type: ignore[import-not-found]
import torch
from imitation import ImitationSettings

ITERATION = 100


class D3rlpy:
    """`iterate` is 100 updates, batches drawn by its replay buffer."""

    def __init__(self, algorithm: str, settings: ImitationSettings) -> None:
        s = settings
        d3rlpy.seed(s.seed)
        arrays = s.arrays()
        _, action_space = s.spaces
        self.is_discrete = isinstance(action_space, gym.spaces.Discrete)
        actions = arrays["actions"]
        dataset = d3rlpy.dataset.MDPDataset(
            observations=arrays["obs"],
            actions=actions.reshape(len(actions), -1),
            rewards=arrays["rewards"],
            terminals=arrays["terminated"].astype(np.float32),
            timeouts=arrays["truncated"].astype(np.float32),
        )
        scaler = None
        if not self.is_discrete:
            scaler = d3rlpy.preprocessing.MinMaxActionScaler(action_space.low, action_space.high)
        self.algo = _MAKERS[algorithm](s, self.is_discrete, scaler).create()
        self.algo.build_with_dataset(dataset)
        self.dataset, self.updates = dataset, 0

    def iterate(self) -> None:
        """Some updates."""
        for _ in range(ITERATION):
            self.algo.update(self.dataset.sample_transition_batch(self.algo.batch_size))
        self.updates += ITERATION

    def act(self, obs: np.ndarray) -> Any:
        """The greedy action."""
        action = self.algo.predict(obs[None])[0]
        return int(action) if self.is_discrete else action

    def stop(self) -> None:
        """Nothing is held."""


def _encoder(settings: ImitationSettings, activation: str) -> Any:
    sizes = [settings.hidden, settings.hidden]
    return d3rlpy.models.encoders.VectorEncoderFactory(sizes, activation=activation)


def _bc(s: ImitationSettings, is_discrete: bool, scaler: Any) -> Any:
    common = {
        "batch_size": s.batch_size,
        "learning_rate": s.lr,
        "encoder_factory": _encoder(s, "tanh"),
    }
    if is_discrete:
        return d3rlpy.algos.DiscreteBCConfig(**common)
    return d3rlpy.algos.BCConfig(**common, action_scaler=scaler)


def _iql(s: ImitationSettings, is_discrete: bool, scaler: Any) -> Any:
    encoder = _encoder(s, "relu")
    return d3rlpy.algos.IQLConfig(
        batch_size=s.batch_size,
        actor_learning_rate=s.lr,
        critic_learning_rate=s.lr,
        actor_encoder_factory=encoder,
        critic_encoder_factory=encoder,
        value_encoder_factory=encoder,
        gamma=s.gamma,
        tau=s.tau,
        expectile=s.expectile,
        weight_temp=s.beta,
        action_scaler=scaler,
    )


def _cql(s: ImitationSettings, is_discrete: bool, scaler: Any) -> Any:
    encoder = _encoder(s, "relu")
    if is_discrete:
        return d3rlpy.algos.DiscreteCQLConfig(
            batch_size=s.batch_size,
            learning_rate=s.lr,
            encoder_factory=encoder,
            gamma=s.gamma,
            n_critics=2,
            target_update_interval=round(1 / s.tau),
            alpha=s.min_q_weight,
        )
    return d3rlpy.algos.CQLConfig(
        batch_size=s.batch_size,
        actor_learning_rate=s.lr,
        critic_learning_rate=s.lr,
        temp_learning_rate=s.lr,
        alpha_learning_rate=0.0,  # the weight stays what it is
        actor_encoder_factory=encoder,
        critic_encoder_factory=encoder,
        gamma=s.gamma,
        tau=s.tau,
        n_critics=2,
        conservative_weight=s.min_q_weight,
        n_action_samples=s.num_actions,
        action_scaler=scaler,
    )


_MAKERS = {"bc": _bc, "cql": _cql, "iql": _iql}


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    args = imitation.arguments(__doc__, tuple(_MAKERS))
    torch.set_num_threads(1)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    imitation.run("d3rlpy", args, lambda settings: D3rlpy(args.algorithm, settings))


if __name__ == "__main__":
    main()
