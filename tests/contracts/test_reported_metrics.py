"""What is declared of the metrics is what algorithms report: no more, no less."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from callback_cases import Lengths
from ray import tune
from small_runs import settings_of

from experiments.seeds.report import seed_report
from experiments.spec.metrics import FAMILIES, LEGACY, METRICS, canonical_metric
from trainables import metric_table
from trainables.core.reported_metrics import (
    BY_ALGORITHM,
    COMMON,
    MODULE,
    OLDER,
    OLDER_EVALUATED,
    SEEDS,
    TUNES,
    Reported,
)
from trainables.registry import algorithm_names, get_algorithm

# What Tune says of a trial beside numbers that are worth plotting.
ABOUT_THE_TRIAL = {
    *("config", "date", "done", "experiment_tag", "hostname", "node_ip", "pid", "timestamp"),
    *("timesteps_since_restore", "trial_id", "checkpoint_dir_name", "should_checkpoint"),
}
OLDER_NAMES = {*OLDER, *OLDER_EVALUATED}
PARAMETER_NOISE = {"exploration_config": {"type": "ParameterNoise"}}
GAUSSIAN_NOISE = {"exploration_config": {"type": "GaussianNoise"}}
# Settings, beside the small ones, in which each of an algorithm's metrics is reported.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "A2C": [{}, {"use_critic": False, "use_gae": False}],
    "APPO": [{}, {"_separate_vf_optimizer": True, "use_kl_loss": False}],
    "DQN": [{}, {"noisy": False, **PARAMETER_NOISE}],
    "IMPALA": [{}, {"_separate_vf_optimizer": True}],
    "PPO": [{}, {"use_kl_loss": False}],
    "SAC": [{}, PARAMETER_NOISE, GAUSSIAN_NOISE],
}


LOGGED = {
    f"{kind}/steps_{reduce}"
    for kind in ("custom_metrics", "hist_stats")
    for reduce in ("mean", "min", "max")
}
IN_PROCESS = {"evaluation_interval": 1, "evaluation_duration": 2, "callbacks_class": Lengths}


def names(metrics: tuple[Reported, ...]) -> set[str]:
    return {metric.name for metric in metrics}


def declared_name(key: str) -> str:
    """A key of a result as the declarations write it."""
    if key.removeprefix("evaluation/") in LOGGED:
        return re.sub("steps_.*", "<name>_<reduce>", key)
    return key.replace("default_policy", MODULE)


def reported(result: dict[str, Any]) -> set[str]:
    return {declared_name(key) for key in result} - ABOUT_THE_TRIAL - OLDER_NAMES


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
    )
    yield
    ray.shutdown()


def test_every_algorithm_is_described() -> None:
    assert set(BY_ALGORITHM) == set(algorithm_names()) == set(VARIANTS)


@pytest.mark.parametrize("name", algorithm_names())
def test_an_algorithm_reports_what_is_declared(name: str) -> None:
    own, tunes = BY_ALGORITHM[name], names(TUNES)
    needs_actors = {m.name for m in COMMON if "num_" in m.when} | {"num_cpus", "num_gpus"}
    common = names(COMMON) - needs_actors
    seen: set[str] = set()
    env = "Pendulum-v1" if name == "SAC" else "CartPole-v1"
    for variant in VARIANTS[name]:
        with get_algorithm(name)(config=settings_of(name, env, **IN_PROCESS, **variant)) as algo:
            results = [reported(algo.train()) for _ in range(2)]
        assert results[0] == results[1]
        undescribed = results[0] - names(own) - common - tunes
        assert not undescribed, f"{name} with {variant}: declare it in core/reported_metrics.py"
        always = {m.name for m in own if not m.when} | common | tunes
        assert not always - results[0], f"not reported by {name} with {variant}"
        seen |= results[0]
    assert not names(own) - seen, f"{name} reports them in no variant"


def test_actors_and_tune_add_what_is_declared(cluster: None, tmp_path: Any) -> None:
    """Of PPO: what actors are is not the algorithm's matter."""
    actors = {"num_env_runners": 1, "num_learners": 1, "evaluation_num_env_runners": 1}
    config = settings_of("PPO", **IN_PROCESS, **actors)
    results = tune.Tuner(
        get_algorithm("PPO"),
        param_space=config,
        run_config=tune.RunConfig(
            storage_path=str(tmp_path), stop={"training_iteration": 1}, verbose=0
        ),
    ).fit()
    assert not results.errors
    metrics = results[0].metrics
    assert metrics is not None
    found = {declared_name(key) for key in metrics if not key.startswith("config")}
    wanted = names(COMMON) | names(BY_ALGORITHM["PPO"]) | names(TUNES)
    assert found - ABOUT_THE_TRIAL - OLDER_NAMES == wanted


def test_a_trial_of_several_seeds_adds_what_is_declared() -> None:
    objective = "episode_return_mean"
    steps = "num_env_steps_sampled_lifetime"
    of_seeds = {seed: {objective: float(seed), steps: 100} for seed in range(5)}
    found = seed_report(of_seeds, [objective])
    added = {
        re.sub(r"^seed_\d/", "seed_<seed>/", key).replace(objective, "<objective>")
        for key in found
        if key not in (objective, steps, "done")
    }
    assert added == names(SEEDS)


def test_older_names_are_the_same_numbers() -> None:
    with get_algorithm("PPO")(config=settings_of("PPO", evaluation_interval=2)) as algo:
        results = [algo.train() for _ in range(2)]
        evaluated = algo.evaluate()
    for result in results:  # also in the one that has the evaluation before it
        assert all(result[old] == result[new] for old, new in OLDER.items())
        assert all(result[old] == result[new] for old, new in OLDER_EVALUATED.items())
    assert {"evaluation/episode_reward_mean", "evaluation/episodes_this_iter"} < {*OLDER_EVALUATED}
    assert evaluated["episode_reward_mean"] == evaluated["episode_return_mean"]


def test_tune_stops_and_chooses_by_older_names_below_evaluation(
    cluster: None, tmp_path: Any
) -> None:
    """Plain Tune, which takes a name as it is written."""
    results = tune.Tuner(
        get_algorithm("PPO"),
        param_space=settings_of("PPO", **IN_PROCESS),
        tune_config=tune.TuneConfig(metric="evaluation/episode_reward_mean", mode="max"),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path),
            stop={"evaluation/episode_reward_mean": 5, "training_iteration": 3},
            verbose=0,
        ),
    ).fit()
    assert not results.errors
    best = results.get_best_result().metrics
    assert best is not None and best["training_iteration"] == 1
    assert best["evaluation/episode_reward_mean"] == best["evaluation/episode_return_mean"] >= 5


@pytest.mark.parametrize("name", algorithm_names())
def test_specs_may_name_whatever_is_declared(name: str) -> None:
    trainable = get_algorithm(name)
    for metric in (*COMMON, *BY_ALGORITHM[name]):
        written = metric.name.replace(MODULE, "default_policy")
        wanted = LEGACY.get(written, written)
        assert canonical_metric(written, trainable) == wanted
    assert wanted in METRICS or wanted.startswith(FAMILIES)


def test_every_meaning_is_told_once() -> None:
    for metrics in (COMMON, TUNES, SEEDS, *BY_ALGORITHM.values()):
        assert len(names(metrics)) == len(metrics)
        assert all(metric.meaning for metric in metrics)
    for own in BY_ALGORITHM.values():
        assert not names(own) & (names(COMMON) | names(TUNES) | set(OLDER))


def test_the_page_is_what_the_generator_gives() -> None:
    part = metric_table.PART
    assert part.current() == part.make(), f"run python -m {part.command} --write"
