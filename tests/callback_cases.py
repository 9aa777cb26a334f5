"""Callbacks that other processes find by their name."""

from __future__ import annotations

from typing import Any

from trainables import Callbacks
from trainables.runtime.evaluation.runner import EvaluationRunner


def whole(slot: int, episode_id: int, length: int) -> list[tuple[Any, ...]]:
    """What is logged of a whole episode."""
    steps = [("step", slot, episode_id, t) for t in range(1, length + 1)]
    beginning = [("created", slot, episode_id, 0), ("start", slot, episode_id, 0)]
    return [*beginning, *steps, ("end", slot, episode_id, length)]


class Logs(Callbacks):
    """Logs all that it sees of episodes, in all objects of this process together."""

    seen: list[tuple[Any, ...]] = []  # noqa: RUF012 - shared on purpose

    def _log(self, what: str, episode: Any) -> None:
        slot, step = episode.env_index, episode.length
        assert step == episode.last_observation[-1] == len(episode)
        assert episode.total_reward == episode.get_return() == step * (step + 1) / 2
        assert episode.last_reward == step
        assert (episode.last_action is None) == (step == 0)
        self.seen.append((what, slot, episode.episode_id, step))

    def on_episode_created(self, *, episode: Any, **kwargs: Any) -> None:
        assert episode.user_data == {} and not episode.is_done and episode
        episode.user_data["steps"] = 0
        self._log("created", episode)

    def on_episode_start(self, *, episode: Any, env_index: int, is_evaluation: bool) -> None:
        assert env_index == episode.env_index and is_evaluation == episode.is_evaluation
        self._log("start", episode)

    def on_episode_step(self, *, episode: Any, **kwargs: Any) -> None:
        episode.custom_data["steps"] += 1
        assert episode.custom_data["steps"] == episode.length
        self._log("step", episode)

    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        assert episode.is_done and episode.user_data["steps"] == episode.length
        episode.custom_metrics["steps"] = episode.length
        metrics_logger.log_value("ended", 1, reduce="sum")
        self._log("end", episode)


class Counts(Callbacks):
    """Counts training's fragments, and marks results."""

    def on_sample_end(self, *, samples: Any, metrics_logger: Any, env_runner: Any) -> None:
        steps = samples["default_policy"].num_env_steps
        metrics_logger.log_value("fragments", 1, reduce="sum")
        metrics_logger.log_value("steps", steps, reduce="sum")
        metrics_logger.log_value("runner", env_runner.worker_index, reduce="max")

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        episode.custom_metrics["return"] = episode.total_reward

    def on_train_result(self, *, result: dict[str, Any], algorithm: Any, **kwargs: Any) -> None:
        result["marked"] = 10 * algorithm.iteration


class Lengths(Callbacks):
    """Logs a metric and a list of episodes."""

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        episode.custom_metrics["steps"] = episode.length
        episode.hist_data["steps"] = [episode.length]


class Recreates(Callbacks):
    """Counts the fragments of each env runner, and logs which were made again."""

    num_fragments = 0

    def on_episode_end(self, *, is_evaluation: bool, metrics_logger: Any, env_runner: Any) -> None:
        assert is_evaluation == isinstance(env_runner, EvaluationRunner)
        metrics_logger.log_value("played" if is_evaluation else "sampled", 1, reduce="sum")

    def on_sample_end(self, **kwargs: Any) -> None:
        self.num_fragments += 1

    def on_env_runners_recreated(
        self,
        *,
        env_runner_indices: list[int],
        env_runner_group: Any,
        is_evaluation: bool,
        metrics_logger: Any,
        **kwargs: Any,
    ) -> None:
        assert not is_evaluation and env_runner_group.num_healthy_env_runners > 0
        for index in env_runner_indices:
            metrics_logger.log_value("recreated", index, reduce="max")


class Raises(Callbacks):
    """Raises in the env runner."""

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        raise KeyError("no such thing")


def mark(*, result: dict[str, Any], **kwargs: Any) -> None:
    """A function for on_train_result."""
    result["by_function"] = 1
