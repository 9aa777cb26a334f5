"""Episodes to files and back, and whether they came back as they were."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.writers import make_writer

BIG = 2**30


def written(
    folder: Path | str, episodes: Iterable[Episode], spaces: DataSpaces, **options: Any
) -> Path:
    """Return a folder that episodes have been written to; see `make_writer` for the options."""
    writer = make_writer(folder, spaces, **{"max_file_size": BIG, **options})
    for episode in episodes:
        writer.write(episode)
    writer.close()
    return Path(folder)


def read(path: Path | str, spaces: DataSpaces | None = None, **input_config: Any) -> list[Episode]:
    """Return the episodes of files."""
    source = find_source(path, input_config)
    spaces = spaces or source.spaces() or source.infer_spaces()
    return list(source.episodes(spaces))


def with_logp(episodes: Sequence[Episode], seed: int = 0) -> list[Episode]:
    """Return episodes, every other one with log-probabilities."""
    rng = np.random.default_rng(seed)
    return [
        replace(episode, logp=rng.normal(size=len(episode)).astype(np.float32))
        if number % 2
        else episode
        for number, episode in enumerate(episodes)
    ]


def assert_same(found: Sequence[Episode], expected: Sequence[Episode], spaces: DataSpaces) -> None:
    """Compare episodes by their ids, leaf by leaf and bit by bit."""
    by_id = {episode.episode_id: episode for episode in found}
    assert by_id.keys() == {episode.episode_id for episode in expected}
    assert len(found) == len(expected)
    for one in expected:
        other = by_id[one.episode_id]
        assert_same_rows(other, one, spaces)
        assert (other.terminated, other.truncated) == (one.terminated, one.truncated)
        assert other.first_step == one.first_step


def assert_same_rows(found: Episode, expected: Episode, spaces: DataSpaces) -> None:
    """Compare what was seen, done and given, leaf by leaf and bit by bit."""
    for layout, rows, others in (
        (spaces.obs_layout, expected.obs, found.obs),
        (spaces.action_layout, expected.actions, found.actions),
    ):
        assert others.dtype == layout.dtype
        leaves = layout.leaves(others)
        for path, leaf in layout.leaves(rows).items():
            assert leaves[path].shape == leaf.shape, path
            assert leaves[path].tobytes() == leaf.tobytes(), path
    assert found.rewards.tobytes() == expected.rewards.tobytes()
    if expected.logp is None:
        assert found.logp is None
    else:
        assert found.logp is not None and found.logp.tobytes() == expected.logp.tobytes()


def batch(num_rows: int = 4, **columns: Any) -> dict[str, Any]:
    """Return an episode of CartPole as a line of JSON has it; a column that is None is left out."""
    made: dict[str, Any] = {
        "type": "SampleBatch",
        "obs": [[0.5, row, 0.25, -1.0] for row in range(num_rows)],
        "new_obs": [[0.5, row + 1, 0.25, -1.0] for row in range(num_rows)],
        "actions": [row % 2 for row in range(num_rows)],
        "rewards": [1.0] * num_rows,
        "terminateds": [False] * (num_rows - 1) + [True],
        "truncateds": [False] * num_rows,
        "eps_id": [7] * num_rows,
        "t": [*range(num_rows)],
        "agent_index": [0] * num_rows,
    }
    made |= columns
    return {name: column for name, column in made.items() if column is not None}


def json_file(path: Path, *lines: dict[str, Any] | str) -> Path:
    """Return a file of JSON lines."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts))
    return path
