"""Windows of what is logged: whole episodes, however many numbers each has."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from trainables.runtime.callbacks.custom_metrics import CustomMetrics, MetricsLogger
from trainables.runtime.sampling.agents.episode_book import log_returns

POLICIES = {"u": "all", "v": "all", "w": "all", "late": "other"}


def ended(**returns: float) -> Any:
    return SimpleNamespace(returns=returns, policy_of=POLICIES)


def windows(size: int, *iterations: list[Any]) -> CustomMetrics:
    found = CustomMetrics(size)
    for episodes in iterations:
        found.next_iteration()
        logger = MetricsLogger()
        for episode in episodes:
            log_returns(episode, logger)
        found.add(logger.take())
    return found


def test_a_modules_window_holds_whole_episodes_of_its_agents() -> None:
    one, another = ended(u=11.0, v=14.0, w=17.0), ended(u=1.0, v=2.0, w=3.0)
    found = windows(4, *[[one]] * 5).metrics()  # of values, the window would be w, u, v and w
    assert found["module/all/episode_return_mean"] == 14.0
    found = windows(4, [another], *[[one]] * 4).metrics()
    assert found["module/all/episode_return_mean"] == 14.0
    assert found["module/all/episode_return_min"] == 11.0
    found = windows(4, [another], *[[one]] * 3).metrics()
    assert found["module/all/episode_return_mean"] == (3 * 14.0 + 2.0) / 4
    assert found["module/all/episode_return_min"] == found["agent/u/episode_return_mean"] - 7.5 == 1
    assert found["module/all/episode_return_max"] == 17.0


def test_all_of_an_iteration_count_if_they_are_more() -> None:
    found = windows(2, [ended(u=9.0)], [ended(u=float(n), v=0.0) for n in (1, 2, 3)]).metrics()
    assert found["module/all/episode_return_mean"] == 1.0
    assert found["agent/u/episode_return_mean"] == 2.0


def test_who_takes_part_now_and_then_has_a_window_of_these_episodes() -> None:
    rare, usual = ended(u=1.0, late=5.0), ended(u=1.0)
    found = windows(2, [rare], *[[usual]] * 5).metrics()
    assert found["module/other/episode_return_mean"] == 5.0  # it stays


def test_histograms_of_an_episode_stay_together() -> None:
    found = CustomMetrics(2)
    for numbers in ([100.0] * 3, [], [1.0, 2.0, 3.0], [5.0]):
        logger = MetricsLogger()
        logger.log_histograms({"x": numbers})
        found.next_iteration()
        found.add(logger.take())
    assert found.metrics() == {
        "hist_stats/x_mean": 2.75,
        "hist_stats/x_min": 1.0,
        "hist_stats/x_max": 5.0,
    }


def test_windows_are_kept_as_json() -> None:
    found = windows(3, [ended(u=1.0, v=2.0), ended(u=4.0)])
    again = CustomMetrics(3)
    again.set_state(json.loads(json.dumps(found.get_state())))
    assert again.metrics() == found.metrics()
    again.set_state([["of older checkpoints", "mean", [1.0, 2.0]]])
    assert again.metrics() == {"custom_metrics/of older checkpoints_mean": 1.5}
