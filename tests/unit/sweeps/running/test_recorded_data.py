"""`record` and `input_` of a spec: paths, mistakes, and that data are recorded once."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments.errors import SpecError
from experiments.running.recorded_data import record_data
from experiments.spec.recorded_data import settled
from experiments.sweep.load import dump_spec, load_specs, make_spec, read_spec
from trainables.runtime.offline.inputs import find_source

EXPERT: dict[str, Any] = {
    "trainable": "PPO",
    "config": {"env": "CartPole-v1", "train_batch_size_per_learner": 128, "minibatch_size": 64},
    "stop": {"training_iteration": 1},
}


def spec(tmp_path: Path, **keys: Any) -> dict[str, Any]:
    return {
        "name": "clones",
        "trainable": "BC",
        "config": {"env": "CartPole-v1", "evaluation_interval": 1},
        "record": {"train": EXPERT, "episodes": 4, "random_share": 0.5},
        "storage": str(tmp_path),
        **keys,
    }


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_paths_are_absolute_and_names_stay(here: Path) -> None:
    (here / "there").mkdir()
    at = str(here)
    assert settled("runs/*.parquet") == f"{at}/runs/*.parquet"
    assert settled(["a/b.json", "./c"]) == [f"{at}/a/b.json", f"{at}/c"]
    assert settled({"sampler": 0.5, "there": 0.5}) == {"sampler": 0.5, f"{at}/there": 0.5}
    for name in ("sampler", "dataset", "my_reader", "minari:D4RL/x", "s3://b/c", "my.module:make"):
        assert settled(name) == name


def test_input_is_what_is_recorded(tmp_path: Path) -> None:
    made = make_spec(spec(tmp_path))
    assert made.record is not None and made.record.folder is not None
    assert made.config["input_"] == f"{made.record.folder}/episodes"
    (tmp_path / "spec.yaml").write_text(dump_spec(made), encoding="utf-8")
    assert read_spec(tmp_path / "spec.yaml").record == made.record
    other = make_spec(spec(tmp_path, record={"env": "CartPole-v1"}))
    assert other.config["input_"] != made.config["input_"]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"record": {"episodes": 3}}, "the policy that plays"),
        ({"record": {"train": {**EXPERT, "trainable": "PPOO"}}}, "unknown"),
        ({"record": {"train": {**EXPERT, "config": {"lr": -1}}}}, "lr"),
        ({"record": {"train": {**EXPERT, "config": {}}}}, "env is not set"),
        ({"record": {"train": {**EXPERT, "stop": {}}}}, "stop"),
        ({"record": {"env": "CartPole-v1", "epsilon": 2}}, "epsilon"),
        ({"record": {"env": "CartPoel-v1"}}, r"record\.env: env 'CartPoel-v1'.*CartPole-v1"),
        ({"record": {"train": EXPERT, "env": "Nonsense"}}, r"record\.env: env 'Nonsense'"),
        (
            {"record": {"train": {**EXPERT, "config": {"env": "CartPoel-v1"}}}},
            r"record\.train\.config\.env: env 'CartPoel-v1'",
        ),
        (
            {"record": {"train": {**EXPERT, "stop": {"episode_retrun_mean": 9}}}},
            r"record\.train\.stop: unknown metric 'episode_retrun_mean'.*episode_return_mean",
        ),
        (
            {"record": {"train": {**EXPERT, "stop": {"evaluation/episode_return_mean": 9}}}},
            r"with record\.train\.config\.evaluation_interval set",
        ),
        ({"record": {"train": {**EXPERT, "stop": {"training_iteration": True}}}}, "not a number"),
        ({"trainable": "PPO", "record": {"env": "CartPole-v1"}}, "input_"),
    ],
)
def test_mistakes_are_named_before_anything_runs(
    keys: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=words):
        make_spec(spec(tmp_path, **keys))


def test_data_are_recorded_once(tmp_path: Path) -> None:
    made = make_spec(spec(tmp_path))
    said = io.StringIO()
    record_data(made, Console(file=said, width=300))
    files = {path: path.stat().st_mtime_ns for path in Path(made.config["input_"]).iterdir()}
    assert files and "4 episodes (2 uniformly random)" in said.getvalue()
    record_data(made, Console(file=said, width=300))
    assert "recorded before" in said.getvalue()
    assert files == {p: p.stat().st_mtime_ns for p in Path(made.config["input_"]).iterdir()}
    assert [path.name for path in (tmp_path / "data").iterdir()] == [
        Path(made.config["input_"]).parent.name
    ]


def test_what_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    made = make_spec(spec(tmp_path))
    monkeypatch.setattr("trainables.runtime.evaluation.record.record_episodes", fail)
    with pytest.raises(KeyboardInterrupt):
        record_data(made, Console(file=io.StringIO()))
    assert not [*(tmp_path / "data").iterdir()]


def test_the_shipped_spec_shares_its_data(here: Path) -> None:
    specs = load_specs("offline_cartpole")
    assert [each.trainable for each in specs] == ["BC", "MARWIL"]
    assert len({each.config["input_"] for each in specs}) == 1


TWO: dict[str, Any] = {
    "env": "multi_agent_cartpole",
    "policies": ["a", "b"],
    "policy_mapping_fn": {"agent_0": "a", "*": "b"},
}


@pytest.mark.parametrize("train", [None, {**EXPERT, "config": {**EXPERT["config"], **TWO}}])
def test_what_several_agents_do_is_recorded(tmp_path: Path, train: Any) -> None:
    record = {"episodes": 3} | ({"train": train} if train else {"env": TWO["env"]})
    made = make_spec(spec(tmp_path, config={**TWO, "evaluation_interval": 1}, record=record))
    told = io.StringIO()
    record_data(made, Console(file=told, width=200))
    assert "3 episodes of several agents" in told.getvalue()
    source = find_source(made.config["input_"])
    assert {"agent_0", "agent_1"} <= {agent for found in source.agents() for agent in found}
    assert len(source.files) == (2 if train else 1)


def test_random_actions_are_not_mixed_into_those_of_several_policies(tmp_path: Path) -> None:
    train = {**EXPERT, "config": {**EXPERT["config"], **TWO}}
    record = {"train": train, "epsilon": 0.1}
    with pytest.raises(SpecError, match="record: epsilon and random_share are not possible with"):
        make_spec(spec(tmp_path, config={**TWO, "evaluation_interval": 1}, record=record))
