"""`tunescape evaluate`: what it plays, shows and writes."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from analysis_sweeps import add_checkpoint, make_sweep, row
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from policy_kinds import DiaryEnv
from small_runs import settings_of
from tiers import rarely
from typer.testing import CliRunner

from analysis import ResultsError
from experiments.cli import app
from experiments.commands.evaluate import rows_of, video_paths
from experiments.commands.evaluation.evaluate import evaluate_folder
from experiments.commands.evaluation.evaluated import Evaluation
from experiments.commands.evaluation.policy_sources import find_policy
from experiments.commands.evaluation.summary import COVERAGE, mean_interval
from experiments.errors import ExperimentError
from trainables import PPO
from trainables.core.checkpoint import CheckpointError
from trainables.core.errors import ConfigError
from trainables.core.export.onnx_program import export_onnx
from trainables.core.export.torch_program import export_torch_program
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.make import make_vector_env
from trainables.runtime.evaluation.play import evaluate_policy

MINIGRID = "MiniGrid-Empty-5x5-v0"


def saved(folder: Path, env: str = "CartPole-v1", **metadata: Any) -> Path:
    """A policy that nobody has trained, for an environment."""
    slots = make_vector_env(env)
    policy = Policy(
        slots.single_observation_space,
        slots.single_action_space,
        {"fcnet_hiddens": [8]},
        seed=0,
        metadata={"algorithm": "PPO", "env": env, **metadata},
    )
    slots.close()
    return policy.save(folder)


def returns_of(evaluation: Evaluation) -> list[float]:
    return [record.outcome.total for record in evaluation.episodes]


# ---------------------------------------------------------------------- what is played


def test_it_plays_what_training_evaluates(tmp_path: Path) -> None:
    """The same seed and number of episodes, and what `evaluation_config` changes."""
    changes = {
        "explore": True,
        "env_config": {"max_episode_steps": 15},
        "num_envs_per_env_runner": 3,
    }
    settings = settings_of("PPO", evaluation_duration=11, evaluation_config=changes)
    with PPO(config=settings) as algo:
        algo.train()
        expected = algo.evaluate()
        algo.save_checkpoint(str(tmp_path / "checkpoint"))
        policy = algo.get_policy()
        options = {"num_episodes": 11, "seed": 3, "explore": True, "num_envs": 3}
        played = evaluate_policy(policy, "CartPole-v1", {"max_episode_steps": 15}, **options)
    assert played.metrics() == {name: expected[name] for name in played.metrics()}
    evaluation = evaluate_folder(tmp_path / "checkpoint", episodes=11, seed=3)
    assert evaluation.explore and evaluation.env_config == {"max_episode_steps": 15}
    assert returns_of(evaluation) == played.returns.tolist()
    assert max(returns_of(evaluation)) == 15
    other = evaluate_folder(tmp_path / "checkpoint", episodes=11, seed=4, explore=False)
    assert returns_of(other) != returns_of(evaluation)
    eight = evaluate_folder(tmp_path / "checkpoint", episodes=11, seed=3, num_envs=8)
    assert returns_of(eight) != returns_of(evaluation)


@pytest.mark.full(
    "unit/sweeps/commands/test_export_policy.py::test_every_format_holds_the_best_policy"
)
def test_an_exported_graph_plays_the_same(tmp_path: Path) -> None:
    """To the last step: a memory that sees actions and rewards, as ONNX and by torch.export."""
    pytest.importorskip("onnxscript")
    import pyarrow.parquet as pq

    model = {"fcnet_hiddens": [8], "use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 4}
    model |= {"lstm_use_prev_action": True, "lstm_use_prev_reward": True}
    env = "tunescape/StatelessCartPole-v0"
    settings = settings_of("PPO", env, evaluation_duration=11, model=model)
    with PPO(config=settings) as algo:
        algo.train()
        expected = algo.evaluate()
        algo.export_policy_checkpoint(str(tmp_path / "policy"))
        export_onnx(algo.get_policy(), tmp_path / "onnx")
        export_torch_program(algo.get_policy(), tmp_path / "torch")
    trace = tmp_path / "trace.parquet"
    played = evaluate_folder(tmp_path / "policy", episodes=11, seed=3)
    for exported in ("onnx", "torch"):
        evaluation = evaluate_folder(
            tmp_path / exported, episodes=11, seed=3, trust=["torch.export"], trace=trace
        )
        assert rows_of(evaluation) == rows_of(played)
        assert evaluation.summary.mean == expected["episode_return_mean"]
        assert evaluation.summary.length_mean == expected["episode_len_mean"]
        assert {"value", "dist_inputs"} < set(pq.read_schema(trace).names)
    with pytest.raises(
        ConfigError, match=r"^\S+model.pt2 is read by torch.export.load, which runs"
    ):
        evaluate_folder(tmp_path / "torch")
    with pytest.raises(ConfigError, match="explore = True is not possible with an exported graph"):
        evaluate_folder(tmp_path / "onnx", explore=True)


def test_settings_of_the_environment_are_changes(tmp_path: Path) -> None:
    folder = saved(tmp_path, env_config={"max_episode_steps": 5, "sutton_barto_reward": False})
    assert returns_of(evaluate_folder(folder, episodes=2)) == [5, 5]
    longer = evaluate_folder(folder, episodes=2, env_config={"max_episode_steps": 6})
    assert returns_of(longer) == [6, 6]
    assert longer.env_config == {"max_episode_steps": 6, "sutton_barto_reward": False}
    cut = evaluate_folder(folder, episodes=3, max_steps=4)
    assert [(r.outcome.length, r.outcome.truncated) for r in cut.episodes] == [(4, True)] * 3
    assert not any(record.outcome.terminated for record in cut.episodes)


@pytest.mark.parametrize("env", ["CartPole-v1", "Acrobot-v1", MINIGRID])
def test_an_episode_can_be_played_again_from_its_trace(tmp_path: Path, env: str) -> None:
    """By the seeds and actions of the trace alone; all rewards and observations are the same."""
    pytest.importorskip("minigrid" if env == MINIGRID else "gymnasium")
    import pyarrow.parquet as pq

    folder, path = saved(tmp_path / "policy", env), tmp_path / "trace.parquet"
    evaluation = evaluate_folder(
        folder, episodes=5, num_envs=3, explore=True, max_steps=60, trace=path
    )
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[b"tunescape"])
    assert (about["env"], about["seed"], about["left_out"]) == (env, 0, [])
    assert "gymnasium" in about["versions"]
    frame = table.to_pandas().sort_values(["episode", "step"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["policy", "trace.parquet"]
    for record in evaluation.episodes:
        rows = frame[frame["episode"] == record.episode]
        assert list(rows["step"]) == list(range(record.outcome.length))
        assert rows["reward"].sum() == pytest.approx(record.outcome.total)
        assert rows["truncated"].iloc[-1] == record.outcome.truncated
        assert (rows["seed"] == record.seed).all()
        if record.shares_seed:
            continue
        single = make_vector_env(env).envs[0]  # type: ignore[attr-defined]
        obs, _ = single.reset(seed=record.seed)
        for _, line in rows.iterrows():
            np.testing.assert_array_equal(
                _first_leaf(obs), line["obs" if "obs" in line else "obs/image"]
            )
            obs, again, *_ = single.step(line["action"])
            assert again == line["reward"]
    if env == "CartPole-v1":
        _replay_together(frame, evaluation)


def _first_leaf(obs: Any) -> np.ndarray:
    return np.asarray(obs["image"] if isinstance(obs, dict) else obs).reshape(-1)


def _replay_together(frame: Any, evaluation: Evaluation) -> None:
    """The episodes of a part that is one vector environment, which one seed resets."""
    part = [record for record in evaluation.episodes if record.part == 0]
    env = gym.make_vec(
        "CartPole-v1", num_envs=part[0].num_slots, vectorization_mode="vector_entry_point"
    )
    obs, _ = env.reset(seed=part[0].seed)
    for step in range(min(record.outcome.length for record in part)):
        rows = frame[(frame["step"] == step) & (frame["episode"] < len(part))]
        np.testing.assert_array_equal(obs, np.stack(rows["obs"]))
        obs, rewards, *_ = env.step(np.array(rows["action"]))
        np.testing.assert_array_equal(rewards, rows["reward"])


def test_a_trace_has_images_and_what_the_policy_thought(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    name = "tests.policy_kinds:DiaryEnv"
    slots = make_vector_env(DiaryEnv, {"observations": "nested", "actions": "joint"})
    policy = Policy(
        slots.single_observation_space,
        slots.single_action_space,
        {"fcnet_hiddens": [8], "use_lstm": True, "lstm_cell_size": 8},
        seed=0,
    )
    policy.save(tmp_path / "policy")
    given = {"env": name, "env_config": {"observations": "nested", "actions": "joint"}}
    path = tmp_path / "trace.parquet"
    evaluation = evaluate_folder(tmp_path / "policy", **given, explore=True, trace=path)
    table = pq.read_table(path)
    image = table.schema.field("obs/camera/rgb")
    assert (image.type.list_size, image.metadata[b"shape"]) == (16 * 16 * 3, b"[16, 16, 3]")
    frame = table.to_pandas()
    first = frame[frame["step"] == 0].sort_values("episode").iloc[0]
    thoughts = policy.compute_single_action(
        {
            "action_mask": first["obs/action_mask"],
            "camera": {"rgb": first["obs/camera/rgb"].reshape(16, 16, 3)},
            "parts": (first["obs/parts/0"], first["obs/parts/1"]),
        },
        explore=False,
    ).extra
    assert first["value"] == pytest.approx(thoughts["vf_preds"], abs=1e-5)
    np.testing.assert_allclose(first["dist_inputs"], thoughts["action_dist_inputs"], atol=1e-5)
    assert {"action/go", "action/by"} < set(frame) and np.isfinite(frame["logp"]).all()
    assert len(frame) == evaluation.summary.steps and not evaluation.notes
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("experiments.commands.evaluation.episode_trace.MAX_ELEMENTS", 700)
        patch.setattr("experiments.commands.evaluation.episode_trace._GROUP_ROWS", 16)
        small = evaluate_folder(tmp_path / "policy", **given, explore=True, trace=path)
        assert small.notes[0].startswith("Left out of the trace, because they are large: obs/cam")
        file = pq.ParquetFile(path)
        assert file.num_row_groups > 3 and "obs/camera/rgb" not in file.schema_arrow.names
        without = frame.drop(columns="obs/camera/rgb")
        pd.testing.assert_frame_equal(file.read().to_pandas(), without)


def test_looking_on_changes_nothing(tmp_path: Path) -> None:
    folder = saved(tmp_path / "policy")
    plain = evaluate_folder(folder, episodes=11, explore=True)
    traced = evaluate_folder(folder, episodes=11, explore=True, trace=tmp_path / "t.parquet")
    assert rows_of(traced) == rows_of(plain)


# ---------------------------------------------------------------------- which policy


def test_a_folder_is_a_policy_a_checkpoint_a_trial_or_a_sweep(tmp_path: Path) -> None:
    values = {"a": (1.0, 9.0, 5.0), "b": (2.0, 3.0, 4.0)}
    sweep = make_sweep(
        tmp_path,
        {name: {"rows": [row(i + 1, v) for i, v in enumerate(v)]} for name, v in values.items()},
    )
    for index in (0, 1, 2):
        add_checkpoint(sweep, "a", index, iteration=index + 1)
    checkpoint = sweep / "trial_a" / "checkpoint_000001"
    inner = checkpoint / "policies" / "default_policy"
    assert find_policy(inner).folder == find_policy(checkpoint).folder == inner
    trial = find_policy(sweep / "trial_a")
    assert trial.folder == inner
    assert trial.chosen == "the trial's best checkpoint checkpoint_000001: episode_return_mean 9"
    assert "best trial a" in find_policy(sweep).chosen and find_policy(sweep).folder == inner
    saved(sweep / "best")
    assert find_policy(sweep).folder == sweep / "best"
    model = tmp_path / "model"
    saved(model / "artifacts" / "policy")
    (model / "MLmodel").touch()
    assert find_policy(model).folder == model / "artifacts" / "policy"
    with pytest.raises(ResultsError, match=r"trial_b: the trial has no checkpoint \(status"):
        find_policy(sweep / "trial_b")
    with pytest.raises(ExperimentError, match=r"sweeq: no such folder; .*did you mean .*sweep"):
        find_policy(tmp_path / "sweeq")


# ---------------------------------------------------------------------- videos


class BlindEnv(CartPoleEnv):
    """Cannot be drawn."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None):
        super().__init__()


def test_a_film_is_of_the_episodes_that_are_played(tmp_path: Path) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    for env in ("CartPole-v1", "Acrobot-v1"):
        folder = saved(tmp_path / env / "policy", env)
        paths = video_paths(tmp_path / env / "film.mp4", 3)
        options: Any = {"episodes": 3, "num_envs": 2, "max_steps": 12}
        filmed = evaluate_folder(folder, videos=paths, **options)
        assert rows_of(filmed)[0]["video"] == str(paths[0])
        assert returns_of(filmed) == returns_of(evaluate_folder(folder, **options))
        assert not filmed.notes and filmed.videos == dict(enumerate(paths))
        for record, path in zip(filmed.episodes, paths, strict=False):
            count, _ = ffmpeg.count_frames_and_secs(str(path))
            assert count == record.outcome.length + 1


def test_what_cannot_be_filmed_is_said_before_anything_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("imageio_ffmpeg")
    folder = saved(tmp_path / "policy")
    name = f"{__name__}:BlindEnv"
    with pytest.raises(ConfigError, match=r"video: env '.*BlindEnv' has render_mode"):
        evaluate_folder(folder, env=name, videos=[tmp_path / "a.mp4"])
    bandit = saved(tmp_path / "bandit", "tunescape/MaskedBandit-v0")
    with pytest.raises(ConfigError, match=r"video: env .* cannot be drawn: it takes no render_mo"):
        evaluate_folder(bandit, videos=[tmp_path / "a.mp4"])
    assert not (tmp_path / "a.mp4").exists()
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigError, match=r"--video needs imageio-ffmpeg.*tunescape\[video\]"):
        evaluate_folder(tmp_path / "nowhere", videos=[tmp_path / "a.mp4"])
    with pytest.raises(ExperimentError, match=r"--video film.avi: allowed: FILE.mp4, or a folder"):
        video_paths(Path("film.avi"), 1)


# ---------------------------------------------------------------------- what is shown


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["evaluate", *arguments], catch_exceptions=False)


def test_the_command_shows_and_writes_the_episodes(tmp_path: Path) -> None:
    folder = str(saved(tmp_path / "policy"))
    text = run(folder, "--episodes", "30").stdout
    assert "CartPole-v1: return " in text and "30 terminated, 0 truncated" in text
    assert "worst" in text and "best" in text and "…" in text
    document = json.loads(run(folder, "--episodes", "30", "--as", "json").stdout)
    assert len(document["episodes"]) == 30
    statistics = document["statistics"]
    returns = [row["return"] for row in document["episodes"]]
    assert statistics["return_mean"] == pytest.approx(np.mean(returns))
    assert [statistics["return_mean_low"], statistics["return_mean_high"]] == pytest.approx(
        mean_interval(returns)
    )
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"episodes.{suffix}"
        assert run(folder, "--episodes", "30", "-o", str(path)).exit_code == 0
        frame = pd.read_csv(path) if suffix == "csv" else pd.read_parquet(path)
        assert list(frame["return"]) == returns and frame["terminated"].all()
    assert frame.attrs["statistics"] == statistics and frame.attrs["seed"] == 0
    assert "--table x: allowed: folded, all, none" in _refused(folder, "--table", "x")
    assert "allowed: names that end in .csv or .parquet" in _refused(folder, "-o", "a.txt")


def test_options_are_refused_before_anything_is_played(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")  # which would be told first if it were looked at
    (tmp_path / "taken.csv").mkdir()
    (tmp_path / "file").touch()
    for arguments, message in (
        (["--trace", "t.csv"], "--trace t.csv: allowed: names that end in .parquet"),
        (["--trace-images"], "--trace-images: there is no trace"),
        (["--video-episodes", "2"], "--video-episodes: there is no video"),
        (["-o", f"{tmp_path}/taken.csv"], "taken.csv: that is a folder"),
        (["-o", f"{tmp_path}/file/new/a.csv"], "file cannot be written (Not a directory)"),
        (["--trace", f"{tmp_path}/file/t.parquet"], "--trace "),
        (["-o", "a.parquet", "--trace", "a.parquet"], "name the same file"),
    ):
        assert message in _refused(nowhere, *arguments)
    assert "nowhere" in _refused(nowhere, "-o", f"{tmp_path}/new/a.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "taken.csv"]


def _refused(*arguments: str) -> str:
    with pytest.raises(ExperimentError) as error:
        run(*arguments)
    return str(error.value)


def test_the_interval_of_a_mean() -> None:
    # mean 3, s = sqrt(2.5), t(0.975, 4) = 2.776
    low, high = mean_interval([1, 2, 3, 4, 5])
    assert (low, high) == pytest.approx((1.0368, 4.9632), abs=1e-4)
    assert all(np.isnan(mean_interval([1.0])))


@pytest.mark.parametrize("episodes", rarely([*COVERAGE], [min(COVERAGE)]))
def test_how_often_an_interval_holds_the_mean(episodes: int) -> None:
    draws = np.random.default_rng(0).exponential(size=(4000, episodes))
    ends = np.array([mean_interval(row) for row in draws])
    held = np.mean((ends[:, 0] <= 1) & (ends[:, 1] >= 1))
    assert held == pytest.approx(COVERAGE[episodes], abs=0.012)


class HugeRewards(CartPoleEnv):
    """Each of its rewards is a number; their sum is none."""

    def step(self, action: Any) -> Any:
        obs, _, *rest = super().step(action)
        return obs, 1e308, *rest


def test_json_has_no_nan(tmp_path: Path) -> None:
    name = f"{__name__}:HugeRewards"
    folder = str(saved(tmp_path, env=name))
    with pytest.raises(CheckpointError, match="code that would be imported"):
        run(folder)
    shown = run(folder, "--trust", name, "--as", "json", "--episodes", "3")
    document = json.loads(shown.stdout, parse_constant=lambda text: pytest.fail(text))
    assert document["statistics"]["return_mean"] is None
    assert [row["return"] for row in document["episodes"]] == [None] * 3
    assert "return inf" in run(folder, "--trust", name).stdout


class InterruptedEnv(CartPoleEnv):
    """Ctrl-C is pressed in its 40th step."""

    steps = 0

    def step(self, action: Any) -> Any:
        InterruptedEnv.steps += 1
        if InterruptedEnv.steps == 40:
            os.kill(os.getpid(), signal.SIGINT)
        return super().step(action)


def as_it_is(obs: Any) -> Any:
    return obs


def test_one_error_names_all_that_needs_trust(tmp_path: Path) -> None:
    env, connector = f"{__name__}:HugeRewards", f"{__name__}:as_it_is"
    policy = Policy.load(saved(tmp_path, env=env))
    spaces = policy.observation_space, policy.action_space
    own = Policy(*spaces, env_to_module_connector=as_it_is, metadata=policy.metadata)
    folder = own.save(tmp_path)
    for given in ([], [connector]):
        with pytest.raises(CheckpointError) as told:
            evaluate_folder(folder, episodes=1, trust=given)
        assert f"pass trust={[connector, env]!r} (on the" in str(told.value)
    evaluate_folder(folder, episodes=1, trust=[env, connector])


def test_ctrl_c_keeps_what_was_played(tmp_path: Path) -> None:
    folder, path = saved(tmp_path / "policy"), tmp_path / "trace.parquet"
    before = signal.getsignal(signal.SIGINT)
    evaluation = evaluate_folder(
        folder, env=f"{__name__}:InterruptedEnv", episodes=100, num_envs=2, trace=path, max_steps=8
    )
    assert signal.getsignal(signal.SIGINT) is before
    assert evaluation.interrupted and 1 <= len(evaluation.episodes) < 5
    assert f"Interrupted: {len(evaluation.episodes)} of 100 episodes" in evaluation.notes[0]
    assert path.is_file()
