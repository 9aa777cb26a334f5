"""Sequences of a rollout: whole columns in one go say the same, and nothing else reaches a loss."""

from typing import Any

import numpy as np
import pytest
import torch
from fakes import EncodingVectorEnv
from torch import Tensor, nn

from trainables import PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.data.features import Features
from trainables.core.learning.advantages import rollout_outputs
from trainables.core.learning.minibatches import (
    chunked,
    minibatches,
    sequence_batch,
    unrolled,
    valid_rows,
)
from trainables.core.networks.memory import State, reset_state
from trainables.core.networks.modules import ModuleOutput
from trainables.core.policy.policy import Policy
from trainables.runtime.sampling.env_runner import EnvRunner

T, N, LENGTH = 11, 3, 4


class Adder(nn.Module):
    """Remembers the decayed sum of what it has seen in an episode: outputs it, times a weight."""

    is_recurrent = True

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0))

    def unroll(
        self, features: Features, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[ModuleOutput, State]:
        assert isinstance(features, Tensor)
        sums, outputs = state["sum"], []
        for row, first in zip(features[..., 0], is_first, strict=True):
            sums = 0.5 * torch.where(first, 0.0, sums) + row
            outputs.append(sums * self.weight)
        stacked = torch.stack(outputs)
        if ends_unseen:
            ends = torch.cat([is_first[1:], torch.zeros_like(is_first[:1])])
            stacked = stacked.masked_fill(ends, torch.nan)
        return ModuleOutput(stacked.unsqueeze(-1), stacked), {"sum": sums}


def rollout() -> dict[str, Any]:
    """T rows of N columns with two episode ends, and the true state before every row."""
    random = torch.Generator().manual_seed(0)
    features = torch.randn(T, N, 1, generator=random)
    valid = torch.ones(T, N, dtype=torch.bool)
    valid[2, 0] = valid[7, 1] = False  # rows that only reset
    is_first = torch.cat([torch.zeros(1, N, dtype=torch.bool), ~valid[:-1]])
    states, state = [], {"sum": torch.randn(N, generator=random)}
    for t in range(T):
        state = reset_state(state, is_first[t])
        states.append(state["sum"])
        _, state = Adder().unroll(features[t : t + 1], state, torch.zeros(1, N, dtype=torch.bool))
    return {
        "features": features,
        "valid": valid,
        "is_first": is_first,
        "states": torch.stack(states).detach(),
        "ids": torch.arange(T * N).view(T, N),
    }


def batch_of(r: dict[str, Any]) -> dict[str, Tensor]:
    columns = {name: r[name] for name in ("valid", "is_first", "ids")}
    return sequence_batch(columns, r["features"], {"sum": r["states"][::LENGTH]}, LENGTH)


def test_chunks_are_runs_of_one_column() -> None:
    chunks = chunked(rollout()["ids"], LENGTH)
    assert chunks.shape == (3 * N, LENGTH)
    assert chunks[1].tolist() == [1, 4, 7, 10]  # column 1, rows 0 to 3
    assert chunks[2 * N].tolist() == [24, 27, 30, 0]  # column 0, rows 8 to 10, and padding


def test_sequences_say_what_whole_columns_say() -> None:
    r, module = rollout(), Adder()
    whole, _ = module.unroll(r["features"], {"sum": r["states"][0]}, r["is_first"])
    output, rows = unrolled(module, batch_of(r))
    expected = {int(i): v for i, v in zip(r["ids"].flatten(), whole.values.flatten(), strict=True)}
    assert sorted(rows["ids"].tolist()) == r["ids"][r["valid"]].sort().values.tolist()
    torch.testing.assert_close(
        output.values, torch.stack([expected[i] for i in rows["ids"].tolist()])
    )
    assert set(rows) == {"ids"}
    assert valid_rows(batch_of(r))["ids"].tolist() == rows["ids"].tolist()


def test_any_minibatch_of_sequences_is_in_order() -> None:
    r, module = rollout(), Adder()
    whole, _ = module.unroll(r["features"], {"sum": r["states"][0]}, r["is_first"])
    flat = whole.values.flatten()
    seen = []
    for part in minibatches(batch_of(r), 1, 2, torch.Generator().manual_seed(1)):
        output, rows = unrolled(module, part)
        torch.testing.assert_close(output.values, flat[rows["ids"]])
        seen += rows["ids"].tolist()
    assert sorted(seen) == r["ids"][r["valid"]].sort().values.tolist()


def test_every_sequence_has_a_row_to_train_on() -> None:
    r = rollout()
    r["valid"][4:8, 1] = r["valid"][8:, 2] = False  # one whole sequence of each
    batch = batch_of(r)
    assert {len(column) for column in batch.values()} == {3 * N - 2}
    assert batch["valid"].any(1).all()
    assert valid_rows(batch)["ids"].sort().values.tolist() == r["ids"][r["valid"]].tolist()
    output, _ = unrolled(Adder(), batch)
    whole, _ = Adder().unroll(r["features"], {"sum": r["states"][0]}, r["is_first"])
    torch.testing.assert_close(output.values, whole.values.flatten()[valid_rows(batch)["ids"]])


@pytest.mark.parametrize("garbage", [1e6, -1e6])
def test_garbage_in_rows_that_are_not_trained_on_moves_no_gradient(garbage: float) -> None:
    gradients = []
    for spliced in (False, True):
        r, module = rollout(), Adder()
        batch = batch_of(r)
        if spliced:
            padding = ~chunked(torch.ones(T, N, dtype=torch.bool), LENGTH)
            batch["features"][padding] = garbage
            batch["features"][batch["ids"] == 2 * N] = garbage  # the row before a reset
        output, _ = unrolled(module, batch)
        output.values.square().mean().backward()
        gradients.append(module.weight.grad)
    torch.testing.assert_close(gradients[0], gradients[1])


def test_states_are_reset_where_an_episode_begins() -> None:
    state = {"h": torch.ones(3, 2), "c": torch.ones(3, 2, 2)}
    same = reset_state(state, np.zeros(3, bool))
    assert same is state
    reset = reset_state(state, np.array([False, True, False]))
    assert reset["h"].tolist() == [[1, 1], [0, 0], [1, 1]]
    assert reset["c"].sum((1, 2)).tolist() == [4, 0, 4]
    assert state["h"].sum() == 6  # the old one is left alone


class FarApart(EncodingVectorEnv):
    """Observations of about 1e5, whatever the step."""

    def _obs(self) -> np.ndarray:
        rng = np.random.default_rng(int(7 * self.t.sum() + self.episode.sum()))
        return rng.normal(0, 1e5, (self.num_envs, 4)).astype(np.float32)


@pytest.mark.parametrize("memory", ["use_lstm", "use_gru", "use_attention"])
def test_with_large_inputs_the_first_epochs_ratio_is_one(memory: str) -> None:
    """Episodes end amid sequences: the rows of their last observations reset the memory."""
    env = FarApart(6, (2, 3, 5))
    model = {memory: True, "fcnet_hiddens": [], "max_seq_len": 20}
    config = PPOConfig().training(model=model)
    spaces = env.single_observation_space, env.single_action_space
    policy = Policy(*spaces, config.resolve().model, seed=1)
    weights = policy.get_weights()  # as after some training: logits that differ
    policy.set_weights({k: w * 100 if "policy_head" in k else w for k, w in weights.items()})
    runner = EnvRunner(config, {DEFAULT_MODULE_ID: policy}, env, np.random.SeedSequence(0))
    rollout = runner.sample(40)[0]["default_policy"]
    assert rollout.states is not None and not rollout.valid.all()
    features, _ = rollout_outputs(policy, rollout)
    names = ("valid", "is_first", "actions", "logp")
    columns = {name: torch.from_numpy(getattr(rollout, name)[:40]) for name in names}
    states = {name: torch.from_numpy(part) for name, part in rollout.states.items()}
    assert isinstance(features, Tensor)
    with torch.no_grad():
        output, rows = unrolled(policy.module, sequence_batch(columns, features[:40], states, 20))
    log_ratio = policy.distribution.logp(output.dist_inputs, rows["actions"]) - rows["logp"]
    assert log_ratio.abs().max() < 1e-6
