"""What cannot run is refused by the check before a sweep, and by `--dry-run`."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from refusals import Golden, refusals
from rich.console import Console

from experiments.commands.show.plan import show_plan, show_plans
from experiments.errors import PreflightError
from experiments.output_files import why_not_writable
from experiments.running.runner import run_sweep
from experiments.spec.ray_names import check_address
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from search_spaces import SpecError
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

SPEC: dict[str, Any] = {"name": "x", "trainable": "sweep_dummy:Dummy"}


def make(**keys: Any) -> SweepSpec:
    return make_spec({**SPEC, **keys})


ADDRESSES = ["", "x", "local", "10.0.0.1", ":6379", "a:99999", "a b:1", "ray://x"]
CUSTOM: list[dict[str, Any]] = [
    {"CPU": 5},
    {"GPU": 1},
    {"memory": 1e9},
    {"node:__internal_head__": 1},
    {" ": 1},
    {"arm": 0.5},
    {"arm": float("inf")},
    {"arm": 1e15},
]
KEYS: list[dict[str, Any]] = [
    *({"resources": {"address": address}} for address in ADDRESSES),
    *({"resources": {"custom": custom}} for custom in CUSTOM),
    *({"mlflow": {"tracking_uri": uri}} for uri in ("nope://", "ftp://host/x", "http://")),
    *({"mlflow": {"tracking_uri": uri}} for uri in ("http://[x", "")),
    {"storage": ""},
    {"num_samples": 10**30},
    {"name": "x" * 300},
    {"resources": {"num_cpus": 10**30}},
]


def test_what_a_key_may_not_be(golden: Golden) -> None:
    golden("sweeps/spec_keys", refusals(lambda keys: make(**keys), KEYS, SpecError))


def test_addresses_of_clusters() -> None:
    for address in ("auto", "10.0.0.1:6379", "head-node.svc:6379", "[::1]:6379"):
        assert check_address(address) == address


def dry_run(**keys: Any) -> str:
    text = io.StringIO()
    show_plan(Sweep.of(make(**keys)), Console(file=text))
    return text.getvalue()


@pytest.mark.parametrize("storage", ["/proc/x", "/dev/null", "/dev/null/x", "/tmp/" + "x" * 300])
def test_storage_that_cannot_be_written(storage: str) -> None:
    for run in (dry_run, lambda **keys: run_sweep(Sweep.of(make(**keys)))):
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
    with pytest.raises(PreflightError, match="exists already"):
        dry_run(**storage)
    assert notes.read_text() == "Dear Ada"


def test_a_place_is_tried_and_left_as_it_is(tmp_path: Path) -> None:
    assert why_not_writable(tmp_path / "a" / "b" / "c") is None
    assert not list(tmp_path.iterdir())


SETTINGS: list[dict[str, Any]] = [
    {"callbacks": "os:system"},
    {"callbacks_class": ["os:system"]},
    {"callbacks_class": "os:none_such"},
    {"on_train_result": "os:system"},
    {"on_train_result": "builtins:dict.fromkeys"},
    {"on_train_result": "os:sep"},
    {"env_runner_cls": "os:system"},
    {"env_task_fn": "os:sep"},
    {"learner_class": "os:system"},
    {"policy_mapping_fn": "os:system"},
    {"policy_mapping_fn": "callback_cases:none_such"},
    {"policies_to_train": "os:system"},
    {"observation_fn": "os:system"},
    {"custom_evaluation_function": "shutil:rmtree", "evaluation_interval": 1},
    {"env_to_module_connector": "os:system"},
    {"learner_connector": ["os:sep"]},
    {"model": {"custom_model": "os:system"}},
    {"custom_evaluation_function": "os:sep", "evaluation_interval": 1},
    {"model": {"fcnet_hiddens": [10**9]}},
    {"model": {"fcnet_hiddens": [1] * 101}},
    {"model": {"fcnet_hiddens": [16_384] * 9}},
    {"model": {"use_lstm": True, "lstm_cell_size": 10**9}},
    {"lr": "1:30"},
]


def test_settings_that_no_trial_could_be_made_with(golden: Golden) -> None:
    def read(config: dict[str, Any]) -> None:
        make_spec({"name": "x", "config": {"env": "CartPole-v1", **config}})

    golden("sweeps/spec_settings", refusals(read, SETTINGS, SpecError))


SIZES: list[tuple[str, dict[str, Any]]] = [
    ("train_batch_size_per_learner", {"train_batch_size_per_learner": 10**12}),
    ("num_envs_per_env_runner", {"num_envs_per_env_runner": 10**9}),
    ("num_envs_per_env_runner", {"evaluation_config": {"num_envs_per_env_runner": 10**9}}),
    ("rollout_fragment_length", {"rollout_fragment_length": 10**12}),
    ("frame_stack", {"frame_stack": 10**9}),
    ("attention_memory_inference", {"model": {"attention_memory_inference": 10**12}}),
]


def test_sizes_that_no_machine_holds_have_a_bound() -> None:
    """Also where an algorithm declares the setting anew, for a default of its own."""
    allowed = []
    for algorithm in algorithm_names():
        for setting, config in SIZES:
            bound = rf"{setting} = 10+ is not allowed; allowed: .*<= 1"
            try:
                get_algorithm(algorithm).config_class.check(config)
                allowed.append((algorithm, config, ""))
            except ConfigError as error:
                if not re.search(bound, str(error)):
                    allowed.append((algorithm, config, str(error)))
    assert allowed == []


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
