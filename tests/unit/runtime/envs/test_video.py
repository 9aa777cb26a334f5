"""Videos of training and evaluation, and the window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import EncodingVectorEnv, EndlessEnv

from trainables import PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.envs.make import EnvOptions, make_vector_env
from trainables.runtime.envs.sub_environment import SubEnvironment
from trainables.runtime.envs.video import Video, _as_picture

imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")


class PaintedEnv(EndlessEnv):
    """The colour of a frame says which episode and step it is of; odd sizes, too."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    crashes = False

    def __init__(self, horizon: int = 5, render_mode: str | None = None):
        super().__init__(horizon)
        self.render_mode, self.episode = render_mode, -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episode += 1
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        if PaintedEnv.crashes and self.t == 2:
            raise RuntimeError("crash")
        return super().step(action)

    def render(self) -> Any:
        return np.full((30, 41, 3), (60 * self.episode + 10 * self.t) % 256, np.uint8)


def frames(path: Path, size: tuple[int, int]) -> list[np.ndarray]:
    reader = imageio_ffmpeg.read_frames(str(path))
    assert next(reader)["size"] == size
    images = [np.frombuffer(image, np.uint8) for image in reader]
    reader.close()
    return images


def recorded(folder: Path, steps: int, interval: int = 2, **options: Any) -> list[str]:
    video = Video(str(folder), "e-", interval)
    env = make_vector_env(PaintedEnv, None, 2, options=EnvOptions(video=video, **options))
    assert [slot.render_mode for slot in env.envs] == ["rgb_array", None]  # type: ignore[attr-defined]
    env.reset(seed=[0, 1])
    env.reset(seed=[0, 1])  # a reset without a step is no episode
    for _ in range(steps):
        env.step(np.zeros(2, np.int64))
    env.close()
    return sorted(path.name for path in folder.iterdir())


def test_every_nth_episode_with_all_its_frames(tmp_path: Path) -> None:
    names = recorded(tmp_path, 6 * 4 + 2)
    assert names == ["e-000000.mp4", "e-000002.mp4", "e-000004.mp4"]
    # Two resets come before the first episode, so it is the environment's second.
    for name, episode, length in ((names[0], 1, 6), (names[1], 3, 6), (names[2], 5, 3)):
        expected = [(60 * episode + 10 * t) % 256 for t in range(length)]
        brightness = [image.mean() for image in frames(tmp_path / name, (42, 30))]
        np.testing.assert_allclose(brightness, expected, atol=4)


def test_a_grid_of_cells_is_drawn_large_and_bright() -> None:
    """MinAtar renders 10 x 10 pixels between 0 and 1."""
    cells = np.zeros((10, 10, 3))
    cells[0, 1] = 1.0
    picture = _as_picture(cells)
    assert picture.shape == (160, 160, 3) and picture.dtype == np.uint8
    assert (picture[:16, 16:32] == 255).all() and picture.sum() == 255 * 3 * 16 * 16
    whole = np.full((30, 41, 3), 7, np.uint8)
    np.testing.assert_array_equal(_as_picture(whole), whole)


def test_a_crash_ends_the_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PaintedEnv, "crashes", True)
    assert recorded(tmp_path, 3, interval=1, restart=True) == ["e-000000.mp4"]
    assert len(frames(tmp_path / "e-000000.mp4", (42, 30))) == 3


def test_training_and_evaluation_write_videos(tmp_path: Path) -> None:
    config = (
        PPOConfig()
        .environment("CartPole-v1", record_env=str(tmp_path), video_interval=2)
        .environment(env_config={"max_episode_steps": 8})  # a frame takes milliseconds
        .env_runners(num_envs_per_env_runner=2)
        .training(train_batch_size_per_learner=48, minibatch_size=24, num_epochs=1)
        .evaluation(evaluation_interval=2, evaluation_duration=2)
        .debugging(seed=0)
    )
    with config.build() as algo:
        for _ in range(2):
            algo.train()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:2] == ["episode-000000.mp4", "episode-000002.mp4"]
    assert [name for name in names if "evaluation" in name] == [
        "evaluation-000001-episode-000000.mp4",  # every result carries one
        "evaluation-000002-episode-000000.mp4",
    ]
    images = frames(tmp_path / names[0], (600, 400))
    assert len({image.tobytes() for image in images}) > 5, "the cart moves"


def test_true_writes_into_the_trials_folder() -> None:
    config = PPOConfig().environment(PaintedEnv, record_env=True)
    with config.training(train_batch_size_per_learner=256).build() as algo:
        algo.env_runners.sample()
        assert (Path(algo.logdir) / "videos" / "episode-000000.mp4").is_file()


def test_only_what_renders_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = EnvOptions(video=Video(str(tmp_path), "e-"))
    for env, message in (
        (
            lambda context: EndlessEnv(),
            r"has render_mode None; it must take render_mode='rgb_array'",
        ),
        (EncodingVectorEnv, r"record_env is not supported with env '.*': it is one vector environ"),
        (lambda context: PaintedEnv(render_mode="human"), r"has render_mode 'human'; it must take"),
    ):
        with pytest.raises(ConfigError, match=message):
            make_vector_env(env, None, 1, options=options)
    monkeypatch.setattr(PaintedEnv, "render", lambda self: None)
    with pytest.raises(ConfigError, match=r"rendered a NoneType of shape None, not an array \[hei"):
        make_vector_env(PaintedEnv, None, 1, options=options).reset()
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigError, match=r"needs imageio-ffmpeg.*'tunescape\[video\]'"):
        make_vector_env(PaintedEnv, None, 1, options=options)


def test_a_window_needs_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(ConfigError, match="render_env = True opens a window, and this machine has"):
        PPOConfig().environment("CartPole-v1", render_env=True).build()
    with pytest.raises(ConfigError, match="render_env and record_env are both set"):
        PPOConfig().environment("CartPole-v1", render_env=True, record_env=True).build()


def test_a_window_shows_the_first_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    options = EnvOptions(window=True)
    env: Any = make_vector_env("CartPole-v1", None, 2, options=options)
    assert [slot.render_mode for slot in env.envs] == ["human", None]
    env.reset()
    env.step(np.zeros(2, np.int64))
    env.close()
    painted: Any = make_vector_env(
        lambda context: PaintedEnv(render_mode="rgb_array"), None, 1, options=options
    )
    assert isinstance(painted.envs[0], SubEnvironment)
    assert isinstance(painted.envs[0].env, gym.wrappers.HumanRendering)
    with pytest.raises(ConfigError, match=r"render_env: env '.*' has render_mode None"):
        make_vector_env(lambda context: EndlessEnv(), None, 1, options=options)
