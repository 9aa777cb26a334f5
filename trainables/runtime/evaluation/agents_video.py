"""Films the first episodes of an evaluation with several agents."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.dict_slots import DictSlots
from trainables.runtime.envs.multi_agent.native import NATIVE
from trainables.runtime.envs.multi_agent.vector_env import (
    AgentGroup,
    AgentsStep,
    AgentsVectorEnv,
)
from trainables.runtime.envs.video import check_encoder, check_renders, fps_of, open_mp4, rendered
from trainables.runtime.evaluation.agents_watch import AgentsWatch

_File = Generator[None, Any, None]


def rendering(config: AlgorithmConfig) -> AlgorithmConfig:
    """Return the config of an evaluation whose environments draw arrays.

    Raises:
        ConfigError: if it is one that draws nothing.
    """
    if config.env in NATIVE:
        raise ConfigError(
            f"--video: env {config.env!r} steps the agents of all slots together and draws "
            "nothing; allowed: a MultiAgentEnv or a game of PettingZoo that renders"
        )
    made = config.copy(copy_frozen=False)
    made.env_config = {**made.env_config, "render_mode": "rgb_array"}
    return made


class AgentsVideo(AgentsWatch):
    """Writes an mp4 file of each of the first episodes, frame by frame.

    An episode that does not end leaves no file.

    Args:
        files: One for each of the first episodes, in their order.
        name: The environment's, for messages.

    Raises:
        ConfigError: if videos cannot be written, or, once it is entered, the environment does not
            draw arrays: see `rendering`.
    """

    def __init__(self, files: Sequence[Path], name: str):
        check_encoder("--video")
        self._to_film, self._whose = list(files), f"--video: env {name!r}"
        self._envs: list[Any] = []
        self._open: dict[int, tuple[Path, _File]] = {}  # by slot

    def enter(self, env: AgentsVectorEnv) -> None:
        if not self._to_film:
            self._envs = []
            return
        assert isinstance(env, DictSlots)  # as `rendering` makes them
        self._envs = env.envs
        check_renders(self._envs[0], self._whose)

    def begin(self, groups: Sequence[AgentGroup], seeds: Sequence[int]) -> None:
        for slot, env in enumerate(self._envs[: len(self._to_film)]):
            path = self._to_film.pop(0)
            path.parent.mkdir(parents=True, exist_ok=True)
            first = rendered(env, self._whose)
            self._open[slot] = path, open_mp4(_unfinished(path), first, fps_of(env))
            self._open[slot][1].send(first)

    def step(self, step: AgentsStep, is_over: np.ndarray) -> None:
        for slot, (path, file) in list(self._open.items()):
            file.send(rendered(self._envs[slot], self._whose))
            if is_over[slot]:
                del self._open[slot]
                file.close()
                _unfinished(path).replace(path)

    def close(self) -> None:
        """Give up the films of episodes that have not ended."""
        for path, file in self._open.values():
            file.close()
            _unfinished(path).unlink(missing_ok=True)
        self._open.clear()


def _unfinished(path: Path) -> Path:
    return path.with_suffix(".part.mp4")
