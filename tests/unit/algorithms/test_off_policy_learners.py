"""Learners that share what is drawn learn what one learns from all of it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from fakes import EndlessEnv
from thread_ranks import on_ranks

from trainables import DQN, SAC
from trainables.core.config.config import DEFAULT_MODULE_ID as MODULE
from trainables.core.learning.drawn import Drawn
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.policy.policy import Policy
from trainables.off_policy import OffPolicy
from trainables.runtime.learners.actor import shares
from trainables.runtime.learners.group import LearnerWorker
from trainables.runtime.learners.off_policy_update import Learned, UpdatePlan, off_policy_update

TINY: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 1,
    "model": {"fcnet_hiddens": [8]},
    "num_envs_per_env_runner": 2,
    "num_steps_sampled_before_learning_starts": 40,
    "train_batch_size_per_learner": 12,
    "replay_buffer_config": {"capacity": 400},
    "tau": 0.3,
}
PRIORITIZED = {"replay_buffer_config": {"type": "PrioritizedReplayBuffer", "capacity": 400}}
NOISE = {"exploration_config": {"type": "ParameterNoise"}}
MEMORY = {"use_lstm": True, "lstm_cell_size": 8, "fcnet_hiddens": [8]}
# Every fourth row only resets, and a sequence is one row long: many have none to train on.
ROWS = {"env": EndlessEnv, "env_config": {"horizon": 3}, "train_batch_size_per_learner": 4}
CASES = {
    "dqn": (DQN, {}),
    "rainbow": (DQN, PRIORITIZED | {"noisy": True, "num_atoms": 7, "n_step": [1, 3]}),
    "dqn_noise": (DQN, NOISE),
    "memory": (DQN, {"model": MEMORY | {"max_seq_len": 3}}),
    "single_rows": (DQN, ROWS | {"model": MEMORY | {"max_seq_len": 1}}),
    "sac": (SAC, PRIORITIZED | {"env": "Pendulum-v1"}),
    "sac_noise": (SAC, NOISE | {"env": "Pendulum-v1"}),
    "sac_discrete": (SAC, PRIORITIZED | {"grad_clip": 0.1}),
}


def worker_of(algo: Any, ranks: Ranks) -> LearnerWorker:
    policy = Policy(**algo.get_policy().recipe)
    policy.set_state(algo.get_policy().get_state())
    learner = type(algo).make_learner(algo.config, policy.module)
    return LearnerWorker(algo.config, {MODULE: policy}, {MODULE: learner}, {}, 7, ranks)


def drawn_of(algo: OffPolicy, num_batches: int) -> Drawn:
    while not algo.experience.is_enough(MODULE):
        algo.experience.add(algo.sample())
    drawn = algo.experience.draw(MODULE, num_batches, beta=0.5)
    return drawn.with_columns(algo.prepare(algo.get_policy(), drawn.columns))


@pytest.mark.parametrize("name", CASES)
def test_several_learners_learn_what_one_does(name: str) -> None:
    """In as many steps, with the same noise, priorities, targets and adapted exploration."""
    algorithm, settings = CASES[name]
    with algorithm(TINY | settings) as algo:
        drawn = drawn_of(algo, 9)
        plan = UpdatePlan(algo.learning_rates(), 0, [i % 4 == 1 for i in range(9)])

        def learn(ranks: Ranks) -> tuple[list[torch.Tensor], Learned]:
            worker = worker_of(algo, ranks)
            own = pickle.loads(pickle.dumps(shares(drawn, ranks.size)[ranks.rank]))
            learned = off_policy_update(worker, own, MODULE, algorithm, plan)
            learner = worker.learners[MODULE]
            vectors = [flat.vector.detach() for flat in learner.groups.values()]
            return [*vectors, *(t.get_state() for t in learner.targets.values())], learned

        before = [
            flat.vector.detach() for flat in worker_of(algo, ALONE).learners[MODULE].groups.values()
        ]
        vectors, expected = learn(ALONE)
        assert all(not torch.equal(old, new) for old, new in zip(before, vectors, strict=False))
        assert (expected.priorities is None) == ("Prio" not in str(settings))
        assert expected.exploration.keys() == ({"stddev"} if "noise" in name else set())
        for size in (4,) if name == "single_rows" else (3,):
            for same, found in on_ranks(size, learn):
                torch.testing.assert_close(same, vectors, atol=2e-5, rtol=1e-4)
                assert found.names == expected.names
                torch.testing.assert_close(found.scalars, expected.scalars, atol=2e-4, rtol=1e-3)
                assert found.exploration == expected.exploration
                torch.testing.assert_close(
                    found.priorities, expected.priorities, atol=1e-5, rtol=1e-4
                )


def test_some_ranks_have_no_row_of_some_sequences() -> None:
    """Which the case of single rows above is for."""
    algorithm, settings = CASES["single_rows"]
    with algorithm(TINY | settings) as algo:
        drawn = drawn_of(algo, 9)
        trained = slice(1, 2)  # after a burn-in of one row
        counts = torch.tensor(
            [[b["valid"][trained].sum() for b in part.batches()] for part in drawn.shares(4)]
        )
        assert counts.sum(0).tolist() == drawn.num_rows
        assert (counts == 0).any() and (counts.sum(0) > 0).all()


class OnDevice:
    """Stands for a tensor on a GPU that the reader of a pickle may not have."""

    def cpu(self) -> torch.Tensor:
        return torch.ones(2, 1)

    def __reduce__(self) -> Any:
        raise AssertionError("it would be sought on the reader's GPU")


def test_what_was_learned_travels_in_host_memory_and_stays_where_it_is_in_process() -> None:
    scalars: Any = OnDevice()
    learned = Learned(["q_mean"], scalars, None, {"stddev": 0.5})
    assert torch.equal(pickle.loads(pickle.dumps(learned)).scalars, torch.ones(2, 1))
    assert learned.scalars is scalars


def test_shares_have_rows_of_every_batch_and_travel_without_those_of_others() -> None:
    columns = {"ids": torch.arange(12_000), "features": torch.arange(24_000.0).view(12_000, 2)}
    parts = Drawn(columns, [4000] * 3).shares(2)
    assert [part.columns["ids"].view(3, -1)[:, 0].tolist() for part in parts] == [
        [0, 4000, 8000],
        [2000, 6000, 10_000],
    ]
    travelled = pickle.dumps(parts[1])
    assert len(travelled) < 12_000 // 2 * 16 + 2000
    back = pickle.loads(travelled)
    assert [len(batch["ids"]) for batch in back.batches()] == [2000] * 3
    assert torch.equal(back.columns["features"], parts[1].columns["features"])
    back.columns["features"].add_(1)  # writable, wherever the bytes lie
