"""What a world model expects of an episode that it stops looking at, and the picture of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from dreamers import TINY, dreamer_policy
from typer.testing import CliRunner

from experiments.cli import app
from experiments.errors import ExperimentError
from experiments.running.pictures.open_loop import (
    draw_open_loop_of,
    draw_open_loop_of_best,
    first_episode_of,
)
from experiments.running.pictures.source import Best
from trainables import DreamerV3Config, PPOConfig
from trainables.core.data.layout import ObservationLayout
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.dreamerv3.open_loop import OpenLoop, open_loop
from trainables.runtime.evaluation.play import evaluate_policy
from trainables.runtime.offline.actions import StoredActions

LENGTH, CONTEXT = 12, 4


def episode(policy: Policy, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    space, rng = policy.observation_space, np.random.default_rng(seed)
    space.seed(seed)
    policy.action_space.seed(seed)
    obs = np.stack([space.sample() for _ in range(LENGTH)])
    done = np.stack([policy.action_space.sample() for _ in range(LENGTH - 1)])
    return obs, StoredActions(policy)(done), rng.normal(size=LENGTH - 1).astype(np.float32)


def predicted(policy: Policy, obs: Any, done: Any, rewards: Any, **more: Any) -> OpenLoop:
    return open_loop(policy, obs, done, rewards, True, **{"context": CONTEXT, **more})


VECTOR, IMAGE = gym.spaces.Box(-5, 5, (3,)), gym.spaces.Box(0, 255, (32, 32, 3), np.uint8)
ACTIONS = [gym.spaces.Discrete(3), gym.spaces.Box(-2, 2, (2,))]


@pytest.mark.parametrize("actions", ACTIONS)
def test_what_comes_after_the_context_is_not_looked_at(actions: gym.Space) -> None:
    policy = dreamer_policy(VECTOR, actions)
    obs, done, rewards = episode(policy)
    found = predicted(policy, obs, done, rewards)
    other = obs.copy()
    other[CONTEXT:] += 1
    again = predicted(policy, other, done, rewards)
    assert found.predicted_vector is not None and again.predicted_vector is not None
    np.testing.assert_array_equal(found.predicted_vector, again.predicted_vector)
    np.testing.assert_array_equal(found.predicted_rewards, again.predicted_rewards)
    assert again.vector is not None and (again.vector[CONTEXT:] == other[CONTEXT:]).all()
    before = obs.copy()
    before[CONTEXT - 1] += 1
    changed = predicted(policy, before, done, rewards).predicted_vector
    assert changed is not None and not np.array_equal(changed, found.predicted_vector)


def test_actions_lead_on() -> None:
    policy = dreamer_policy(VECTOR, ACTIONS[0])
    obs, done, rewards = episode(policy)
    found, other = predicted(policy, obs, done, rewards), done.copy()
    step = CONTEXT + 2
    other[step] = (other[step] + 1) % 3
    again = predicted(policy, obs, other, rewards)
    assert found.predicted_vector is not None and again.predicted_vector is not None
    same = (found.predicted_vector == again.predicted_vector).all(-1)
    assert same[: step + 1].all() and not same[step + 1]  # it led to the next row


def test_seen_rows_are_what_acting_makes_of_them() -> None:
    """The states of the context are those of the policy as it acts, drawn alike."""
    policy = dreamer_policy(VECTOR, ACTIONS[0])
    obs, done, rewards = episode(policy)
    whole = predicted(policy, obs, done, rewards, context=LENGTH - 1)
    part = predicted(policy, obs, done, rewards)
    assert whole.predicted_vector is not None and part.predicted_vector is not None
    np.testing.assert_allclose(
        whole.predicted_vector[:CONTEXT], part.predicted_vector[:CONTEXT], rtol=1e-4, atol=1e-5
    )


def test_images() -> None:
    policy = dreamer_policy(IMAGE, ACTIONS[0])
    found = predicted(policy, *episode(policy))
    assert found.vector is None and found.predicted_vector is None
    [name] = found.images
    assert found.images[name].shape == found.predicted_images[name].shape == (LENGTH, 32, 32, 3)
    assert found.images[name].min() >= 0 and found.images[name].max() <= 1
    assert found.continues.tolist() == [True] * (LENGTH - 1) + [False]


def test_bad_input() -> None:
    policy = dreamer_policy(VECTOR, ACTIONS[0])
    obs, done, rewards = episode(policy)
    for context in (0, LENGTH):
        with pytest.raises(ConfigError, match=f"context = {context} is not allowed: the episode"):
            predicted(policy, obs, done, rewards, context=context)


@pytest.mark.parametrize("space", [VECTOR, IMAGE])
def test_pictures(space: gym.Space, tmp_path: Path) -> None:
    from analysis.plots.open_loop import draw_open_loop

    policy = dreamer_policy(space, ACTIONS[0])
    figure = draw_open_loop(predicted(policy, *episode(policy)))
    assert len(figure.axes) == (3 + 2 if space is VECTOR else 1 + 2)
    assert "saw 4 observations" in figure.axes[0].get_title(loc="left")


def test_a_small_error_of_the_reward_looks_small() -> None:
    from analysis.plots.open_loop import draw_open_loop

    policy = dreamer_policy(VECTOR, ACTIONS[0])
    obs, done, rewards = episode(policy)
    found = predicted(policy, obs, done, np.ones_like(rewards))
    almost = replace(found, predicted_rewards=found.rewards - 1e-4)
    low, high = draw_open_loop(almost).axes[-2].get_ylim()
    assert high - low == pytest.approx(0.2)


@pytest.mark.parametrize("space", [VECTOR, IMAGE])
def test_curves_lie_above_each_other_step_by_step(space: gym.Space) -> None:
    from analysis.plots.open_loop import draw_open_loop

    policy = dreamer_policy(space, ACTIONS[0])
    axes = draw_open_loop(predicted(policy, *episode(policy))).axes
    assert len({part.get_xlim() for part in axes[-2:]}) == 1


class Paint(gym.Env):
    """A picture whose colour the actions change; odd sides, and never over by itself."""

    observation_space = gym.spaces.Box(0, 255, (9, 7, 3), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.colour = np.array([40, 80, 120])
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.colour[int(action)] = (self.colour[int(action)] + 60) % 256
        return self._seen(), 1.0, False, False, {}

    def _seen(self) -> np.ndarray:
        return np.broadcast_to(self.colour, (9, 7, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def painter(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    policy = dreamer_policy(Paint.observation_space, Paint.action_space)
    folder = tmp_path_factory.mktemp("painter")
    return Policy.load(policy.save(folder / "policy"))


def filmed(policy: Policy, out: Path, num_steps: int = 6) -> Path:
    episode = first_episode_of(policy, out)
    evaluate_policy(
        policy, Paint, num_episodes=1, num_envs=1, time_limit=num_steps, watches=[episode]
    )
    return draw_open_loop_of(episode, out)


def test_a_film_of_images_has_a_frame_a_step(painter: Policy, tmp_path: Path) -> None:
    from PIL import Image

    film = filmed(painter, tmp_path / "new" / "dream.gif")
    shown: Any
    with Image.open(film) as shown:
        assert shown.n_frames == 7  # the first observation, and one a step
        width, height = shown.size
        assert shown.info["loop"] == 0
    assert width > 2 * height > 200
    assert [path.name for path in film.parent.iterdir()] == ["dream.gif"]


def test_a_film_as_mp4(painter: Policy, tmp_path: Path) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    film = filmed(painter, tmp_path / "dream.mp4")
    frames, seconds = ffmpeg.count_frames_and_secs(str(film))
    assert frames == 7 and seconds == pytest.approx(7 / 5, abs=0.1)
    assert [path.name for path in tmp_path.iterdir()] == ["dream.mp4"]


def test_frames_show_what_happened_beside_what_was_expected(painter: Policy) -> None:
    from analysis.plots.open_loop_frames import open_loop_frames

    found = predicted(painter, *episode(painter))
    exact = replace(found, predicted_images=found.images)
    frames, alike = list(open_loop_frames(found)), list(open_loop_frames(exact))
    assert len(frames) == LENGTH and len({frame.shape for frame in frames}) == 1
    assert all(side % 2 == 0 for side in frames[0].shape[:2])
    third = frames[0].shape[1] // 3
    middle = frames[0].shape[0] * 2 // 3
    for frame, same in zip(frames, alike, strict=True):  # the left part is what happened
        np.testing.assert_array_equal(frame[60:, :third], same[60:, :third])
        assert (same[middle, -third // 2] == 0).all()  # not apart: black


def test_films_that_cannot_be_written(
    painter: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigError, match=r"dream\.mp4 needs imageio-ffmpeg.*tunescape\[video\]"):
        first_episode_of(painter, tmp_path / "dream.mp4")
    (tmp_path / "dream.gif").mkdir()
    with pytest.raises(ExperimentError, match=r"dream\.gif: cannot write the film"):
        filmed(painter, tmp_path / "dream.gif")
    assert [path.name for path in tmp_path.iterdir()] == ["dream.gif"]


def test_several_images_have_names() -> None:
    from analysis.plots.open_loop import draw_open_loop
    from analysis.plots.open_loop_frames import open_loop_frames

    space = gym.spaces.Dict({"camera": IMAGE, "map": gym.spaces.Box(0, 1, (9, 12, 1), np.float32)})
    policy = dreamer_policy(space, ACTIONS[0])
    _, done, rewards = episode(dreamer_policy(VECTOR, ACTIONS[0]))
    layout = ObservationLayout(space)
    obs = np.concatenate([layout.rows(space.sample(), batched=False) for _ in range(LENGTH)])
    found = predicted(policy, obs, done, rewards)
    figure = draw_open_loop(found)
    names = [axes.get_ylabel() for axes in figure.axes]
    assert names[:2] == list(found.images) and names[-2:] == ["reward", "goes on"]
    assert len(list(open_loop_frames(found))) == LENGTH


@pytest.mark.full("test_pictures")
def test_the_command_and_the_sweep_draw_it(tmp_path: Path) -> None:
    with DreamerV3Config(**TINY).environment("CartPole-v1").build() as algo:
        folder = algo.export_policy_checkpoint(str(tmp_path / "policy"))
    picture = tmp_path / "dream.png"
    given = ["evaluate", str(folder), "--episodes", "1", "--open-loop"]
    done = CliRunner().invoke(app, [*given, str(picture)])
    assert done.exit_code == 0, done.output
    assert picture.stat().st_size > 10_000
    best = draw_open_loop_of_best(Best(folder, folder), tmp_path / "open_loop.png")
    assert best is not None and best.is_file()
    wrong = CliRunner().invoke(app, [*given, str(tmp_path / "dream.webm")])
    assert wrong.exit_code and "allowed: names that end in .png" in str(wrong.exception)
    for ending in (".gif", ".mp4"):  # CartPole is no image
        refused = CliRunner().invoke(app, [*given, str(tmp_path / f"dream{ending}")])
        assert refused.exit_code and "the policy sees no images" in str(refused.exception)
        assert "allowed: names that end in .png, .svg, .pdf" in str(refused.exception)
    with PPOConfig().environment("CartPole-v1").build() as ppo:
        plain = ppo.export_policy_checkpoint(str(tmp_path / "plain"))
    assert draw_open_loop_of_best(Best(plain, plain), tmp_path / "none.png") is None
    refused = CliRunner().invoke(app, ["evaluate", str(plain), "--open-loop", str(picture)])
    assert refused.exit_code and "has no world model" in str(refused.exception)


@pytest.mark.parametrize("text", ["{}", '{"weights": [1.0]}', "[]", "no JSON"])
def test_a_policy_json_of_a_trainable_of_ones_own_costs_no_sweep(text: str, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(text)
    assert draw_open_loop_of_best(Best(tmp_path, tmp_path), tmp_path / "open_loop.png") is None
