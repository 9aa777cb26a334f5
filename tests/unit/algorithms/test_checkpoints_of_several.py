"""What reads checkpoints and policies of several agents: each of them tells which one it means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import imageio_ffmpeg
import numpy as np
import pandas as pd
import pytest
from telling_agents import TellingAgents
from typer.testing import CliRunner

from analysis.errors import ResultsError
from experiments.cli import app
from experiments.commands.evaluation.evaluate import evaluate_folder
from experiments.commands.export import export_policy
from experiments.errors import ExperimentError
from experiments.spec.metrics import canonical_metric
from trainables import PPO, Algorithm, DQNConfig, PPOConfig
from trainables.core.checkpoint import CheckpointError, policy_folders
from trainables.core.errors import ConfigError
from trainables.core.export.exported_policy import ExportedPolicy
from trainables.core.policy.calls.compute_actions import Computed
from trainables.core.policy.policy import Policy
from trainables.lifecycle.restoring.other_modules import fitted_state

MAPPING = {"agent_0": "a", "*": "b"}
OBS = np.array([0.1, 0.2, -0.1, 0.3], np.float32)
SEED = 7
NAME = f"{__name__}:to_b"


def to_b(agent: Any, *args: Any, **more: Any) -> str:
    return "b"


def config(**settings: Any) -> PPOConfig:
    made = PPOConfig(
        env="multi_agent_cartpole",
        env_config={"num_agents": 3},
        seed=SEED,
        num_envs_per_env_runner=2,
        train_batch_size_per_learner=40,
        minibatch_size=20,
        num_epochs=1,
        evaluation_duration=3,
        model={"fcnet_hiddens": [8]},
        policies={"a": None, "b": None},
        policy_mapping_fn=MAPPING,
    )
    made.update_from_dict(settings)
    return made


def saved(folder: Path, **settings: Any) -> dict[str, Any]:
    """Train a little and save; return what `evaluate` says."""
    with PPO(config=config(**settings)) as algo:
        algo.train()
        evaluated = algo.evaluate()
        algo.save_checkpoint(str(folder))
    return evaluated


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several") / "checkpoint"
    (folder.parent / "evaluated.json").write_text(json.dumps(saved(folder)))
    return folder


@pytest.fixture(scope="module")
def algo(checkpoint: Path) -> Iterator[PPO]:
    with PPO.from_checkpoint(checkpoint) as made:
        yield made


def same(ours: Any, theirs: Any) -> bool:
    return all(np.array_equal(ours[name], theirs[name]) for name in ours)


# ---------------------------------------------------------------------- a part of a checkpoint


def test_some_policies_are_recovered_with_another_mapping(checkpoint: Path) -> None:
    stored = Policy.load(checkpoint / "policies" / "b")
    only_b = {"policy_ids": ["b"], "policy_mapping_fn": {"*": "b"}}
    with PPO.from_checkpoint(checkpoint, **only_b) as algo:
        assert {*algo.policies} == {*algo.learner_connectors} == {"b"}
        assert same(algo.get_weights()["b"], stored.get_weights())
        result = algo.train()
    assert result["training_iteration"] == 2
    assert not [name for name in result if "/a/" in name]


def test_rows_of_other_agents_are_left_out_with_another_mapping(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = DQNConfig(
        env="multi_agent_cartpole",
        env_config={"num_agents": 2},
        seed=SEED,
        num_envs_per_env_runner=2,
        num_steps_sampled_before_learning_starts=20,
        train_batch_size_per_learner=8,
        min_sample_timesteps_per_iteration=40,
        store_buffer_in_checkpoints=True,
        model={"fcnet_hiddens": [8]},
        policies={"a": None, "b": None},
        policy_mapping_fn=MAPPING,
    )
    with config.build() as algo:
        algo.train()
        algo.save_checkpoint(str(tmp_path))
        num_steps = algo.experience["a"].num_steps
    swapped = {"policy_mapping_fn": {"agent_0": "b", "*": "a"}}  # as many as before
    with Algorithm.from_checkpoint(tmp_path, **swapped) as algo:
        assert algo.experience["a"].num_steps == num_steps
        assert algo.train()["training_iteration"] == 2
    assert "is left out" not in caplog.text
    only_a = {"policy_ids": ["a"], "policy_mapping_fn": {"*": "a"}}
    with Algorithm.from_checkpoint(tmp_path, **only_a) as algo:
        assert "the stored replay buffer, which is left out: slots of all env ru" in caplog.text
        assert algo.experience["a"].num_steps == 0
        assert algo.train()["training_iteration"] == 2


def test_a_mapping_must_be_given_where_it_names_what_is_left_out(checkpoint: Path) -> None:
    with pytest.raises(ConfigError, match="stored policy_mapping_fn names a, too"):
        PPO.from_checkpoint(checkpoint, policy_ids=["b"])
    with pytest.raises(ConfigError, match="there is no policy 'z'; policies: a, b"):
        PPO.from_checkpoint(checkpoint, policy_ids=["z"])
    with pytest.raises(ConfigError, match="allowed: a list or set of ids"):
        PPO.from_checkpoint(checkpoint, policy_ids="a")


def test_a_policy_that_was_not_trained_is_from_here_on(checkpoint: Path, tmp_path: Path) -> None:
    with PPO.from_checkpoint(checkpoint, policies_to_train=["a"]) as algo:
        before = algo.get_weights()
        algo.train()
        after = algo.get_weights()
        algo.save_checkpoint(str(tmp_path))
    assert same(before["b"], after["b"]) and not same(before["a"], after["a"])
    with PPO.from_checkpoint(tmp_path, policies_to_train=["a", "b"]) as algo:
        algo.train()
        assert not same(algo.get_weights()["b"], after["b"])


def test_a_lambda_must_be_given_again(tmp_path: Path) -> None:
    saved(tmp_path / "c", policy_mapping_fn=lambda agent, *args, **more: "a")
    with pytest.raises(CheckpointError, match=r"<lambda>.*give policy_mapping_fn=…"):
        PPO.from_checkpoint(tmp_path / "c")
    with PPO.from_checkpoint(tmp_path / "c", policy_mapping_fn=MAPPING) as algo:
        algo.train()
    with pytest.raises(ExperimentError, match=r"<lambda>.*give --policy-mapping"):
        evaluate_folder(tmp_path / "c", episodes=1)
    played = evaluate_folder(tmp_path / "c", episodes=1, policy_mapping="*=a")
    assert {*played.modules} == {"a"}


def test_a_function_by_name_needs_trust(tmp_path: Path) -> None:
    saved(tmp_path / "c", policy_mapping_fn=to_b)
    with pytest.raises(CheckpointError, match=r"policy_mapping_fn.*to_b"):
        PPO.from_checkpoint(tmp_path / "c")
    with pytest.raises(CheckpointError, match=r"policy_mapping_fn.*to_b"):
        evaluate_folder(tmp_path / "c", episodes=1)
    assert {*evaluate_folder(tmp_path / "c", episodes=1, trust=[NAME]).modules} == {"b"}
    assert {*evaluate_folder(tmp_path / "c", episodes=1, policy_mapping=NAME).modules} == {"b"}


@pytest.mark.parametrize("to_train", [["a"], lambda policy_id, batch: policy_id == "a"])
def test_checkpoints_may_hold_those_alone_that_are_trained(
    to_train: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"policies_to_train": to_train, "checkpoint_trainable_policies_only": True}
    saved(tmp_path, **settings)
    assert [*policy_folders(tmp_path)] == ["a"]
    with PPO(config=config(**settings)) as fresh:
        initial = fresh.get_weights()
        fresh.restore(str(tmp_path))
        assert same(fresh.get_weights()["b"], initial["b"])
        assert not same(fresh.get_weights()["a"], initial["a"])
        fresh.train()
    assert "the checkpoint does not hold b" in caplog.text
    with pytest.raises(ExperimentError, match=r"holds no policy 'b'.*--policy-mapping"):
        evaluate_folder(tmp_path, episodes=1)


def test_learned_numbers_go_by_module() -> None:
    """One module's numbers are stored without its id, see `per_module`."""

    def state(trained: list[str], value: Any) -> dict[str, Any]:
        return {
            "learner_connectors": dict.fromkeys(trained),
            "policies": dict.fromkeys(["a", "b"]),
            "learned": {"kl_coeff": value, "shared": 5},
            "config": {},
            "episodes": {"custom": []},
            "env_runners": {},
        }

    def fitted(stored: dict[str, Any], own: dict[str, Any], trained: list[str]) -> Any:
        return fitted_state(stored, own, ["a", "b"], trained)["learned"]["kl_coeff"]

    one, both = state(["b"], 1.0), state(["a", "b"], {"a": 2.0, "b": 3.0})
    assert fitted(one, both, ["a", "b"]) == {"a": 2.0, "b": 1.0}
    assert fitted(both, one, ["b"]) == 3.0
    assert fitted(state(["a"], 4.0), one, ["b"]) == 1.0
    assert fitted(both, both, ["a", "b"]) == {"a": 2.0, "b": 3.0}


# ---------------------------------------------------------------------- initial weights


def test_weights_of_other_runs_by_policy_id(checkpoint: Path, tmp_path: Path) -> None:
    stored = {m: Policy.load(path).get_weights() for m, path in policy_folders(checkpoint).items()}
    with PPO(config=config(load_state_path=str(checkpoint))) as algo:
        assert all(same(algo.get_weights()[m], stored[m]) for m in stored)
    with PPO(config=config(load_state_path={"b": str(checkpoint / "policies" / "a")})) as algo:
        assert same(algo.get_weights()["b"], stored["a"])
        assert not same(algo.get_weights()["a"], stored["a"])
    with pytest.raises(ConfigError, match="no policy 'z' learns; allowed: a, b"):
        PPO(config=config(load_state_path={"z": str(checkpoint)}))


# ---------------------------------------------------------------------- actions


def test_actions_of_one_policy_are_asked_by_its_id(algo: PPO) -> None:
    with pytest.raises(KeyError, match=r"there are.*'a', 'b'"):
        algo.compute_single_action(OBS)
    of_b = algo.compute_single_action(OBS, policy_id="b", explore=False)
    assert of_b == algo.get_policy("b").compute_single_action(OBS, explore=False)
    by_agent = algo.compute_actions({"x": OBS}, policy_id="b", explore=False)
    assert by_agent == {"x": of_b}


def test_a_dict_by_agent_is_dealt_by_the_mapping(algo: PPO) -> None:
    agents = {"agent_2": OBS, "agent_0": OBS, "agent_1": OBS}
    result = algo.compute_actions(agents, explore=False, full_fetch=True)
    assert isinstance(result, Computed) and [*result.actions] == [*agents]
    assert {m: len(extra["action_logp"]) for m, extra in result.extra.items()} == {"a": 1, "b": 2}
    alone = algo.get_policy("a").compute_actions(OBS[None], explore=False, full_fetch=True)
    dist = result.extra["a"]["action_dist_inputs"]
    np.testing.assert_allclose(dist, alone.extra["action_dist_inputs"])
    assert {*algo.compute_actions(agents)} == {*agents}
    with pytest.raises(ConfigError, match=r"ndarray is not allowed.*dicts by agent"):
        algo.compute_actions(agents, prev_reward=np.zeros(3))


# ---------------------------------------------------------------------- evaluation


def test_it_plays_what_training_evaluates(checkpoint: Path) -> None:
    expected = json.loads((checkpoint.parent / "evaluated.json").read_text())
    played = evaluate_folder(checkpoint, episodes=3, seed=SEED)
    assert played.summary.mean == pytest.approx(expected["episode_return_mean"])
    for policy_id in ("a", "b"):
        mean = np.mean(played.modules[policy_id])
        assert mean == pytest.approx(expected[f"module/{policy_id}/episode_return_mean"])
    assert len(played.agents) == 3


def test_a_limit_cuts_episodes_off(checkpoint: Path) -> None:
    played = evaluate_folder(checkpoint, episodes=2, max_steps=3)
    assert all(e.outcome.length == 3 and e.outcome.truncated for e in played.episodes)
    assert all(e.outcome.total == 9 for e in played.episodes)


def test_a_trace_has_a_row_for_each_action_of_an_agent(checkpoint: Path, tmp_path: Path) -> None:
    file = tmp_path / "trace.parquet"
    played = evaluate_folder(checkpoint, episodes=3, trace=file)
    frame = pd.read_parquet(file)
    totals = frame.groupby("episode").reward.sum()
    assert totals.tolist() == [e.outcome.total for e in played.episodes]
    assert {*zip(frame.agent, frame.policy, strict=True)} == {
        ("agent_0", "a"),
        ("agent_1", "b"),
        ("agent_2", "b"),
    }
    ends = frame[frame.terminated | frame.truncated]
    assert len(ends) == 9 and len(frame.obs[0]) == 4
    assert not frame.duplicated(["episode", "step", "agent"]).any()


class Drawn(TellingAgents):
    """Its picture says the episode by its green, and the step by its red."""

    metadata: ClassVar[dict[str, Any]] = {"render_fps": 5}

    def __init__(self, env_config: Any = None):
        super().__init__(env_config)
        self.render_mode = (env_config or {}).get("render_mode")

    def render(self) -> np.ndarray:
        color = [40 * self.t, 100 * self.slot, 0]
        return np.broadcast_to(np.array(color, np.uint8), (32, 48, 3))


def test_episodes_of_several_agents_are_filmed(tmp_path: Path) -> None:
    """Frame by frame the episodes that are played without a film, too."""
    checkpoint = tmp_path / "saved"
    policies = {"policies": {"a": None, "b": None}, "policy_mapping_fn": {"*": "a"}}
    with PPO(config=config(env=Drawn, env_config={"length": 4}, **policies)) as algo:
        algo.save(str(checkpoint))
    options: dict[str, Any] = {"episodes": 3, "num_envs": 2, "trust": [f"{__name__}:Drawn"]}
    files = [tmp_path / "films" / f"{n}.mp4" for n in range(2)]
    filmed = evaluate_folder(checkpoint, **options, videos=files)
    plain = evaluate_folder(checkpoint, **options)
    assert [e.outcome for e in filmed.episodes] == [e.outcome for e in plain.episodes]
    assert filmed.videos == dict(enumerate(files)) and plain.videos == {}
    assert sorted(path.name for path in files[0].parent.iterdir()) == ["0.mp4", "1.mp4"]
    for slot, file in enumerate(files):
        frames = imageio_ffmpeg.read_frames(str(file))
        about = next(frames)
        size, fps = about["size"], about["fps"]
        colors = [np.frombuffer(f, np.uint8).reshape(-1, 3).mean(0).round() for f in frames]
        assert (size, fps) == ((48, 32), 5)
        expected = [[40 * t, 100 * slot, 0] for t in range(5)]
        np.testing.assert_allclose(colors, expected, atol=8)
    with pytest.raises(ConfigError, match="render_mode"):  # it was told another one
        evaluate_folder(
            checkpoint, **options, env=f"{__name__}:Undrawn", videos=[tmp_path / "x.mp4"]
        )


class Undrawn(TellingAgents):
    """It renders nothing."""


def test_what_cannot_be_played_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    for text in ("a", "agent_0=", "=b"):
        with pytest.raises(ExperimentError, match=r"--policy-mapping.*allowed"):
            evaluate_folder(checkpoint, episodes=1, policy_mapping=text)
    with pytest.raises(ExperimentError, match=r"holds no policy 'z'.*it holds a, b"):
        evaluate_folder(checkpoint, episodes=1, policy_mapping="*=z")
    with pytest.raises(ConfigError, match=r"--video: env 'multi_agent_cartpole'.*draws nothing"):
        evaluate_folder(checkpoint, episodes=1, videos=[tmp_path / "v.mp4"])
    with pytest.raises(ExperimentError, match=r"holds no policy 'b'.*'\*=a'"):
        evaluate_folder(checkpoint / "policies" / "a", episodes=1)


def test_the_command_prints_policies_and_agents(checkpoint: Path) -> None:
    words = ["evaluate", str(checkpoint), "--episodes", "2", "--table", "none"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0 and "Policy a: return" in shown.output
    assert "Agent agent_2: return" in shown.output
    told = json.loads(CliRunner().invoke(app, [*words, "--as", "json"]).stdout)
    assert told["modules"]["b"]["count"] == 4 and {*told["agents"]} == {
        "agent_0",
        "agent_1",
        "agent_2",
    }


# ---------------------------------------------------------------------- export


def test_each_policy_is_a_folder(checkpoint: Path, tmp_path: Path) -> None:
    target = export_policy(checkpoint, tmp_path / "all")
    assert {path.name for path in target.iterdir()} == {"a", "b", "export.json"}
    for policy_id, folder in policy_folders(checkpoint).items():
        weights = Policy.load(target / policy_id).get_weights()
        assert same(weights, Policy.load(folder).get_weights())
    assert export_policy(checkpoint, target) == target  # again, in its place
    assert evaluate_folder(target, episodes=1).modules.keys() == {"a", "b"}
    with pytest.raises(CheckpointError, match=r"several policies \(a, b\)"):
        Policy.load(checkpoint)


def test_one_policy_as_a_graph(checkpoint: Path, tmp_path: Path) -> None:
    target = export_policy(checkpoint, tmp_path / "b", format="torch", policy_id="b")
    said = json.loads((target / "model.pt2.json").read_text())
    assert [*said["verified"]["observations"]] == ["space"]
    graph = ExportedPolicy.load(target, trust=["torch.export"])
    of_b = Policy.load(checkpoint / "policies" / "b")
    rows = np.tile(OBS, (5, 1)) * np.arange(5, dtype=np.float32)[:, None]
    expected = of_b.compute_actions(rows, explore=False)
    np.testing.assert_array_equal(graph.compute_actions(rows), expected)
    with pytest.raises(ResultsError, match="no policy 'z'; allowed: a, b"):
        export_policy(checkpoint, tmp_path / "z", policy_id="z")
    with pytest.raises(ResultsError, match="another format"):
        export_policy(checkpoint, target, policy_id="b")


def test_an_algorithm_exports_all_its_policies(algo: PPO, tmp_path: Path) -> None:
    algo.export_policy_model(str(tmp_path / "one"), "a")
    assert (tmp_path / "one" / "model.pt2").is_file()
    algo._export_model(["checkpoint"], str(tmp_path / "all"))
    assert (tmp_path / "all" / "b" / "policy.json").is_file()


# ---------------------------------------------------------------------- metrics


@pytest.mark.parametrize(
    "name",
    [
        "module/a/episode_return_mean",
        "agent/agent_0/episode_return_mean",
        "evaluation/module/a/episode_return_max",
    ],
)
def test_returns_of_policies_and_agents_may_be_objectives(name: str) -> None:
    assert canonical_metric(name, PPO) == canonical_metric(name) == name
