"""Each mistake gives one message: file, line, key, and the nearest valid choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.sweep.load import load_specs
from search_spaces.documents import SpecError

GOOD = """\
name: sweep
trainable: PPO
config:
  env: CartPole-v1
  model:
    fcnet_hiddens: [64, 64]
search_space:
  lr: {loguniform: [1e-4, 1e-2]}
search: {algorithm: tpe, n_startup_trials: 3}
scheduler: {algorithm: asha, grace_period: 1000}
objective: {metric: episode_return_mean, mode: max}
stop: {num_env_steps_sampled_lifetime: 10_000}
num_samples: 4
"""
TWO = "[{metric: episode_return_mean}, {metric: num_episodes, mode: min}]"
OBJECTIVE = "{metric: episode_return_mean, mode: max}"


def message(tmp_path: Path, text: str) -> str:
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as error:
        load_specs(path)
    return str(error.value).replace(f"{tmp_path}/", "")


def test_the_good_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(GOOD)
    assert load_specs(tmp_path / "sweep.yaml")[0].num_samples == 4


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "choice"),
    [
        # A misspelt key, at every depth.
        ("num_samples:", "num_sample:", 13, "'num_sample'", "did you mean 'num_samples'?"),
        ("env: C", "enw: C", 4, "'enw'", "did you mean 'env' "),
        ("fcnet_hiddens", "fcnet_hidens", 6, "'fcnet_hidens'", "did you mean 'fcnet_hiddens'?"),
        ("mode: max", "mod: max", 11, "'mod'", "did you mean 'mode'?"),
        ("grace_period", "grace_perod", 10, "'grace_perod'", "did you mean 'grace_period'?"),
        ("n_startup", "n_start", 9, "'n_start_trials'", "did you mean 'n_startup_trials'?"),
        ("num_samples: 4", "resources: {num_cpu: 1}", 13, "'num_cpu'", "did you mean 'num_cpus'?"),
        ("num_samples: 4", "mlflow: {tracking_url: x}", 13, "mlflow", "mean 'tracking_uri'?"),
        ("num_samples: 4", "checkpoint: {frequncy: 1}", 13, "checkpoint", "mean 'frequency'?"),
        ("num_samples: 4", "seeds: {value: [1, 2]}", 13, "'value'", "did you mean 'values'?"),
        ("num_samples: 4", "matrix: {sed: [1]}", 13, "'sed'", "did you mean 'seed'?"),
        ("num_samples: 4", "lr: 0.1", 13, "'lr'", "write it under config"),
        # A key that the algorithm lacks.
        ("lr: {log", "clip_parm: {log", 8, "clip_parm", "did you mean 'clip_param' "),
        ("lr: {log", "n_step: {log", 8, "n_step", "it belongs to CQL, DQN, IQL, QMIX, SAC"),
        ("env: C", "dueling: true\n  env: C", 4, "dueling", "it belongs to DQN"),
        # A metric that never appears.
        ("episode_return_mean", "episode_retrun_mean", 11, "objective", "'episode_return_mean'?"),
        ("steps_sampled_l", "steps_sampld_l", 12, "stop", "'num_env_steps_sampled_lifeti"),
        ("grace_period: 1000", "time_attr: num_steps", 10, "scheduler", "allowed: episode_return"),
        ("episode_return_mean", "evaluation/x", 11, "objective", "config.evaluation_interval"),
        # A mode, a budget, a name that there is not.
        ("mode: max", "mode: maximum", 11, "objective.mode = 'maximum'", "did you mean 'max'?"),
        ("mode: max", "mode: minimise", 11, "objective.mode = 'minimise'", "did you mean 'min'?"),
        ("10_000", "0", 12, "num_env_steps_sampled_lifetime = 0", "allowed: above 0"),
        ("num_samples: 4", "num_samples: 0", 13, "num_samples = 0", "greater than 0"),
        ("num_samples: 4", "time_budget_s: 0", 13, "time_budget_s = 0", "greater than 0"),
        ("grace_period: 1000", "max_t: 0", 10, "scheduler.max_t = 0", "greater than 0"),
        ("grace_period: 1000", "grace_period: 0", 10, "grace_period = 0", "greater than 0"),
        ("grace_period: 1000", "reduction_factor: 1", 10, "reduction_factor = 1", "than 1"),
        ("PPO", "PPOO", 2, "trainable", "did you mean 'PPO"),
        ("CartPole-v1", "CartPol-v1", 4, "config.env", "did you mean 'CartPole-v1"),
        ("tpe", "tppe", 9, "search", "did you mean 'tpe'?"),
        ("asha,", "asah,", 10, "scheduler", "did you mean 'asha'?"),
        ("loguniform", "loguniforn", 8, "lr", "did you mean 'loguniform'?"),
        # What only fails together.
        (OBJECTIVE, "{metric: null}", 11, "objective.metric", "the name of a metric"),
        (OBJECTIVE, TWO, 10, "asha compares trials by one objective", "use scheduler: fifo"),
        ("stop: {num_env_steps_sampled_lifetime: 10_000}", "", 10, "max_t", "or stop.num_env"),
        ("grace_period: 1000", "grace_period: 20_000", 10, "grace_period = 20000", "max_t = 10000"),
        ("lr: {log", "lr: {grid: [1], log", 8, "lr", "a domain is one of"),
        ("env: C", "lr: 0.1\n  env: C", 9, "lr is searched, and fixed under config", "remove one"),
    ],
)
def test_one_message_for_each(
    tmp_path: Path, old: str, new: str, line: int, key: str, choice: str
) -> None:
    assert old in GOOD
    text = message(tmp_path, GOOD.replace(old, new))
    assert text.startswith(f"sweep.yaml:{line}: "), text
    assert key in text, text
    assert choice in text, text
    assert "\n" not in text and "pydantic" not in text


@pytest.mark.parametrize(
    ("section", "allowed"),
    [
        (
            "objective: maximise",
            "objective = 'maximise' is not allowed; allowed: a mapping of",
        ),
        ("scheduler: null", "scheduler = None is not allowed; allowed: fifo, asha"),
        ("search: [tpe]", "search = ['tpe'] is not allowed; allowed: grid, random, tpe"),
        ("mlflow: true", "mlflow = True is not allowed; allowed: a mapping of enabled, "),
        ("stop: 100", "stop = 100 is not a mapping"),
        ("seeds: {values: [1], parallel: all}", "seeds.parallel = 'all' is not allowed"),
        ("search: {algorithm: tpe, warm_start: [{foldr: x}]}", "did you mean 'folder'?"),
    ],
)
def test_a_section_of_another_kind(tmp_path: Path, section: str, allowed: str) -> None:
    name = section.partition(":")[0]
    lines = [line for line in GOOD.splitlines() if not line.startswith(f"{name}:")]
    text = message(tmp_path, "\n".join([*lines, section]))
    assert text.startswith(f"sweep.yaml:{len(lines) + 1}: "), text
    assert allowed in text, text
