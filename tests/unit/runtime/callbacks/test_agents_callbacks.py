"""Hooks of callbacks with several agents: which are called, when, and what their episode tells."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest
from callback_cases import whole
from telling_agents import PATTERNS, TellingAgents, where_of

from trainables import Callbacks, PPOConfig
from trainables.core.data.agents_episode import AgentsEpisode
from trainables.core.policy.policy import Policy
from trainables.runtime.callbacks.callbacks import CallbackSet
from trainables.runtime.envs.make import make_slots
from trainables.runtime.envs.multi_agent.dict_slots import DictSlots
from trainables.runtime.envs.multi_agent.vector_env import AgentsVectorEnv
from trainables.runtime.envs.slots import EnvContext
from trainables.runtime.evaluation.play_agents import play_agents
from trainables.runtime.sampling.agents.runner import AgentsEnvRunner

LENGTH = 4


def by_number(agent_id: Any, episode: Any, worker: Any = None, **kwargs: Any) -> str:
    return f"p{int(str(agent_id)[-1]) % 2}"


def config_of(callbacks: Any = None, **settings: Any) -> PPOConfig:
    settings = {"policies": ["p0", "p1"], "policy_mapping_fn": by_number} | settings
    return PPOConfig().environment(TellingAgents).multi_agent(**settings).callbacks(callbacks)


def slots_of(kind: Any, num_envs: int = 2, restart: bool = False, **given: Any) -> DictSlots:
    contexts = [EnvContext({"length": LENGTH} | given, vector_index=n) for n in range(num_envs)]
    return DictSlots([lambda own=own: kind(own) for own in contexts], restart=restart)


def policies_of(config: PPOConfig, env: AgentsVectorEnv) -> dict[str, Policy]:
    """The policies of two, each for the agents of the first or the last group."""
    groups = {"p0": env.groups[0], "p1": env.groups[-1]}
    specs = config.policies or {}
    return {
        m: Policy(group.observation_space, group.action_space, seed=0)
        for m, group in groups.items()
        if m in specs and not specs[m].is_fixed
    }


def runner_of(env: AgentsVectorEnv, callbacks: Any = None, **settings: Any) -> AgentsEnvRunner:
    config = config_of(callbacks, **settings)
    seed = np.random.SeedSequence(0)
    return AgentsEnvRunner(config, policies_of(config, env), env, seed)


class Watches(Callbacks):
    """Logs hooks, and compares all that the episode tells with what its environment notes."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def on_episode_created(self, *, episode: Any, **kwargs: Any) -> None:
        assert episode.user_data == {} and not episode.is_done and episode
        assert episode.get_agents() == [] and episode.length == 0
        self._log("created", episode)

    def on_episode_start(self, *, episode: Any, env: Any, env_index: int, **kwargs: Any) -> None:
        assert episode.last_reward_for(episode.get_agents()[0]) == 0
        self._compare(episode, env.envs[env_index])
        self._log("start", episode)

    def on_episode_step(self, *, episode: Any, env: Any, env_index: int, **kwargs: Any) -> None:
        self._compare(episode, env.envs[env_index])
        self._log("step", episode)

    def on_episode_end(self, *, episode: Any, env: Any, env_index: int, **kwargs: Any) -> None:
        assert episode.is_done
        self._compare(episode, env.envs[env_index])
        episode.custom_metrics["steps"] = episode.length
        episode.hist_data["returns"] = [*episode.returns.values()]
        self._log("end", episode)

    def _log(self, what: str, episode: Any) -> None:
        self.seen.append((what, episode.env_index, episode.episode_id, len(episode)))

    def _compare(self, episode: Any, env: TellingAgents) -> None:
        """All by agent is what the environment has noted."""
        assert episode.length == env.t
        begun = {agent for e, _, agent in env.received if e == env.episode}
        assert begun <= set(episode.get_agents()) <= begun | set(env.asked)
        for agent in episode.get_agents():
            steps = [t for e, t, a in env.received if (e, a) == (env.episode, agent)]
            action = episode.last_action_for(agent)
            if steps:
                np.testing.assert_array_equal(action, env.received[env.episode, max(steps), agent])
            else:
                assert action is None
            got = {t: r for (e, t, a), r in env.given.items() if (e, a) == (env.episode, agent)}
            assert episode.last_reward_for(agent) == got.get(env.t, 0)
            policy_id = episode.policy_for(agent)
            assert policy_id == by_number(agent, episode)
            assert episode.agent_rewards[agent, policy_id] == sum(got.values())
            place = where_of(episode.last_raw_obs_for(agent))
            assert place.tolist() == [env.slot, env.episode, place[2], env.number[agent]]
            info = episode.last_info_for(agent)
            assert info == {"t": info["t"]} and place[2] <= info["t"] <= env.t
            if agent in env.asked:
                assert place[2] == info["t"] == env.t
        assert episode.total_reward == episode.get_return() == sum(episode.returns.values())


def watched(runner: AgentsEnvRunner) -> list[tuple[Any, ...]]:
    (made,) = runner.callbacks.objects
    assert isinstance(made, Watches)
    return made.seen


# ---------------------------------------------------------------------- in training

FOLLOWED = ("together", "turns", "random turns", "join later", "end one by one", "all at once")


@pytest.mark.parametrize("pattern", [*FOLLOWED, "two kinds", "masked", "sometimes absent"])
def test_an_episode_tells_what_its_agents_saw_did_and_got(pattern: str) -> None:
    """Also over the end of a fragment, and not in rows that only reset."""
    runner = runner_of(slots_of(PATTERNS[pattern], num_agents=3), Watches)
    assert watched(runner) == []  # nothing begins before it is sampled
    episodes = [runner.sample(n)[1] for n in (3, 1, 9)]
    length = LENGTH + 2 if pattern == "end one by one" else LENGTH
    for slot in (0, 1):
        first, second = whole(slot, slot, length), whole(slot, slot + 2, length)
        assert [e for e in watched(runner) if e[1] == slot][: len(first) + 7] == first + second[:7]
    ended = [length for e in episodes for length in e.lengths]
    logged = [steps for e in episodes for steps in e.logged.get(("steps", "mean"), [])]
    assert ended == logged == [length] * len(ended) and len(ended) >= 2
    histograms = [v for e in episodes for v in e.logged.get(("hist_stats/returns", "max"), [])]
    assert sum(map(sum, histograms)) == sum(total for e in episodes for total in e.returns)


def test_ends_of_episodes() -> None:
    told: list[tuple[int, bool, bool, bool]] = []

    class Tells(Callbacks):
        def on_episode_step(self, *, episode: Any) -> None:
            flags = episode.is_terminated, episode.is_truncated, episode.is_done
            told.append((episode.length, *flags))

    runner_of(slots_of(PATTERNS["all at once"], 1), Tells).sample(2 * LENGTH + 1)
    goes_on = [(t, False, False, False) for t in range(1, LENGTH)]
    assert told[:LENGTH] == [*goes_on, (LENGTH, True, False, True)]
    assert told[LENGTH:] == [*goes_on, (LENGTH, False, True, True)]
    told.clear()
    runner_of(slots_of(PATTERNS["end one by one"], 1), Tells).sample(LENGTH + 1)
    assert [done for *_, done in told] == [False] * LENGTH + [True]
    assert told[-1] == (LENGTH + 1, False, True, True)  # agent 0 was terminated before


class Crashes(TellingAgents):
    """Fails in the 3rd step of its second episode."""

    def step(self, action_dict: Any) -> Any:  # type: ignore[override]
        if self.episode == 1 and self.t == 2:
            raise RuntimeError("broken")
        return super().step(action_dict)


def test_an_episode_whose_environment_fails_never_ends() -> None:
    runner = runner_of(slots_of(Crashes, 1, restart=True), Watches)
    _, episodes = runner.sample(14)
    seen = watched(runner)
    assert seen == whole(0, 0, 4) + whole(0, 1, 4)[:4] + whole(0, 2, 4) + whole(0, 3, 4)[:3]
    assert episodes.num_restarts == 1 and episodes.lengths == [4, 4]


def test_a_resumed_run_follows_whole_episodes_only() -> None:
    runner = runner_of(slots_of(TellingAgents), Watches)
    runner.sample(2)
    resumed = runner_of(slots_of(TellingAgents), Watches)
    assert resumed.set_state(runner.get_state())
    watched(resumed).clear()
    _, episodes = resumed.sample(LENGTH + 3)
    assert len(episodes.lengths) == 4
    assert [e for e in watched(resumed) if e[1] == 1] == whole(1, 3, LENGTH)


def test_a_mapping_finds_what_callbacks_noted_in_the_same_episode() -> None:
    mapped: list[AgentsEpisode] = []
    started: list[tuple[AgentsEpisode, dict[Hashable, str]]] = []

    class Chooses(Callbacks):
        def on_episode_created(self, *, episode: Any) -> None:
            episode.user_data["policy"] = f"p{episode.episode_id // 2 % 2}"

        def on_episode_start(self, *, episode: Any) -> None:
            started.append((episode, dict(episode.policy_of)))

    def mapping(agent_id: Any, episode: Any, worker: Any) -> str:
        mapped.append(episode)
        return str(episode.user_data["policy"])

    runner_of(slots_of(TellingAgents), Chooses, policy_mapping_fn=mapping).sample(7)
    assert [e for e, _ in started for _ in range(2)] == mapped and len(started) == 4
    policies = [{"agent_0": p, "agent_1": p} for p in ("p0", "p0", "p1", "p1")]
    assert [policy_of for _, policy_of in started] == policies


def test_arguments_of_hooks() -> None:
    told: list[tuple[Any, ...]] = []

    class Tells(Callbacks):
        def on_episode_end(
            self, *, worker: Any, base_env: Any, policies: Any, episode: Any, rl_module: Any
        ) -> None:
            assert worker is episode.worker and worker.env is base_env
            assert policies is episode.policy_map and set(policies) == {"p0", "p1"}
            assert {m: p is worker.policies["p0"] for m, p in policies.items()}["p0"]
            told.append((policies["p1"].__class__.__name__, sorted(rl_module)))
            assert rl_module["p0"] is policies["p0"].module

        def on_sample_end(self, *, samples: Any, worker: Any, metrics_logger: Any) -> None:
            metrics_logger.log_value("modules", len(samples))

    policies = {"p0": (None, None, None, {}), "p1": ("random", None, None, {})}
    _, episodes = runner_of(slots_of(TellingAgents, 1), Tells, policies=policies).sample(LENGTH)
    assert told == [("RandomPolicy", ["p0"])]
    assert episodes.logged["modules", "mean"] == [1.0]


def test_members_that_are_not_here_say_what_to_use() -> None:
    episode = AgentsEpisode(3, 1)
    assert (len(episode), episode.total_reward, episode.is_done) == (0, 0, False)
    assert bool(episode) and episode.env_id == 1 and episode.policy_map == {}
    for name, words in {
        "module_id": r"policy_for\(agent\)",
        "last_observation": r"last_observation_for\(agent\)",
        "prev_action_for": "user_data",
        "last_extra_action_outs_for": r"policies\[episode.policy_for\(agent\)\]",
        "batch_builder": "learner_connector",
        "nothing": "episode.nothing does not exist",
    }.items():
        with pytest.raises(AttributeError, match=words):
            getattr(episode, name)
    with pytest.raises(KeyError, match=r"no agent 'a'; there are \[\]"):
        episode.last_observation_for("a")


def test_without_hooks_of_episodes_nothing_follows_them() -> None:
    class Other(Callbacks):
        def on_sample_end(self, **kwargs: Any) -> None: ...

    def joins(agent_id: Any, episode: Any, worker: Any) -> str:
        if episode.get_agents():
            others = episode.get_agents()
            assert all(where_of(episode.last_observation_for(a))[3] != agent_id for a in others)
            with pytest.raises(AttributeError, match="only known to hooks"):
                episode.last_action_for(others[0])
        return "p0"

    for callbacks in (None, Callbacks, Other):
        runner = runner_of(slots_of(PATTERNS["join later"]), callbacks, policy_mapping_fn=joins)
        assert runner._hooks is None
        runner.sample(3)


class CommonInfos(TellingAgents):
    """Tells the step to nobody in particular."""

    def step(self, action_dict: Any) -> Any:  # type: ignore[override]
        *step, _ = super().step(action_dict)
        return (*step, {"__common__": {"t": self.t}} if self.t != LENGTH else {})


def test_the_last_info_stays_until_the_episode_ends() -> None:
    told: list[tuple[Any, Any]] = []

    class Tells(Callbacks):
        def on_episode_start(self, *, episode: Any) -> None:
            told.append((episode.last_info_for("agent_1"), episode.last_info_for("__common__")))

        on_episode_end = on_episode_start

    runner_of(slots_of(CommonInfos, 1), Tells).sample(LENGTH + 1)
    assert told == [({"t": 0}, {}), ({"t": 0}, {"t": LENGTH - 1}), ({"t": 0}, {})]


# ---------------------------------------------------------------------- in evaluations


class Longer(TellingAgents):
    """The later the slot, the longer its episodes."""

    def __init__(self, env_config: Any):
        super().__init__(env_config)
        self.length = 1 + 4 * self.slot


def test_evaluations_call_hooks_for_the_episodes_that_count() -> None:
    env, config = slots_of(Longer, 3), config_of([Watches, Evaluated])
    callbacks = CallbackSet(config)
    seed = np.random.SeedSequence(0)
    result = play_agents(
        config,
        policies_of(config, env),
        env,
        seed,
        first_episode=5,
        callbacks=callbacks,
        max_steps_per_episode=100,
        if_endless="end it",
    )
    assert result is not None and result.lengths.tolist() == [1, 5, 9]
    watches = callbacks.objects[0]
    assert isinstance(watches, Watches)
    for slot in range(3):
        assert [e for e in watches.seen if e[1] == slot] == whole(slot, 5 + slot, 1 + 4 * slot)
    assert result.metrics()["custom_metrics/steps_max"] == 9
    assert result.metrics()["custom_metrics/evaluated_sum"] == 3


class Evaluated(Callbacks):
    """Counts the episodes of evaluations."""

    def on_episode_end(self, *, episode: Any, is_evaluation: bool, metrics_logger: Any) -> None:
        assert is_evaluation == episode.is_evaluation
        name = "evaluated" if is_evaluation else "sampled"
        metrics_logger.log_value(name, episode.length, reduce="max")
        metrics_logger.log_value(name, 1, reduce="sum")


def test_metrics_of_episodes_reach_results() -> None:
    config = config_of([Watches, Evaluated]).environment(env_config={"length": LENGTH})
    config.training(train_batch_size_per_learner=32, minibatch_size=32, num_epochs=1)
    config.evaluation(evaluation_interval=1, evaluation_duration=2).debugging(seed=0)
    with config.build() as algo:
        result = algo.train()
    assert result["custom_metrics/sampled_max"] == result["custom_metrics/steps_mean"] == LENGTH
    assert result["evaluation/custom_metrics/evaluated_sum"] == 2
    assert result["evaluation/custom_metrics/steps_min"] == LENGTH
    assert result["hist_stats/returns_max"] > 0


def test_slots_of_native_environments() -> None:
    ended: list[int] = []

    class Tells(Callbacks):
        def on_episode_step(self, *, episode: Any) -> None:
            assert episode.last_action_for("agent_0") in (0, 1)
            assert episode.last_observation_for("agent_1").shape == (4,)

        def on_episode_end(self, *, episode: Any) -> None:
            assert max(episode.returns.values()) == episode.length
            assert episode.last_info_for("agent_0") == {} and episode.is_terminated
            ended.append(episode.length)

    config = config_of(Tells)
    env = make_slots(config, "multi_agent_cartpole", {"num_agents": 2}, 2)
    assert isinstance(env, AgentsVectorEnv)
    _, episodes = runner_of(env, Tells).sample(150)
    assert ended == episodes.lengths and len(ended) > 2
