"""Rollouts of more or fewer columns than slots, in which agents wait, come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from replay_cases import Stream, make_buffer

from trainables import DQNConfig
from trainables.core.data.batch import Rollout
from trainables.runtime.envs.multi_agent.multi_agent_env import MultiAgentEnv
from trainables.runtime.replay.buffer import ReplayBuffer
from trainables.runtime.replay.columns import fitted
from trainables.runtime.replay.stores import StateLayout

GAMMA = 0.9
NUM_SLOTS = 4
NUM_AGENTS = 9
Truth = dict[tuple[float, ...], tuple[int, float, bool]]
"""Action, reward and termination by (agent, episode, step)."""


class Agents:
    """Agents with a column each, whose observations are (agent, episode, step, is_final)."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.stream = Stream(NUM_AGENTS + 1, self.rng)
        self.truth: Truth = {}

    def rollout(self, agents: list[int], lengths: list[int], follows: bool = True) -> Rollout:
        """Return so many rows of some agents, side by side, the shorter ones padded."""
        pairs = zip(agents, lengths, strict=True)
        rollout = Rollout.concatenate([self.stream._column(a, n, follows) for a, n in pairs])
        for t, n in np.argwhere(rollout.valid):
            told = (rollout.actions[t, n], rollout.rewards[t, n], rollout.terminated[t, n])
            self.truth[tuple(rollout.obs[t, n, :3].tolist())] = told
        return rollout


def filled(seed: int, num_positions: int, **settings: Any) -> tuple[ReplayBuffer, Truth]:
    """Return a buffer after rollouts of changing widths, of changing agents where they change.

    Those of odd seeds tell how long each column is, which may be nothing. All say that they
    follow, as nobody who puts columns side by side sees what was there before.
    """
    agents = Agents(seed)
    rng = agents.rng
    buffer = make_buffer(NUM_SLOTS, seed, capacity=num_positions * NUM_SLOTS, **settings)
    present = [1, 2]  # so that no observation is all zeros, as unseen frames are
    for _ in range(14):
        if rng.random() < 0.4:
            width = int(rng.integers(1, NUM_AGENTS + 1))
            if width != len(present):
                present = (1 + rng.permutation(NUM_AGENTS)[:width]).tolist()
        longest = int(rng.integers(1, min(7, num_positions)))
        least = (seed + 1) % 2
        lengths = [longest, *(int(rng.integers(least, longest + 1)) for _ in present[1:])]
        rollout = agents.rollout(present, lengths)
        buffer.add(replace(rollout, lengths=np.array(lengths)) if seed % 2 else rollout)
    return buffer, agents.truth


def check_windows(buffer: ReplayBuffer, truth: Truth, n_step: int) -> np.ndarray:
    """Compare everything that is drawn with what the agents have done; return the lengths."""
    batch = buffer.sample(30 * buffer.num_steps, gamma=GAMMA, n_step=n_step)
    columns = {name: column.numpy() for name, column in batch.items()}
    assert len(np.unique(columns["ids"])) == buffer.num_steps  # every row is drawn
    _, rows = np.unique(columns["ids"], return_index=True)
    assert len(np.unique(columns["actions"][rows])) == len(rows)  # no row is stored twice
    for i in rows:
        agent, episode, step, is_final = columns["obs"][i].tolist()
        steps = int(columns["n_steps"][i])
        done = [truth[agent, episode, step + k] for k in range(steps)]
        assert not is_final and columns["actions"][i] == done[0][0]
        expected = sum(GAMMA**k * reward for k, (_, reward, _) in enumerate(done))
        assert columns["rewards"][i] == pytest.approx(expected, rel=1e-4, abs=1e-4)
        assert columns["discounts"][i] == pytest.approx(0 if done[-1][2] else GAMMA**steps)
        assert columns["next_obs"][i, :3].tolist() == [agent, episode, step + steps]
    return columns["n_steps"][rows]


@pytest.mark.parametrize("kind", ["ReplayBuffer", "PrioritizedReplayBuffer"])
@pytest.mark.parametrize("n_step", [1, 3])
def test_every_window_is_one_of_an_agent(n_step: int, kind: str) -> None:
    for seed in range(6):
        for num_positions in (8, 25, 200):
            check_windows(*filled(seed, num_positions, type=kind), n_step=n_step)


def test_frames_are_of_one_episode() -> None:
    for seed in range(12):
        buffer, _ = filled(seed, 30, num_frames=3)
        batch = buffer.sample(20 * buffer.num_steps, gamma=GAMMA, n_step=2)
        for stacks in (batch["obs"].numpy(), batch["next_obs"].numpy()):
            newest = stacks[:, -1]
            unseen = np.zeros(len(stacks), bool)
            for lag in (1, 2):
                frame = stacks[:, -1 - lag]
                unseen |= (frame == 0).all(-1)
                assert (frame[unseen] == 0).all() and unseen[newest[:, 2] < lag].all()
                older = newest[:, :3] - [0, 0, lag]
                assert (frame[~unseen, :3] == older[~unseen]).all()
        steps = (batch["obs"][:, -1, 2] > 1).numpy()
        assert (batch["obs"][:, 0].numpy()[steps] != 0).any()  # some do reach back


def test_sequences_run_on_within_an_episode() -> None:
    for seed in range(12):
        buffer, _ = filled(seed, 30)
        batch = {n: c.numpy() for n, c in buffer.sample_sequences(300, 6).items()}
        obs, valid = batch["obs"], batch["valid"]
        successors = obs[1:][valid]
        assert (successors[:, :2] == obs[:-1][valid][:, :2]).all()
        assert (successors[:, 2] == obs[:-1][valid][:, 2] + 1).all()
        assert batch["is_first"][1:][~valid[:-1]].all()
        assert obs[:-1][batch["is_last"]][:, 3].all()


def test_a_column_that_waited_goes_on_and_only_its_windows_end_there() -> None:
    agents, buffer = Agents(0), make_buffer(2, capacity=200)
    agents.stream.length[:] = 100
    for lengths in ([5, 2], [5, 2], [5, 5]):
        buffer.add(agents.rollout([0, 1], lengths))
    assert buffer.num_steps == 24
    check_windows(buffer, agents.truth, n_step=1)
    batch = buffer.sample(2000, gamma=GAMMA, n_step=3)
    for agent, longest in ((0, 15), (1, 9)):
        own = batch["obs"][:, 0] == agent
        steps, ends = batch["obs"][own, 2], batch["next_obs"][own, 2]
        seams = np.array([longest] if agent == 0 else [2, 4, longest])
        expected = [min(t + 3, seams[seams > t].min()) for t in steps.numpy()]
        assert ends.tolist() == expected


def test_a_column_whose_agent_waited_goes_on_where_it_stopped() -> None:
    """With the states that belong to its rows, however the ring wraps."""
    states = StateLayout(2, {"h": ((1,), np.dtype(np.float32))})
    agents, buffer = Agents(0), make_buffer(2, capacity=2 * 12, states=states)
    agents.stream.length[:] = 100
    lengths = [[2, 1], [0, 1], [1, 0], [3, 1], [1, 3], [0, 2], [4, 3], [1, 0], [2, 2]]
    for count in range(1, len(lengths) + 1):
        own = np.array(lengths[count - 1])
        rollout = agents.rollout([1, 2], own.tolist())
        before = {"h": rollout.obs[:-1, :, 2:3].astype(np.float32)}  # the step says it all
        buffer.add(replace(rollout, lengths=own, states=before, state_stride=1))
        done = np.array(lengths[:count]).sum(0)
        assert buffer.num_steps == np.minimum(done, 11).sum()  # a sentinel takes a place
        batch = buffer.sample(400, gamma=GAMMA, n_step=3)
        for agent in (1, 2):
            of_agent = batch["obs"][:, 0] == agent
            steps, ends = batch["obs"][of_agent, 2], batch["next_obs"][of_agent, 2]
            assert ends.tolist() == [min(t + 3, done[agent - 1]) for t in steps.numpy()]
    drawn = buffer.sample_sequences(200, 4)
    assert not drawn["is_first"][1:].any() and bool(drawn["valid"].all())
    assert (drawn["state/h"][:, 0] == drawn["obs"][0, :, 2]).all()
    assert sorted(drawn["obs"][0, :, 0].unique().tolist()) == [1, 2]
    again = make_buffer(2, capacity=2 * 12, states=states)
    again.set_state(buffer.get_state())
    one, other = (b.sample_sequences(50, 4)["obs"] for b in (buffer, again))
    assert one.tolist() == other.tolist()


class Turns(MultiAgentEnv):
    """Two players move in turn, 20 moves each; they see who they are and how often they moved."""

    def __init__(self, config: Any = None):
        super().__init__()
        self.possible_agents = ["p0", "p1"]
        box = gym.spaces.Box(-100, 100, (2,), np.float32)
        self.observation_spaces = dict.fromkeys(self.possible_agents, box)
        self.action_spaces = dict.fromkeys(self.possible_agents, gym.spaces.Discrete(2))

    def _seen(self) -> dict[str, np.ndarray]:
        return {f"p{self.t % 2}": np.array([self.t % 2, self.t // 2], np.float32)}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.t, self.agents = 0, list(self.possible_agents)
        return self._seen(), {}

    def step(self, actions: Any) -> Any:
        self.t += 1
        over = self.t >= 40
        return {} if over else self._seen(), {}, {"__all__": over}, {"__all__": False}, {}


def test_agents_in_turn_are_replayed_as_if_each_were_alone() -> None:
    """A row at a time: whoever waits loses neither memory, nor frames, nor steps of returns."""
    config = DQNConfig().environment(Turns, disable_env_checking=True, frame_stack=3)
    config.multi_agent(policies=["both"], policy_mapping_fn={"*": "both"})
    config.training(num_steps_sampled_before_learning_starts=200, train_batch_size_per_learner=8)
    config.training(replay_buffer_config={"capacity": 4000}, model={"fcnet_hiddens": [8]})
    algo = config.build()
    assert algo.config.get_rollout_fragment_length() == 1
    algo.train()
    buffer = algo.experience["both"]
    batch = buffer.sample(400, gamma=GAMMA, n_step=3)
    obs, after = batch["obs"][:, :, 1], batch["next_obs"][:, -1, 1]
    early, late = obs[:, -1] <= 13, obs[:, -1] >= 2
    assert ((after - obs[:, -1])[early] == 3).float().mean() > 0.9  # but of the newest rows
    assert (obs[late].diff(dim=1) == 1).all()
    drawn = buffer.sample_sequences(100, 6)
    amid = drawn["valid"] & (drawn["obs"][:-1, :, -1, 1] > 0)
    assert not (drawn["is_first"] & amid).any() and drawn["valid"].float().mean() > 0.9
    algo.stop()


def test_few_columns_run_on_from_fragment_to_fragment() -> None:
    """Three agents in five slots, a step at a time."""
    agents, buffer = Agents(1), make_buffer(5, capacity=5 * 50)
    agents.stream.length[:] = 100
    for _ in range(30):
        buffer.add(agents.rollout([4, 0, 2], [1, 1, 1]))
    assert buffer.num_steps == 90 and buffer._rows.filled == 31  # no seam takes a position
    n_steps = check_windows(buffer, agents.truth, n_step=3)
    assert np.bincount(n_steps).tolist() == [0, 3, 3, 84]


def test_many_columns_are_stored_in_blocks() -> None:
    agents, buffer = Agents(2), make_buffer(NUM_SLOTS, capacity=NUM_SLOTS * 60)
    agents.stream.length[:] = 100
    for _ in range(3):
        buffer.add(agents.rollout([*range(NUM_AGENTS)], [5] * NUM_AGENTS))
    assert buffer.num_steps == buffer.num_added == 3 * 5 * NUM_AGENTS
    n_steps = check_windows(buffer, agents.truth, n_step=3)
    assert np.bincount(n_steps).tolist() == [0, 27, 27, 81]


def test_what_fits_is_written_as_it_is() -> None:
    rollout = Agents(3).rollout([0, 1, 2, 3], [4, 4, 4, 4])
    [block] = fitted(rollout, NUM_SLOTS, NUM_SLOTS)
    assert block is rollout
    [block] = fitted(rollout, NUM_SLOTS, 3)
    assert not block.follows.any() and rollout.follows.all()
    assert list(fitted(rollout.slots(0, 0), NUM_SLOTS, NUM_SLOTS)) == []


def test_a_restored_buffer_goes_on_where_columns_were_missing() -> None:
    agents, one = Agents(4), make_buffer(3, capacity=90)
    agents.stream.length[:] = 100
    one.add(agents.rollout([0, 1], [4, 4]))
    other = make_buffer(3, capacity=90)
    other.set_state(one.get_state())
    rollout = agents.rollout([0, 1], [4, 4])
    for buffer in (one, other):
        buffer.add(replace(rollout))
        assert buffer._rows.filled == 9
    drawn = [buffer.sample(100, gamma=GAMMA, n_step=3) for buffer in (one, other)]
    assert all((drawn[0][name] == drawn[1][name]).all() for name in drawn[0])
    state = one.get_state()
    del state["num_columns"]  # an older one: all columns were there
    other.set_state(state)
    other.add(agents.rollout([0, 1], [4, 4]))
    assert other._rows.filled == 14  # behind a seam
