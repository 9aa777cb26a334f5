"""Two policies on one environment by slot learn apart, in process and with env runners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from two_policies import LARGE, SIZES, SMALL, TwoPolicies, two_policies

from trainables import IMPALA
from trainables.core.errors import ConfigError

ACTORS = {"num_env_runners": 2, "num_cpus_per_env_runner": 0.5}
pytestmark = pytest.mark.usefixtures("ray_here")
everywhere = pytest.mark.parametrize("settings", [{}, ACTORS], ids=["in_process", "actors"])


def learned(algo: TwoPolicies) -> dict[str, Any]:
    """Return all that the modules have learned: weights, filters and KL coefficients."""
    filters = {m: p.observations.filter for m, p in algo.policies.items()}
    return {
        "weights": algo.get_weights(),
        "filters": {m: f.get_state() for m, f in filters.items() if f is not None},
        "kl": dict(algo.kl_coeffs),
    }


@everywhere
def test_each_module_learns_from_its_own_slots(settings: dict[str, Any]) -> None:
    with two_policies(**settings) as algo:
        runners = settings.get("num_env_runners") or 1
        slots = {SMALL: 3 * runners, LARGE: 2 * runners}
        rollouts = algo.sample()
        assert {m: rollout.rewards.shape[1] for m, rollout in rollouts.items()} == slots
        sampled = sum(rollout.num_env_steps for rollout in rollouts.values())
        assert algo.num_env_steps_sampled == sampled
        before = learned(algo)
        result = algo.train()
        after = learned(algo)
        for m, size in SIZES.items():
            assert f"learner/{m}/policy_loss" in result
            weights = after["weights"][m]
            assert any(len(weight) == size for weight in weights.values())
            assert any((weight != before["weights"][m][n]).any() for n, weight in weights.items())
            for of_runner in algo.env_runners.foreach_env_runner(lambda r: r.get_weights()):
                for name, weight in of_runner[m].items():
                    np.testing.assert_array_equal(weight, weights[name])
        assert after["kl"][SMALL] != after["kl"][LARGE]
        # Each filter has seen the frames of its own slots, and no other's.
        counts = {m: found["count"] for m, found in after["filters"].items()}
        assert counts[SMALL] * slots[LARGE] == counts[LARGE] * slots[SMALL] > 0
        assert result["evaluation/num_episodes"] == 4  # of slots 0 to 3: both play


@everywhere
def test_a_resumed_run_goes_on_to_the_bit(settings: dict[str, Any], tmp_path: Path) -> None:
    with two_policies(**settings) as algo:
        algo.train()
        algo.save(str(tmp_path))
        ours, mine = algo.train(), learned(algo)
    with TwoPolicies.from_checkpoint(str(tmp_path), list(settings)) as resumed:
        theirs, found = resumed.train(), learned(resumed)
    np.testing.assert_equal(found, mine)
    for name in ("episode_return_mean", "evaluation/episode_return_mean"):
        assert theirs[name] == ours[name]


def test_a_module_that_acts_nowhere_would_never_learn() -> None:
    with pytest.raises(ConfigError, match="the module 'large' acts in none of 1 slots"):
        two_policies(num_envs_per_env_runner=1)


def test_modules_have_a_memory_together_or_not_at_all() -> None:
    class OneForgets(TwoPolicies):
        def policy_options(self, module_id: str) -> dict[str, Any]:
            return {"model": {"use_lstm": False}} if module_id == SMALL else {}

    with two_policies() as algo:
        config = algo.config.copy(copy_frozen=False)
    config.model = {"use_lstm": True}
    with pytest.raises(ConfigError, match="the module 'small' and the setting model differ"):
        OneForgets(config=config)


def test_a_learner_may_have_no_slot_of_a_module_with_a_memory() -> None:
    memory = {"model": {"use_lstm": True, "lstm_cell_size": 8}, "num_envs_per_env_runner": 3}
    learners = {"num_learners": 2, "num_cpus_per_learner": 0.5, "train_batch_size_per_learner": 60}
    with two_policies(**memory, **learners) as algo:  # one slot is the large module's
        before = learned(algo)["weights"]
        result = algo.train()
        after = learned(algo)["weights"]
    for m in SIZES:
        assert np.isfinite(result[f"learner/{m}/total_loss"])
        assert any((weight != before[m][n]).any() for n, weight in after[m].items())


def test_learners_need_fragments_of_every_module_from_each_env_runner() -> None:
    class ByRunner(IMPALA):
        @classmethod
        def module_ids(cls, config: Any) -> tuple[str, ...]:
            return (SMALL, LARGE)

        @staticmethod
        def module_of_slot(slot: int, worker_index: int) -> str:
            return (SMALL, LARGE)[worker_index % 2]

    settings = {"env": "CartPole-v1", "num_learners": 2, "num_cpus_per_learner": 0.5, **ACTORS}
    with pytest.raises(ConfigError, match="'small' acts in no slot of env runner 1"):
        ByRunner(settings)
