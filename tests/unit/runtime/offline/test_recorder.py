"""The rows recorded are the rows sampled, to the bit, through every format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from telling_env import Happened, Key, TellingVectorEnv, where_of

from trainables import PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.policy.policy import Policy
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.output import OutputPlan
from trainables.runtime.sampling.env_runner import EnvRunner


def runner_of(
    env: TellingVectorEnv,
    folder: Path | str,
    config: AlgorithmConfig | None = None,
    **settings: Any,
) -> EnvRunner:
    """An env runner in `env` that records to a folder."""
    given = {"env": "unused", "output": str(folder), **settings}
    config = config or PPOConfig.from_dict(given)
    policy = Policy(env.single_observation_space, env.single_action_space, seed=1)
    seed = np.random.SeedSequence(env.runner)
    runner = EnvRunner(config, {DEFAULT_MODULE_ID: policy}, env, seed, env.runner)
    runner.write_output(OutputPlan(str(folder), str(folder), "trial", "Telling-v0"))
    return runner


def read(folder: Path, spaces: DataSpaces, format: str = "parquet") -> Iterator[Episode]:
    if format == "minari":
        for data_set in sorted(path for path in folder.iterdir() if path.is_dir()):
            yield from find_source(f"minari:{data_set}").episodes(spaces)
        return
    yield from find_source(folder).episodes(spaces)


def check(kind: str, found: list[Episode], happened: dict[Key, Happened]) -> None:
    """See that episodes are what happened, each once."""
    keys = [tuple(where_of(kind, episode.obs[0])[:3].astype(int).tolist()) for episode in found]
    assert len(set(keys)) == len(keys) and set(keys) == set(happened)
    assert len({episode.episode_id for episode in found}) == len(found)
    for key, episode in zip(keys, found, strict=True):
        truth = happened[key]
        assert episode.obs.dtype == truth.obs.dtype and episode.actions.dtype == truth.actions.dtype
        np.testing.assert_array_equal(episode.obs, truth.obs)
        np.testing.assert_array_equal(episode.actions, truth.actions)
        np.testing.assert_array_equal(episode.rewards, truth.rewards)
        assert (episode.terminated, episode.truncated) == (truth.terminated, truth.truncated)
        assert where_of(kind, episode.obs)[:, 3].tolist() == list(range(len(episode) + 1))


@pytest.mark.parametrize(
    ("format", "kind", "length"),
    [
        ("parquet", "nested", 300),
        ("parquet", "continuous", 20),
        ("parquet", "masked", 20),
        ("json", "nested", 300),
        ("json", "continuous", 20),
        ("json", "masked", 20),
        ("minari", "tree", 300),  # it alters images
        ("minari", "continuous", 20),
        ("minari", "masked", 20),
    ],
)
def test_what_is_recorded_is_what_happened(
    format: str, kind: str, length: int, tmp_path: Path
) -> None:
    """Up to 1,000 random episodes of three env runners, some of them crashed or not ended."""
    envs = [TellingVectorEnv(kind, runner, crash_share=0.01) for runner in range(3)]
    compressed = ["obs", "rewards"] if kind == "nested" else []
    settings = {"output_config": {"format": format}, "output_compress_columns": compressed}
    logp: dict[tuple[int, ...], float] = {}
    for env in envs:
        runner = runner_of(env, tmp_path, **settings)
        for num_steps in (1, 1, 7, length, 2, length // 2, 10):
            rollout = runner.sample(num_steps)[0][DEFAULT_MODULE_ID]
            places = where_of(kind, rollout.obs[:-1])[rollout.valid].astype(int).tolist()
            logp |= dict(zip(map(tuple, places), rollout.logp[rollout.valid], strict=True))
        env.cut()
        runner.stop()
    happened = {key: truth for env in envs for key, truth in env.happened.items()}
    assert len(happened) > (1000 if length == 300 else 80)
    ends = {(truth.terminated, truth.truncated) for truth in happened.values()}
    assert len(ends) == 4
    found = list(read(tmp_path, envs[0].spaces, format))
    check(kind, found, happened)
    if format == "minari":  # it has no room for them
        return
    for episode in found:
        places = where_of(kind, episode.obs[:-1]).astype(int).tolist()
        assert episode.logp is not None
        np.testing.assert_array_equal(episode.logp, [logp[tuple(place)] for place in places])
