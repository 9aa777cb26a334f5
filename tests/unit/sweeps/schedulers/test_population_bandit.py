"""What PB2's model learns from: the improvement of each interval, never that of being replaced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from experiments.schedulers.pb2 import PopulationBandit
from experiments.schedulers.population import Member
from search_spaces.space import SearchSpace

SPACE = SearchSpace.parse({"lr": {"loguniform": [1e-5, 1e-1]}, "clip": {"uniform": [0.1, 0.5]}})


class Running(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


def trial(name: str, lr: float) -> Any:
    return Running(trial_id=name, config={"lr": lr, "clip": 0.3, "env": "x"})


def bandit(check: Any = None) -> PopulationBandit:
    return PopulationBandit(SPACE, SPACE.parameters, check, time_attr="steps", interval=100, seed=1)


def test_improvements_are_those_of_the_settings_that_a_trial_had() -> None:
    pb2, good, bad = bandit(), trial("good", 1e-3), trial("bad", 1e-1)
    pb2.observe(good, 100, 1.0)
    pb2.observe(bad, 100, 0.5)
    pb2.observe(good, 200, 3.0)
    pb2.observe(bad, 200, 0.0)
    bad.config = pb2.explore(bad, good)
    pb2.observe(bad, 300, 4.0)
    rows, improvements, newest = pb2._improvements("good")
    # budget, score before, lr and clip between their bounds; then what was added per step
    np.testing.assert_allclose(rows[0], [200, 0.5, 1.0, 0.5])
    np.testing.assert_allclose(rows[1], [200, 1.0, 0.5, 0.5])
    assert rows[2][:2].tolist() == [300, 3.0]  # from the donor's score, not from its own 0
    np.testing.assert_allclose(improvements, [-0.005, 0.02, 0.01])
    assert newest is not None and newest.tolist() == [200, 1.0]


def test_it_learns_where_improvement_is_and_stays_in_bounds() -> None:
    pb2 = bandit()
    donor = trial("donor", 1e-3)
    random = np.random.default_rng(0)
    for number in range(12):
        one = trial(f"t{number}", float(10 ** random.uniform(-5, -1)))
        best = 1 - abs(np.log10(one.config["lr"]) + 3)  # most is gained at 1e-3
        pb2.observe(one, 100, 0.0)
        pb2.observe(one, 200, best)
    pb2.observe(donor, 100, 0.0)
    pb2.observe(donor, 200, 1.0)
    rate = pb2.explore(trial("x", 1e-5), donor)["lr"]
    assert 1e-5 <= rate <= 1e-1 and abs(np.log10(rate) + 3) < 1


def test_an_invalid_choice_is_moved_until_it_is_valid() -> None:
    def check(config: dict[str, Any]) -> None:
        if config["clip"] > 0.3:
            raise ValueError("clip")

    pb2, donor = bandit(check), trial("donor", 1e-3)
    pb2.observe(donor, 100, 0.0)
    for _ in range(5):
        config = pb2.explore(trial("x", 1e-5), donor)
        assert config["clip"] <= 0.3 and config["env"] == "x"
    assert donor.config == {"lr": pytest.approx(1e-3), "clip": 0.3, "env": "x"}


def test_only_a_trials_own_next_interval_ends_what_is_pending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without steps in common a trial observes just before it explores."""
    seen: list[Any] = []

    def select(rows: Any, targets: Any, pending: Any, *rest: Any) -> np.ndarray:
        seen.append(None if pending is None else pending.tolist())
        return np.array([0.1 * len(seen), 0.5])

    monkeypatch.setattr("ray.tune.schedulers.pb2._select_config", select)
    pb2, donor = bandit(), trial("donor", 1e-3)
    one, two = trial("one", 1e-2), trial("two", 1e-2)
    for budget in (100, 200):
        pb2.observe(donor, budget, budget)
        pb2.observe(one, budget, 0.0)
    one.config = pb2.explore(one, donor)
    pb2.observe(two, 200, 0.0)
    two.config = pb2.explore(two, donor)
    pb2.observe(one, 300, 1.0)
    pb2.explore(one, donor)
    assert seen[0] is None
    np.testing.assert_allclose(seen[1], [[0.1, 0.5]])  # one's
    np.testing.assert_allclose(seen[2], [[0.2, 0.5]])  # two's; one's is known by now
    two.is_finished = lambda: True
    pb2._members[two] = Member()
    assert len(pb2._pending()) == 1  # nothing will be known of two's


def test_the_seed_alone_determines_it() -> None:
    def rates(seed: int, elsewhere: int) -> list[float]:
        np.random.seed(elsewhere)
        pb2 = PopulationBandit(SPACE, SPACE.parameters, time_attr="steps", interval=1, seed=seed)
        donor = trial("donor", 1e-3)
        for budget, score in ((100, 0.0), (200, 1.0), (300, 1.5), (400, 3.5)):
            pb2.observe(donor, budget, score)
        before = np.random.get_state()[1].tolist()  # type: ignore[union-attr]
        found = [pb2.explore(trial(name, 1e-5), donor)["lr"] for name in "ab"]
        assert np.random.get_state()[1].tolist() == before  # type: ignore[union-attr]
        return found

    assert rates(1, elsewhere=1) == rates(1, elsewhere=2) != rates(2, elsewhere=1)
