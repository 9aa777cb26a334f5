"""Several nodes in one machine: where trials are placed, and what never fits."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import yaml
from forked_drivers import completed
from placed import PLACES, Placed, PlacedOnFakeGPU
from ray import tune
from ray.cluster_utils import Cluster
from small_ray import small_cluster

from experiments.sweep.preflight import nodes_without
from trainables import PPOConfig
from trainables.runtime.actors.feasibility import InfeasibleError

SMALL: dict[str, Any] = {
    "env": "CartPole-v1",
    "train_batch_size_per_learner": 128,
    "minibatch_size": 64,
    "num_epochs": 1,
    "num_envs_per_env_runner": 2,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head that runs nothing but the driver, and two nodes of 2 CPUs, one with a GPU."""
    with small_cluster({"num_cpus": 2, "num_gpus": 1}, {"num_cpus": 2}, num_cpus=0) as made:
        yield made


def run(folder: Path, config: dict[str, Any], **options: Any) -> Any:
    tuner = tune.Tuner(
        options.pop("trainable", Placed),
        param_space={**SMALL, **config},
        run_config=tune.RunConfig(
            storage_path=str(folder),
            stop=options.pop("stop", {"training_iteration": 1}),
            verbose=0,
            **options,
        ),
    )
    return tuner.fit()


def wait_until_free(num_cpus: int) -> None:
    """Wait for the resources of the trial before."""
    deadline = time.monotonic() + 240
    while ray.available_resources().get("CPU", 0) < num_cpus:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("strategy", "num_env_runners", "num_nodes"),
    [
        ("STRICT_PACK", 1, 1),
        ("STRICT_SPREAD", 1, 2),
        pytest.param("PACK", 1, 1, marks=pytest.mark.full),
        pytest.param("SPREAD", 1, 2, marks=pytest.mark.full),
    ],
)
def test_placement(
    cluster: Cluster, tmp_path: Path, strategy: str, num_env_runners: int, num_nodes: int
) -> None:
    wait_until_free(4)  # SPREAD packs where one of the nodes is still in use
    config = {"num_env_runners": num_env_runners, "placement_strategy": strategy}
    (result,) = run(tmp_path, config)
    assert result.error is None
    assert len(result.metrics[PLACES]) == 1 + num_env_runners
    assert len(set(result.metrics[PLACES])) == num_nodes


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"num_env_runners": 2, "placement_strategy": "STRICT_SPREAD"}, "needs 3 nodes"),
        ({"num_env_runners": 2, "placement_strategy": "STRICT_PACK"}, "3 CPU on one node"),
        ({"num_env_runners": 5}, r"needs 6 CPU; the nodes have .*\(2 CPU, 1 GPU\)"),
        ({"num_cpus_for_main_process": 3}, "one of its processes needs 3 CPU"),
        (
            {"num_env_runners": 1, "custom_resources_per_env_runner": {"arm": 1}},
            "needs 1 CPU, 1 arm;.*custom_resources_per_env_runner",
        ),
    ],
)
def test_what_never_fits_fails_at_once(
    cluster: Cluster, tmp_path: Path, config: dict[str, Any], reason: str
) -> None:
    """Tune itself would wait for ever."""
    with pytest.raises(InfeasibleError, match=reason):
        run(tmp_path, config)


class CountsRunning(tune.Callback):
    """How many trials ran at the same time at most."""

    most = 0

    def on_trial_result(self, trials: list[Any], **_: Any) -> None:
        self.most = max(self.most, sum(trial.status == "RUNNING" for trial in trials))


@pytest.mark.full("test_placement")
def test_four_trials_share_a_gpu(cluster: Cluster, tmp_path: Path) -> None:
    """Each runs until all of them do."""
    counts = CountsRunning()
    config = {
        "num_gpus_per_learner": 0.25,
        "fake_gpus": True,
        "num_cpus_for_main_process": 0.5,
        "seed": tune.grid_search([1, 2, 3, 4]),
    }
    results = run(
        tmp_path,
        config,
        trainable=PlacedOnFakeGPU,
        callbacks=[counts],
        stop=lambda *_: counts.most == 4,
    )
    assert not results.errors
    assert counts.most == 4
    assert len({result.metrics[PLACES][0] for result in results}) == 1


def test_outside_tune(cluster: Cluster) -> None:
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=5)
    with pytest.raises(InfeasibleError, match="needs 5 CPU"):
        config.build()


@pytest.mark.full("test_placement")
def test_actors_are_started_with_their_variables(cluster: Cluster) -> None:
    config = PPOConfig.from_dict({**SMALL, "num_env_runners": 1}).python_environment(
        extra_python_environs_for_worker={"COLOUR": "green", "PYTHONHASHSEED": "7"}
    )
    algo = config.build()
    colour: Any = lambda _: (os.environ.get("COLOUR"), os.environ.get("PYTHONHASHSEED"))  # noqa: E731
    assert algo.env_runners.foreach_env_runner(colour) == [("green", "7")]
    again = {**algo.config.to_dict(), "extra_python_environs_for_worker": {"COLOUR": "red"}}
    algo.reset_config(again)
    assert algo.env_runners.foreach_env_runner(colour)[0][0] == "red"
    algo.stop()


def test_a_folder_that_is_not_on_every_node_is_named(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nodes_without(tmp_path, same_machine_too=True) == []
    monkeypatch.setattr("experiments.sweep.preflight._exists", lambda path: False)
    address = cluster.head_node.node_ip_address
    assert nodes_without(tmp_path, same_machine_too=True) == [address]


@pytest.mark.full("test_placement")
def test_the_command_line_joins_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """Its head has no CPU: the trial ran on another node."""
    config = {**SMALL, "num_env_runners": 1, "placement_strategy": "STRICT_SPREAD"}
    spec = {
        "name": "joined",
        "trainable": "PPO",
        "config": config,
        "stop": {"training_iteration": 1},
        "mlflow": {"enabled": False},
    }
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    command = ["run", "spec.yaml", "--address", cluster.address, "--storage", "runs"]
    done = completed(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (result,) = (tmp_path / "runs" / "joined").glob("*/result.json")
    assert len(result.read_text().splitlines()) == 1
    config["num_env_runners"] = 2
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump({**spec, "name": "never"}))
    done = completed(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert "needs 3 nodes (STRICT_SPREAD)" in " ".join(done.stderr.split())
