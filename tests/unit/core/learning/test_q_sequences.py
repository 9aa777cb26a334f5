"""Recurrent DQN: what is drawn, what reaches the loss, and what it is compared with."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import discrete_walk
from refusals import Golden, refusals
from replay_cases import SPACE, SlowBuffer, Stream
from torch import Tensor

from trainables import DQN, DQNConfig
from trainables.core.config.replay import ReplayBufferConfig
from trainables.core.config.resolved import SequenceShape
from trainables.core.data.batch import Batch, tree_of
from trainables.core.data.features import FeatureSpec
from trainables.core.data.layout import ObservationLayout
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy
from trainables.core.learning.q_sequences import q_sequences, sequence_logits, windows
from trainables.core.networks.q_network import QNetwork
from trainables.dqn import DQNOptions, dqn_loss
from trainables.runtime.replay.buffer import ReplayBuffer
from trainables.runtime.replay.stores import StateLayout

GAMMA = 0.5
SHAPE = SequenceShape(burn_in=3, length=4, n_step=2)


def columns(*rows: Any, dtype: Any = torch.bool) -> Tensor:
    return torch.tensor(rows, dtype=dtype).T


def test_windows_by_hand() -> None:
    rewards = columns([1, 2, 4, 8, 16], [1, 2, 4, 8, 16], dtype=torch.float32)
    terminated = columns([0, 0, 1, 0, 0], [0, 0, 1, 0, 0])
    runs_on = columns([1, 1, 0, 1, 0], [1, 0, 0, 1, 0])  # the second was truncated before, too
    steps = torch.full((3, 2), 3)
    steps[1, 1] = 1
    sums, discounts, taken = windows(rewards, terminated, runs_on, steps, GAMMA)
    assert sums.T.tolist() == [[1 + 1 + 1, 2 + 2, 4], [1 + 1, 2, 4]]
    assert discounts.T.tolist() == [[0, 0, 0], [1 / 4, 1 / 2, 0]]
    assert taken.T.tolist() == [[3, 2, 1], [2, 1, 1]]


# ------------------------------------------------------------------ the buffer


def filled(num_slots: int = 2, capacity: int = 68) -> tuple[ReplayBuffer, SlowBuffer]:
    """The recurrent state before a row is its observation, so that it says where it is from."""
    fields = {"h": ((4,), np.dtype(np.float32))}
    buffer = ReplayBuffer(
        ReplayBufferConfig(capacity=capacity),
        ObservationLayout(SPACE),
        (),
        torch.int64,
        num_slots,
        np.random.SeedSequence(0),
        states=StateLayout(SHAPE.length, fields),
    )
    rng = np.random.default_rng(0)
    stream, slow = Stream(num_slots, rng, max_length=9), SlowBuffer(32, num_slots)
    for _ in range(20):
        seam = [1] if rng.random() < 0.2 else []
        rollout = stream.rollout([int(n) for n in rng.integers(1, 9, num_slots)], seam)
        rollout.states, rollout.state_stride = {"h": rollout.obs[:-1]}, 1
        buffer.add(rollout)
        slow.add(rollout)
    return buffer, slow


def test_every_row_is_trained_in_one_place_with_the_right_window_and_state() -> None:
    """All but those at the ends: 3 before and 1 after a sequence are needed, and it is whole."""
    buffer, slow = filled()  # 34 rows a slot, of which 32 are a multiple of the stride
    windows_of = {
        slow.positions[p]["ids"][n]: slow.window(p, n, SHAPE.n_step, GAMMA)
        for p, n in slow.valid_rows()
    }
    places: dict[int, set[int]] = {}
    for _ in range(40):
        drawn = buffer.sample_sequences(10, SHAPE.num_rows, n_step=SHAPE.n_step)
        state = tree_of(drawn, "state")
        assert isinstance(state, dict)
        seams = ~drawn["valid"][0]  # nothing is known, or needed, of the state before these
        assert ((state["h"] == drawn["obs"][0]).all(-1) | seams).all()
        batch = q_sequences(drawn, drawn["obs"], SHAPE, GAMMA)
        after = drawn["obs"][SHAPE.burn_in :].flatten(0, 1)
        for i, row in enumerate(batch["ids"].tolist()):
            expected = windows_of[row]
            assert batch["rewards"][i].item() == pytest.approx(expected["rewards"], abs=1e-5)
            assert batch["discounts"][i].item() == expected["discounts"]
            assert batch["actions"][i].item() == expected["actions"]
            assert (after[batch["rows"][i]].numpy() == expected["obs"]).all()
            assert (after[batch["next_rows"][i]].numpy() == expected["next_obs"]).all()
            places.setdefault(row, set()).add(int(batch["rows"][i]) // 10)
    assert all(len(found) == 1 for found in places.values())
    missing = set(windows_of) - set(places)
    positions = [p for p, n in slow.valid_rows() if slow.positions[p]["ids"][n] in missing]
    ends = SHAPE.burn_in + SHAPE.length
    assert all(p < ends or p > 31 - SHAPE.n_step - SHAPE.length for p in positions)


def test_sequences_begin_where_they_can_run_to_the_end() -> None:
    buffer, _ = filled()
    assert buffer.num_sequences(SHAPE.num_rows) in (2 * 5, 2 * 6)  # of 32 rows, 9 at a time by 4
    assert buffer.num_sequences(31) in (0, 2) and buffer.num_sequences(32) == 0


# ------------------------------------------------------------------ the loss


def network(seed: int, **options: Any) -> QNetwork:
    model = {"fcnet_hiddens": [5], "lstm_cell_size": 6, "use_lstm": True}
    return QNetwork(
        FeatureSpec(3), EpsilonGreedy(2, 0.0), model, torch.Generator().manual_seed(seed), **options
    )


def drawn_batch(num_sequences: int = 2) -> Batch:
    """Column 0 has a terminal state in row 4 and the next episode from row 6 on; 1 has no end."""
    generator = torch.Generator().manual_seed(5)
    size = (SHAPE.num_rows, num_sequences)
    flags = {name: torch.zeros(size, dtype=torch.bool) for name in ("terminated", "truncated")}
    valid, is_first = torch.ones(size, dtype=torch.bool), torch.zeros(size, dtype=torch.bool)
    flags["terminated"][4, 0], valid[5, 0], is_first[6, 0] = True, False, True
    return {
        **flags,
        "valid": valid,
        "is_first": is_first,
        "obs": torch.randn(SHAPE.num_rows + 1, num_sequences, 3, generator=generator),
        "actions": torch.randint(0, 2, size, generator=generator),
        "rewards": torch.randn(size, generator=generator),
        "n_steps": torch.full(size, SHAPE.n_step),
        "ids": torch.arange(size[0] * size[1]).view(size),
        "state/h": torch.randn(num_sequences, 6, generator=generator),
        "state/c": torch.randn(num_sequences, 6, generator=generator),
    }


def gradient(drawn: Batch, options: dict[str, Any]) -> Tensor:
    online, target = network(1, **options), network(2, **options)
    batch = q_sequences(drawn, drawn["obs"], SHAPE, GAMMA)
    loss, _ = dqn_loss(online, batch, target, OPTIONS)
    parts = torch.autograd.grad(loss, list(online.parameters()))
    return torch.cat([part.flatten() for part in parts])


OPTIONS = DQNOptions(double_q=True, td_error_loss_fn="mse", burn_in=SHAPE.burn_in)


@pytest.mark.parametrize("double_q", [True, False])
def test_the_loss_is_that_of_acting_step_by_step(double_q: bool) -> None:
    online, target, drawn = network(1), network(2), drawn_batch()

    def one_by_one(net: QNetwork) -> Tensor:
        """Q of all rows, each by a call of its own as in acting, `[T+1, B, A]`."""
        state = {"h": drawn["state/h"], "c": drawn["state/c"]}
        is_first = torch.cat([drawn["is_first"], torch.zeros(1, 2, dtype=torch.bool)])
        found = []
        for obs, first in zip(drawn["obs"], is_first, strict=True):
            q_values, state = net.unroll_inputs(obs[None], state, first[None])
            found.append(q_values[0])
        return torch.stack(found)

    q, q_target = one_by_one(online), one_by_one(target)
    errors = []
    for t, n in [(3, 0), (4, 0), (6, 0), (3, 1), (4, 1), (5, 1), (6, 1)]:
        steps = 1 if (t, n) == (4, 0) else 2
        rewards = [drawn["rewards"][t + k, n] * GAMMA**k for k in range(steps)]
        best = (q if double_q else q_target)[t + steps, n].argmax()
        after = 0.0 if n == 0 and t < 6 else GAMMA**steps * q_target[t + steps, n, best]
        errors.append(q[t, n, drawn["actions"][t, n]] - (sum(rewards) + after))
    expected = torch.stack(errors).square().mean()
    batch = q_sequences(drawn, drawn["obs"], SHAPE, GAMMA)
    options = OPTIONS._replace(double_q=double_q)
    loss, metrics = dqn_loss(online, batch, target, options)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert len(metrics["priorities"]) == 7


def test_a_sequence_goes_on_from_its_stored_state() -> None:
    """Also where its first row follows nothing in the buffer, amid an episode."""
    drawn = drawn_batch()
    expected = gradient(drawn, {})
    drawn["is_first"][0] = True
    torch.testing.assert_close(gradient(drawn, {}), expected, rtol=0, atol=0)
    drawn["is_first"][1] = True
    assert not torch.allclose(gradient(drawn, {}), expected)


def test_the_gradient_ends_at_the_burn_in() -> None:
    """It is that of sequences that begin there with the state that the burn-in led to."""
    online, drawn = network(1), drawn_batch()
    batch = q_sequences(drawn, drawn["obs"], SHAPE, GAMMA)
    b = SHAPE.burn_in
    state = {"h": drawn["state/h"], "c": drawn["state/c"]}
    _, before = online.unroll_inputs(drawn["obs"][:b], state, drawn["is_first"][:b])
    late = {name: part[b:] for name, part in batch.items() if name in ("features", "is_first")}
    states = {f"state/{name}": part.detach() for name, part in before.items()}
    cut = {**batch, **late, **states}
    found, expected = (
        torch.autograd.grad(logits.square().sum(), list(online.parameters()))
        for logits in (
            sequence_logits(online, network(2), batch, b).online,
            sequence_logits(online, network(2), cut, 0).online,
        )
    )
    for part, other in zip(found, expected, strict=True):
        torch.testing.assert_close(part, other)


@pytest.mark.parametrize("options", [{}, {"num_atoms": 5}, {"dueling": True}])
def test_garbage_moves_no_gradient(options: dict[str, Any]) -> None:
    """In rows that are not valid, and before an episode's first row; elsewhere it does."""
    clean = gradient(drawn_batch(), options)
    spliced = drawn_batch()
    spliced["obs"][5, 0], spliced["actions"][5, 0], spliced["rewards"][5, 0] = 1e6, 1, 1e6
    torch.testing.assert_close(gradient(spliced, options), clean)

    first = drawn_batch()
    first["is_first"][3] = True  # of both: what came before must not matter
    first["valid"][2] = False
    expected = gradient(first, options)
    first["obs"][:3], first["rewards"][:3] = 1e6, 1e6
    first["state/h"], first["state/c"] = torch.ones(2, 6), -torch.ones(2, 6)
    torch.testing.assert_close(gradient(first, options), expected)

    seen = drawn_batch()
    seen["obs"][1, 1] += 1  # in the burn-in of an episode that goes on
    assert not torch.allclose(gradient(seen, options), clean, rtol=1e-3)


# ------------------------------------------------------------------ the algorithm


def config(**settings: Any) -> DQNConfig:
    training = {
        "model": {"use_gru": True, "lstm_cell_size": 8, "fcnet_hiddens": [8], "max_seq_len": 4},
        "train_batch_size_per_learner": 9,
        "training_intensity": 2,
        "burn_in_len": 3,
        "n_step": [1, 2],
        "num_steps_sampled_before_learning_starts": 20,
        "target_network_update_freq": 20,
        "store_buffer_in_checkpoints": True,
        "replay_buffer_config": {"capacity": 200},
    }
    made = (
        DQNConfig()
        .environment(discrete_walk)
        .env_runners(num_envs_per_env_runner=2)
        .training(**{**training, **settings})
        .reporting(min_sample_timesteps_per_iteration=60)
        .debugging(seed=3)
    )
    assert isinstance(made, DQNConfig)
    return made


@pytest.mark.parametrize("model", ["use_lstm", "use_attention"])
def test_it_resumes_to_the_bit(tmp_path: Path, model: str) -> None:
    setting: dict[str, Any] = {model: True, "fcnet_hiddens": [8], "max_seq_len": 4}
    original, resumed = (config(model=setting, noisy=True).build() for _ in range(2))
    assert isinstance(original, DQN)
    for _ in range(3):  # round the ring
        original.train()
    original.save(tmp_path)
    resumed.restore(tmp_path)
    one, other = (
        {k: v for k, v in algo.train().items() if k.startswith(("learner/", "episode", "num_"))}
        for algo in (original, resumed)
    )
    assert one == other and one["learner/default_policy/grad_norm"] > 0


def test_rows_of_an_update_are_whole_sequences_and_their_number_is_exact() -> None:
    algo = config().build()
    assert isinstance(algo, DQN)
    assert algo.config.resolve().num_sequences == 2  # 9 // 4
    for _ in range(3):
        algo.train()
    # A step counts from when the first sequence of 3 + 4 + 2 rows is there.
    due = (algo.num_env_steps_sampled - 20) * 2 // 8
    assert due - 1 <= algo.num_updates <= due
    assert algo.num_env_steps_trained <= 8 * algo.num_updates
    one = config(train_batch_size_per_learner=2)
    assert one.resolve().num_sequences == 1
    assert one.updates_per_env_step == config().updates_per_env_step * 2


def test_what_does_not_go_together_is_refused(golden: Golden) -> None:
    def act(settings: dict[str, Any]) -> None:
        wrong = config()
        for name, value in settings.items():
            setattr(wrong, name, value)
        wrong.validate()

    cases = [
        {"replay_buffer_config": {"type": "PrioritizedReplayBuffer"}},
        {"replay_buffer_config": {"capacity": 23}},
        {"model": {}},
        {"torch_compile_learner": True},
    ]
    golden("q_sequences/what_does_not_go_together_is_refused", refusals(act, cases))


def test_burn_in_is_as_long_as_the_rest_by_default() -> None:
    assert config(burn_in_len=None).resolve().sequences == SequenceShape(4, 4, 2)
