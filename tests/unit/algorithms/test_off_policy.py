"""What DQN and SAC share: replay ratio, target updates, truncation, and settings that hold."""

from collections.abc import Callable
from copy import deepcopy
from math import floor
from typing import Any

import numpy as np
import pytest
import torch
from every_row import check_rows
from fakes import EndlessEnv
from tiers import covering

from trainables import DQN, SAC, DQNConfig
from trainables.core.config.resolved import exact
from trainables.runtime.replay.replayed import Replayed

TINY: dict[str, Any] = {
    "env": EndlessEnv,
    "env_config": {"horizon": 3},  # every fourth row only resets
    "seed": 1,
    "model": {"fcnet_hiddens": [8]},
    "num_envs_per_env_runner": 1,
    "num_steps_sampled_before_learning_starts": 20,
    "train_batch_size_per_learner": 8,
    "training_intensity": 8,
    "min_sample_timesteps_per_iteration": 60,
    "replay_buffer_config": {"capacity": 1000},
}


def record(algo: Any, name: str, seen: Callable[..., Any]) -> list[Any]:
    """What `seen` says of the arguments of each call of a method, which goes on as before."""
    calls: list[Any] = []
    method = getattr(algo, name)

    def recording(*args: Any, **kwargs: Any) -> Any:
        calls.append(seen(*args, **kwargs))
        return method(*args, **kwargs)

    setattr(algo, name, recording)
    return calls


# ---------------------------------------------------------------------- replay ratio


def updates_of(steps: int, starts: int, intensity: float, batch: int) -> int:
    return floor(max(0, steps - starts) * exact(intensity) / batch)


def test_the_number_of_updates_is_what_the_setting_says_at_all_times() -> None:
    def check(intensity: float, fragment: int, slots: int) -> None:
        settings = {
            "num_envs_per_env_runner": slots,
            "rollout_fragment_length": fragment,
            "training_intensity": intensity,
        }
        with DQN(TINY | settings) as algo:
            learned = record(algo.learners["default_policy"], "update_step", lambda *a: 1)
            steps, rounds = algo.num_env_steps_sampled, 0
            while steps < (200 if intensity < 1 else 60 if intensity < 9 else 40):
                algo.training_step()
                rounds += 1
                steps = algo.num_env_steps_sampled
                assert algo.num_updates == len(learned) == updates_of(steps, 20, intensity, 8)
            assert algo.num_updates > 0 and algo.num_env_steps_trained == 8 * algo.num_updates
            assert steps < rounds * slots * fragment  # rows that only reset are no steps

    rows = [(0.1, 1, 3), (0.1, 5, 1), (3, 1, 1), (3, 5, 3), (100 / 3, 1, 3), (100 / 3, 5, 1)]
    check_rows(check, rows)


@pytest.mark.parametrize("algorithm", [DQN, SAC])
@pytest.mark.parametrize(("slots", "fragment"), [(1, 4), (3, 2)])
def test_without_an_intensity_there_is_one_update_per_round(
    algorithm: Any, slots: int, fragment: int
) -> None:
    settings = {"num_envs_per_env_runner": slots, "rollout_fragment_length": fragment}
    with algorithm(TINY | settings | {"training_intensity": None}) as algo:
        rounds = 0
        for _ in range(20):
            algo.training_step()
            rounds += algo.num_env_steps_sampled >= 20
            assert algo.num_updates == rounds


def test_auto_fragments_are_as_short_as_make_one_update_due() -> None:
    def check(intensity: float | None, slots: int, length: int) -> None:
        config = DQNConfig.from_dict(
            TINY | {"training_intensity": intensity, "num_envs_per_env_runner": slots}
        )
        assert config.get_rollout_fragment_length() == length

    rows = [(8, 1, 1), (1, 1, 8), (1, 3, 3), (3, 1, 3), (64, 1, 1), (0.1, 8, 10), (None, 4, 1)]
    check_rows(check, rows)


def test_learning_may_start_at_once() -> None:
    with DQN(TINY | {"num_steps_sampled_before_learning_starts": 0}) as algo:
        algo.training_step()
        assert algo.num_updates == algo.num_env_steps_sampled == 1


def test_each_module_has_the_updates_that_are_due_for_its_own_steps() -> None:
    """Intensity and batch size are 8: an update for each step."""
    with DQN(TINY) as algo:
        stores = {m: deepcopy(algo.experience["default_policy"]) for m in ("one", "other")}
        experience = Replayed(algo.config, stores, row_bytes=4)
        while not experience.is_enough("one"):
            rollout = algo.sample()["default_policy"]
            experience.add({"one": rollout, "other": rollout})
        experience.reseed(np.random.SeedSequence(5))
        drawn = dict(experience.draws({"one": 3, "other": 1}, beta=1.0))
        assert {m: d.num_batches for m, d in drawn.items()} == {"one": 3, "other": 1}
        before = experience["one"].num_added
        steps = int(rollout.valid.sum())
        assert experience.add({"one": rollout}) == {"one": steps}
        assert experience["one"].num_added - before == steps
        assert experience["other"].num_added == before


@pytest.mark.parametrize("count_by", ["env_steps", "agent_steps"])
def test_learning_starts_by_the_steps_that_are_counted(count_by: str, tmp_path: Any) -> None:
    """Several agents of one policy have several rows a step."""
    config = DQNConfig().environment("multi_agent_cartpole", env_config={"num_agents": 4})
    config.multi_agent(policies=["a"], policy_mapping_fn={"*": "a"}, count_steps_by=count_by)
    config.training(num_steps_sampled_before_learning_starts=40, train_batch_size_per_learner=8)
    config.training(store_buffer_in_checkpoints=True)
    with config.debugging(seed=1).build() as algo:
        saved = algo.save(str(tmp_path / "early"))
        steps = 0
        while not algo.num_updates:
            before, steps = steps, algo._num_sampled
            if before < 20 <= steps:
                saved = algo.save(str(tmp_path / "half"))
            algo.training_step()
        assert before < steps <= 40 < algo._num_sampled
        rows = algo.experience["a"].num_added
        assert rows == algo.num_agent_steps_sampled > algo.num_env_steps_sampled
    with DQN.from_checkpoint(saved) as again:  # what was waited for is kept
        assert again.experience._sampled["a"] >= 20 and not again.num_updates
        while not again.num_updates:
            steps = again._num_sampled
            again.training_step()
        assert steps <= 40 < again._num_sampled


def test_importance_weights_follow_the_schedule_of_beta() -> None:
    buffer = {"type": "PrioritizedReplayBuffer", "beta": [[0, 0.5], [1000, 1.0]], "capacity": 1000}
    with DQN(TINY | {"replay_buffer_config": buffer}) as algo:
        replay = algo.experience["default_policy"]
        betas = record(replay, "sample", lambda *_, beta, **__: beta)
        for _ in range(30):
            algo.training_step()
        steps = algo.num_env_steps_sampled
        assert betas[-1] == 0.5 + 0.5 * steps / 1000 and betas[0] < betas[-1]


# ---------------------------------------------------------------------- target updates


@pytest.mark.parametrize(
    ("slots", "rhythm"),
    covering([1, 3, 8], [(7, 8), (20, 3), (10, 64), (1, 16), (3, 0.5)], strength=1),
)
def test_targets_are_updated_by_environment_steps_whatever_the_number_of_slots(
    slots: int, rhythm: tuple[int, float]
) -> None:
    frequency, intensity = rhythm
    settings = {
        "num_envs_per_env_runner": slots,
        "training_intensity": intensity,
        "target_network_update_freq": frequency,
    }
    updates_between = exact(intensity) / 8 * frequency
    with DQN(TINY | settings) as algo:
        updated = record(algo.learners["default_policy"], "update_target", lambda *a: a)
        while len(updated) < 4:
            algo.training_step()
            if updates_between < 1:  # targets cannot move more often than what they follow
                assert len(updated) == algo.num_updates
                continue
            assert len(updated) == floor(algo.num_updates / updates_between)
            due = (algo.num_env_steps_sampled - 20) / frequency
            assert due - 1 / float(updates_between) - 1 < len(updated) <= max(0, due)
        assert set(updated) == {("q", 1.0)}


@pytest.mark.parametrize(("algorithm", "tau"), [(DQN, 0.25), (SAC, 0.005)])
def test_frequency_zero_is_after_every_update(algorithm: Any, tau: float) -> None:
    """And by tau, exactly."""
    with algorithm(TINY | {"target_network_update_freq": 0, "tau": tau}) as algo:
        learner = algo.learners["default_policy"]
        ((name, target),) = learner.targets.items()
        updated = record(learner, "update_target", lambda *a: a)
        for _ in range(45):
            old, number = target.get_state(), algo.num_updates
            algo.training_step()
            if algo.num_updates == number + 1:
                online = learner.groups[name].vector.detach()
                torch.testing.assert_close(target.get_state(), tau * online + (1 - tau) * old)
                assert not torch.equal(target.get_state(), old)
            else:
                assert algo.num_updates == number and torch.equal(target.get_state(), old)
        assert len(updated) == algo.num_updates > 10
        assert all(p.grad is None or not p.grad.any() for p in target.network.parameters())


# ---------------------------------------------------------------------- truncation


def learned_value(algorithm: Any, terminates: bool, n_step: int, gamma: float = 0.8) -> float:
    """What Q converges to in a world of reward 1 that looks always the same, cut every 5 steps."""
    settings = {
        "env_config": {"horizon": 5, "terminates": terminates},
        "num_envs_per_env_runner": 4,
        "train_batch_size_per_learner": 64,
        "training_intensity": 64,
        "gamma": gamma,
        "n_step": n_step,
        "lr": [[0, 0.03], [250, 0.003]],
        "tau": 0.2,
        "target_network_update_freq": 0,
    }
    if algorithm is DQN:
        settings["td_error_loss_fn"] = "mse"
    else:
        settings |= {"initial_alpha": 1e-4, "alpha_lr": 0.0}
    with algorithm(TINY | settings) as algo:
        while algo.num_env_steps_sampled < 320:
            algo.training_step()
        policy, features = algo.get_policy(), torch.ones(1, 1)
        inputs = policy.module.dist_inputs(features)
        if algorithm is DQN:
            return float(inputs.max())
        q_values = policy.module.q_values(features).amin(0)
        return float((inputs.softmax(-1) * q_values).sum())


def terminating_value(n_step: int, gamma: float = 0.8) -> float:
    """The fixed point of Q = mean over the 5 positions of the n-step target."""
    constant = slope = 0.0
    for position in range(5):
        steps = min(n_step, 5 - position)
        constant += sum(gamma**k for k in range(steps)) / 5
        slope += gamma**steps / 5 if position + steps < 5 else 0
    return constant / (1 - slope)


@pytest.mark.parametrize(
    ("algorithm", "n_step"),
    [
        (DQN, 3),
        pytest.param(DQN, 1, marks=pytest.mark.full),
        pytest.param(SAC, 3, marks=pytest.mark.full),
    ],
)
def test_q_bootstraps_through_truncations_and_not_through_terminations(
    algorithm: Any, n_step: int
) -> None:
    assert learned_value(algorithm, False, n_step) == pytest.approx(1 / (1 - 0.8), rel=0.03)
    finite = terminating_value(n_step)
    assert finite < 3
    assert learned_value(algorithm, True, n_step) == pytest.approx(finite, rel=0.1)


# ---------------------------------------------------------------------- settings hold


def test_a_mutated_setting_reaches_the_running_algorithm() -> None:
    """As population-based training does it: reset with a new config, then take over a donor."""
    old = TINY | {"store_buffer_in_checkpoints": True, "n_step": 1, "epsilon": 1.0, "lr": 1e-3}
    new = old | {
        "tau": 0.25,
        "n_step": 3,
        "target_network_update_freq": 5,
        "training_intensity": 16,
        "epsilon": 0.125,
        "lr": 5e-4,
        "gamma": 0.5,
        "env_config": {"horizon": 50},
    }
    with DQN(old | {"env_config": {"horizon": 50}}) as algo:
        for _ in range(40):
            algo.training_step()
        assert algo.num_updates == 20
        state = algo.get_state()
        algo.reset_config(new)
        algo.set_state(state)
        learner = algo.learners["default_policy"]
        replay, policy = algo.experience["default_policy"], algo.get_policy()
        taus = record(learner, "update_target", lambda name, tau: tau)
        drawn = record(learner, "update_step", lambda batch, *_: dict(batch))
        for _ in range(20):
            algo.training_step()
        assert algo.num_env_steps_sampled == 60 and algo.num_updates == 20 + 2 * 20
        assert taus == [0.25] * 4
        horizons = torch.cat([batch["n_steps"] for batch in drawn])
        assert horizons.max() == 3 and (horizons == 3).float().mean() > 0.8
        discounts = torch.cat([batch["discounts"] for batch in drawn])
        torch.testing.assert_close(discounts, 0.5**horizons)
        assert policy.distribution.epsilon == 0.125  # type: ignore[attr-defined]
        assert [group["lr"] for group in learner.optimizer.param_groups] == [5e-4]
        assert replay.num_steps == 60  # the donor's rows and 20 more
