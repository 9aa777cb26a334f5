"""The parts of an evaluation: the same episodes whoever plays them, and in which order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from trainables.runtime.evaluation.plan import EvaluationPlan, Part
from trainables.runtime.evaluation.result import EvaluationResult


def outcome(part: Part, lengths: dict[int, int]) -> EvaluationResult:
    """What a part gives: its number as return, a length of its own."""
    result = EvaluationResult(
        np.full(part.num_slots, float(part.number)),
        np.full(part.num_slots, lengths.get(part.number, 10)),
    )
    return result if part.max_steps is None else result.cut_after(part.max_steps)


def play(plan: EvaluationPlan, num_players: int, lengths: dict[int, int]) -> EvaluationResult:
    """Rounds, as a group plays them; a player plays its share from the last part to the first."""
    played: dict[int, EvaluationResult] = {}
    while missing := plan.missing(played, expected_length=13, at_least=num_players):
        for place in range(num_players):
            for part in reversed(missing[place::num_players]):
                assert part.number not in played
                played[part.number] = outcome(part, lengths)
    result = plan.result(played)
    assert result is not None
    return result


def test_episodes_are_dealt_out_evenly_to_parts() -> None:
    plan = EvaluationPlan(20, "episodes", 8)
    parts = plan.missing({}, 1)
    assert parts == [Part(0, 7), Part(1, 7, None, 7), Part(2, 6, None, 14)]
    assert plan.num_parts == 3
    played = {part.number: outcome(part, {}) for part in parts[1:]}
    assert plan.missing(played, 1, at_least=5) == parts[:1]  # never more than there are


@pytest.mark.parametrize("unit", ["episodes", "timesteps"])
def test_the_same_episodes_for_any_number_of_players(unit: str) -> None:
    for num_slots, duration in itertools.product((1, 3), (1, 7, 100)):
        check_the_same_episodes(unit, num_slots, duration)


def check_the_same_episodes(unit: str, num_slots: int, duration: int) -> None:
    lengths = {0: 40, 1: 2, 2: 1, 3: 1, 5: 30, 8: 1}
    results = [
        play(EvaluationPlan(duration, unit, num_slots), players, lengths)
        for players in (1, 2, 3, 7)
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(result.returns, results[0].returns)
        np.testing.assert_array_equal(result.lengths, results[0].lengths)
        np.testing.assert_array_equal(result.cut_lengths, results[0].cut_lengths)
    if unit == "timesteps":
        assert duration <= results[0].num_env_steps < duration + num_slots


def test_timesteps_end_where_they_are_played() -> None:
    plan = EvaluationPlan(30, "timesteps", 1)
    result = play(plan, 4, {0: 5, 1: 20, 2: 4, 3: 100})
    assert result.returns.tolist() == [0, 1, 2]  # 5 + 20 + 4 < 30
    assert result.lengths.tolist() == [5, 20, 4] and result.cut_lengths.tolist() == [1]
    exact = play(plan, 4, {0: 10, 1: 20})
    assert exact.returns.tolist() == [0, 1] and not len(exact.cut_lengths)


@pytest.mark.parametrize("num_players", [1, 3])
def test_nothing_is_known_of_episodes_that_do_not_end(num_players: int) -> None:
    result = play(EvaluationPlan(20, "timesteps", 3), num_players, dict.fromkeys(range(9), 10**6))
    metrics = result.metrics()
    assert result.cut_lengths.tolist() == [7, 7, 7]  # one step of all slots beyond 20 at most
    assert metrics["num_env_steps"] == 21
    assert (metrics["num_episodes"], metrics["num_episodes_cut_off"]) == (0, 3)
    for name in ("return_mean", "return_min", "return_max", "len_mean"):
        assert np.isnan(metrics[f"episode_{name}"])


def test_a_part_is_asked_for_no_more_steps_than_are_wanting() -> None:
    plan = EvaluationPlan(30, "timesteps", 1)
    assert [p.max_steps for p in plan.missing({}, 10, at_least=4)] == [30] * 4
    played = {0: outcome(Part(0, 1), {}), 2: outcome(Part(2, 1), {2: 9})}
    assert plan.missing(played, 999) == [Part(1, 1, 20, 1), Part(3, 1, 20, 3)]


def test_what_was_played_too_much_is_cut_off() -> None:
    result = EvaluationResult(
        np.array([1.0, 2.0]), np.array([4, 9]), {"logged": []}, cut_lengths=np.array([6])
    )
    assert result.cut_after(19) is result
    cut = result.cut_after(14)  # the slots stop after 5 steps each: 4 + 5 + 5
    assert cut.returns.tolist() == [1] and cut.lengths.tolist() == [4]
    assert sorted(cut.cut_lengths) == [5, 5] and cut.logged == {}
    assert result.cut_after(1).cut_lengths.tolist() == [1, 1, 1]


def test_what_is_missing_is_estimated_by_the_episodes_so_far() -> None:
    plan = EvaluationPlan(100, "timesteps", 1)
    assert [p.number for p in plan.missing({}, expected_length=50)] == [0, 1]
    assert [p.number for p in plan.missing({}, expected_length=100, at_least=3)] == [0, 1, 2]
    played = {0: outcome(Part(0, 1), {}), 2: outcome(Part(2, 1), {})}
    assert [p.number for p in plan.missing(played, 999)] == [1, 3, 4, 5, 6, 7, 8, 9]


def test_what_came_makes_the_result_where_parts_are_lost() -> None:
    for plan in (EvaluationPlan(3, "episodes", 1), EvaluationPlan(25, "timesteps", 1)):
        played = {number: outcome(Part(number, 1), {}) for number in (0, 2)}
        assert plan.missing(played, 10)[0].number == 1
        result = plan.result(played)
        assert result is not None and result.returns.tolist() == [0, 2]
        assert plan.result({}) is None


def test_endless_parts_are_dealt_out_in_turn() -> None:
    plan = EvaluationPlan("auto", "timesteps", 2)
    assert plan.is_endless and plan.num_parts is None
    parts = plan.parts_from(1, 3)
    assert [next(parts) for _ in range(2)] == [Part(1, 2, None, 2), Part(4, 2, None, 8)]
    result = plan.result({number: outcome(Part(number, 1), {}) for number in (4, 1)})
    assert result is not None and result.returns.tolist() == [1, 4]


@pytest.mark.parametrize("num_players", [1, 8])
def test_auto_does_not_favour_short_episodes(num_players: int) -> None:
    """Of 10 or 500 steps with equal chance, in 1,000 steps of training: 255 whoever plays."""
    plan, random = EvaluationPlan("auto", "episodes", 1), np.random.default_rng(4)
    means = []
    for _ in range(4000 // num_players):
        played: dict[int, EvaluationResult] = {}
        for player in range(num_players):
            steps = 0
            for part in plan.parts_from(player, num_players):
                length = float(random.choice([10, 500]))
                steps += int(length)
                first = part.number == player  # is played to its end
                if steps > 1000 and not first:
                    break
                played[part.number] = EvaluationResult(np.array([length]), np.array([length]))
        result = plan.result(played, num_players)
        assert result is not None
        assert result.metrics()["episode_len_mean"] == result.return_mean
        means.append(result.return_mean)
    assert np.mean(means) == pytest.approx(255, abs=4 * np.std(means) / len(means) ** 0.5)
    assert num_players == 1 or np.mean(means) > 235  # over all episodes it would be 207
