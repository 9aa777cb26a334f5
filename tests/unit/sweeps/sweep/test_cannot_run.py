"""What cannot run is refused by the check before a sweep, and by `--dry-run`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments.commands.show.plan import show_plan, show_plans
from experiments.errors import PreflightError
from experiments.output_files import why_not_writable
from experiments.running.runner import run_sweep
from experiments.spec.ray_names import check_address
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from search_spaces import SpecError
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

SPEC: dict[str, Any] = {"name": "x", "trainable": "sweep_dummy:Dummy"}


def refusal(**keys: Any) -> str:
    with pytest.raises(SpecError) as error:
        make_spec({**SPEC, **keys})
    return str(error.value)


@pytest.mark.parametrize("address", ["", "x", "local", "10.0.0.1", ":6379", "a:99999", "a b:1"])
def test_addresses_that_nobody_joins(address: str) -> None:
    said = refusal(resources={"address": address})
    assert f"resources.address = {address!r} is not allowed" in said
    assert "use auto, or host:port of a running cluster" in said


def test_rays_client_is_not_supported() -> None:
    assert "run the command on a node of the cluster" in refusal(resources={"address": "ray://x"})


@pytest.mark.parametrize("address", ["auto", "10.0.0.1:6379", "head-node.svc:6379", "[::1]:6379"])
def test_addresses_of_clusters(address: str) -> None:
    assert check_address(address) == address


@pytest.mark.parametrize(
    ("custom", "problem"),
    [
        ({"CPU": 5}, "'CPU' is a resource of Ray's own, no custom one; set resources.num_cpus"),
        ({"GPU": 1}, "'GPU' is a resource of Ray's own"),
        ({"memory": 1e9}, "'memory' is a resource of Ray's own"),
        ({"node:__internal_head__": 1}, "cannot be the name of a resource"),
        ({" ": 1}, "cannot be the name of a resource"),
        ({"arm": 0.5}, "arm = 0.5 must be a whole number"),
        ({"arm": float("inf")}, "arm"),
        ({"arm": 1e15}, "arm = 1e+15 must be a whole number, at most 1e+12"),
    ],
)
def test_resources_that_ray_does_not_take(custom: dict[str, float], problem: str) -> None:
    assert problem in refusal(resources={"custom": custom})


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"mlflow": {"tracking_uri": "nope://"}}, "nope:// is no tracking store of MLflow's"),
        ({"mlflow": {"tracking_uri": "ftp://host/x"}}, "allowed: a folder, or file://…, http://…"),
        ({"mlflow": {"tracking_uri": "http://"}}, "http:// names no host"),
        ({"mlflow": {"tracking_uri": "http://[x"}}, "is no URI"),
        ({"mlflow": {"tracking_uri": ""}}, "at least 1 character"),
        ({"storage": ""}, "at least 1 character"),
        ({"num_samples": 10**30}, "less than or equal to 100000"),
        ({"name": "x" * 300}, "it has 300 characters; at most 200"),
        ({"resources": {"num_cpus": 10**30}}, "less than or equal to 100000"),
    ],
)
def test_what_a_key_may_not_be(keys: dict[str, Any], problem: str) -> None:
    assert problem in refusal(**keys)


def dry_run(**keys: Any) -> str:
    text = io.StringIO()
    show_plan(Sweep.of(make_spec({**SPEC, **keys})), Console(file=text))
    return text.getvalue()


@pytest.mark.parametrize("storage", ["/proc/x", "/dev/null", "/dev/null/x", "/tmp/" + "x" * 300])
def test_storage_that_cannot_be_written(storage: str) -> None:
    for run in (dry_run, lambda **keys: run_sweep(Sweep.of(make_spec({**SPEC, **keys})))):
        with pytest.raises(PreflightError, match=r"the storage folder .*choose another with --st"):
            run(storage=storage)
    with pytest.raises(PreflightError, match="the storage folder"):
        show_plans([Sweep.of(make_spec({**SPEC, "storage": storage}))], Console(file=io.StringIO()))


def test_a_dry_run_sees_what_a_run_would_write_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = {"storage": str(tmp_path / "runs")}
    assert "# folder:" in dry_run(**storage)
    assert not list(tmp_path.iterdir())
    notes = tmp_path / "notes.txt"
    notes.write_text("Dear Ada")
    search = {"algorithm": "tpe", "study_storage": str(notes)}
    space = {"lr": {"uniform": [0.1, 1]}}
    with pytest.raises(PreflightError, match="no journal of Optuna's"):
        dry_run(**storage, search=search, search_space=space)
    with pytest.raises(PreflightError, match=r"notes\.txt is no SQLite database"):
        dry_run(**storage, mlflow={"tracking_uri": f"sqlite:///{notes}"})
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nope://")
    with pytest.raises(PreflightError, match="nope:// is no tracking store"):
        dry_run(**storage)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    (tmp_path / "runs" / "x").mkdir(parents=True)
    (tmp_path / "runs" / "x" / "thesis.tex").touch()
    with pytest.raises(PreflightError, match="exists already and is never overwritten"):
        dry_run(**storage)
    assert notes.read_text() == "Dear Ada"


def test_a_place_is_tried_and_left_as_it_is(tmp_path: Path) -> None:
    assert why_not_writable(tmp_path / "a" / "b" / "c") is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"callbacks": "os:system"}, "callbacks_class = 'os:system' is no subclass of"),
        ({"callbacks_class": ["os:system"]}, "callbacks_class = 'os:system' is no subclass of"),
        ({"callbacks_class": "os:none_such"}, "'os:none_such' cannot be found"),
        ({"on_train_result": "os:system"}, "needs 'command', which on_train_result does not give"),
        ({"on_train_result": "builtins:dict.fromkeys"}, "on_train_result"),
        ({"on_train_result": "os:sep"}, "on_train_result = 'os:sep' is no function"),
        ({"env_runner_cls": "os:system"}, "env_runner_cls = 'os:system' is not allowed"),
        ({"env_task_fn": "os:sep"}, "env_task_fn = 'os:sep' is not allowed; allowed: a function"),
        ({"learner_class": "os:system"}, "learner_class = 'os:system' is not allowed"),
        ({"learner_connector": ["os:sep"]}, "learner_connector = 'os:sep' is not allowed"),
        ({"model": {"custom_model": "os:system"}}, "custom_model = 'os:system' is not allowed"),
        (
            {"custom_evaluation_function": "os:sep", "evaluation_interval": 1},
            "custom_evaluation_function = 'os:sep' is not allowed",
        ),
        ({"model": {"fcnet_hiddens": [10**9]}}, "fcnet_hiddens = [1000000000] is not allowed"),
        ({"model": {"fcnet_hiddens": [1] * 101}}, "fcnet_hiddens has 101 layers; allowed: at most"),
        ({"model": {"fcnet_hiddens": [16_384] * 9}}, "2,147,483,648 weights; allowed: at most 1,0"),
        ({"model": {"use_lstm": True, "lstm_cell_size": 10**9}}, "lstm_cell_size = 1000000000"),
        ({"lr": "1:30"}, "lr = '1:30' is not allowed"),
    ],
)
def test_settings_that_no_trial_could_be_made_with(config: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecError) as error:
        make_spec({"name": "x", "config": {"env": "CartPole-v1", **config}})
    assert problem in str(error.value)


SIZES: list[tuple[str, dict[str, Any]]] = [
    ("train_batch_size_per_learner", {"train_batch_size_per_learner": 10**12}),
    ("num_envs_per_env_runner", {"num_envs_per_env_runner": 10**9}),
    ("num_envs_per_env_runner", {"evaluation_config": {"num_envs_per_env_runner": 10**9}}),
    ("rollout_fragment_length", {"rollout_fragment_length": 10**12}),
    ("frame_stack", {"frame_stack": 10**9}),
    ("attention_memory_inference", {"model": {"attention_memory_inference": 10**12}}),
]


@pytest.mark.parametrize("algorithm", algorithm_names())
@pytest.mark.parametrize(("setting", "config"), SIZES)
def test_sizes_that_no_machine_holds_have_a_bound(
    algorithm: str, setting: str, config: dict[str, Any]
) -> None:
    """Also where an algorithm declares the setting anew, for a default of its own."""
    with pytest.raises(ConfigError, match=rf"{setting} = 10+ is not allowed; allowed: .*<= 1"):
        get_algorithm(algorithm).config_class.check(config)


def test_a_replay_buffer_and_a_distribution_have_a_bound() -> None:
    for config in ({"replay_buffer_config": {"capacity": 10**15}}, {"num_atoms": 10**9}):
        with pytest.raises(ConfigError, match=r"0 is not allowed; allowed: int, >= [12], <= 1"):
            get_algorithm("DQN").config_class.check(config)


def test_code_that_is_on_the_cluster_alone_is_not_looked_for() -> None:
    config = {"env": "CartPole-v1", "callbacks_class": "on_the_nodes:Callbacks"}
    resources = {"address": "auto"}
    assert make_spec({"name": "x", "config": config, "resources": resources})


def test_code_of_the_right_kind_passes() -> None:
    config = {
        "env": "CartPole-v1",
        "callbacks_class": "trainables.runtime.callbacks.memory_tracking:MemoryTrackingCallbacks",
        "on_train_result": "callback_cases:mark",
        "env_runner_cls": "trainables.runtime.sampling.env_runner:EnvRunner",
    }
    assert make_spec({"name": "x", "config": config})
