"""Several seeds as one trial: alone, and in sweeps with searchers and schedulers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dummy_sweeps import ENV_STEPS, sweep, told_to_optuna
from ray import tune
from seeded_dummy import NAME, Seeded
from sweep_dummy import STEPS

from analysis import best_checkpoint, load_sweep
from analysis.statistics import iqm
from experiments.seeds.hosts import SeedError
from experiments.seeds.multi_seed import with_seeds
from trainables import PPO
from trainables.core.checkpoint import CheckpointError
from trainables.core.errors import ConfigError

RETURN = "episode_return_mean"
TINY = {
    "env": "CartPole-v1",
    "train_batch_size_per_learner": 256,
    "minibatch_size": 128,
    "num_epochs": 1,
}


pytestmark = pytest.mark.usefixtures("ray_here")


def logged(file: Path) -> list[tuple[str, int, int, int]]:
    """Trial, seed, iteration and process of each iteration of a seed, in order."""
    lines = [line.split() for line in file.read_text().splitlines()]
    return [(trial, int(seed), int(count), int(pid)) for trial, seed, count, pid in lines]


# -- without Tune ------------------------------------------------------------------------------


def test_each_seed_is_to_the_bit_what_it_is_alone(tmp_path: Path) -> None:
    together = with_seeds(PPO, [3, 5])(config=TINY)
    for _ in range(2):
        result = together.train()
    together.save(str(tmp_path / "saved"))
    again = with_seeds(PPO, [3, 5])(config=TINY)
    again.restore(str(tmp_path / "saved"))
    assert again.iteration == 2
    later = [together.train(), again.train()]
    for seed in (3, 5):
        alone = PPO(config={**TINY, "seed": seed})
        for _ in range(2):
            expected = alone.train()
        assert result[f"seed_{seed}/{RETURN}"] == expected[RETURN]
        assert result[f"seed_{seed}/{ENV_STEPS}"] == expected[ENV_STEPS]
        expected = alone.train()
        for resumed in later:
            assert resumed[f"seed_{seed}/{RETURN}"] == expected[RETURN]
            assert resumed["training_iteration"] == 3
        alone.stop()
    # A new configuration in the same process starts anew.
    again.reset({**TINY, "lr": 1e-2})
    assert again.train()[ENV_STEPS] < result[ENV_STEPS]
    together.stop()
    again.stop()


def test_batched_seeds_are_what_they_are_alone(tmp_path: Path) -> None:
    together = with_seeds(PPO, [3, 5], batched=True)(config=TINY)
    apart = with_seeds(PPO, [3, 5])(config=TINY)
    for _ in range(2):
        found, expected = together.train(), apart.train()
        for seed in (3, 5):
            assert found[f"seed_{seed}/{RETURN}"] == expected[f"seed_{seed}/{RETURN}"]
    together.save(str(tmp_path / "saved"))
    expected = apart.train()
    for batched in (True, False):  # a checkpoint is one of seeds, however they learned
        again = with_seeds(PPO, [3, 5], batched=batched)(config=TINY)
        again.restore(str(tmp_path / "saved"))
        assert again.train()[RETURN] == expected[RETURN]
        again.stop()
    together.stop()
    apart.stop()


def test_seeds_that_are_behind_catch_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    trial = with_seeds(Seeded, 3)(config={"uneven": True, "log": str(log)})
    first, second = trial.train(), trial.train()
    # Seed 1 spends three times the steps of an iteration: the others train three times.
    assert first[ENV_STEPS] == 3 * STEPS and second[ENV_STEPS] == 6 * STEPS
    assert first["training_iteration"] == 1
    order = [seed for _, seed, _, _ in logged(log)]
    assert order == [0, 1, 2, 0, 2, 0, 2] * 2
    trial.stop()


def test_a_failing_seed_is_named() -> None:
    trial = with_seeds(Seeded, 3)(config={"fail_seed": 2})
    trial.train()
    with pytest.raises(SeedError, match="seed 2: ValueError: this seed fails as asked"):
        trial.train()
    trial.stop()
    trial = with_seeds(Seeded, 3, batched=True)(config={"fail_seed": 2})
    trial.train()
    with pytest.raises(SeedError, match="seed 2: ValueError: this seed fails as asked"):
        trial.train()
    trial.stop()


def test_checkpoints_of_other_seeds_are_refused(tmp_path: Path) -> None:
    trial = with_seeds(Seeded, 3)(config={})
    trial.train()
    trial.save(str(tmp_path / "saved"))
    with pytest.raises(CheckpointError, match=r"of the seeds \(0, 1, 2\); this trial has \(0, 1\)"):
        with_seeds(Seeded, 2)(config={}).restore(str(tmp_path / "saved"))
    (tmp_path / "saved" / "seeds.json").unlink()
    with pytest.raises(CheckpointError, match=r"it has no seeds.json"):
        trial.restore(str(tmp_path / "saved"))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="two different seeds"):
        with_seeds(PPO, [1, 1])
    with pytest.raises(ConfigError, match="between 1 and the 2 seeds"):
        with_seeds(PPO, 2, parallel=3)
    with pytest.raises(ConfigError, match="set num_env_runners to 0"):
        with_seeds(PPO, 2).default_resource_request({**TINY, "num_env_runners": 1})
    with pytest.raises(ConfigError, match="seed = 4 is one seed"):
        with_seeds(PPO, 2)(config={**TINY, "seed": 4})


# -- in sweeps ---------------------------------------------------------------------------------


def test_plain_tune_knows_nothing_of_seeds(tmp_path: Path) -> None:
    trainable = with_seeds(Seeded, [0, 1, 2, 3, 9], parallel=2)
    tuner = tune.Tuner(
        trainable,
        param_space={"lr": tune.grid_search([0.01, 0.5]), "log": str(tmp_path / "log")},
        run_config=tune.RunConfig(
            name="plain", storage_path=str(tmp_path), stop={ENV_STEPS: 2 * STEPS}
        ),
    )
    results = tuner.fit()
    best = results.get_best_result(RETURN, "max")
    assert best.metrics and best.config and best.config["lr"] == 0.01
    assert best.metrics[RETURN] == iqm([2 + s**2 for s in (0, 1, 2, 3, 9)]) == 2 + 14 / 3
    assert best.metrics["training_iteration"] == 2 and best.metrics["num_seeds"] == 5
    assert Path(best.path).name.startswith("Seeded_5_seeds_")
    # The seeds were dealt to two processes, of which the trial's own had three.
    for trial in {line[0] for line in logged(tmp_path / "log")}:
        seeds: dict[int, set[int]] = {}
        for _, seed, _, pid in (line for line in logged(tmp_path / "log") if line[0] == trial):
            seeds.setdefault(pid, set()).add(seed)
        assert sorted(map(sorted, seeds.values())) == [[0, 2, 9], [1, 3]]


def test_asha_sees_all_seeds_at_each_rung_and_optuna_their_iqm(tmp_path: Path) -> None:
    outcome = sweep(
        tmp_path,
        trainable=NAME,
        config={"uneven": True, "log": str(tmp_path / "log")},
        search={"algorithm": "tpe", "n_startup_trials": 3},
        search_space={"lr": {"loguniform": [1e-3, 1]}},
        scheduler={"algorithm": "asha", "grace_period": 3 * STEPS, "reduction_factor": 2},
        stop={ENV_STEPS: 12 * STEPS},
        num_samples=6,
        seeds=3,
        seed=1,
    )
    trials = load_sweep(outcome.folder).trials
    lengths = [trial.frame[ENV_STEPS].max() // STEPS for trial in trials]
    assert len(lengths) == 6 and max(lengths) == 12 and min(lengths) < 12, lengths
    for trial in trials:
        assert "seed" not in trial.config
        for _, row in trial.frame.iterrows():
            spent = {row[f"seed_{seed}/{ENV_STEPS}"] for seed in (1, 2, 3)}
            assert spent == {row[ENV_STEPS]}, "a rung without some of the seeds"
            returns = [row[f"seed_{seed}/{RETURN}"] for seed in (1, 2, 3)]
            assert row[RETURN] == pytest.approx(np.mean(returns))  # of three, none is cut off
    rungs = {rung for trial in trials for rung in trial.frame[ENV_STEPS]}
    assert {3 * STEPS, 6 * STEPS} <= rungs

    told = [trial.value for trial in told_to_optuna(outcome.folder)]
    ended = {
        trial.frame[RETURN].iloc[-1]
        for trial, length in zip(trials, lengths, strict=True)
        if length == 12
    }
    assert ended <= set(told)


def test_the_policy_is_the_median_seeds(tmp_path: Path) -> None:
    outcome = sweep(
        tmp_path,
        trainable=NAME,
        stop={ENV_STEPS: 4 * STEPS},
        search_space={"lr": {"grid": [0.01, 0.5]}},
        seeds={"values": [7, 0, 2], "parallel": 2},
        checkpoint={"frequency": 1, "num_to_keep": 3},
    )
    assert outcome.best is not None and not outcome.failures
    best = best_checkpoint(outcome.folder, RETURN)
    assert best.metrics["median_seed"] == 2 and best.metrics["num_seeds"] == 3
    folders = sorted(path.name for path in best.path.iterdir() if path.is_dir())
    assert folders == ["policies", "seed_0", "seed_2", "seed_7"]
    provenance = json.loads((outcome.best / "export.json").read_text())
    assert provenance["seed"] == 2 and provenance["value"] == best.value
    assert not list(best.path.rglob("*.pkl"))
    frame = outcome.results.get_dataframe()
    assert frame["pid"].nunique() <= 1, "with two processes each, one trial runs at a time"


def test_a_failed_seed_fails_its_trial_by_name(tmp_path: Path) -> None:
    outcome = sweep(
        tmp_path,
        trainable=NAME,
        stop={ENV_STEPS: 4 * STEPS},
        search_space={"fail_seed": {"grid": [None, 1]}},
        seeds={"values": [0, 1], "parallel": 2},
        max_failures=0,
    )
    assert outcome.num_trials == 2 and len(outcome.failures) == 1
    assert outcome.failures[0][1] == "seed 1: ValueError: this seed fails as asked"


def test_a_child_that_dies_is_named_and_its_trial_recovers(tmp_path: Path) -> None:
    outcome = sweep(
        tmp_path,
        trainable=NAME,
        stop={ENV_STEPS: 4 * STEPS},
        config={"kill_seed": 1, "once": str(tmp_path / "died")},
        seeds={"values": [0, 1], "parallel": 2},
        checkpoint={"frequency": 1},
    )
    assert not outcome.failures
    (trial,) = load_sweep(outcome.folder).trials
    error = (trial.path / "error.txt").read_text()
    assert "SeedError: the process of the seeds 1 died" in error
    assert list(trial.frame["training_iteration"]) == [1, 2, 3, 4]
    assert list(trial.frame[f"seed_1/{ENV_STEPS}"]) == [100, 200, 300, 400]


def test_clones_go_on_from_the_donors_same_seed(tmp_path: Path) -> None:
    """What PBT does with trainables: save the donor, restore it in a trial with other settings."""
    donor, clone, other = _exchange(str(tmp_path))
    for seed in (0, 1):
        assert np.array_equal(donor["weights"][seed], clone["weights"][seed])
        assert donor["streams"][seed] != clone["streams"][seed]
    assert clone["lr"] == 0.5 and clone["iteration"] == donor["iteration"] == 1
    assert not np.array_equal(donor["weights"][0], donor["weights"][1])
    assert other[ENV_STEPS] > clone["steps"]


def _exchange(folder: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    from types import SimpleNamespace

    from ray.tune.result import TRIAL_INFO

    def trial(name: str, **settings: Any) -> Any:
        info = SimpleNamespace(trial_id=name, trial_name=name, trial_resources=None)
        return with_seeds(PPO, 2)(config={**TINY, **settings, TRIAL_INFO: info})

    def state(it: Any) -> dict[str, Any]:
        instances = it._hosts._here._instances
        states = {seed: instance.get_state() for seed, instance in instances.items()}
        return {
            "weights": {
                seed: np.concatenate(
                    [w.ravel() for w in i.get_weights()["default_policy"].values()]
                )
                for seed, i in instances.items()
            },
            "streams": {s: str(state["env_runners"]) for s, state in states.items()},
            "lr": next(iter(instances.values())).config.lr,
            "iteration": it.iteration,
            "steps": it._furthest(),
        }

    donor, clone = trial("donor"), trial("clone", lr=0.5)
    donor.train()
    donor.save(f"{folder}/donor")
    clone.restore(f"{folder}/donor")
    found = state(donor), state(clone)
    return *found, clone.train()
