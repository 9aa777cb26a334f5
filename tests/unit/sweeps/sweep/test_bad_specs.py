"""Each mistake gives one message: file, line, key, and the nearest valid choice."""

from __future__ import annotations

from pathlib import Path

from refusals import Golden, refusals

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


def written(folder: Path, text: str) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(text)
    return path


def test_the_good_one_is_read(tmp_path: Path) -> None:
    assert load_specs(written(tmp_path, GOOD))[0].num_samples == 4


MISTAKES = [
    ("num_samples:", "num_sample:"),
    ("env: C", "enw: C"),
    ("fcnet_hiddens", "fcnet_hidens"),
    ("mode: max", "mod: max"),
    ("grace_period", "grace_perod"),
    ("n_startup", "n_start"),
    ("num_samples: 4", "resources: {num_cpu: 1}"),
    ("num_samples: 4", "mlflow: {tracking_url: x}"),
    ("num_samples: 4", "checkpoint: {frequncy: 1}"),
    ("num_samples: 4", "seeds: {value: [1, 2]}"),
    ("num_samples: 4", "matrix: {sed: [1]}"),
    ("num_samples: 4", "lr: 0.1"),
    ("lr: {log", "clip_parm: {log"),
    ("lr: {log", "n_step: {log"),
    ("env: C", "dueling: true\n  env: C"),
    ("episode_return_mean", "episode_retrun_mean"),
    ("steps_sampled_l", "steps_sampld_l"),
    ("grace_period: 1000", "time_attr: num_steps"),
    ("episode_return_mean", "evaluation/x"),
    ("mode: max", "mode: maximum"),
    ("mode: max", "mode: minimise"),
    ("10_000", "0"),
    ("num_samples: 4", "num_samples: 0"),
    ("num_samples: 4", "time_budget_s: 0"),
    ("grace_period: 1000", "max_t: 0"),
    ("grace_period: 1000", "grace_period: 0"),
    ("grace_period: 1000", "reduction_factor: 1"),
    ("PPO", "PPOO"),
    ("CartPole-v1", "CartPol-v1"),
    ("tpe", "tppe"),
    ("{algorithm: tpe, n_startup_trials: 3}", "bayes"),
    ("episode_return_mean", "episode_reward"),
    ("env: C", "enw: C\n  lrr: 0.1\n  gamma: 2\n  env: C"),
    ("asha,", "asah,"),
    ("loguniform", "loguniforn"),
    (OBJECTIVE, "{metric: null}"),
    (OBJECTIVE, TWO),
    ("stop: {num_env_steps_sampled_lifetime: 10_000}", ""),
    ("grace_period: 1000", "grace_period: 20_000"),
    ("lr: {log", "lr: {grid: [1], log"),
    ("env: C", "lr: 0.1\n  env: C"),
]


def test_each_mistake_is_one_message(tmp_path: Path, golden: Golden) -> None:
    def read(old: str, new: str) -> None:
        assert old in GOOD
        load_specs(written(tmp_path, GOOD.replace(old, new)))

    golden(
        "sweeps/bad_specs", refusals(read, MISTAKES, SpecError, replace={str(tmp_path): "<folder>"})
    )


SECTIONS = [
    "objective: maximise",
    "scheduler: null",
    "search: [tpe]",
    "mlflow: true",
    "stop: 100",
    "seeds: {values: [1], parallel: all}",
    "search: {algorithm: tpe, warm_start: [{foldr: x}]}",
]


def test_a_section_of_another_kind(tmp_path: Path, golden: Golden) -> None:
    def read(section: str) -> None:
        name = section.partition(":")[0]
        lines = [line for line in GOOD.splitlines() if not line.startswith(f"{name}:")]
        load_specs(written(tmp_path, "\n".join([*lines, section])))

    golden(
        "sweeps/bad_sections",
        refusals(read, SECTIONS, SpecError, replace={str(tmp_path): "<folder>"}),
    )
