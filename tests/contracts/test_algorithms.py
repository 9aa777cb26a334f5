"""What every algorithm must do. A new algorithm passes this suite before anything else."""

from __future__ import annotations

import ast
import gc
import json
import math
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import torch
from cloning import cloning_is_known
from every_row import check_rows
from fakes import discrete_pendulum
from short_runs import EPISODES, short_settings_of
from small_runs import (
    actions_in,
    compares_actions,
    home,
    learns_from_replay,
    samples,
    trusted,
    without_clocks,
)
from tiers import rarely

import trainables
from experiments.commands.evaluation.evaluate import evaluate_folder
from search_spaces import load_space
from trainables import Algorithm, Policy
from trainables.core.config.config import DEFAULT_MODULE_ID as MODULE
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm, is_ours, name_of
from trainables.runtime.actors.feasibility import placement_problem

ALL = [*algorithm_names(), "Cloning"]
FEW = ["Cloning", "DQN", "PPO"]
"""Of rollouts, of replay, and without an environment: for what no algorithm does by itself."""
FILTERED = {"observation_filter": "MeanStdFilter"}

few = pytest.mark.parametrize("name", FEW)
few_at_first = pytest.mark.parametrize("name", rarely(ALL, FEW))
few_that_play = pytest.mark.parametrize("name", ["DQN", "PPO"])


@pytest.fixture(scope="module", autouse=True)
def known() -> Iterator[None]:
    """An algorithm whose training steps no environment, beside ours."""
    with cloning_is_known():
        yield


def build(name: str, env: Any = "CartPole-v1", **more: Any) -> Algorithm:
    return get_algorithm(name)(config=short_settings_of(name, env, **more))


def endless(name: str) -> dict[str, Any]:
    """Episodes without an end, and little training between their steps."""
    quick = {"training_intensity": 0.25} if learns_from_replay(name) else {"num_epochs": 1}
    return {"env": "fakes:EndlessEnv", "env_config": {"horizon": 10**9}, **quick}


def weights(algo: Algorithm) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = algo.get_weights()[MODULE]
    return found


def told(result: dict[str, Any]) -> dict[str, Any]:
    """What of a result a resumed run must repeat: its config may come from elsewhere."""
    return {key: value for key, value in without_clocks(result).items() if key != "config"}


def as_trial(algo: Algorithm, trial_id: str) -> Algorithm:
    """As if Tune ran it: a trial with an id."""
    algo._trial_info = SimpleNamespace(trial_id=trial_id, trial_name=trial_id)
    return algo


@dataclass
class Run:
    """Three iterations of an algorithm, saved in a folder after the first, and what was seen."""

    name: str
    settings: dict[str, Any]
    folder: Path
    saved: Any
    state: dict[str, Any]
    learned_state: Any
    results: list[dict[str, Any]]
    plain: list[dict[str, Any]]  # of two iterations of another one, without evaluations by hand
    weights: list[dict[str, np.ndarray]]  # before, after the first iteration, in the end
    evaluated: list[dict[str, Any]]  # twice after the first iteration
    obs: np.ndarray
    actions: dict[str, Any]  # the best ones then: for all rows, for one, by agent

    def build(self, **more: Any) -> Algorithm:
        return get_algorithm(self.name)(config={**self.settings, **more})

    def resume(self) -> Algorithm:
        trust = trusted(self.name, home(self.name), EPISODES)
        return Algorithm.from_checkpoint(self.folder / "checkpoint", trust=trust)

    @property
    def later(self) -> list[dict[str, Any]]:
        """What an uninterrupted run tells after the checkpoint."""
        return [told(result) for result in self.results[1:]]


@pytest.fixture(scope="module", params=ALL)
def run(
    request: pytest.FixtureRequest, known: None, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    given = short_settings_of(
        name,
        home(name),
        env_config=EPISODES,
        lr=[[0, 1e-3], [2000, 1e-4]],
        evaluation_interval=2,
        evaluation_duration=2,
        **(FILTERED if samples(name) else {}),
    )
    with as_trial(get_algorithm(name)(config=given), "donor") as algo:
        before, first, after = weights(algo), algo.train(), weights(algo)
        saved = algo.save(str(folder / "checkpoint"))
        algo.export_policy_checkpoint(str(folder / "policy"))
        state, learned_state = algo.get_state(), algo.get_learned_state()
        shape = algo.get_policy().observation_space.shape
        obs = np.random.default_rng(0).normal(size=(50, *shape)).astype(np.float32) * 3
        best = partial(algo.compute_actions, explore=False)
        actions = {
            "all": actions_in(best(obs)),
            "one": actions_in(algo.compute_single_action(obs[7], explore=False)),
            "by agent": actions_in(best({"a": obs[0], "b": obs[1]})),
        }
        evaluated = [algo.evaluate(), algo.evaluate()]
        results = [first, algo.train(), algo.train()]
        path = [before, after, weights(algo)]
    with get_algorithm(name)(config=given) as other:
        plain = [other.train(), other.train()]
    return Run(
        *(name, given, folder, saved, state, learned_state),
        *(results, plain, path, evaluated, obs, actions),
    )


# ------------------------------------------------------------------ what a run tells and keeps


def test_metrics_are_flat_finite_and_named(run: Run) -> None:
    first, second, _ = run.results
    of_sampling = (
        *("episode_return_mean", "episode_return_min", "episode_return_max", "episode_len_mean"),
        *("num_episodes", "num_env_steps_sampled_lifetime", "env_steps_per_second"),
        *("episode_reward_mean", "timesteps_total", "time/sample_s"),
    )
    for key in of_sampling:
        assert (key in first) == samples(run.name), key
    for key in ("evaluation/episode_return_mean", "training_iteration"):
        assert key in first, key
    assert any(key.startswith("learner/default_policy/") for key in first)
    assert set(first) <= set(second) | {"time/evaluate_s"}  # no metric that Tune saw goes away
    for key, value in second.items():
        assert key == "config" or not isinstance(value, dict), key
        if isinstance(value, float):
            assert np.isfinite(value), key
    steps = f"num_env_steps_{'sampled' if samples(run.name) else 'trained'}_lifetime"
    assert second[steps] > first[steps]
    if samples(run.name):
        assert second["timesteps_total"] == second[steps]
    json.dumps(second)


def test_training_changes_the_weights(run: Run) -> None:
    before, after, _ = run.weights
    assert any(not np.array_equal(before[key], after[key]) for key in before)
    assert all(np.isfinite(value).all() for value in after.values())


def test_the_same_seed_gives_the_same_metrics(run: Run) -> None:
    first = run.results[0]
    assert told(run.plain[0]) == told(first)
    with run.build(seed=4) as algo:
        other = algo.train()
    metrics = [k for k in first if k == "episode_return_mean" or k.endswith("loss")]
    assert metrics and all(first[key] != other[key] for key in metrics)


def test_evaluation_leaves_training_alone(run: Run) -> None:
    one, same = run.evaluated
    assert one == same  # the same seeds, so the same episodes
    assert one["num_episodes"] == 2
    assert [told(result) for result in run.plain] == [told(run.results[0]), run.later[0]]


def test_a_resumed_run_equals_the_uninterrupted_one(run: Run) -> None:
    with run.resume() as resumed:
        assert resumed.evaluate() == run.evaluated[0]  # as before the resume
        assert [told(resumed.train()) for _ in range(2)] == run.later
        assert resumed.training_iteration == 3
        np.testing.assert_equal(weights(resumed), run.weights[2])
        resumed.restore(run.saved)  # in place it goes back, too
        assert resumed.training_iteration == 1
        assert told(resumed.train()) == run.later[0]


@few_at_first
def test_environments_of_python_are_resumed_too(name: str, tmp_path: Path) -> None:
    env = "fakes:limited_walk"
    with build(name, env) as whole:
        whole.train()
        whole.save(str(tmp_path / "a"))
        uninterrupted = told(whole.train())
    with Algorithm.from_checkpoint(tmp_path / "a", trust=trusted(name, env)) as resumed:
        assert told(resumed.train()) == uninterrupted


def test_get_and_set_state_without_files(run: Run) -> None:
    """A state is a copy: what is trained after it was taken does not change it."""
    trust = trusted(run.name, home(run.name), EPISODES)
    with get_algorithm(run.name).from_state(run.state, trust) as copy:
        assert told(copy.train()) == run.later[0]
        copy.set_state(run.state)
        assert told(copy.train()) == run.later[0]


def test_the_command_plays_what_an_evaluation_does(run: Run, tmp_path: Path) -> None:
    """Of evaluations in training, which have a seed of their own: the run's."""
    trace, expected = tmp_path / "trace.parquet", run.evaluated[0]
    played = evaluate_folder(run.folder / "checkpoint", episodes=2, seed=3, trace=trace)
    assert played.summary.mean == expected["episode_return_mean"]
    assert played.summary.steps == expected["num_env_steps"] == len(pd.read_parquet(trace))


def test_actions_equal_those_of_the_exported_policy(run: Run) -> None:
    # Matrix products of other sizes, or of weights that lie elsewhere, round differently.
    close = partial(np.testing.assert_allclose, rtol=0, atol=1e-5)
    mine = run.actions["all"]
    close(run.actions["one"], mine[7])
    close(run.actions["by agent"]["b"], mine[1])
    for folder in ("policy", "checkpoint"):
        policy = Policy.load(run.folder / folder)
        close(actions_in(policy.compute_actions(run.obs, explore=False)), mine)
        assert policy.metadata["algorithm"] == run.name
        assert policy.metadata["env"] == home(run.name)


def test_reset_config_is_a_new_run(run: Run) -> None:
    """As good as a new process: nothing of the old trial is left, every new setting holds."""
    new = short_settings_of(
        run.name, "Acrobot-v1", seed=11, lr=1e-2, gamma=0.9, env_config=EPISODES
    )
    with get_algorithm(run.name)(config=dict(new)) as fresh:
        expected = [without_clocks(fresh.train()) for _ in range(2)]
    with run.resume() as algo:
        algo.train()
        assert algo.reset(dict(new)) is True
        assert (algo.config.lr, algo.config.gamma, algo.config.env) == (1e-2, 0.9, "Acrobot-v1")
        assert [without_clocks(algo.train()) for _ in range(2)] == expected


def test_under_pbt_the_mutated_settings_win_and_learned_state_is_the_donors(run: Run) -> None:
    with as_trial(run.build(), "clone") as clone:
        clone.train()
        clone.reset_config({**run.settings, "lr": 5e-4, "gamma": 0.9})
        clone.restore(run.saved)
        assert (clone.config.lr, clone.config.gamma) == (5e-4, 0.9)
        np.testing.assert_equal(weights(clone), run.weights[1])
        assert clone.get_learned_state() == run.learned_state
        result = clone.train()
        rates = {v for k, v in result.items() if "/curr_" in k and k.endswith("lr")}
        assert rates == {5e-4}
        assert result["training_iteration"] == 2
        groups = clone.learners[MODULE].optimizer.param_groups
        assert all(group["lr"] == 5e-4 for group in groups)


def test_a_clone_draws_new_random_streams(run: Run) -> None:
    """Same seed, same checkpoint: the donor's own trial goes on, two clones part from it."""
    paths = []
    with run.build() as algo:
        for trial_id in ("donor", "one", "two"):
            as_trial(algo, trial_id).restore(run.saved)
            result = told(algo.train())
            paths.append(next(iter(weights(algo).values())))
            assert (result == run.later[0]) == (trial_id == "donor")
    for one, two in ((0, 1), (0, 2), (1, 2)):
        assert not np.array_equal(paths[one], paths[two])


# ------------------------------------------------------------------ runs of their own


@few_at_first
def test_memory_is_free_without_the_garbage_collector(name: str) -> None:
    """Buffers and networks may be gigabytes, and the collector counts objects, not bytes."""

    def held(algo: Algorithm) -> list[weakref.ref[Any]]:
        replays = getattr(algo, "experience", {}).values()
        return [weakref.ref(part) for part in (*replays, algo.get_policy().module)]

    more: dict[str, Any] = {"evaluation_interval": 1, "evaluation_duration": 1}
    build(name).stop()  # torch keeps the frames of what first imports its optimisers
    gc.collect()
    gc.disable()
    try:
        algo = build(name, **more)
        algo.train()
        first, itself = held(algo), weakref.ref(algo)
        algo.reset_config(short_settings_of(name, **more))
        assert [part() for part in first] == [None] * len(first)
        algo.train()
        second = held(algo)
        algo.stop()
        del algo
        assert itself() is None
        assert [part() for part in second] == [None] * len(second)
    finally:
        gc.enable()


MEMORY = {"use_lstm": True, "lstm_cell_size": 8, "fcnet_hiddens": [8], "max_seq_len": 5}


def with_and_without_memory() -> list[Any]:
    """Algorithms that play, without a memory and with one if they train it."""
    rows = []
    for name in filter(samples, algorithm_names()):
        without = get_algorithm(name).config_class.without_memory is not None
        for kind, model in (("", {}), ("memory", MEMORY))[: 1 if without else 2]:
            first = (name, kind) in {("PPO", ""), ("IMPALA", "memory"), ("DQN", "memory")}
            marks = [] if first else [pytest.mark.full]
            rows.append(pytest.param(name, model, marks=marks, id=f"{name}-{kind}"))
    return rows


@pytest.mark.parametrize(("name", "model"), with_and_without_memory())
def test_complete_episodes_train_and_resume(
    name: str, model: dict[str, Any], tmp_path: Path
) -> None:
    """What is held of running episodes is part of a checkpoint, and every step counts once."""
    without = get_algorithm(name).config_class.model_without
    model = {key: value for key, value in model.items() if key not in without}
    in_replay = model and learns_from_replay(name)
    more = {"replay_buffer_config": {"capacity": 4000}} if in_replay else {}
    sampled: list[int] = []
    with build(name, batch_mode="complete_episodes", model=model, **more) as whole:
        count_steps(whole, sampled)
        whole.train()
        whole.save(str(tmp_path / "a"))
        uninterrupted = told(whole.train())
        assert whole.num_env_steps_sampled == sum(sampled)
        final = weights(whole)
    with Algorithm.from_checkpoint(tmp_path / "a") as resumed:
        assert told(resumed.train()) == uninterrupted
        np.testing.assert_equal(weights(resumed), final)


def count_steps(algo: Algorithm, sampled: list[int]) -> None:
    """Have a list filled with the steps of whole episodes, sample by sample."""
    runner = algo.env_runners.local_env_runner
    original = runner.sample

    def sample(num_steps: int) -> Any:
        rollouts, episodes = original(num_steps)
        rollout = rollouts[MODULE]
        assert rollout.num_env_steps == sum(episodes.lengths) >= num_steps * runner.num_envs
        sampled.append(rollout.num_env_steps)
        return rollouts, episodes

    runner.sample = sample


class Amnesiac(gym.Wrapper):
    """A wrapper that cannot tell its state."""


def forgetful(config: dict[str, Any]) -> gym.Env:
    return Amnesiac(gym.make("Pendulum-v1"))


def discrete_forgetful(config: dict[str, Any]) -> gym.Env:
    return Amnesiac(discrete_pendulum(config))


@few_that_play
def test_without_the_environments_state_a_resumed_run_starts_other_episodes(
    name: str, tmp_path: Path
) -> None:
    """Neither those that it began with nor, restored in place, the one that was running."""
    with build(name, discrete_forgetful if compares_actions(name) else forgetful) as algo:

        def rows() -> np.ndarray:
            found: np.ndarray = algo.env_runners.local_env_runner.recorders[MODULE].actor.rows
            return found.copy()

        first = rows()
        algo.train()
        algo.save(str(tmp_path / "c"))
        running = rows()
        algo.restore(str(tmp_path / "c"))
        assert not (rows() == first).any() and not (rows() == running).any()


@few_that_play
def test_a_state_of_other_settings_is_refused(name: str, tmp_path: Path) -> None:
    with build(name, **FILTERED) as algo:
        saved = algo.save(str(tmp_path / "c"))
    with build(name) as other, pytest.raises(ConfigError, match="observation_filter"):
        other.restore(saved)


@few
def test_a_failed_reset_config_raises_and_names_the_setting(name: str) -> None:
    with build(name) as algo, pytest.raises(ConfigError, match=r"lr = -1"):
        algo.reset(short_settings_of(name, lr=-1))


@few
def test_evaluation_by_timesteps_and_overrides(name: str) -> None:
    more = {
        "evaluation_duration": 300,
        "evaluation_duration_unit": "timesteps",
        "evaluation_config": {"explore": False, "env_config": {"max_episode_steps": 20}},
    }
    with build(name, **more) as algo:
        result = algo.evaluate()
    assert result["num_env_steps"] == 300
    assert result["episode_return_max"] <= 20


@pytest.mark.parametrize("name", ALL)
def test_explore_false_acts_greedily(name: str) -> None:
    with build(name, "Pendulum-v1") as algo:
        obs = np.zeros((40, 3), np.float32)
        greedy = actions_in(algo.compute_actions(obs, explore=False))
        assert np.ptp(greedy) == 0
        explored = [actions_in(algo.compute_single_action(obs[0], explore=True)) for _ in range(40)]
        assert np.ptp(explored) > 0


@few
def test_a_gpu_that_is_not_there(name: str) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigError, match="num_gpus_per_learner"):
        build(name, num_gpus_per_learner=1)
    with build(name, num_gpus_per_learner=1, fake_gpus=True) as algo:
        algo.train()


@few_at_first
def test_reporting_minima(name: str) -> None:
    if samples(name):
        with build(name, min_sample_timesteps_per_iteration=500) as algo:
            assert algo.train()["num_env_steps_sampled"] >= 500
    with build(name, min_train_timesteps_per_iteration=500) as algo:
        assert algo.train()["num_env_steps_trained_lifetime"] >= 500
    with build(name, min_time_s_per_iteration=0.2) as algo:
        assert algo.train()["time_this_iter_s"] >= 0.2


@few_that_play
def test_the_first_result_waits_for_an_episode(name: str) -> None:
    """Acrobot's first episodes are 500 steps long: a result without a return breaks Tune."""
    with build(name, "Acrobot-v1", env_config={"max_episode_steps": 150}) as algo:
        result = algo.train()
    assert result["num_episodes"] > 0
    assert result["num_env_steps_sampled"] > 256
    with (
        build(name, max_env_steps_without_episode=500, **endless(name)) as algo,
        pytest.raises(RuntimeError, match=r"EndlessEnv.*no episode ended"),
    ):
        algo.train()


@few_that_play
def test_steps_are_reported_though_no_episode_ends(name: str) -> None:
    """Else nobody would see them, and no stop criterion would be looked at."""
    with build(name, **endless(name)) as algo:
        first, second = algo.train(), algo.train()
    steps = "num_env_steps_sampled_lifetime"
    assert 2000 <= first[steps] < 3000 and first[steps] < second[steps] < 4000
    for result in (first, second):
        assert math.isnan(result["episode_return_mean"])
        assert result["num_episodes"] == result["num_episodes_lifetime"] == 0
    assert first.keys() == second.keys()


# ------------------------------------------------------------------ without training


def test_every_file_of_an_algorithm_is_in_the_registry() -> None:
    """A class with a config of its name beside it is an algorithm."""
    for path in Path(trainables.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
        for name in classes:
            line = f"from trainables.{path.stem} import {name}, {name}Config"
            is_known = name in algorithm_names() or f"{name}Config" not in classes
            assert is_known, f"trainables/__init__.py needs the line: {line}"


def test_names() -> None:
    for name in ALL:
        assert name_of(get_algorithm(name)) == name
        assert get_algorithm(name).config_class().algo_class is get_algorithm(name)


def test_config_round_trip_through_json() -> None:
    def check(name: str) -> None:
        config = get_algorithm(name).config_class.from_dict(short_settings_of(name))
        again = type(config).from_dict(json.loads(json.dumps(config.to_dict())))
        assert again == config
        assert again.to_dict() == config.to_dict()

    check_rows(check, ALL)


def test_unknown_settings_are_refused() -> None:
    def check(name: str) -> None:
        with pytest.raises(ConfigError, match="learning_rate"):
            get_algorithm(name).config_class.from_dict(short_settings_of(name, learning_rate=1e-3))

    check_rows(check, ALL)
    with pytest.raises(ConfigError, match="learning_rate"):
        build("PPO", learning_rate=1e-3)


def test_every_key_of_its_search_space_is_a_setting() -> None:
    def check(name: str) -> None:
        space = load_space(name.lower())
        space.check(get_algorithm(name).config_class)
        assert space.keys

    check_rows(check, [name for name in algorithm_names() if is_ours(get_algorithm(name))])


def test_bundles() -> None:
    def check(name: str) -> None:
        algorithm = get_algorithm(name)
        runners = "num_env_runners" if samples(name) else "evaluation_num_env_runners"
        given = short_settings_of(
            name,
            **{runners: 2},
            num_gpus_per_learner=0.5,
            num_cpus_per_env_runner=2,
            custom_resources_per_env_runner={"simulator": 1},
            placement_strategy="SPREAD",
        )
        request = algorithm.default_resource_request(given)
        runner = {"CPU": 2, "simulator": 1}
        assert request.bundles == [{"CPU": 1, "GPU": 0.5}, runner, runner]
        assert request.strategy == "SPREAD"
        assert algorithm.default_resource_request(short_settings_of(name)).bundles == [{"CPU": 1}]
        assert runners in algorithm.resource_help(short_settings_of(name, **{runners: 2}))

    check_rows(check, ALL)


def test_four_trials_share_a_gpu() -> None:
    """A fraction of a GPU goes into the driver's bundle; a faked one is not asked for."""

    def check(name: str) -> None:
        asked = get_algorithm(name).default_resource_request
        bundles = asked(short_settings_of(name, num_gpus_per_learner=0.25)).bundles
        assert bundles == [{"CPU": 1, "GPU": 0.25}]
        assert placement_problem(bundles * 4, "PACK", [{"CPU": 4, "GPU": 1}]) is None
        assert placement_problem(bundles * 5, "PACK", [{"CPU": 8, "GPU": 1}]) is not None
        faked = short_settings_of(name, num_gpus_per_learner=0.25, fake_gpus=True)
        assert asked(faked).bundles == [{"CPU": 1}]

    check_rows(check, ALL)
