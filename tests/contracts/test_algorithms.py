"""What every algorithm must do. A new algorithm passes this suite before anything else."""

import ast
import gc
import json
import math
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import torch
from cloning import cloning_is_known
from fakes import discrete_pendulum
from small_runs import (
    actions_in,
    compares_actions,
    learns_from_episodes,
    learns_from_replay,
    samples,
    settings_of,
    suited,
    trusted,
    without_clocks,
)

import trainables
from experiments.commands.evaluation.evaluate import evaluate_folder
from trainables import Algorithm, Policy
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm, is_ours, name_of
from trainables.runtime.actors.feasibility import placement_problem
from trainables.runtime.envs.make import env_name

WALK = "fakes:limited_walk"

algorithms = pytest.mark.parametrize("name", [*algorithm_names(), "Cloning"])


@pytest.fixture(scope="module", autouse=True)
def known() -> Iterator[None]:
    """An algorithm whose training steps no environment, beside ours."""
    with cloning_is_known():
        yield


def build(name: str, env: Any = "CartPole-v1", **more: Any) -> Algorithm:
    return get_algorithm(name)(config=settings_of(name, env, **more))


def if_sampled(name: str, **options: Any) -> dict[str, Any]:
    """Settings of sampling: none of an algorithm whose training steps no environment."""
    return options if samples(name) else {}


FILTERED = {"observation_filter": "MeanStdFilter"}


def test_every_file_of_an_algorithm_is_in_the_registry() -> None:
    """A class with a config of its name beside it is an algorithm."""
    for path in Path(trainables.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
        for name in classes:
            line = f"from trainables.{path.stem} import {name}, {name}Config"
            is_known = name in algorithm_names() or f"{name}Config" not in classes
            assert is_known, f"trainables/__init__.py needs the line: {line}"


@algorithms
def test_metrics_are_flat_finite_and_named(name: str) -> None:
    with build(name, evaluation_interval=2, evaluation_duration=2) as algo:
        first, second = algo.train(), algo.train()
    of_sampling = (
        "episode_return_mean",
        "episode_return_min",
        "episode_return_max",
        "episode_len_mean",
        "num_episodes",
        "num_env_steps_sampled_lifetime",
        "env_steps_per_second",
        "episode_reward_mean",
        "timesteps_total",
        "time/sample_s",
    )
    for key in of_sampling:
        assert (key in first) == samples(name), key
    for key in ("evaluation/episode_return_mean", "training_iteration"):
        assert key in first, key
    assert any(key.startswith("learner/default_policy/") for key in first)
    assert set(first) <= set(second) | {"time/evaluate_s"}  # no metric that Tune saw goes away
    for key, value in second.items():
        assert key == "config" or not isinstance(value, dict), key
        if isinstance(value, float):
            assert np.isfinite(value), key
    steps = f"num_env_steps_{'sampled' if samples(name) else 'trained'}_lifetime"
    assert second[steps] > first[steps]
    if samples(name):
        assert second["timesteps_total"] == second[steps]
    json.dumps(second)


@algorithms
def test_training_changes_the_weights(name: str) -> None:
    with build(name) as algo:
        before = algo.get_weights()["default_policy"]
        algo.train()
        after = algo.get_weights()["default_policy"]
    assert any(not np.array_equal(before[k], after[k]) for k in before)
    assert all(np.isfinite(value).all() for value in after.values())


@algorithms
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
        algo.reset_config(settings_of(name, "CartPole-v1", **more))
        assert [part() for part in first] == [None] * len(first)
        algo.train()
        second = held(algo)
        algo.stop()
        del algo
        assert itself() is None
        assert [part() for part in second] == [None] * len(second)
    finally:
        gc.enable()


@algorithms
def test_the_same_seed_gives_the_same_metrics(name: str) -> None:
    results = []
    for seed in (3, 3, 4):
        with build(name, seed=seed) as algo:
            results.append([without_clocks(algo.train()) for _ in range(3)])
    for one, two in zip(results[0], results[1], strict=True):
        assert one == two
    metrics = [k for k in results[0][0] if k in ("episode_return_mean",) or k.endswith("loss")]
    assert metrics and all(results[0][0][key] != results[2][0][key] for key in metrics)


@algorithms
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", WALK])
def test_a_resumed_run_equals_the_uninterrupted_one(name: str, env: str, tmp_path: Path) -> None:
    options = {**if_sampled(name, **FILTERED), "lr": [[0, 1e-3], [2000, 1e-4]]}
    with build(name, env, **options) as whole:
        whole.train()
        whole.save(str(tmp_path / "a"))
        uninterrupted = [without_clocks(whole.train()) for _ in range(2)]
        final = whole.get_weights()["default_policy"]
    with Algorithm.from_checkpoint(tmp_path / "a", trust=trusted(name, env)) as resumed:
        results = [without_clocks(resumed.train()) for _ in range(2)]
        assert resumed.training_iteration == 3
        weights = resumed.get_weights()["default_policy"]
    for result in (*uninterrupted, *results):
        result.pop("config")
    assert results == uninterrupted
    for key, value in final.items():
        assert np.array_equal(value, weights[key])


MEMORY = {"use_lstm": True, "lstm_cell_size": 8, "fcnet_hiddens": [8], "max_seq_len": 5}


@algorithms
@pytest.mark.parametrize("model", [{}, MEMORY], ids=["", "memory"])
def test_complete_episodes_train_and_resume(
    name: str, model: dict[str, Any], tmp_path: Path
) -> None:
    """What is held of running episodes is part of a checkpoint, and every step counts once."""
    config_class = get_algorithm(name).config_class
    if not samples(name):
        pytest.skip("it samples no episodes")
    if model and config_class.without_memory is not None:
        pytest.skip("it trains no memory")
    model = {key: value for key, value in model.items() if key not in config_class.model_without}
    in_replay = model and learns_from_replay(name)
    more = {"replay_buffer_config": {"capacity": 4000}} if in_replay else {}
    sampled: list[int] = []
    with build(name, batch_mode="complete_episodes", model=model, **more) as whole:
        count_steps(whole, sampled)
        whole.train()
        whole.save(str(tmp_path / "a"))
        uninterrupted = [without_clocks(whole.train()) for _ in range(2)]
        assert whole.num_env_steps_sampled == sum(sampled)
        final = whole.get_weights()["default_policy"]
    with Algorithm.from_checkpoint(tmp_path / "a") as resumed:
        results = [without_clocks(resumed.train()) for _ in range(2)]
        weights = resumed.get_weights()["default_policy"]
    for result in (*uninterrupted, *results):
        result.pop("config")
    assert results == uninterrupted
    for key, value in final.items():
        assert np.array_equal(value, weights[key])


def count_steps(algo: Algorithm, sampled: list[int]) -> None:
    """Have a list filled with the steps of whole episodes, sample by sample."""
    runner = algo.env_runners.local_env_runner
    original = runner.sample

    def sample(num_steps: int) -> Any:
        rollouts, episodes = original(num_steps)
        rollout = rollouts["default_policy"]
        assert rollout.num_env_steps == sum(episodes.lengths) >= num_steps * runner.num_envs
        sampled.append(rollout.num_env_steps)
        return rollouts, episodes

    runner.sample = sample


@algorithms
def test_restore_in_place_goes_back(name: str, tmp_path: Path) -> None:
    with build(name) as algo:
        algo.train()
        saved = algo.save(str(tmp_path / "c"))
        once = without_clocks(algo.train())
        algo.restore(saved)
        assert algo.training_iteration == 1
        assert without_clocks(algo.train()) == once


@algorithms
def test_get_and_set_state_without_files(name: str) -> None:
    """A state is a copy: what is trained after it was taken does not change it."""
    with build(name) as algo:
        algo.train()
        state = algo.get_state()
        expected = [without_clocks(algo.train()) for _ in range(2)]
        algo.set_state(state)
        assert [without_clocks(algo.train()) for _ in range(2)] == expected
        with get_algorithm(name).from_state(state, trusted(name)) as copy:
            results = [without_clocks(copy.train()) for _ in range(2)]
    for result in (*expected, *results):
        result.pop("config")
    assert results == expected


class Amnesiac(gym.Wrapper):
    """A wrapper that cannot tell its state."""


def forgetful(config: dict[str, Any]) -> gym.Env:
    return Amnesiac(gym.make("Pendulum-v1"))


def discrete_forgetful(config: dict[str, Any]) -> gym.Env:
    return Amnesiac(discrete_pendulum(config))


@algorithms
def test_without_the_environments_state_a_resumed_run_starts_other_episodes(
    name: str, tmp_path: Path
) -> None:
    """Neither those that it began with nor, restored in place, the one that was running."""
    if not samples(name):
        pytest.skip("no episode runs on")
    with build(name, discrete_forgetful if compares_actions(name) else forgetful) as algo:
        first = algo.env_runners.local_env_runner.recorders[DEFAULT_MODULE_ID].actor.rows.copy()
        algo.train()
        algo.save(str(tmp_path / "c"))
        running = algo.env_runners.local_env_runner.recorders[DEFAULT_MODULE_ID].actor.rows.copy()
        algo.restore(str(tmp_path / "c"))
        resumed = algo.env_runners.local_env_runner.recorders[DEFAULT_MODULE_ID].actor.rows
        assert not (resumed == first).any() and not (resumed == running).any()


@algorithms
def test_evaluations_before_and_after_a_resume_are_the_same(name: str, tmp_path: Path) -> None:
    with build(name, seed=None) as algo:
        algo.train()
        algo.save(str(tmp_path / "c"))
        before = algo.evaluate()
    with Algorithm.from_checkpoint(tmp_path / "c", trust=trusted(name)) as resumed:
        assert resumed.evaluate() == before


@algorithms
def test_a_state_of_other_settings_is_refused(name: str, tmp_path: Path) -> None:
    if not samples(name):
        pytest.skip("it has no filter")
    with build(name, **FILTERED) as algo:
        saved = algo.save(str(tmp_path / "c"))
    with build(name) as other, pytest.raises(ConfigError, match="observation_filter"):
        other.restore(saved)


@algorithms
def test_reset_config_is_a_new_run(name: str) -> None:
    """As good as a new process: nothing of the old trial is left, every new setting holds."""
    new = settings_of(name, "Acrobot-v1", seed=11, lr=1e-2, gamma=0.9)
    with get_algorithm(name)(config=dict(new)) as fresh:
        expected = [without_clocks(fresh.train()) for _ in range(2)]
    with build(name) as algo:
        algo.train()
        assert algo.reset(dict(new)) is True
        assert (algo.config.lr, algo.config.gamma, algo.config.env) == (1e-2, 0.9, "Acrobot-v1")
        results = [without_clocks(algo.train()) for _ in range(2)]
    assert results == expected


@algorithms
def test_a_failed_reset_config_raises_and_names_the_setting(name: str) -> None:
    with build(name) as algo, pytest.raises(ConfigError, match=r"lr = -1"):
        algo.reset(settings_of(name, lr=-1))


@algorithms
def test_evaluation_leaves_training_alone(name: str) -> None:
    with build(name) as plain:
        expected = [without_clocks(plain.train()) for _ in range(3)]
    with build(name) as algo:
        results = [without_clocks(algo.train())]
        first, second = algo.evaluate(), algo.evaluate()
        assert first == second  # the same seeds, so the same episodes
        assert first["num_episodes"] == algo.config.evaluation_duration
        results += [without_clocks(algo.train()) for _ in range(2)]
    assert results == expected


@algorithms
def test_the_command_plays_what_an_evaluation_does(name: str, tmp_path: Path) -> None:
    with build(name, "Pendulum-v1", **if_sampled(name, **FILTERED)) as algo:
        algo.train()
        expected = algo.evaluate()
        algo.save(str(tmp_path / "c"))
        env, seed = env_name(algo.config.env), algo.config.seed
    trace = tmp_path / "trace.parquet"
    played = evaluate_folder(tmp_path / "c", seed=seed, trust=[env], trace=trace)
    assert played.summary.mean == expected["episode_return_mean"]
    assert played.summary.steps == expected["num_env_steps"] == len(pd.read_parquet(trace))


@algorithms
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


@algorithms
def test_actions_equal_those_of_the_exported_policy(name: str, tmp_path: Path) -> None:
    with build(name, "Pendulum-v1", **if_sampled(name, **FILTERED)) as algo:
        algo.train()
        algo.export_policy_checkpoint(str(tmp_path / "policy"))
        algo.save(str(tmp_path / "checkpoint"))
        obs = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32) * 3
        mine = actions_in(algo.compute_actions(obs, explore=False))
        # Matrix products of other sizes, or of weights that lie elsewhere, round differently.
        close = partial(np.testing.assert_allclose, rtol=0, atol=1e-5)
        close(actions_in(algo.compute_single_action(obs[7], explore=False)), mine[7])
        by_key = actions_in(algo.compute_actions({"a": obs[0], "b": obs[1]}, explore=False))
        close(by_key["b"], mine[1])
    for folder in ("policy", "checkpoint"):
        policy = Policy.load(tmp_path / folder)
        close(actions_in(policy.compute_actions(obs, explore=False)), mine)
        assert policy.metadata["algorithm"] == name
        assert policy.metadata["env"] == suited(name, "Pendulum-v1")


@algorithms
def test_explore_false_acts_greedily(name: str) -> None:
    with build(name, "Pendulum-v1") as algo:
        obs = np.zeros((40, 3), np.float32)
        greedy = actions_in(algo.compute_actions(obs, explore=False))
        assert np.ptp(greedy) == 0
        explored = [actions_in(algo.compute_single_action(obs[0], explore=True)) for _ in range(40)]
        assert np.ptp(explored) > 0


@algorithms
def test_config_round_trip_through_json(name: str) -> None:
    config = get_algorithm(name).config_class.from_dict(settings_of(name))
    again = type(config).from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert again.to_dict() == config.to_dict()


@algorithms
def test_unknown_settings_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="learning_rate"):
        build(name, learning_rate=1e-3)


@algorithms
def test_every_key_of_its_search_space_is_a_setting(name: str) -> None:
    from search_spaces import load_space

    if not is_ours(get_algorithm(name)):
        pytest.skip("one of one's own brings no space")
    space = load_space(name.lower())
    space.check(get_algorithm(name).config_class)
    assert space.keys


@algorithms
def test_bundles(name: str) -> None:
    algorithm = get_algorithm(name)
    runners = "num_env_runners" if samples(name) else "evaluation_num_env_runners"
    request = algorithm.default_resource_request(
        settings_of(
            name,
            **{runners: 2},
            num_gpus_per_learner=0.5,
            num_cpus_per_env_runner=2,
            custom_resources_per_env_runner={"simulator": 1},
            placement_strategy="SPREAD",
        )
    )
    runner = {"CPU": 2, "simulator": 1}
    assert request.bundles == [{"CPU": 1, "GPU": 0.5}, runner, runner]
    assert request.strategy == "SPREAD"
    assert algorithm.default_resource_request(settings_of(name)).bundles == [{"CPU": 1}]
    assert runners in algorithm.resource_help(settings_of(name, **{runners: 2}))


@algorithms
def test_four_trials_share_a_gpu(name: str) -> None:
    """A fraction of a GPU goes into the driver's bundle; a faked one is not asked for."""
    request = get_algorithm(name).default_resource_request(
        settings_of(name, num_gpus_per_learner=0.25)
    )
    assert request.bundles == [{"CPU": 1, "GPU": 0.25}]
    assert placement_problem(request.bundles * 4, "PACK", [{"CPU": 4, "GPU": 1}]) is None
    assert placement_problem(request.bundles * 5, "PACK", [{"CPU": 8, "GPU": 1}]) is not None
    faked = settings_of(name, num_gpus_per_learner=0.25, fake_gpus=True)
    assert get_algorithm(name).default_resource_request(faked).bundles == [{"CPU": 1}]


@algorithms
def test_a_gpu_that_is_not_there(name: str) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigError, match="num_gpus_per_learner"):
        build(name, num_gpus_per_learner=1)
    with build(name, num_gpus_per_learner=1, fake_gpus=True) as algo:
        algo.train()


@algorithms
def test_reporting_minima(name: str) -> None:
    if samples(name):
        with build(name, min_sample_timesteps_per_iteration=1000) as algo:
            assert algo.train()["num_env_steps_sampled"] >= 1000
    with build(name, min_train_timesteps_per_iteration=1000) as algo:
        assert algo.train()["num_env_steps_trained_lifetime"] >= 1000
    with build(name, min_time_s_per_iteration=0.2) as algo:
        assert algo.train()["time_this_iter_s"] >= 0.2


@algorithms
def test_the_first_result_waits_for_an_episode(name: str) -> None:
    """Acrobot's first episodes are 500 steps long: a result without a return breaks Tune."""
    if not samples(name):
        pytest.skip("it waits for none")
    with build(name, "Acrobot-v1") as algo:
        result = algo.train()
    assert result["num_episodes"] > 0
    assert result["num_env_steps_sampled"] > 256
    endless = "fakes:EndlessEnv"
    limits = {"max_env_steps_without_episode": 2000, "env_config": {"horizon": 10**9}}
    ends = "an episode has not ended" if learns_from_episodes(name) else "no episode ended"
    with (
        build(name, endless, **limits) as algo,
        pytest.raises(RuntimeError, match=f"EndlessEnv.*{ends}"),
    ):
        algo.train()


@algorithms
def test_steps_are_reported_though_no_episode_ends(name: str) -> None:
    """Else nobody would see them, and no stop criterion would be looked at."""
    if learns_from_episodes(name) or not samples(name):
        pytest.skip("it waits for their ends, or has none")
    with build(name, "fakes:EndlessEnv", env_config={"horizon": 10**9}) as algo:
        first, second = algo.train(), algo.train()
    steps = "num_env_steps_sampled_lifetime"
    assert 2000 <= first[steps] < 3000 and first[steps] < second[steps] < 4000
    for result in (first, second):
        assert math.isnan(result["episode_return_mean"])
        assert result["num_episodes"] == result["num_episodes_lifetime"] == 0
    assert first.keys() == second.keys()


@algorithms
def test_names(name: str) -> None:
    algorithm = get_algorithm(name)
    assert name_of(algorithm) == name
    assert algorithm.config_class().algo_class is algorithm


# ---------------------------------------------------------------------- population-based training


def as_trial(algo: Algorithm, trial_id: str) -> Algorithm:
    """As if Tune ran it: a trial with an id."""

    class Info:
        def __init__(self) -> None:
            self.trial_id, self.trial_name = trial_id, trial_id

    algo._trial_info = Info()
    return algo


@algorithms
def test_under_pbt_the_mutated_settings_win_and_learned_state_is_the_donors(
    name: str, tmp_path: Path
) -> None:
    with as_trial(build(name, lr=1e-3, gamma=0.99), "donor") as donor:
        donor.train()
        saved = donor.save(str(tmp_path / "donor"))
        weights, learned = donor.get_weights()["default_policy"], donor.get_learned_state()
    with as_trial(build(name, lr=1e-3, gamma=0.99), "clone") as clone:
        clone.train()
        clone.reset_config(settings_of(name, lr=5e-4, gamma=0.9))
        clone.restore(saved)
        assert (clone.config.lr, clone.config.gamma) == (5e-4, 0.9)
        for key, value in clone.get_weights()["default_policy"].items():
            assert np.array_equal(value, weights[key])
        assert clone.get_learned_state() == learned
        result = clone.train()
        rates = {v for k, v in result.items() if "/curr_" in k and k.endswith("lr")}
        assert rates == {5e-4}
        assert result["training_iteration"] == 2
        groups = clone.learners["default_policy"].optimizer.param_groups
        assert all(group["lr"] == 5e-4 for group in groups)


@algorithms
def test_a_clone_draws_new_random_streams(name: str, tmp_path: Path) -> None:
    """Same seed, same checkpoint: the donor's own trial goes on, two clones part from it."""
    with as_trial(build(name), "donor") as donor:
        donor.train()
        saved = donor.save(str(tmp_path / "donor"))
        donor.train()
        paths = {"donor": donor.get_weights()["default_policy"]}
    for trial_id in ("donor-resumed", "one", "two"):
        with as_trial(build(name), trial_id.removesuffix("-resumed")) as algo:
            algo.restore(saved)
            algo.train()
            paths[trial_id] = algo.get_weights()["default_policy"]
    key = next(iter(paths["donor"]))
    assert np.array_equal(paths["donor"][key], paths["donor-resumed"][key])
    for one, two in (("donor", "one"), ("donor", "two"), ("one", "two")):
        assert not np.array_equal(paths[one][key], paths[two][key])
