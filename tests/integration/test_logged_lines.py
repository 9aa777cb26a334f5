"""What every process of a trial logs is seen: at the command line, and in plain Tune."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_drivers import completed

SPEC = """\
name: logged
trainable: PPO
config: {{env: CartPole-v1, num_env_runners: 1, num_envs_per_env_runner: 2, num_learners: 1,
  train_batch_size_per_learner: 64, minibatch_size: null, num_epochs: 1, evaluation_interval: 1,
  evaluation_duration: 1, evaluation_num_env_runners: 1{more}}}
stop: {{training_iteration: 1}}
mlflow: {{enabled: false}}
resources: {{num_cpus: 4}}
"""


@pytest.mark.full(
    "unit/core/test_logs.py::test_a_level_of_its_own_goes_before_that_of_the_command_line"
)
@pytest.mark.parametrize(
    ("option", "more", "info", "debug"),
    [
        ("-vv", "", True, True),
        ("-v", "", True, False),
        ("-vv", ", log_level: ERROR", False, False),
    ],
)
def test_the_command_line_sets_the_level(
    option: str, more: str, info: bool, debug: bool, tmp_path: Path
) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC.format(more=more))
    variables = {"RAY_DEDUP_LOGS": "0"}
    done = completed("run", "spec.yaml", option, cwd=tmp_path, variables=variables)
    assert done.returncode == 0, done.stderr
    shown = done.stdout + done.stderr
    of_info = (
        "INFO trainables: PPO on 'CartPole-v1'",
        "INFO trainables: env runner 1: 2 slots of 'CartPole-v1'",
        "INFO trainables: learner 0 of 1 is there",
        "INFO trainables: evaluation env runner 1 is there",
        "INFO trainables: evaluation after ",  # as many training steps as an episode took to end
    )
    of_debug = (
        "DEBUG trainables: env runner 1 sampled ",
        "DEBUG trainables: learner 0 updates with ",
        "DEBUG trainables: evaluation part 0",
    )
    assert [line in shown for line in of_info] == [info] * len(of_info), shown
    assert [line in shown for line in of_debug] == [debug] * len(of_debug), shown
