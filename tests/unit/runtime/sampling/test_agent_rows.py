"""Rows of agents that tell where they come from: each is where it belongs, and none is missing."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from telling_agents import PATTERNS, TellingAgents, where_of
from tiers import covering, rarely

from trainables import PPOConfig
from trainables.core.data.batch import Rollout
from trainables.runtime.sampling.agents.runner import AgentsEnvRunner

NUM_SLOTS, NUM_AGENTS = 3, 3


def own_policy(agent_id: Any, episode: Any, worker: Any, **kwargs: Any) -> str:
    return f"p{agent_id[-1]}"


def one_policy(agent_id: Any, episode: Any, worker: Any, **kwargs: Any) -> str:
    return "p0"


def parity(agent_id: Any, episode: Any, worker: Any, **kwargs: Any) -> str:
    """Two policies, of agents with equal spaces even in `two kinds`."""
    return f"p{int(agent_id[-1]) % 2}"


def moving(agent_id: Any, episode: Any, worker: Any, **kwargs: Any) -> str:
    """Another policy in every episode, several agents of one at times."""
    return f"p{(int(agent_id[-1]) * (episode.episode_id % 3) + episode.episode_id // 2) % 3}"


MAPPINGS = {"own": own_policy, "one": one_policy, "parity": parity, "moving": moving}


def make_runner(pattern: str, mapping: str, **settings: Any) -> tuple[Any, AgentsEnvRunner]:
    policies = ["p0", "p1", "p2"]
    if mapping == "one":
        policies = ["p0"]
    elif mapping == "parity":
        policies = ["p0", "p1"]
    config = (
        PPOConfig()
        .environment(PATTERNS[pattern], env_config={"num_agents": NUM_AGENTS, "length": 4})
        .env_runners(num_envs_per_env_runner=NUM_SLOTS)
        .multi_agent(policies=policies, policy_mapping_fn=MAPPINGS[mapping])
        .debugging(seed=3)
        .training(**{"model": {"fcnet_hiddens": [8]}, **settings})
    )
    algorithm = config.build()
    runner = algorithm.env_runners.local_env_runner
    assert isinstance(runner, AgentsEnvRunner)
    return algorithm, runner


class Told:
    """What rollouts say of each agent's episodes, put together over all fragments."""

    def __init__(self, mapping: Any, envs: list[TellingAgents]):
        self.mapping, self.envs = mapping, envs
        # By slot, episode and agent: (step, action, reward, next step, terminated, truncated).
        self.rows: dict[tuple[int, int, int], list[tuple[Any, ...]]] = defaultdict(list)
        self.modules: dict[tuple[int, int, int], set[str]] = defaultdict(set)

    def add(self, rollouts: dict[str, Rollout]) -> None:
        for module_id, rollout in rollouts.items():
            places = where(rollout.obs)
            for column in range(rollout.valid.shape[1]):
                self._add_column(module_id, rollout, column, places[:, column])

    def _add_column(self, module_id: str, r: Rollout, column: int, places: np.ndarray) -> None:
        valid, length = r.valid[:, column], len(r.valid)
        done = r.terminated[:, column] | r.truncated[:, column]
        follows_on = valid & ~done
        follows_on[:-1] &= valid[1:]
        follows_on[-1] = False
        np.testing.assert_array_equal(r.continues[:, column], follows_on)
        assert (r.rewards[~valid, column] == 0).all()
        for t in np.flatnonzero(valid):
            slot, episode, step, agent = places[t].astype(int)
            after = places[t + 1].astype(int)
            assert (after[0], after[1], after[3]) == (slot, episode, agent)
            if t + 1 < length and valid[t] and not done[t]:
                # Nobody may find a row of another episode behind one that goes on.
                assert not valid[t + 1] or places[t + 1][2] > step
            key = (slot, episode, agent)
            self.modules[key].add(module_id)
            action = r.actions[t, column]
            ends = bool(r.terminated[t, column]), bool(r.truncated[t, column])
            self.rows[key].append((step, action, float(r.rewards[t, column]), after[2], *ends))


def where(obs: np.ndarray) -> np.ndarray:
    """The `WHERE` part of stored observations."""
    return where_of(obs if obs.dtype.names is None else {"where": obs["where"]})


# Agents of one policy have equal spaces.
OF_ONE_KIND = [pattern for pattern in PATTERNS if pattern != "two kinds"]
ROWS = [
    *covering(OF_ONE_KIND, [*MAPPINGS], [7, 1, 64]),
    *covering(["two kinds"], ["own", "parity"], [7, 1, 64], strength=1),
]


@pytest.mark.parametrize(("pattern", "mapping", "length"), ROWS)
def test_each_row_is_where_it_belongs(pattern: str, mapping: str, length: int) -> None:
    algorithm, runner = make_runner(pattern, mapping)
    envs = runner.env.envs  # type: ignore[attr-defined]
    told = Told(MAPPINGS[mapping], envs)
    for _ in range(-(-40 // length)):
        rollouts, _ = runner.sample(length)
        told.add(rollouts)
    algorithm.stop()
    num_rows = 0
    for slot, env in enumerate(envs):
        acted = defaultdict(list)
        for (episode, step, agent), action in env.received.items():
            acted[episode, env.number[agent]].append((step, action))
        for (episode, number), steps in acted.items():
            key, agent = (slot, episode, number), env.possible_agents[number]
            rows = told.rows.pop(key, [])
            num_rows += len(rows)
            runs = episode == env.episode
            # Of an episode that runs, the last action's outcome may not be known.
            assert len(steps) - len(rows) in ((0, 1) if runs else (0,)), key
            assert len(told.modules[key]) <= 1
            for (step, action), row in zip(steps, rows, strict=False):
                assert row[0] == step
                np.testing.assert_allclose(action, scaled(row[1], action), atol=1e-5)
            check_rewards(env, episode, agent, rows)
            check_ends(rows, is_over=not runs)
    assert not told.rows  # nothing that did not happen
    assert num_rows > 64


def scaled(stored: Any, given: Any) -> Any:
    """The environment's action for a stored one: [-1, 1] is stretched to a Box."""
    if np.asarray(given).dtype.kind != "f":
        return stored
    return np.clip((stored + 1) / 2, 0, 1) * 3 - 2  # Box(-2, 1)


def check_rewards(
    env: TellingAgents, episode: int, agent: Any, rows: list[tuple[Any, ...]]
) -> None:
    """Each row has all rewards from its action to the next one, or to the end."""
    given = {s: r for (e, s, a), r in env.given.items() if (e, a) == (episode, agent)}
    for index, (step, _, reward, next_step, terminated, truncated) in enumerate(rows):
        is_last = terminated or truncated
        until = next_step
        if is_last:
            until = max([step, *given])  # also if nothing was shown
        elif index + 1 < len(rows):
            assert rows[index + 1][0] == next_step
        assert reward == pytest.approx(sum(r for s, r in given.items() if step < s <= until))


def check_ends(rows: list[tuple[Any, ...]], is_over: bool) -> None:
    ends = [terminated or truncated for *_, terminated, truncated in rows]
    assert not any(ends[:-1])
    if is_over and rows:
        assert ends[-1]


@pytest.mark.parametrize("pattern", rarely([*PATTERNS], ["turns", "end one by one", "join later"]))
def test_policies_are_asked_for_once_an_episode_and_agent(pattern: str) -> None:
    asked: list[tuple[int, Any]] = []

    def mapping(agent_id: Any, episode: Any, worker: Any, **kwargs: Any) -> str:
        if worker is not None:
            asked.append((episode.episode_id, agent_id))
        return "p0" if int(agent_id[-1]) % 2 else "p1"

    config = (
        PPOConfig()
        .environment(PATTERNS[pattern], env_config={"num_agents": NUM_AGENTS, "length": 4})
        .env_runners(num_envs_per_env_runner=NUM_SLOTS)
        .multi_agent(policies=["p0", "p1"], policy_mapping_fn=mapping)
        .training(model={"fcnet_hiddens": [8]})
    )
    algorithm = config.build()
    runner = algorithm.env_runners.local_env_runner
    assert runner is not None
    runner.sample(40)
    algorithm.stop()
    assert len(asked) == len(set(asked)) > NUM_SLOTS * NUM_AGENTS


FOUR = ["random turns", "end one by one", "join later", "together"]


@pytest.mark.parametrize(("pattern", "mapping"), covering(FOUR, ["moving", "own"], strength=1))
def test_a_memory_is_learned_from_as_it_acted(pattern: str, mapping: str) -> None:
    """With a learning rate of 0 the policy that learns says what the one that acted said."""
    algorithm, _ = make_runner(
        pattern,
        mapping,
        lr=0.0,
        num_epochs=1,
        train_batch_size=48,
        minibatch_size=None,
        model={"use_lstm": True, "max_seq_len": 5, "lstm_cell_size": 8},
    )
    for _ in range(3):
        result = algorithm.train()
        kls = [v for name, v in result.items() if name.endswith("approx_kl")]
        assert kls
        assert np.abs(kls).max() < 1e-6
    algorithm.stop()


@pytest.mark.parametrize("pattern", rarely([*PATTERNS], ["turns", "two kinds", "join later"]))
def test_a_filter_learns_from_each_frame_once(pattern: str) -> None:
    mapping = "parity" if pattern == "two kinds" else "moving"
    algorithm, runner = make_runner(pattern, mapping)
    algorithm.stop()
    config = algorithm.config.copy(copy_frozen=False).env_runners(
        observation_filter="MeanStdFilter"
    )
    algorithm = config.build()
    runner = algorithm.env_runners.local_env_runner
    seen: dict[str, int] = defaultdict(int)
    shown: dict[str, int] = defaultdict(int)
    for length in (1, 5, 17):
        rollouts, _ = runner.sample(length)
        for module_id, moments in runner.take_filter_moments().items():
            seen[module_id] += int(moments.count)
        for module_id, rollout in rollouts.items():
            shown[module_id] += int(rollout.valid.sum())
            ends = rollout.valid & (rollout.terminated | rollout.truncated)
            shown[module_id] += int(ends.sum())
    algorithm.stop()
    for module_id, count in shown.items():
        # The frames of ends are counted when they are followed, one fragment later at most.
        assert abs(seen[module_id] - count) <= NUM_SLOTS * NUM_AGENTS * 2, module_id
