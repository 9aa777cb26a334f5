"""Trainables side by side in one process: each as alone, whoever comes, goes or fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tiers import rarely

from trainables import PPO, PPOConfig
from trainables.core.data.features import map_tensors
from trainables.core.features import using
from trainables.core.learning.members.request import UpdateRequest
from trainables.core.policy.observations import Observations
from trainables.runtime.members.fragment_request import FragmentRequest
from trainables.runtime.members.meeting import Meeting, _first_in_turn

RATES = (3e-4, 1e-3, 2e-3)


def made(seed: int, **settings: Any) -> PPO:
    config = PPOConfig().environment("CartPole-v1").env_runners(num_envs_per_env_runner=4)
    config.training(train_batch_size_per_learner=128, minibatch_size=64, num_epochs=2)
    given = {"lr": RATES[seed % 3], "gamma": 0.99 - 0.02 * seed, "lambda_": 0.9 + 0.02 * seed}
    with using("batching"):
        return config.update_from_dict({**given, "seed": seed, **settings}).build()


def weights(algo: PPO) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in algo.get_policy().module.parameters()])


COMPARED = ("episode_return_mean", "num_env_steps_sampled_lifetime")
LEARNED = ("policy_loss", "vf_loss", "entropy", "grad_norm", "curr_lr", "vf_explained_var")


def assert_alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in COMPARED:
        assert found[name] == expected[name]
    for name in LEARNED:
        key = f"learner/default_policy/{name}"
        assert found[key] == pytest.approx(expected[key], rel=1e-3, abs=1e-4), name


ORDERS = [(0, 1, 2), (2, 0, 1), (1, 2, 0)]


@pytest.mark.parametrize("order", rarely(ORDERS, [(2, 0, 1)]))
def test_members_that_join_and_leave_are_as_they_are_alone(order: tuple[int, ...]) -> None:
    """The first of them trains once, the second twice, the third in all three rounds."""
    meeting = Meeting()
    together, alone = ({seed: made(seed) for seed in range(3)} for _ in range(2))
    for size in (3, 2, 1):
        present = order[-size:]
        outcomes = meeting.run({seed: together[seed].train for seed in present})
        assert list(outcomes) == list(present)
        for seed in present:
            assert_alike(outcomes[seed], alone[seed].train())
    outcomes = meeting.run({seed: together[seed].train for seed in order})  # and come back
    for seed in order:
        assert_alike(outcomes[seed], alone[seed].train())
        torch.testing.assert_close(weights(together[seed]), weights(alone[seed]), atol=1e-4, rtol=0)
    assert meeting.num_together == {"UpdateRequest": 8, "FragmentRequest": 8}
    assert meeting.num_alone == {"UpdateRequest": 1, "FragmentRequest": 1}
    assert meeting.reasons == {}
    for algo in (*together.values(), *alone.values()):
        algo.stop()


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Trials that compute in float64 throughout."""
    as_they_are = Observations.features

    def doubled(self: Observations, obs: Any) -> Any:
        features = as_they_are(self, obs)
        return map_tensors(lambda part: part.double(), features)

    monkeypatch.setattr(Observations, "features", doubled)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("count", rarely([1, 3], [3]))
@pytest.mark.usefixtures("double")
def test_in_float64_a_member_equals_the_same_trial_alone(count: int) -> None:
    """Eight iterations of sampling and learning, each with settings of its own."""
    meeting = Meeting(fewest=1)
    settings = [
        {"entropy_coeff": 0.01 * (1 + seed), "clip_param": 0.1 + 0.1 * seed} for seed in range(3)
    ]
    together, alone = ([made(seed, **settings[seed]) for seed in range(count)] for _ in range(2))
    assert weights(alone[0]).dtype == torch.float64
    for _ in range(8):
        outcomes = meeting.run({seed: algo.train for seed, algo in enumerate(together)})
        for seed, algo in enumerate(alone):
            assert outcomes[seed]["episode_return_mean"] == algo.train()["episode_return_mean"]
    for one, other in zip(together, alone, strict=True):
        assert float((weights(one) - weights(other)).abs().max()) < 1e-9
    assert meeting.num_alone == {}


def test_a_member_goes_on_from_a_checkpoint_as_alone(tmp_path: Any) -> None:
    meeting = Meeting()
    members = {seed: made(seed) for seed in range(2)}
    meeting.run({seed: algo.train for seed, algo in members.items()})
    members[1].save(str(tmp_path))
    expected = meeting.run({seed: algo.train for seed, algo in members.items()})
    restored = PPO.from_checkpoint(str(tmp_path))
    assert_alike(restored.train(), expected[1])
    torch.testing.assert_close(weights(restored), weights(members[1]), atol=1e-5, rtol=0)


def test_members_that_are_resumed_together_equal_those_that_went_on_to_the_bit(
    tmp_path: Any,
) -> None:
    """With the same members: the rounding of a product depends on how many have part in it."""
    meeting = Meeting()
    members = {seed: made(seed) for seed in range(3)}
    for _ in range(2):
        meeting.run({seed: algo.train for seed, algo in members.items()})
    resumed = {}
    for seed, algo in members.items():
        algo.save(str(tmp_path / str(seed)))
        resumed[seed] = made(seed)
        resumed[seed].restore(str(tmp_path / str(seed)))
    others = Meeting()
    for _ in range(3):
        went_on = meeting.run({seed: algo.train for seed, algo in members.items()})
        found = others.run({seed: algo.train for seed, algo in resumed.items()})
        for seed in members:
            for name in (*COMPARED, *(f"learner/default_policy/{n}" for n in LEARNED)):
                assert found[seed][name] == went_on[seed][name]
            assert torch.equal(weights(resumed[seed]), weights(members[seed]))
    assert others.num_alone == {}


def test_who_fails_fails_alone() -> None:
    meeting = Meeting()
    together, alone = [made(seed) for seed in range(3)], [made(seed) for seed in range(3)]

    def fails() -> Any:
        together[1].train()
        raise ValueError("no more")

    outcomes = meeting.run({0: together[0].train, 1: fails, 2: together[2].train})
    assert isinstance(outcomes[1], ValueError)
    for seed in (0, 2):
        assert_alike(outcomes[seed], alone[seed].train())


def test_who_diverges_fails_alone() -> None:
    meeting = Meeting()
    together = [made(0), made(1, lr=1e30), made(2)]
    alone = {seed: made(seed) for seed in (0, 2)}
    outcomes = [meeting.run({i: m.train for i, m in enumerate(together)}) for _ in range(2)]
    failures = [o[1] for o in outcomes if isinstance(o[1], Exception)]
    assert failures
    assert "diverged" in str(failures[0]) or "not finite" in str(failures[0])
    for found in outcomes:
        for seed in (0, 2):
            assert_alike(found[seed], alone[seed].train())


def test_different_members_meet_those_that_are_like_them() -> None:
    meeting = Meeting()
    wide = {"model": {"fcnet_hiddens": [32, 32]}}
    members = [made(0), made(1, **wide), made(2), made(3, **wide)]
    alone = [made(0), made(1, **wide), made(2), made(3, **wide)]
    outcomes = meeting.run({i: m.train for i, m in enumerate(members)})
    assert meeting.num_together == {"UpdateRequest": 4, "FragmentRequest": 4}
    for i, one in enumerate(alone):
        assert_alike(outcomes[i], one.train())


def test_what_cannot_be_together_learns_alone_and_says_why() -> None:
    meeting = Meeting()
    memory = {"model": {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 8}}
    members, alone = ([made(seed, **memory) for seed in range(2)] for _ in range(2))
    outcomes = meeting.run({i: m.train for i, m in enumerate(members)})
    assert meeting.num_together == {}
    assert meeting.num_alone == {"UpdateRequest": 2, "FragmentRequest": 2}
    assert meeting.reasons["UpdateRequest"] == {"its network has a memory"}
    for i, one in enumerate(alone):
        one.train()
        torch.testing.assert_close(weights(members[i]), weights(one), atol=0, rtol=0)
        assert not isinstance(outcomes[i], Exception)


def test_an_interrupted_meeting_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [made(seed) for seed in range(2)]
    meeting = Meeting()

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(meeting, "_do", interrupted)
    with pytest.raises(KeyboardInterrupt):
        meeting.run({i: m.train for i, m in enumerate(members)})
    assert not [thread for thread in threading.enumerate() if thread.name == "member"]


def test_members_compute_with_as_many_threads_as_their_host() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert Meeting().run({"it": torch.get_num_threads}) == {"it": 1}
    finally:
        torch.set_num_threads(before)


def test_a_meeting_within_a_meeting_has_the_outer_one_make_its_calls() -> None:
    """As a trial of several seeds in a host: its seeds learn with another trial."""
    outer, inner = Meeting(), Meeting()
    together, alone = ({seed: made(seed) for seed in range(3)} for _ in range(2))

    def two_seeds() -> dict[int, Any]:
        first = inner.run({seed: together[seed].train for seed in (0, 1)})
        return {**first, **inner.run({seed: together[seed].train for seed in (0,)})}

    outcomes = outer.run({"seeds": two_seeds, "other": together[2].train})
    results = {**outcomes["seeds"], 2: outcomes["other"]}
    for seed, count in {0: 2, 1: 1, 2: 1}.items():
        for _ in range(count):
            expected = alone[seed].train()
        assert_alike(results[seed], expected)
    assert inner.run({}) == {}
    assert not inner.num_together and not inner.num_alone
    assert outer.num_together == {"UpdateRequest": 3, "FragmentRequest": 3}
    assert outer.num_alone == {"UpdateRequest": 1, "FragmentRequest": 1}


def test_a_call_of_an_inner_meeting_that_fails_is_an_outcome_there() -> None:
    sound = made(0)

    def fails() -> None:
        raise ValueError("no more")

    def inner() -> dict[str, Any]:
        return Meeting().run({"fails": fails, "sound": sound.train})

    outcome = Meeting().run({"trial": inner})["trial"]
    assert isinstance(outcome["fails"], ValueError)
    assert outcome["sound"]["training_iteration"] == 1


def test_large_groups_are_several_programs_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainables.runtime.members.meeting._MOST", 2)
    meeting = Meeting()
    algos = [made(seed) for seed in range(5)]
    meeting.run({number: algo.train for number, algo in enumerate(algos)})
    assert meeting.num_together == {"UpdateRequest": 4, "FragmentRequest": 4}  # 2, 2 and 1
    assert meeting.num_alone == {"UpdateRequest": 1, "FragmentRequest": 1}


class Asking:
    """A member of which only what it asks for counts."""

    def __init__(self, request: Any):
        self.request = request


def test_who_is_answered_first() -> None:
    for sampling, updating, first in (
        (2, 11, "samples"),  # who is behind catches up
        (20, 11, "samples"),
        (11, 20, "samples"),
        (12, 12, "updates"),  # halves that are large enough stay apart
        (12, 0, "samples"),
        (0, 3, "updates"),
    ):
        samples = [Asking(FragmentRequest.__new__(FragmentRequest)) for _ in range(sampling)]
        updates = [Asking(UpdateRequest.__new__(UpdateRequest)) for _ in range(updating)]
        expected: list[Any] = samples if first == "samples" else updates
        waiting: list[Any] = [*updates, *samples]
        assert _first_in_turn(waiting) == expected
    assert _first_in_turn([]) == []


def test_in_whatever_order_they_ask_the_program_is_one() -> None:
    meeting = Meeting()
    algos = [made(seed) for seed in range(3)]
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        meeting.run({number: algos[number].train for number in order})
    assert len(meeting._programs) == 2  # of samples and of updates
