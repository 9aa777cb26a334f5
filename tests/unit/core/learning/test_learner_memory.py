"""Train batches stay in host memory, and learners may be of a class of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from trainables import PPOConfig
from trainables.core.checkpoint import CheckpointError
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.data.batch import Batch
from trainables.core.errors import ConfigError
from trainables.core.learning.advantages import rollout_outputs
from trainables.core.learning.learner import Learner
from trainables.core.policy.policy import Policy
from trainables.ppo import PPO
from trainables.runtime.envs.make import make_vector_env
from trainables.runtime.sampling.env_runner import EnvRunner

ROWS_AT_ONCE = 20


class CountingLearner(Learner):
    """Remembers how many rows it has on its device at once."""

    rows: list[int]

    def on_device(self, minibatch: Batch) -> Batch:
        self.rows = [*getattr(self, "rows", []), len(minibatch["actions"])]
        return super().on_device(minibatch)


def make_config() -> PPOConfig:
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .training(train_batch_size_per_learner=160, minibatch_size=ROWS_AT_ONCE, num_epochs=2)
        .debugging(seed=0)
    )


def test_a_minibatch_at_a_time_is_on_the_learners_device() -> None:
    with make_config().training(learner_class=CountingLearner).build() as algo:
        algo.training_step()
        learner = algo.learners["default_policy"]
        assert isinstance(learner, CountingLearner)
        assert max(learner.rows) <= ROWS_AT_ONCE
        assert sum(learner.rows) == 2 * algo.num_env_steps_trained


@pytest.mark.parametrize("model", [{}, {"use_lstm": True, "max_seq_len": 7}], ids=["mlp", "lstm"])
def test_outputs_of_a_rollout_are_the_same_in_parts(
    model: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: `HOST` is made another device than the policy's."""
    env = make_vector_env("CartPole-v1", {}, 4)
    config = make_config().training(model=model)
    policy = Policy(env.single_observation_space, env.single_action_space, config.model, seed=1)
    rollout = EnvRunner(config, {DEFAULT_MODULE_ID: policy}, env, np.random.SeedSequence(2)).sample(
        30
    )[0]["default_policy"]
    features, whole = rollout_outputs(policy, rollout, ROWS_AT_ONCE)
    seen: list[int] = []
    look = policy.features

    def counted(obs: Any) -> Any:
        seen.append(obs.shape[0] * obs.shape[1])
        return look(obs)

    monkeypatch.setattr(policy, "features", counted)
    monkeypatch.setattr(policy, "device", torch.device("cpu", 0))  # does not equal `HOST`
    features_of_parts, parts = rollout_outputs(policy, rollout, ROWS_AT_ONCE)
    assert max(seen) <= ROWS_AT_ONCE and sum(seen) == 31 * 4
    assert isinstance(features, Tensor) and isinstance(features_of_parts, Tensor)
    torch.testing.assert_close(features_of_parts, features)
    torch.testing.assert_close(parts.values, whole.values)
    torch.testing.assert_close(parts.dist_inputs, whole.dist_inputs)


def test_a_learner_class_must_be_one_and_is_trusted_by_name(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match=r"learner_class = 'collections:Counter'.*subclass"):
        make_config().training(learner_class="collections:Counter").build()
    with make_config().training(learner_class=CountingLearner).build() as algo:
        state = algo.get_state()
        state["config"] = {
            **state["config"],
            "learner_class": "trainables.core.learning.learner:Learner",
        }
        with pytest.raises(CheckpointError, match="pass trust="):
            PPO.from_state(state)
        with PPO.from_state(state, trust=["trainables.core.learning.learner:Learner"]) as trusted:
            assert type(trusted.learners["default_policy"]) is Learner
