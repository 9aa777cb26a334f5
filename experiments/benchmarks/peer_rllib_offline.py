"""BC and MARWIL with RLlib's new API stack; runs in the peers' environment (see README.md).

The last line it prints is one JSON object::

    python peer_rllib_offline.py marwil score /path/to/data/cartpole/mixed

`bc` prepares its batches once, before the first update, and goes through them again and again, as
is RLlib's default; `bc_anew` makes them again for each pass. Both read the very Parquet files that
ours reads, a row a step. MARWIL needs whole episodes: from rows it makes episodes of one step,
whose returns are one reward and a value. So it is given what RLlib itself would have recorded with
`output_write_episodes`, made of the same rows.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

# Before Ray starts: workers inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")

import gymnasium as gym
import imitation  # type: ignore[import-not-found]  # the neighbour, see there
import msgpack
import msgpack_numpy  # type: ignore[import-not-found]
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
import torch
from imitation import ImitationSettings
from ray.rllib.algorithms.bc import BCConfig
from ray.rllib.algorithms.marwil import MARWILConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

ITERATION = 100
# Parts in which MARWIL reads its episodes. It makes one batch of each, whatever rows are in it: a
# pass over few parts would soon be over, and its actors be started anew.
BLOCKS = 48
NAMES = {
    "eps_id": "episode_id",
    "obs": "obs",
    "new_obs": "next_obs",
    "t": "t",
    "agent_id": "agent_id",
    "module_id": "module_id",
    "actions": "action",
    "rewards": "reward",
    "terminateds": "terminated",
    "truncateds": "truncated",
}
"""RLlib's columns, and what ours are called."""


class RLlib:
    """An algorithm of RLlib; `iterate` is one `train()` of 100 updates."""

    def __init__(self, algorithm: str, settings: ImitationSettings) -> None:
        s = settings
        observation_space, self.action_space = s.spaces
        is_bc = algorithm in ("bc", "bc_anew")
        config: MARWILConfig = BCConfig() if is_bc else MARWILConfig()
        (
            config.environment(observation_space=observation_space, action_space=self.action_space)
            .learners(num_learners=0)
            .training(lr=s.lr, gamma=s.gamma, train_batch_size_per_learner=s.batch_size)
            .rl_module(
                model_config=DefaultModelConfig(
                    fcnet_hiddens=[s.hidden, s.hidden],
                    fcnet_activation="tanh",
                    head_fcnet_hiddens=[],
                    vf_share_layers=False,
                )
            )
            .debugging(seed=s.seed, log_level="ERROR")
        )
        config.offline_data(dataset_num_iters_per_learner=ITERATION)
        if is_bc:
            config.offline_data(
                input_=s.files(),
                input_read_schema=NAMES,
                ignore_final_observation=True,
                materialize_mapped_data=algorithm == "bc",
            )
        else:
            config.training(beta=s.beta, moving_average_sqd_adv_norm_update_rate=s.norm_rate)
            episodes = episodes_file(s)
            config.offline_data(
                input_=[str(episodes)],
                input_read_episodes=True,
                input_read_batch_size=max(1, round(pq.read_metadata(episodes).num_rows / BLOCKS)),
            )
        self.algo = config.build_algo()
        # `get_module` looks for it on env runners, of which there are none without an environment.
        self.module = self.algo.learner_group._learner.module["default_policy"]
        self.rows, self.updates = s.batch_size, 0

    def iterate(self) -> None:
        """One training iteration."""
        self.algo.train()
        self.updates += ITERATION

    @torch.no_grad()
    def act(self, obs: np.ndarray) -> Any:
        """The greedy action."""
        inputs = {"obs": torch.from_numpy(obs)[None]}
        out = self.module.forward_inference(inputs)["action_dist_inputs"][0].numpy()
        if isinstance(self.action_space, gym.spaces.Discrete):
            return int(out.argmax())
        return out[: len(out) // 2].clip(self.action_space.low, self.action_space.high)

    def stop(self) -> None:
        """Ends the algorithm's actors."""
        self.algo.stop()


def episodes_file(settings: ImitationSettings) -> Path:
    """A Parquet file of whole episodes in RLlib's serialisation, written once."""
    path = settings.data.with_name(f"{settings.data.name}_rllib.parquet")
    if path.is_file():
        return path
    arrays = settings.arrays()
    observation_space, action_space = settings.spaces
    states: list[bytes] = []
    start = 0
    for end in np.flatnonzero(arrays["terminated"] | arrays["truncated"]) + 1:
        rows = slice(start, end)
        episode = SingleAgentEpisode(
            observations=[*arrays["obs"][rows], arrays["next_obs"][end - 1]],
            actions=[*arrays["actions"][rows]],
            rewards=arrays["rewards"][rows].tolist(),
            terminated=bool(arrays["terminated"][end - 1]),
            truncated=bool(arrays["truncated"][end - 1]),
            observation_space=observation_space,
            action_space=action_space,
            len_lookback_buffer=0,
        )
        episode.to_numpy()
        states.append(msgpack.packb(episode.get_state(), default=msgpack_numpy.encode))
        start = int(end)
    pq.write_table(pa.table({"item": states}), path)
    return path


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    args = imitation.arguments(__doc__, ("bc", "bc_anew", "marwil"))
    torch.set_num_threads(1)
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        imitation.run("rllib", args, lambda settings: RLlib(args.algorithm, settings))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
