"""What a replay buffer of frames takes from the system, in a process of its own.

They are drawn in stacks of 4.

Run as a script with a capacity, it prints the measured numbers.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiers import rarely

FRAME = 84 * 84  # bytes


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(capacity: int, kind: str, num_slots: int = 8) -> dict[str, float]:
    """Resident bytes over those of one frame a row: before anything is added, and when full."""
    import gymnasium as gym
    from replay_cases import Stream, make_buffer

    from trainables.core.data.batch import Rollout

    space = gym.spaces.Box(0, 255, (84, 84), np.uint8)
    rng = np.random.default_rng(0)
    stream = Stream(num_slots, rng, max_length=40)  # episodes of 1 to 40 steps

    frames = rng.integers(0, 256, (26, num_slots, 84, 84), np.uint8)

    def rollout() -> Rollout:
        made = stream.rollout(25)
        made.obs = frames
        return made

    # Libraries' own first-time memory is not the buffer's.
    warm_up = make_buffer(num_slots, space=space, capacity=1000, type=kind, num_frames=4)
    warm_up.add(rollout())
    warm_up.sample(64, gamma=0.99, n_step=3)
    del warm_up

    start = resident_bytes()
    buffer = make_buffer(num_slots, space=space, capacity=capacity, type=kind, num_frames=4)
    empty = resident_bytes() - start
    written = 0
    while written < 1.2 * capacity:  # round the ring
        buffer.add(rollout())
        buffer.sample(64, gamma=0.99, n_step=3)
        written += 25 * num_slots
    full = resident_bytes() - start
    one_frame_a_row = capacity * FRAME
    return {
        "empty": empty / one_frame_a_row,
        "full": full / one_frame_a_row,
        "counted": buffer.nbytes / one_frame_a_row,
        "steps": buffer.num_steps / capacity,
    }


KINDS = ["ReplayBuffer", "PrioritizedReplayBuffer"]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("kind", rarely(KINDS, KINDS[1:]))
def test_a_buffer_of_stacked_frames_takes_one_frame_a_row(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, __file__, "10000", kind],
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    measured = json.loads(done.stdout)
    assert measured["empty"] < 0.05  # memory is taken as rows are filled
    assert 0.9 < measured["full"] < 1.1
    assert 1.0 <= measured["counted"] < 1.05
    assert measured["steps"] > 0.85  # the other rows are final observations


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), sys.argv[2])))
