"""The random streams of env runners that are made again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from trainables.runtime.sampling.group import EnvRunnerGroup


def test_an_env_runner_that_is_made_again_has_streams_of_its_own() -> None:
    """Neither its predecessor's, nor one that its predecessor spawned for its own parts."""
    group: Any = EnvRunnerGroup.__new__(EnvRunnerGroup)
    group._config = group._video_folder = None
    group._policy = SimpleNamespace(observation_space=None, action_space=None, options={})
    group._seed, group._restarts_before, group.tasks = np.random.SeedSequence(3), {}, []
    seeds = [
        group._build_arguments(index, restarts)[0].seed for index in (1, 2) for restarts in range(3)
    ]
    roots = [tuple(seed.generate_state(4)) for seed in seeds]
    parts = [tuple(part.generate_state(4)) for seed in seeds for part in seed.spawn(8)]
    assert len({*roots, *parts}) == len(roots) + len(parts)
