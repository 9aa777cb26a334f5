"""Videos of training and evaluation, and a window to watch (`record_env`, `render_env`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper

from trainables.core.errors import ConfigError
from trainables.core.features import Feature
from trainables.runtime.envs.sub_environment import RESTARTS, layers

if TYPE_CHECKING:
    from trainables.core.config.config import AlgorithmConfig

_DEFAULT_FPS = 30
_CELLS = 24  # a picture with a shorter side is a grid of cells
_SIDE = 160  # pixels that it is given


@dataclass(frozen=True)
class Video:
    """Which episodes of a slot are recorded, and where.

    Attributes:
        folder: Where the mp4 files go.
        prefix: How their names begin; the number of the episode follows.
        interval: Every how many episodes one is recorded, beginning with the first.
        last: Number of the last episode that may be recorded; None: there is none.
        files: Instead of all that: of each of the first slots, the first episode goes to a file.
    """

    folder: str
    prefix: str
    interval: int = 1
    last: int | None = None
    files: tuple[str, ...] = ()

    @property
    def num_slots(self) -> int:
        """So many of the first slots are recorded."""
        return len(self.files) or 1

    @property
    def asked_by(self) -> str:
        """What messages call it."""
        return "video" if self.files else "record_env"

    def of_slot(self, slot: int) -> Video:
        """Return what one of the first slots records."""
        return replace(self, files=self.files[slot : slot + 1], last=0) if self.files else self

    def path(self, episode: int) -> Path:
        """Return the file of an episode."""
        if self.files:
            return Path(self.files[0])
        return Path(self.folder) / f"{self.prefix}{episode:06d}.mp4"


class VideoRecorder(gym.Wrapper):
    """Writes every n-th episode to an mp4 file, frame by frame: none is kept in memory.

    Args:
        env: Renders arrays (`render_mode="rgb_array"`).
        video: What is recorded.
        name: The environment's, for messages.

    Raises:
        ConfigError: if it cannot be recorded.
    """

    def __init__(self, env: gym.Env, video: Video, name: str):
        super().__init__(env)
        self._video, self._name = video, name
        self._episode = 0  # number of the present one
        self._begun = False  # whether it has had a step: several resets begin one episode
        self._first_frame: np.ndarray | None = None
        self._file: Generator[None, Any, None] | None = None
        self._path = Path()
        check_encoder(video.asked_by)
        check_renders(env, f"{video.asked_by}: env {name!r}")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        result = self.env.reset(seed=seed, options=options)
        self._begin_episode()
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        if RESTARTS in result[4]:  # what is rendered is another episode already
            self._begin_episode()
            return result
        self._begun = True
        if self._first_frame is not None:
            self._open(self._first_frame)
            self._first_frame = None
        if self._file is not None:
            self._write(self._frame())
            if result[2] or result[3]:
                self.finish()
        return result

    def close(self) -> None:
        self.finish()
        super().close()

    def _begin_episode(self) -> None:
        self.finish()
        self._episode += self._begun
        self._begun = False
        video = self._video
        due = self._episode % video.interval == 0
        due = due and (video.last is None or self._episode <= video.last)
        self._first_frame = self._frame() if due else None

    def _frame(self) -> np.ndarray:
        return rendered(self.env, f"{self._video.asked_by}: env {self._name!r}")

    def _open(self, first: np.ndarray) -> None:
        self._path = self._video.path(self._episode)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open_mp4(_unfinished(self._path), first, fps_of(self))
        self._write(first)

    def _write(self, frame: np.ndarray) -> None:
        assert self._file is not None
        self._file.send(frame)

    def finish(self) -> None:
        """End the video of the present episode, though it may go on."""
        if self._file is None:
            return
        self._file.close()
        self._file = None
        _unfinished(self._path).replace(self._path)

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """Return the number of the episode. A resumed run records from the next one on."""
        return {"episode": self._episode, "begun": self._begun}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        self._first_frame = None
        self._episode, self._begun = int(state["episode"]), bool(state["begun"])


def check_renders(env: Any, whose: str) -> None:
    """Raise unless an environment renders arrays.

    Args:
        env: The environment, of one or of several agents.
        whose: Its name and what asks, for the message.

    Raises:
        ConfigError: naming its render mode.
    """
    mode = getattr(env, "render_mode", None)
    if mode != "rgb_array":
        raise ConfigError(
            f"{whose} has render_mode {mode!r}; it must take render_mode='rgb_array' and render "
            "arrays"
        )


def rendered(env: Any, whose: str) -> np.ndarray:
    """Return what an environment looks like now, bytes `[height, width, 3]`.

    Args:
        env: See `check_renders`.
        whose: See `check_renders`.

    Raises:
        ConfigError: if it cannot render, or renders something else.
    """
    try:
        frame: Any = env.render()
    except Exception as error:
        raise ConfigError(f"{whose} cannot render: {type(error).__name__}: {error}") from error
    if not (isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[2] == 3):
        raise ConfigError(
            f"{whose} rendered a {type(frame).__name__} of shape "
            f"{getattr(frame, 'shape', None)}, not an array [height, width, 3]"
        )
    return _as_picture(frame)


def fps_of(env: Any) -> float:
    """Return how many frames of an environment are a second."""
    return float((getattr(env, "metadata", None) or {}).get("render_fps") or _DEFAULT_FPS)


def open_mp4(path: Path, first: np.ndarray, fps: float) -> Generator[None, Any, None]:
    """Begin an mp4 file: `send` takes a frame, `close` ends it.

    Args:
        path: The file.
        first: A frame as all are, bytes `[height, width, 3]`; it is not written.
        fps: Frames a second.
    """
    import imageio_ffmpeg

    height, width = first.shape[:2]
    file: Generator[None, Any, None] = imageio_ffmpeg.write_frames(
        str(path),
        (width, height),
        fps=fps,
        macro_block_size=2,
        ffmpeg_log_level="error",
        output_params=["-preset", "veryfast", "-threads", "1"],
    )
    file.send(None)
    return file


def _unfinished(path: Path) -> Path:
    return path.with_suffix(".part.mp4")


def _as_picture(frame: np.ndarray) -> np.ndarray:
    """Return a frame as bytes, and a grid of cells (MinAtar's) large enough to be looked at."""
    if frame.dtype.kind == "f" and frame.max(initial=0.0) <= 1.0:
        frame = frame * 255.0
    if min(frame.shape[:2]) < _CELLS:
        factor = -(-_SIDE // min(frame.shape[:2]))
        frame = frame.repeat(factor, axis=0).repeat(factor, axis=1)
    return np.ascontiguousarray(frame, dtype=np.uint8)


def end_video(vector_env: VectorEnv, slot: int) -> None:
    """End the video of a slot's episode, if there is one."""
    if isinstance(vector_env, SyncVectorEnv):
        recorders = layers(vector_env.envs[slot], VideoRecorder)
    else:
        recorders = getattr(vector_env, "recorders", [])[slot : slot + 1]
    for recorder in recorders:
        recorder.finish()


def check_encoder(asked_by: str = "record_env") -> None:
    """Raise unless videos can be written.

    Raises:
        ConfigError: naming the extra that is not installed.
    """
    try:
        import imageio_ffmpeg  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"{asked_by} needs imageio-ffmpeg, which is not installed: "
            "pip install 'tunescape[video]'"
        ) from None


def check_display() -> None:
    """Raise unless a window can be opened.

    Raises:
        ConfigError: on a machine without a display.
    """
    on_x = sys.platform.startswith("linux")
    names = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    if on_x and not any(os.environ.get(name) for name in names):
        raise ConfigError(
            "render_env = True opens a window, and this machine has no display (DISPLAY and "
            "WAYLAND_DISPLAY are not set); record_env=True writes videos instead"
        )


def with_window(env: gym.Env, name: str) -> gym.Env:
    """Return an environment that shows itself in a window: its own, or one for its arrays.

    Raises:
        ConfigError: if it renders neither.
    """
    if env.render_mode == "human":
        return env
    if env.render_mode == "rgb_array":
        env.metadata.setdefault("render_fps", _DEFAULT_FPS)
        return gym.wrappers.HumanRendering(env)
    env.close()
    raise ConfigError(
        f"render_env: env {name!r} has render_mode {env.render_mode!r}; it must take "
        "render_mode='human', or render arrays with render_mode='rgb_array'"
    )


class FilmedCartPole(VectorWrapper):
    """Films the first slots: a single CartPole draws the state that each of them is in.

    So what is filmed are the very episodes that are played without a video.

    Args:
        env: The native vector environment.
        spec: The spec in gymnasium's registry that makes the ones that draw.
        env_config: See the setting `env_config`.
        video: Says where videos go: a file for each slot that is filmed.
        name: The environment's, for messages.

    Attributes:
        recorders: The recorders of the first slots.
    """

    def __init__(
        self, env: VectorEnv, spec: EnvSpec, env_config: dict[str, Any], video: Video, name: str
    ):
        super().__init__(env)
        self.recorders = []
        for slot in range(min(video.num_slots, env.num_envs)):
            single = gym.make(spec, render_mode="rgb_array", disable_env_checker=True, **env_config)
            single.metadata.setdefault("render_fps", env.metadata.get("render_fps"))
            drawn = _Drawn(single, env.unwrapped, slot)
            self.recorders.append(VideoRecorder(drawn, video.of_slot(slot), name))
        self._resets = np.ones(env.num_envs, bool)

    def reset(self, **options: Any) -> Any:
        result = self.env.reset(**options)
        for recorder in self.recorders:
            recorder.reset()
        self._resets[:] = False
        return result

    def step(self, actions: Any) -> Any:
        result = self.env.step(actions)
        done = result[2] | result[3]
        for slot, recorder in enumerate(self.recorders):
            if self._resets[slot]:
                recorder.reset()
            else:
                recorder.step(bool(done[slot]))
        self._resets = done
        return result

    def close(self, **options: Any) -> None:
        for recorder in self.recorders:
            recorder.close()
        super().close(**options)


class _Drawn(gym.Wrapper):
    """A CartPole that is not stepped: it shows a slot of the native one."""

    def __init__(self, env: gym.Env, vector: Any, slot: int):
        super().__init__(env)
        self._vector, self._slot = vector, slot
        env.reset()  # gymnasium draws nothing before

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        return None, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return None, 0.0, bool(action), False, {}  # the action says whether the episode is over

    def render(self) -> Any:
        single: Any = self.env.unwrapped
        single.state = self._vector.state[:, self._slot]
        return self.env.render()


def can_film(spec: EnvSpec) -> bool:
    """Tell whether a native vector environment can be filmed as it is."""
    entry: Any = spec.vector_entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    return isinstance(creator, type) and issubclass(creator, CartPoleVectorEnv)


class Filming(Feature):
    """Videos of episodes and windows to watch them in."""

    def prepare(self, config: AlgorithmConfig) -> None:
        """See that a window can be opened, if one is asked for."""
        if config.render_env or config.evaluation_config.get("render_env"):
            check_display()

    def check_encoder(self) -> None:
        """Raise unless videos can be written; see `check_encoder`."""
        check_encoder()

    def of_training(self, folder: str, interval: int) -> Video:
        """Return what is recorded of training: every n-th episode of the first slot."""
        return Video(folder, "episode-", interval)

    def of_evaluation(self, folder: str, iteration: int) -> Video:
        """Return what is recorded of an evaluation: the first episode of the first slot.

        Args:
            folder: Where the mp4 files go.
            iteration: The iteration of training, which names the file.
        """
        return Video(folder, f"evaluation-{iteration:06d}-episode-", last=0)

    def recorded(self, env: gym.Env, video: Video, name: str) -> gym.Env:
        """Return the environment of a slot that is recorded; see `VideoRecorder`."""
        return VideoRecorder(env, video, name)

    def with_window(self, env: gym.Env, name: str) -> gym.Env:
        """Return an environment that shows itself in a window; see `with_window`."""
        return with_window(env, name)

    def can_film(self, spec: EnvSpec) -> bool:
        """Tell whether a native vector environment can be filmed as it is."""
        return can_film(spec)

    def filmed(
        self, env: VectorEnv, spec: EnvSpec, env_config: dict[str, Any], video: Video, name: str
    ) -> VectorEnv:
        """Return a native vector environment whose first slots are filmed; see `FilmedCartPole`."""
        return FilmedCartPole(env, spec, env_config, video, name)


FEATURE = Filming()
