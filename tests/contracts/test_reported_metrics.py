"""What is declared of the metrics is what algorithms report: no more, no less."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from callback_cases import Lengths
from cloning import cloning_is_known
from every_row import check_rows
from ray import tune
from short_runs import EPISODES, short_settings_of
from small_runs import home, samples, settings_of

from analysis.names import HOST
from experiments.seeds.multi_seed import seed_report
from experiments.spec.metrics import (
    LEGACY,
    canonical_metric,
    declared_metrics,
    families,
    top_level,
)
from search_spaces.documents import SpecError
from trainables import DQN, PPO, metric_table
from trainables.core.all_metrics import COMMON, INTRINSIC, LEAGUE, SAMPLED, SEEDS, TUNES
from trainables.core.reported_metrics import MODULE, OLDER, OLDER_EVALUATED, Reported
from trainables.registry import algorithm_names, get_algorithm

NUM_CPUS = 4
# What Tune says of a trial beside numbers that are worth plotting.
ABOUT_THE_TRIAL = {
    *("config", "date", "done", "experiment_tag", "hostname", "node_ip", "pid", "timestamp"),
    HOST,
    *("timesteps_since_restore", "trial_id", "checkpoint_dir_name", "should_checkpoint"),
}
OLDER_NAMES = {*OLDER, *OLDER_EVALUATED}
PARAMETER_NOISE = {"exploration_config": {"type": "ParameterNoise"}}
GAUSSIAN_NOISE = {"exploration_config": {"type": "GaussianNoise"}}
# Settings, beside the small ones, with which an algorithm reports what it does not with these.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "A2C": [{"use_critic": False, "use_gae": False}],
    "APPO": [{"_separate_vf_optimizer": True, "use_kl_loss": False}],
    "BC": [{"beta": 0.5}],
    "DQN": [{"noisy": False, **PARAMETER_NOISE}],
    "IMPALA": [{"_separate_vf_optimizer": True}],
    "MARWIL": [{"beta": 0.0}],
    "PPO": [{"use_kl_loss": False}],
    "SAC": [PARAMETER_NOISE, GAUSSIAN_NOISE],
    "CQL": [PARAMETER_NOISE, GAUSSIAN_NOISE, {"lagrangian": True}],
}


LOGGED = {
    f"{kind}/steps_{reduce}"
    for kind in ("custom_metrics", "hist_stats")
    for reduce in ("mean", "min", "max")
}
LOGGED_IN_TRAINING = {"custom_metrics/<name>_<reduce>", "hist_stats/<name>_<reduce>"}  # episodes
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


@pytest.fixture(scope="module", autouse=True)
def known() -> Iterator[None]:
    with cloning_is_known():
        yield


@pytest.mark.parametrize("name", [*algorithm_names(), "Cloning"])
def test_an_algorithm_reports_what_is_declared(name: str) -> None:
    own, tunes = get_algorithm(name).reported_metrics, names(TUNES)
    needs_actors = {m.name for m in COMMON if "num_" in m.when} | {"num_cpus", "num_gpus"}
    common = names(COMMON) - needs_actors
    common = common | names(SAMPLED) if samples(name) else common - LOGGED_IN_TRAINING
    seen: set[str] = set()
    for variant in [{}, *VARIANTS.get(name, [])]:
        settings = short_settings_of(name, home(name), env_config=EPISODES, **IN_PROCESS, **variant)
        with get_algorithm(name)(config=settings) as algo:
            results = [reported(algo.train()) for _ in range(2)]
        assert results[0] == results[1]
        undescribed = results[0] - names(own) - common - tunes
        assert not undescribed, f"{name} with {variant}: declare it in reported_metrics"
        always = {m.name for m in own if not m.when} | common | tunes
        assert not always - results[0], f"not reported by {name} with {variant}"
        seen |= results[0]
    assert not names(own) - seen, f"{name} does not report them; add a variant that does"


@pytest.mark.full("test_an_algorithm_reports_what_is_declared")
def test_actors_and_tune_add_what_is_declared(ray_here: None, tmp_path: Any) -> None:
    """Of PPO: what actors are is not the algorithm's matter."""
    actors = {"num_env_runners": 1, "num_learners": 1, "evaluation_num_env_runners": 1}
    config = settings_of("PPO", **IN_PROCESS, **actors)
    results = tune.Tuner(
        PPO,
        param_space=config,
        run_config=tune.RunConfig(
            storage_path=str(tmp_path), stop={"training_iteration": 1}, verbose=0
        ),
    ).fit()
    assert not results.errors
    metrics = results[0].metrics
    assert metrics is not None
    found = {declared_name(key) for key in metrics if not key.startswith("config")}
    wanted = names(SAMPLED) | names(COMMON) | names(PPO.reported_metrics) | names(TUNES)
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
    with PPO(config=settings_of("PPO", evaluation_interval=2)) as algo:
        results = [algo.train() for _ in range(2)]
        evaluated = algo.evaluate()
    for result in results:  # also in the one that has the evaluation before it
        assert all(result[old] == result[new] for old, new in OLDER.items())
        assert all(result[old] == result[new] for old, new in OLDER_EVALUATED.items())
    assert {"evaluation/episode_reward_mean", "evaluation/episodes_this_iter"} < {*OLDER_EVALUATED}
    assert evaluated["episode_reward_mean"] == evaluated["episode_return_mean"]


@pytest.mark.full("test_older_names_are_the_same_numbers")
def test_tune_stops_and_chooses_by_older_names_below_evaluation(
    ray_here: None, tmp_path: Any
) -> None:
    """Plain Tune, which takes a name as it is written."""
    results = tune.Tuner(
        PPO,
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


def test_rewards_for_what_is_new_report_what_is_declared() -> None:
    plain = {"env": "FrozenLake-v1"}
    with PPO(config=settings_of("PPO", **plain)) as without:
        usual = reported(without.train())
    seen: set[str] = set()
    for options in (
        {"type": "Curiosity", "intrinsic_gamma": 0.9},
        {"type": "RND"},
        {"type": "Counts"},
    ):
        settings = settings_of("PPO", **plain, exploration_config=options)
        with PPO(config=settings) as algo:
            results = [reported(algo.train()) for _ in range(2)]
            assert results[0] == results[1]
            seen |= results[0] - usual
    assert seen == names(INTRINSIC)


def test_specs_may_name_whatever_is_declared() -> None:
    """Of the algorithm, and where it is not known which one it is."""

    def check(algorithm: str, name: str) -> None:
        trainable = get_algorithm(algorithm)
        metrics = declared_metrics(trainable)
        written = name.replace(MODULE, "default_policy")
        wanted = LEGACY.get(written, written)
        assert canonical_metric(written, trainable) == canonical_metric(written) == wanted
        assert wanted in top_level(metrics) or wanted.startswith(families(metrics))

    of_all = {name: declared_metrics(get_algorithm(name)) for name in algorithm_names()}
    check_rows(check, [(algorithm, m.name) for algorithm, of in of_all.items() for m in of])


def test_specs_may_not_name_what_another_algorithm_reports() -> None:
    assert canonical_metric("num_updates_lifetime", DQN) == "num_updates_lifetime"
    for other in ("num_updates_lifetime", "replay/num_steps"):
        with pytest.raises(SpecError, match=rf"unknown metric '{other}'; allowed: (?!.*replay/)"):
            canonical_metric(other, PPO)


def test_every_meaning_is_told_once() -> None:
    of_algorithms = [get_algorithm(name).reported_metrics for name in algorithm_names()]
    for metrics in (SAMPLED, COMMON, TUNES, SEEDS, *of_algorithms):
        assert len(names(metrics)) == len(metrics)
        assert all(metric.meaning for metric in metrics)
    shared = names(SAMPLED) | names(COMMON) | names(TUNES) | {*OLDER}
    assert not [names(own) & shared for own in of_algorithms if names(own) & shared]


def test_the_page_is_what_the_generator_gives() -> None:
    part = metric_table.PART
    assert part.current() == part.text(), f"run python -m {part.command} --write"


def test_a_league_reports_what_is_declared() -> None:
    shared = {"env": "matrix_game", "policies": ["main"]}
    with (
        PPO(config=settings_of("PPO", **shared)) as without,
        PPO(config=settings_of("PPO", **shared, league={"freeze_every": 1})) as algo,
    ):
        results = [{*algo.train()} for _ in range(2)]
        plain = {*without.train()}
    for found in results:
        added = {name for name in found - plain if not name.startswith("module/main_v")}
        told = {name.replace("/main/", f"/{MODULE}/") for name in added}
        assert {re.sub("main_v[0-9]+", "<opponent>", name) for name in told} == names(LEAGUE)
