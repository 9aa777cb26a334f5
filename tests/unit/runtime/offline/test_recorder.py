"""The rows recorded are the rows sampled, to the bit, through every format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest
from telling_env import Happened, Key, TellingVectorEnv, where_of
from torch import Tensor
from two_policies import TwoPolicies

from trainables import DQNConfig, PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.runtime.offline.episode import DataError, DataSpaces, Episode
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.io_context import IOContext
from trainables.runtime.offline.output import OutputPlan
from trainables.runtime.offline.recorder import RolloutRecorder
from trainables.runtime.sampling.env_runner import EnvRunner


def runner_of(
    env: TellingVectorEnv,
    folder: Path | str,
    config_class: type[AlgorithmConfig] = PPOConfig,
    **settings: Any,
) -> EnvRunner:
    """An env runner in `env` that records to a folder."""
    config = config_class.from_dict({"env": "unused", "output": str(folder) or None, **settings})
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


later = pytest.mark.full


@pytest.mark.parametrize(
    ("format", "kind", "length"),
    [
        ("parquet", "nested", 10),
        pytest.param("parquet", "nested", 90, marks=later),
        pytest.param("parquet", "continuous", 10, marks=later),
        ("parquet", "masked", 10),
        ("json", "nested", 10),
        ("json", "continuous", 10),
        pytest.param("json", "masked", 10, marks=later),
        pytest.param("minari", "tree", 90, marks=pytest.mark.slow),  # it alters images
        ("minari", "continuous", 10),
        pytest.param("minari", "masked", 10, marks=later),
    ],
)
def test_what_is_recorded_is_what_happened(
    format: str, kind: str, length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to 1,000 random episodes of three env runners, some of them crashed or not ended."""
    slots = 6 if (format, length) == ("minari", 10) else 16  # it is slow with each episode
    envs = [TellingVectorEnv(kind, runner, slots, crash_share=0.01) for runner in range(3)]
    compressed = ["obs", "rewards"] if kind == "nested" else []
    settings: dict[str, Any] = {"output_config": {"format": format}}
    settings["output_compress_columns"] = compressed
    logp: dict[tuple[int, ...], float] = {}
    known_logp = RolloutRecorder._logp

    def noted(self: RolloutRecorder, rollout: Rollout, inputs: Tensor | None) -> np.ndarray:
        known = known_logp(self, rollout, inputs)
        assert known is not None
        places = where_of(kind, rollout.obs[:-1])[rollout.valid].astype(int).tolist()
        logp.update(zip(map(tuple, places), known[rollout.valid], strict=True))
        return known

    monkeypatch.setattr(RolloutRecorder, "_logp", noted)
    for env in envs:
        runner = runner_of(env, tmp_path, **settings)
        for num_steps in (1, 1, 7, length, 2, length // 2, 10):
            runner.sample(num_steps)
        env.cut()
        runner.stop()
    happened = {key: truth for env in envs for key, truth in env.happened.items()}
    assert len(happened) > (1000 if length == 90 else 5 * slots)
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


def test_a_checkpoint_finds_what_has_ended_in_whole_files(tmp_path: Path) -> None:
    env = TellingVectorEnv("plain")
    runner = runner_of(env, tmp_path)
    runner.sample(50)
    assert not tmp_path.exists() or not list(tmp_path.glob("*.parquet"))
    runner.get_state()
    ended = dict(env.happened)
    check("plain", list(read(tmp_path, env.spaces)), ended)
    runner.sample(50)
    env.cut()
    runner.stop()
    check("plain", list(read(tmp_path, env.spaces)), env.happened)


def test_a_reset_cuts_what_runs(tmp_path: Path) -> None:
    env = TellingVectorEnv("plain")
    runner = runner_of(env, tmp_path)
    runner.sample(20)
    env.cut()
    env.runner = 1
    runner.reseed(np.random.SeedSequence(5))
    runner.sample(20)
    env.cut()
    runner.stop()
    check("plain", list(read(tmp_path, env.spaces)), env.happened)


def test_a_restored_episode_begins_with_its_present_step(tmp_path: Path) -> None:
    """Its beginning was sampled by another life of the env runner."""
    config = {"env": "fakes:limited_walk", "num_envs_per_env_runner": 1, "seed": 0}
    config["minibatch_size"] = None
    with PPOConfig.from_dict({**config, "train_batch_size_per_learner": 25}).build() as algo:
        algo.sample()  # an episode of 17 steps, a row that resets, and 7 steps
        state = algo.get_state()
    given = {**config, "train_batch_size_per_learner": 12, "output": str(tmp_path)}
    with PPOConfig.from_dict(given).build() as algo:
        algo.set_state(state)
        algo.sample()
        spaces = DataSpaces(algo.get_policy().observation_space, algo.get_policy().action_space)
    first, second = read(tmp_path, spaces)
    assert first.first_step == 7 and (first.terminated or first.truncated)
    assert second.first_step == 0
    assert len(first) + len(second) == 12 - 1  # a row only resets


def test_rows_of_modules_say_whose_they_are(tmp_path: Path) -> None:
    config = {"env": "CartPole-v1", "num_envs_per_env_runner": 3, "output": str(tmp_path)}
    with TwoPolicies(config=PPOConfig.from_dict(config)) as algo:
        rollouts = algo.sample()
    table = pq.read_table(tmp_path).to_pandas()
    steps = {module_id: rollout.num_env_steps for module_id, rollout in rollouts.items()}
    assert len(steps) == 2
    assert table.module_id.value_counts().to_dict() == steps
    assert (table.groupby("episode_id").module_id.nunique() == 1).all()


def test_without_probabilities_none_are_written(tmp_path: Path) -> None:
    env = TellingVectorEnv("plain")
    runner = runner_of(env, tmp_path, DQNConfig)
    runner.sample(50)
    runner.stop()
    assert all(episode.logp is None for episode in read(tmp_path, env.spaces))


# ------------------------------------------------------------------ writers of one's own


class Keeps:
    """A writer of one's own."""

    made: ClassVar[list[Keeps]] = []

    def __init__(self, context: IOContext):
        self.context, self.written, self.is_closed = context, list[dict[str, Any]](), False
        Keeps.made.append(self)

    def write(self, columns: dict[str, Any]) -> None:
        self.written.append(columns)

    def close(self) -> None:
        self.is_closed = True


def test_a_writer_of_ones_own_gets_columns() -> None:
    Keeps.made.clear()
    env = TellingVectorEnv("nested")
    runner = runner_of(env, "", output=Keeps, output_config={"mine": 3})
    runner.sample(50)
    env.cut()
    runner.stop()
    [writer] = Keeps.made
    assert writer.is_closed and writer.context.output_config == {"mine": 3}
    assert writer.context.worker is runner and writer.context.worker_index == 0
    assert len(writer.written) == len(env.happened)
    for columns in writer.written:
        where = columns["obs"]["told"][0]
        truth = env.happened[tuple(where[0, :3].astype(int).tolist())]
        np.testing.assert_array_equal(columns["new_obs"]["image"], truth.obs["image"][1:])
        np.testing.assert_array_equal(columns["actions"]["push"], truth.actions["push"])
        np.testing.assert_array_equal(columns["rewards"], truth.rewards)
        assert columns["terminateds"].tolist() == [False] * (len(where) - 1) + [truth.terminated]
        assert columns["t"].tolist() == where[:, 3].tolist()
        assert columns["action_logp"].shape == columns["rewards"].shape


class Full(Keeps):
    """One whose disk is full."""

    def write(self, columns: dict[str, Any]) -> None:
        raise OSError(28, "No space left on device", "/data/x.json")


def test_an_error_of_writing_ends_training_with_one_message() -> None:
    env = TellingVectorEnv("plain")
    runner = runner_of(env, "", output=Full)
    says = "output: .*Full.* cannot be written: .*No space left on device.*/data/x.json"
    with pytest.raises(DataError, match=says):
        for _ in range(10):
            runner.sample(1000)
    with pytest.raises(DataError, match=says):
        runner.get_state()
    with pytest.raises(DataError, match=says):
        runner.stop()


def test_what_writes_nothing_is_refused() -> None:
    runner = runner_of(TellingVectorEnv("plain"), "", output=lambda context: 3)
    runner.sample(10)
    with pytest.raises(ConfigError, match=r"returned int; allowed: an OutputWriter"):
        runner.stop()
