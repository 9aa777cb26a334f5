"""BC, MARWIL, CQL and IQL with RLlib's new API stack; runs in the peers' environment (README.md).

The last line it prints is one JSON object::

    python peer_rllib_offline.py marwil score /path/to/data/cartpole/mixed

`bc`, `cql` and `iql` prepare their batches once, before the first update, and go through them
again and again, as is RLlib's default; `bc_anew`, `cql_anew` and `iql_anew` make them again for
each pass. CQL and IQL are here for their speed alone: they take the data's actions as they are, and
their policies' from -1 to 1. BC reads the very Parquet files that ours reads, a row a step; there
the next row has what came next, which CQL and IQL want in each row: these rows are written for them
once more. MARWIL needs whole episodes: from rows it makes episodes of one step, whose returns are
one reward and a value. So it is given what RLlib itself would have recorded with
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
from peer_rllib_off_policy import EqualCatalog  # type: ignore[import-not-found]
from ray.rllib.algorithms.bc import BCConfig
from ray.rllib.algorithms.cql import CQLConfig
from ray.rllib.algorithms.cql.torch.default_cql_torch_rl_module import DefaultCQLTorchRLModule
from ray.rllib.algorithms.iql import IQLConfig
from ray.rllib.algorithms.iql.torch.default_iql_torch_rl_module import DefaultIQLTorchRLModule
from ray.rllib.algorithms.marwil import MARWILConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
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
        spaces = dict(zip(("observation_space", "action_space"), s.spaces, strict=True))
        self.action_space = spaces["action_space"]
        name, _, anew = algorithm.partition("_")
        config = _MAKERS[name](s)
        (
            # Its CQL is made with an env runner, which wants an environment that nobody steps.
            config.environment(s.env_id if name == "cql" else None, **spaces)
            .learners(num_learners=0)
            .training(gamma=s.gamma, train_batch_size_per_learner=s.batch_size)
            .offline_data(dataset_num_iters_per_learner=ITERATION)
            .debugging(seed=s.seed, log_level="ERROR")
        )
        if name == "marwil":
            episodes = episodes_file(s)
            config.offline_data(
                input_=[str(episodes)],
                input_read_episodes=True,
                input_read_batch_size=max(1, round(pq.read_metadata(episodes).num_rows / BLOCKS)),
            )
        else:
            is_bc = name == "bc"
            config.offline_data(
                input_=s.files() if is_bc else [str(rows_file(s))],
                input_read_schema=NAMES,
                ignore_final_observation=is_bc,
                materialize_mapped_data=not anew,
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


def rows_file(settings: ImitationSettings) -> Path:
    """A Parquet file of rows that each have the next observation, too, written once."""
    path = settings.data.with_name(f"{settings.data.name}_rows_rllib.parquet")
    if path.is_file():
        return path
    arrays = settings.arrays()
    ends = arrays["terminated"] | arrays["truncated"]
    episodes = np.cumsum(ends) - ends
    starts = np.flatnonzero(np.append(True, ends[:-1]))
    columns = {
        "episode_id": episodes.astype(str).tolist(),
        "t": np.arange(len(ends)) - starts[episodes],
        "obs": arrays["obs"].tolist(),
        "next_obs": arrays["next_obs"].tolist(),
        "action": arrays["actions"].tolist(),
        "reward": arrays["rewards"],
        "terminated": arrays["terminated"],
        "truncated": arrays["truncated"],
        "agent_id": ["default_agent"] * len(ends),
        "module_id": ["default_policy"] * len(ends),
    }
    pq.write_table(pa.table(columns), path)
    return path


def _tanh_networks(settings: ImitationSettings) -> DefaultModelConfig:
    return DefaultModelConfig(
        fcnet_hiddens=[settings.hidden, settings.hidden],
        fcnet_activation="tanh",
        head_fcnet_hiddens=[],
        vf_share_layers=False,
    )


def _q_networks(settings: ImitationSettings, module_class: type[Any]) -> RLModuleSpec:
    """Two hidden layers of relu units everywhere; see `EqualCatalog`."""
    return RLModuleSpec(
        module_class=module_class,
        catalog_class=EqualCatalog,
        model_config=DefaultModelConfig(
            fcnet_hiddens=[settings.hidden],
            fcnet_activation="relu",
            head_fcnet_hiddens=[settings.hidden],
            head_fcnet_activation="relu",
        ),
    )


def _bc(s: ImitationSettings) -> BCConfig:
    return BCConfig().training(lr=s.lr).rl_module(model_config=_tanh_networks(s))


def _marwil(s: ImitationSettings) -> MARWILConfig:
    config = MARWILConfig().rl_module(model_config=_tanh_networks(s))
    return config.training(
        lr=s.lr, beta=s.beta, moving_average_sqd_adv_norm_update_rate=s.norm_rate
    )


def _cql(s: ImitationSettings) -> CQLConfig:
    config = CQLConfig().rl_module(rl_module_spec=_q_networks(s, DefaultCQLTorchRLModule))
    return config.training(
        lr=None,
        actor_lr=s.lr,
        critic_lr=s.lr,
        alpha_lr=s.lr,
        tau=s.tau,
        target_network_update_freq=0,
        min_q_weight=s.min_q_weight,
        num_actions=s.num_actions,
        bc_iters=s.bc_iters,
        deterministic_backup=True,
    )


def _iql(s: ImitationSettings) -> IQLConfig:
    config = IQLConfig().rl_module(rl_module_spec=_q_networks(s, DefaultIQLTorchRLModule))
    return config.training(
        actor_lr=s.lr,
        critic_lr=s.lr,
        value_lr=s.lr,
        tau=s.tau,
        target_network_update_freq=0,
        beta=s.beta,
        expectile=s.expectile,
    )


_MAKERS = {"bc": _bc, "marwil": _marwil, "cql": _cql, "iql": _iql}
_ANEW = ("bc_anew", "cql_anew", "iql_anew")


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
    args = imitation.arguments(__doc__, (*_MAKERS, *_ANEW))
    torch.set_num_threads(1)
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        imitation.run("rllib", args, lambda settings: RLlib(args.algorithm, settings))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
