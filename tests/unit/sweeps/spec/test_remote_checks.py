"""What a spec from a URL may set is a list: everything else is refused, and nothing is imported."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.spec import remote as remote_spec
from experiments.spec.files import spec_names
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import load_specs
from search_spaces import SpecError

URL = "https://example.com/their.yaml"
GOOD = "config: {env: CartPole-v1}\nstop: {timesteps_total: 5}\n"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads the specs of a text as if it came from `URL`."""

    def read(text: str, overrides: tuple[str, ...] = ()) -> list[SweepSpec]:
        monkeypatch.setattr(remote_spec, "_fetch", lambda url: text)
        return load_specs(URL, overrides)

    return read


def refusal(load: Any, text: str) -> str:
    with pytest.raises(SpecError) as error:
        load(text)
    said = str(error.value)
    assert said.startswith(URL) and "download the file, read it, and run it" in said
    return said.partition(": a spec from")[0].partition(": ")[2]


SECTIONS = {
    "storage: /home/ada/.ssh": "storage = '/home/ada/.ssh'",
    "storage: runs": "storage = 'runs'",
    "mlflow: {tracking_uri: 'sqlite:///x.db'}": "mlflow.tracking_uri = 'sqlite:///x.db'",
    "mlflow: {tracking_uri: 'http://evil'}": "mlflow.tracking_uri = 'http://evil'",
    "mlflow: {register_as: production}": "mlflow.register_as = 'production'",
    "resources: {address: '10.0.0.1:6379'}": "resources.address = '10.0.0.1:6379'",
    "search: {algorithm: tpe, study_storage: /etc/x}": "search.study_storage = '/etc/x'",
    "search: {algorithm: tpe, study_name: x}": "search.study_name = 'x'",
    "search: {algorithm: tpe, warm_start: [{folder: runs/x}]}": "search.warm_start.0.folder",
    "search: {algorithm: tpe, warm_start: [{mlflow_experiment: tunescape}]}": (
        "search.warm_start.0.mlflow_experiment = 'tunescape'"
    ),
    "scheduler: {algorithm: pbt_replay, sweep: runs/x}": "scheduler.sweep = 'runs/x'",
    "scheduler: {algorithm: pbt_replay, trial: x}": "scheduler.trial = 'x'",
    "search_space: x.yaml": "search_space = 'x.yaml'",
    "search_space: {base: ../x.yml/small}": "search_space.base = '../x.yml/small'",
    "callbacks: 'this:Thing'": "callbacks.0.class = 'this:Thing'",
    "callbacks: [{class: wandb, args: {project: x}}]": "callbacks.0.class = 'wandb'",
    "callbacks: [{args: {key: x}}]": "callbacks.0.args.key = 'x'",
    "loggers: [csv, wandb]": "loggers.1 = 'wandb'",
    "trainable: 'this:Thing'": "trainable = 'this:Thing'",
    "matrix: {trainable: ['this:Thing']}": "trainable = 'this:Thing'",
    "matrix: {agent: {a: {mlflow: {tracking_uri: x}}}}": "mlflow.tracking_uri = 'x'",
    "matrix: {mlflow.tracking_uri: [x]}": "mlflow.tracking_uri = 'x'",
    "unknown: 1\ntrainable: 'this:Thing'": "trainable = 'this:Thing'",
}


def test_places_addresses_and_code_are_refused(load: Any) -> None:
    said = {line: refusal(load, GOOD + line) for line in SECTIONS}
    assert {line: text[: len(SECTIONS[line])] for line, text in said.items()} == SECTIONS
    assert "this" not in sys.modules  # nothing was imported to see what it is


CONFIGS = {
    "env: 'this:Env'": "env = 'this:Env'",
    "callbacks: 'os:system'": "callbacks = 'os:system'",
    "callbacks_class: ['os:system']": "callbacks_class = ['os:system']",
    "on_train_result: 'os:system'": "on_train_result = 'os:system'",
    "env_config: {xml_file: /etc/passwd}": "env_config = {'xml_file': '/etc/passwd'}",
    "env_config: {deep: [{choice: [/etc]}]}": "env_config = {'deep'",
    "record_env: /home/ada": "record_env = '/home/ada'",
    "extra_python_environs_for_driver: {PYTHONPATH: /x}": "extra_python_environs_for_driver = ",
    "extra_python_environs_for_worker: {PYTHONINSPECT: 1}": "extra_python_environs_for_worker = ",
    "model: {custom_model: 'this:Net'}": "model.custom_model = 'this:Net'",
    "model_config: {custom_model: 'this:Net'}": "model_config.custom_model = 'this:Net'",
    "learner_class: 'this:Learner'": "learner_class = 'this:Learner'",
    "learner_connector: ['this:f']": "learner_connector = ['this:f']",
    "env_to_module_connector: {class: 'this:f'}": "env_to_module_connector = {'class'",
    "env_runner_cls: 'this:Runner'": "env_runner_cls = 'this:Runner'",
    "env_task_fn: 'this:f'": "env_task_fn = 'this:f'",
    "custom_evaluation_function: 'this:f'": "custom_evaluation_function = 'this:f'",
    "evaluation_config: {env: 'this:Env'}": "evaluation_config.env = 'this:Env'",
    "evaluation_config: {env_config: {a: b}}": "evaluation_config.env_config = {'a': 'b'}",
    "torch_compile_learner_dynamo_backend: this": "torch_compile_learner_dynamo_backend = 'this'",
    "env: {grid_search: ['this:Env', CartPole-v1]}": "env = 'this:Env'",
}


def test_settings_that_name_code_paths_and_variables_are_refused(load: Any) -> None:
    for line, expected in CONFIGS.items():
        head = "config:\n" + ("" if line.startswith("env:") else "  env: CartPole-v1\n")
        said = refusal(load, f"stop: {{timesteps_total: 5}}\n{head}  {line}\n")
        assert said.startswith(f"config.{expected}"), line
    assert "this" not in sys.modules


SEARCHED = [
    ("env: {choice: ['this:Env', CartPole-v1]}", "env = 'this:Env'"),
    ("callbacks_class: {grid: ['os:system']}", "callbacks_class = 'os:system'"),
    ("model.custom_model: {choice: ['this:Net', null]}", "model.custom_model = 'this:Net'"),
    ("model: {custom_model: {choice: ['this:Net', null]}}", "model.custom_model = 'this:Net'"),
]


def test_searched_values_are_settings_too(load: Any) -> None:
    for line, expected in SEARCHED:
        assert refusal(load, f"{GOOD}search_space:\n  {line}\n") == f"search_space.{expected}"


def test_a_schedule_of_settings_is_a_config(load: Any) -> None:
    replay = "scheduler: {algorithm: pbt_replay, schedule: [[0, {record_env: /x}]]}"
    assert refusal(load, GOOD + replay) == "scheduler.schedule.0.1.record_env = '/x'"


def test_rllibs_form_is_no_way_around(load: Any) -> None:
    text = "x:\n  run: PPO\n  env: CartPole-v1\n  stop: {training_iteration: 1}\n"
    assert refusal(load, f"{text}  local_dir: /etc\n") == "storage = '/etc'"
    assert refusal(load, f"{text}  config: {{callbacks: 'os:system'}}\n").startswith("config.call")
    assert refusal(load, text.replace("PPO", "'this:PPO'")) == "trainable = 'this:PPO'"


def test_what_the_command_line_sets_may_be_anything(load: Any, tmp_path: Path) -> None:
    settings = (
        f"storage={tmp_path}",
        "mlflow.tracking_uri=http://mine",
        "config.callbacks_class=trainables.runtime.callbacks.memory_tracking:MemoryTrackingCallbacks",
    )
    (spec,) = load(f"{GOOD}storage: theirs\n", settings)
    assert spec.storage == str(tmp_path) and spec.mlflow.tracking_uri == "http://mine"
    with pytest.raises(SpecError, match="study_storage = 'x': a spec from a URL"):
        load(f"{GOOD}search: {{algorithm: tpe, study_storage: x}}\n", ("search.seed=1",))


def test_what_sweeps_are_made_of_is_allowed(load: Any) -> None:
    (spec,) = load(
        """
name: their-sweep
trainable: PPO
config:
  env: CartPole-v1
  env_config: {sutton_barto_reward: false}
  num_env_runners: 1
  rollout_fragment_length: auto
  record_env: false
  extra_python_environs_for_worker: {}
  observation_filter: MeanStdFilter
  model: {fcnet_hiddens: [64], fcnet_activation: relu}
  evaluation_interval: 5
  evaluation_config: {explore: false}
search_space: {base: ppo/small, gamma: {choice: [0.9, 0.99]}}
search: {algorithm: tpe, points_to_evaluate: [{gamma: 0.9}]}
scheduler: {algorithm: asha, grace_period: 100, time_attr: num_env_steps_sampled_lifetime}
objective: {metric: episode_return_mean, mode: max}
stop: {num_env_steps_sampled_lifetime: 1000}
seed: 1
final: {top: 2}
resources: {num_cpus: 2}
checkpoint: {frequency: 5}
mlflow: {experiment_name: theirs, tags: {paper: PPO}}
loggers: [csv]
"""
    )
    assert spec.name == "their-sweep" and spec.config["model"]["fcnet_activation"] == "relu"


def text_of(name: str) -> str:
    return (Path(remote_spec.__file__).parents[1] / f"{name}.yaml").read_text()


def names_data(name: str) -> bool:
    """Whether a spec of ours reads files of this machine, or writes such."""
    return "input_:" in text_of(name) or "record:" in text_of(name)


def names_a_map(name: str) -> bool:
    """Whether an environment's settings are texts, as the map of a grid is."""
    return "desc:" in text_of(name)


@pytest.mark.full("test_what_sweeps_are_made_of_is_allowed")
def test_specs_of_ours_could_be_read_from_a_url(load: Any) -> None:
    """But for texts for an environment, and for data of this machine."""
    for name in spec_names():
        text = text_of(name)
        if names_a_map(name):
            assert refusal(load, text).startswith("config.env_config = "), name
        elif names_data(name):
            said = refusal(load, text)
            assert said.startswith(("config.input_ = ", "record.train.trainable")), name
        else:
            try:
                assert load(text)
            except SpecError as error:  # of a package that is not installed
                assert "needs the library" in str(error), name
