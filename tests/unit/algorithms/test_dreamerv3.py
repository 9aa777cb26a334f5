"""DreamerV3 as a whole: resume, replay ratio, several learners, saved and exported policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from every_row import check_rows
from ray.tune.registry import get_trainable_cls
from thread_ranks import on_ranks

from trainables import Algorithm, DreamerV3, DreamerV3Config, Policy
from trainables.core.config.config import DEFAULT_MODULE_ID as MODULE
from trainables.core.data.batch import tree_of
from trainables.core.errors import ConfigError
from trainables.core.learning.ranks import Ranks
from trainables.dreamerv3.losses import observe
from trainables.dreamerv3.sizes import SIZES
from trainables.dreamerv3.update import dreamer_update, warmed_up
from trainables.registry import get_algorithm, register_names
from trainables.runtime.learners.actor import shares
from trainables.runtime.learners.group import LearnerWorker
from trainables.runtime.learners.off_policy_update import UpdatePlan

TINY: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 1,
    "model_size": "nano",
    "batch_size_B": 2,
    "batch_length_T": 8,
    "horizon_H": 3,
    "training_ratio": 2,
    "num_envs_per_env_runner": 2,
    "num_steps_sampled_before_learning_starts": 40,
    "min_sample_timesteps_per_iteration": 80,
    "replay_buffer_config": {"capacity": 2000},
    "store_buffer_in_checkpoints": True,
}


def weights_of(algo: Any) -> dict[str, np.ndarray]:
    weights: dict[str, np.ndarray] = algo.get_policy().get_weights()
    return weights


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_tune_knows_its_name() -> None:
    register_names()  # other tests of this process change what Tune knows
    assert get_trainable_cls("DreamerV3") is DreamerV3
    with pytest.raises(ConfigError, match="did you mean 'DreamerV3'"):
        get_algorithm("dreamer_v3")


@pytest.mark.parametrize(
    ("env", "use_float16"),
    [
        ("CartPole-v1", False),
        pytest.param("Pendulum-v1", False, marks=pytest.mark.full),
        pytest.param("Pendulum-v1", True, marks=pytest.mark.full),
    ],
)
def test_a_resumed_run_is_the_same_to_the_bit(env: str, use_float16: bool, tmp_path: Path) -> None:
    """Networks, slow critic, moments, buffer, its line and its latents, and all streams."""
    settings = TINY | {"env": env, "replay_buffer_config": {"capacity": 80}}
    settings |= {"use_float16": use_float16, "min_sample_timesteps_per_iteration": 30}
    with DreamerV3(settings) as algo:
        algo.train()
        saved = algo.save(str(tmp_path))
        for _ in range(2):
            algo.train()
        expected = weights_of(algo)
        target = algo.learners[MODULE].targets["critic"].get_state()  # type: ignore[index]
    with Algorithm.from_checkpoint(saved) as again:
        for _ in range(2):
            again.train()
        assert same(weights_of(again), expected)
        assert torch.equal(again.learners[MODULE].targets["critic"].get_state(), target)


def test_parameters_and_moments_stay_float32() -> None:
    """With products in bfloat16 an iteration trains, and not as without."""
    weights = []
    for use_float16 in (False, True):
        with DreamerV3(TINY | {"use_float16": use_float16}) as algo:
            result = algo.train()
            weights.append(weights_of(algo))
            learner: Any = algo.learners[MODULE]  # type: ignore[index]
            moments = [v for state in learner.optimizer.state.values() for v in state.values()]
        assert all(g.vector.dtype == torch.float32 for g in learner.groups.values())
        assert all(m.dtype == torch.float32 for m in moments if torch.is_tensor(m) and m.dim())
        assert np.isfinite([v for n, v in result.items() if n.endswith("_loss")]).all()
    assert not same(*weights)


def test_the_ratio_is_kept_exactly() -> None:
    """Replayed rows per environment step, from the first step on that updates are due for."""
    with DreamerV3(
        TINY | {"training_ratio": 3.2, "min_sample_timesteps_per_iteration": 30}
    ) as algo:
        for _ in range(3):
            algo.train()
        due = 3.2 * (algo.num_env_steps_sampled - 40) / 16
        assert 0 <= due - algo.num_updates < 1


def test_every_size_has_networks_of_its_own() -> None:
    def check(name: str) -> None:
        preset = SIZES[name]
        size = preset.size
        assert size.deter % size.blocks == 0 and size.classes <= 254
        config = DreamerV3Config(model_size=name)
        assert (config.base_lr, config.num_warmup_updates) == (preset.lr, preset.warmup_updates)
        given = DreamerV3Config(model_size=name, lr=1e-3, warmup_updates=0)
        assert (given.base_lr, given.num_warmup_updates) == (1e-3, 0)

    check_rows(check, SIZES)


def test_authors_sizes_have_about_as_many_parameters_as_they_are_called() -> None:
    obs = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    for name, millions in (("1M", 1), ("12M", 12)):
        config = DreamerV3Config(model_size=name)
        module = {"type": "dreamer", **SIZES[name].size.to_dict()}
        policy = Policy(obs, gym.spaces.Discrete(6), config.resolve().model, module=module)
        count = sum(p.numel() for p in policy.module.parameters()) / 1e6
        assert 0.6 * millions < count < 1.6 * millions, (name, count)


def test_learning_rates_rise_at_first() -> None:
    rates = {"actor": 1.0, "critic": 2.0}
    assert warmed_up(rates, 0, 3) == {"actor": 0.25, "critic": 0.5}
    assert warmed_up(rates, 3, 3) == warmed_up(rates, 9, 3) == warmed_up(rates, 0, 0) == rates


def test_latents_are_those_of_the_last_update() -> None:
    """What an update found lies before the rows that follow, for the next draw of them."""
    with DreamerV3(TINY) as algo:
        algo.train()
        replay: Any = algo.experience[MODULE]
        kept = replay.write_latents
        seen: dict[str, Any] = {}

        def write(ids: Any, after: Any) -> None:
            seen.update(ids=ids, after=after)
            kept(ids, after)

        replay.write_latents = write
        algo.learn({MODULE: 16}, {MODULE: algo.learning_rates()})
        rows = replay._rows
        following = rows.next(seen["ids"].numpy()).reshape(-1)
        _, place, count = np.unique(following, return_index=True, return_counts=True)
        once = place[count == 1]  # other rows are in two sequences, and have one of their states
        assert len(once) > 10
        for name, part in rows.states.read(following[once]).items():
            expected = seen["after"][name].flatten(0, 1).numpy()[once]
            np.testing.assert_array_equal(part, expected)


def worker_of(algo: Any, ranks: Ranks) -> LearnerWorker:
    policy = Policy(**algo.get_policy().recipe)
    policy.set_state(algo.get_policy().get_state())
    learner = DreamerV3.make_learner(algo.config, policy.module)
    return LearnerWorker(algo.config, {MODULE: policy}, {MODULE: learner}, {}, 7, ranks)


def test_learners_that_train_together_have_the_same_weights() -> None:
    with DreamerV3(TINY | {"batch_size_B": 4}) as algo:
        while not algo.experience.is_enough(MODULE):
            algo.experience.add(algo.sample())
        drawn = algo.experience.draw(MODULE, 3, beta=1.0)
        drawn = drawn.with_columns(algo.prepare(algo.get_policy(), drawn.columns))
        plan = UpdatePlan(algo.learning_rates(), 0, [True] * 3)

        def learn(ranks: Ranks) -> Any:
            worker = worker_of(algo, ranks)
            learned = dreamer_update(worker, shares(drawn, ranks.size)[ranks.rank], MODULE, plan)
            return worker.policies[MODULE].get_weights(), learned

        (one, first), (other, second) = on_ranks(2, learn)
        assert same(one, other)
        for name, part in first.after.items():
            assert part.shape[:2] == drawn.columns["ids"].shape
            assert torch.equal(part, second.after[name])


class EndEnv(gym.Env):
    """Episodes of 4 steps; a reward of 3 with the end, and none before it."""

    observation_space = gym.spaces.Box(0, 4, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        self.t += 1
        return np.full(1, self.t, np.float32), 3.0 * (self.t == 4), self.t == 4, False, {}


@pytest.mark.full(
    "unit/algorithms/test_dreamerv3_replay.py::test_rewards_and_ends_lie_in_the_rows_that_they_led_to"
)
def test_a_reward_that_comes_with_the_end_is_learned() -> None:
    """The row of the last observation is no step, and yet the only one with a reward."""
    changes = {"env": EndEnv, "batch_size_B": 8, "training_ratio": 32, "lr": 3e-3}
    with DreamerV3(TINY | changes) as algo:
        while algo.num_updates < 300:
            algo.train()
        drawn = algo.experience.draw(MODULE, 4, beta=1.0)
        batch = algo.prepare(algo.get_policy(), drawn.columns)
        module: Any = algo.get_policy().module
        with torch.no_grad():
            states = observe(module, batch, torch.Generator().manual_seed(0)).latents.features
            rewards = module.reward.mean(module.reward(states))
            goes_on = module.continuation(states).squeeze(-1).sigmoid()
    step = tree_of(batch, "features")["@vector"].squeeze(-1)  # type: ignore[index]
    assert (step[batch["is_last"]] == 4).all() and batch["is_last"].any()
    assert rewards[step == 4].mean().item() == pytest.approx(3.0, abs=0.3)
    assert rewards[(step > 0) & (step < 4)].abs().mean().item() < 0.3
    assert goes_on[step == 4].mean() < 0.2 and goes_on[step < 4].mean() > 0.8


def test_a_loaded_policy_acts_as_the_trained_one(tmp_path: Path) -> None:
    with DreamerV3(TINY) as algo:
        algo.train()
        loaded = Policy.load(algo.save(str(tmp_path)))
        obs, states, actions = np.zeros(4, np.float32), [None, None], [None, None]
        for t in range(5):
            for i, policy in enumerate((algo.get_policy(), loaded)):
                more: dict[str, Any] = {} if t == 0 else {"prev_action": actions[i]}
                computed = policy.compute_single_action(
                    obs + 0.1 * t, states[i], explore=False, **more
                )
                states[i], actions[i] = computed.state, computed.actions
            assert actions[0] == actions[1]
            assert np.allclose(states[0]["h"], states[1]["h"])  # type: ignore[index]


def test_what_means_nothing_here_is_refused() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"model": {"fcnet_hiddens": [8]}}, "model_size says what its networks are"),
        ({"model": {"use_lstm": True}}, "use_lstm"),
        ({"training_intensity": 4}, "training_ratio"),
        ({"train_batch_size_per_learner": 4}, "batch_size_B"),
        ({"n_step": 3}, "lambda-returns"),
        ({"model_size": "huge"}, "one of 'nano'"),
        ({"torch_compile_learner": True}, "another program"),
        ({"input_": "data"}, "sequences of what it samples"),
    ]
    for settings, says in refused:
        with pytest.raises(ConfigError, match=says):
            DreamerV3Config.from_dict(TINY | settings).validate()
    prioritized = {"replay_buffer_config": {"type": "PrioritizedReplayBuffer"}}
    with pytest.raises(ConfigError, match="drawn uniformly"):
        DreamerV3Config.from_dict(TINY | prioritized).validate()
    with pytest.raises(ConfigError, match="raise capacity to 20"):
        few = {"replay_buffer_config": {"capacity": 18}}
        few |= {"num_steps_sampled_before_learning_starts": 10}
        DreamerV3Config.from_dict(TINY | few).validate()


def test_unbounded_actions_are_refused() -> None:
    space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    module = {"type": "dreamer", **SIZES["nano"].size.to_dict()}
    model = DreamerV3Config().resolve().model
    with pytest.raises(ConfigError, match=r"Box\(-inf, inf, .* means of its Gaussians lie between"):
        Policy(gym.spaces.Discrete(2), space, model, module=module)
