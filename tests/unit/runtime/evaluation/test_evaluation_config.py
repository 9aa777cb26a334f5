"""What an evaluation does otherwise than training: each setting that `evaluation_config` takes."""

from __future__ import annotations

from typing import Any

import pytest

from trainables import Callbacks, PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.envs.make import evaluation_options, training_options


class OfTraining(Callbacks):
    def on_episode_end(self, *, metrics_logger: Any, **kwargs: Any) -> None:
        metrics_logger.log_value("trained", 1.0)


class OfEvaluation(Callbacks):
    def on_episode_end(self, *, metrics_logger: Any, **kwargs: Any) -> None:
        metrics_logger.log_value("evaluated", 1.0)


def small() -> PPOConfig:
    config = PPOConfig().environment("CartPole-v1").env_runners(num_envs_per_env_runner=2)
    config.evaluation(evaluation_duration=4)
    return config.training(
        train_batch_size=64, minibatch_size=64, num_epochs=1, model={"fcnet_hiddens": [4]}
    )


def test_callbacks_of_its_episodes_are_in_the_place_of_trainings() -> None:
    config = small().callbacks(OfTraining).evaluation(evaluation_interval=1)
    config.evaluation(evaluation_config={"callbacks": OfEvaluation})
    with config.build() as algo:
        logged = {name for name in algo.train() if "custom_metrics/" in name}
    assert {name.removesuffix("_mean") for name in logged if name.endswith("_mean")} == {
        "custom_metrics/trained",
        "evaluation/custom_metrics/evaluated",
    }


def test_its_seed_says_which_episodes_are_played() -> None:
    def played(of_run: int, **own: Any) -> list[float]:
        config = small().debugging(seed=of_run)
        config.evaluation(evaluation_config={"explore": True, **own})
        with config.build() as algo:
            weights = {m: {k: v * 0 for k, v in w.items()} for m, w in algo.get_weights().items()}
            algo.set_weights(weights)  # so that runs differ by their random streams alone
            result = algo.evaluate()
        return [result["episode_return_mean"], result["episode_return_max"]]

    assert played(1, seed=7) == played(2, seed=7)
    assert played(1, seed=7) != played(1, seed=8)
    assert played(7) == played(1, seed=7)  # as if it were the run's


def test_a_window_is_opened_where_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def windows(trained: bool, **own: Any) -> list[bool]:
        config = PPOConfig().environment("CartPole-v1", render_env=trained)
        evaluated = config.evaluation(evaluation_config=own).get_evaluation_config_object()
        evaluating = [evaluation_options(evaluated, i, 0, None).window for i in (0, 1, 2)]
        return [training_options(config, 0, None).window, *evaluating]

    assert windows(trained=True) == [True, False, False, False]
    assert windows(trained=False, render_env=True) == [False, True, True, False]
    config = PPOConfig().environment("CartPole-v1")
    config.evaluation(evaluation_config={"render_env": True})
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(ConfigError, match="opens a window, and this machine has no display"):
        config.build()
    config.environment(record_env=True)
    with pytest.raises(ConfigError, match="evaluation_config: render_env and record_env are both"):
        config.validate()


def test_a_number_of_workers_is_how_many_evaluate() -> None:
    for name in ("num_workers", "num_env_runners"):
        config = PPOConfig().evaluation(evaluation_config={name: 2, "explore": True})
        assert config.evaluation_num_env_runners == 2 and config.num_env_runners == 0
        assert config.evaluation_config == {"explore": True}
    both: dict[str, Any] = {"evaluation_num_workers": 1, "evaluation_config": {"num_workers": 2}}
    for give in (
        lambda: PPOConfig().evaluation(**both),
        lambda: PPOConfig(evaluation_num_env_runners=1, evaluation_config={"num_workers": 2}),
        lambda: PPOConfig.from_dict(both),
        lambda: PPOConfig().update_from_dict(both),
    ):
        with pytest.raises(ConfigError, match="evaluation_num_env_runners = 1 says otherwise"):
            give()
