"""Bad input to a run with several agents: each is one error that names what is wrong.

What a setting's form alone refuses is in `core/config/test_multi_agent_settings.py`, what single
slots refuse in `runtime/envs/multi_agent/`. Here everything goes through a config and its run.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from telling_agents import BOX, SEEN, Scripted, TellingAgents, TwoKinds

from experiments.commands.evaluation.evaluate import evaluate_folder
from experiments.errors import ExperimentError
from trainables import PPO, DreamerV3Config, FixedPolicy, MultiAgentEnv, PolicySpec, PPOConfig
from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.policy.fixed_policy import actions_of
from trainables.runtime.envs.sub_environment import SubEnvironmentError

OVERRIDES = "algorithm_config_overrides_per_module"
THREE = gym.spaces.Box(-1, 1, (3,), np.float32)
DUEL = r"^env '.*Duel'"
FUNCTION = r"allowed: a function \(agent_id, episode, worker, \*\*kwargs\) -> policy id"
TRAINS = r"allowed: a function \(policy_id, batch\) -> bool"
PARTS = "policy_class, observation_space, action_space, config"


# ------------------------------------------------------------------ what users write


class Silent:
    """No policy: it does not act."""


class Unmakeable:
    """A policy that takes other arguments than it is made with."""

    def __init__(self, size: int):
        self.size = size

    def compute_actions(self, observations: Any, rng: Any, masks: Any = None) -> Any:
        return np.zeros(self.size, np.int64)


class Unfinished(FixedPolicy):
    """It does not say how it acts."""


def fails(agent_id: str, *args: Any, **kwargs: Any) -> str:
    return {"agent_1": "a"}[agent_id]


def swapped(agent_id: str, episode: Any, worker: Any, **kwargs: Any) -> str:
    """From episode to episode the two agents have the other's policy."""
    return "ab"[(int(agent_id[-1]) + episode.episode_id) % 2]


def never_bool(policy_id: str, batch: Any = None) -> Any:
    return "yes"


def divides(policy_id: str, batch: Any = None) -> bool:
    return bool(1 / 0)


def duel(parts: dict[str, Any] | None = None, reset: Any = None, **attributes: Any) -> type:
    """A class of `Scripted` environments with something wrong in them."""

    class Duel(Scripted):
        def __init__(self, env_config: Any = None):
            super().__init__(parts, reset)
            for name, value in attributes.items():
                setattr(self, name, value)

    return Duel


def late(good: int = 9, **parts: Any) -> type:
    """One that is wrong only after some good steps, which no check before the run has seen."""

    class Duel(Scripted):
        def __init__(self, env_config: Any = None):
            super().__init__()
            self.num_steps = 0

        def step(self, action_dict: Any) -> Any:
            self.num_steps += 1
            self.parts = parts if self.num_steps > good else {}
            return super().step(action_dict)

    return Duel


class Nobody(TellingAgents):
    """Masks that allow nothing."""

    def sees(self, agent: Any) -> gym.Space:
        mask = gym.spaces.Box(0, 1, (2,), np.int8)
        return gym.spaces.Dict({"action_mask": mask, "where": super().sees(agent)})

    def tell(self, agent: Any, where: np.ndarray) -> Any:
        return {"action_mask": np.zeros(2, np.int8), "where": where}


class Unsaid(MultiAgentEnv):
    """It says of nobody that it takes part."""

    def __init__(self, env_config: Any = None):
        super().__init__()


class Seedless(Scripted):
    def __init__(self, env_config: Any = None):
        super().__init__()

    def reset(self) -> Any:  # type: ignore[override]
        return {"a": SEEN, "b": SEEN}, {}


class Absent(Scripted):
    """Agent b is possible, and never observed; an episode is one step."""

    first = ("a",)

    def __init__(self, env_config: Any = None):
        end = {"__all__": True}
        super().__init__({"obs": {"a": SEEN}, "rewards": {"a": 1.0}, "terminateds": end})


# ------------------------------------------------------------------ how it is tried


def small(
    env: Any = TellingAgents,
    env_config: Any = None,
    kind: type[Any] = PPOConfig,
    **multi_agent: Any,
) -> AlgorithmConfig:
    """The config of a short run in this process."""
    config: Any = kind().environment(env, env_config=env_config or {})
    if kind is PPOConfig:
        model = {"fcnet_hiddens": [4]}
        config.training(train_batch_size=16, minibatch_size=8, num_epochs=1, model=model)
    config.env_runners(num_envs_per_env_runner=1).debugging(seed=1)
    made: AlgorithmConfig = config.multi_agent(**multi_agent) if multi_agent else config
    return made


def run(config: AlgorithmConfig, iterations: int = 2) -> None:
    algo = config.build()
    try:
        for _ in range(iterations):
            algo.train()
    finally:
        algo.stop()


def the_error(act: Callable[[], Any], *kinds: type[Exception]) -> Exception:
    """The one error that something raises: of a class of ours, a line, without another behind."""
    with pytest.raises(kinds or (ConfigError, SubEnvironmentError)) as caught:
        act()
    error = caught.value
    assert "\n" not in str(error)
    assert error.__cause__ or error.__suppress_context__ or not error.__context__
    assert not isinstance(error.__cause__, (ConfigError, SubEnvironmentError))
    return error


def two(**settings: Any) -> dict[str, Any]:
    return {"policies": ["a", "b"], "policy_mapping_fn": {"agent_0": "a", "*": "b"}, **settings}


def by_hand(kind: Any, **more: Any) -> dict[str, Any]:
    return two(policies={"a": None, "b": PolicySpec(kind, **more)})


# ------------------------------------------------------------------ settings

SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    # --- policies
    "policies is a number": (
        {"policies": 2},
        r"^policies = 2 is not allowed; allowed: a dict of policies by id .* list or set of ids$",
    ),
    "no policies": (
        {"policies": []},
        r"^policies = \[\] names none; allowed: at least one id, or None for default_policy alone",
    ),
    "an id too long for a folder": (
        {"policies": ["x" * 201]},
        "^policies: the policy id 'x+' is not allowed: .*; allowed: at most 200 bytes$",
    ),
    "a set of ids and others": (
        {"policies": {"a", 1}},
        "^policies: the policy id 1 is not allowed: it is of type int; allowed: str$",
    ),
    "a tuple of five": (
        {"policies": {"a": (None,) * 5}},
        r"^policies: 'a' = \(None, .*\) is not allowed; allowed: .* a tuple \(policy_class, ",
    ),
    "a policy's setting has a wrong type": (
        {"policies": {"a": PolicySpec(config={"lr": "fast"})}},
        "^policies: 'a': config: lr = 'fast' is not allowed; allowed: float or schedule, >= 0$",
    ),
    "a policy's model has a typo": (
        {OVERRIDES: {"a": {"model": {"fcnet_hidens": [4]}}}, "policies": ["a"]},
        f"^{OVERRIDES}: 'a': unknown model setting 'fcnet_hidens' .*mean 'fcnet_hiddens'",
    ),
    "a class that does not act": (
        by_hand(Silent),
        "^policies: 'b': policy_class = <class '.*Silent'> is not allowed; allowed: .*compute_acti",
    ),
    "a class that is not finished": (
        by_hand(Unfinished),
        "^policies: 'b': policy_class = <class '.*Unfinished'> is not allowed; allowed: .*compute_",
    ),
    "a typo of random": (
        by_hand("randm"),
        "^policies: 'b': policy_class = 'randm' is not allowed; allowed: None, .*; 'random'; 'look",
    ),
    "a class that does not exist": (
        by_hand("nowhere:Policy"),
        "^policies: 'b': policy_class: 'nowhere:Policy' cannot be found: No module named 'nowhere'"
        "; allowed: 'module:name' of a class with compute_actions",
    ),
    "a name of what is no class": (
        by_hand("math:pi"),
        "^policies: 'b': policy_class = 'math:pi' is not allowed; allowed: a class with compute_ac",
    ),
    "a class that cannot be made": (
        by_hand(Unmakeable, config={"size": 3}),
        "^policies: 'b': policy_class = .*:Unmakeable raised TypeError: .* 4 were given, made with "
        r"\(observation_space, action_space, config\) and config = {'size': 3}$",
    ),
    "another observation space": (
        two(policies={"a": PolicySpec(None, THREE), "b": None}),
        r"^policies: the spaces of 'a', Box.* fit no agent of env .*\(agent_0, agent_1: "
        r"shape \(3,\) against \(4,\)\)$",
    ),
    "another action space": (
        two(policies={"a": PolicySpec(None, None, gym.spaces.Discrete(3)), "b": None}),
        r"^policies: the spaces of 'a', .* fit no agent of env .* n 3 against 2\)$",
    ),
    # --- policy_mapping_fn
    "a mapping to an unknown policy": (
        two(policy_mapping_fn=lambda agent_id, *_, **__: "c"),
        "^policy_mapping_fn: the agent 'agent_0' has the policy 'c', which does not exist; "
        "policies: a, b$",
    ),
    "a mapping to None": (
        two(policy_mapping_fn=lambda agent_id, *_, **__: None),
        "^policy_mapping_fn: the agent 'agent_0' has no policy; policies: a, b$",
    ),
    "a mapping to a list": (
        two(policy_mapping_fn=lambda agent_id, *_, **__: ["a"]),
        r"^policy_mapping_fn: the agent 'agent_0' has the policy \['a'\], which does not exist; ",
    ),
    "a mapping that raises": (
        two(policy_mapping_fn=fails),
        "^policy_mapping_fn = .*:fails raised KeyError: 'agent_0', asked for the agent 'agent_0'; "
        "allowed answers: a, b$",
    ),
    "a mapping that is none": (
        two(policy_mapping_fn=["a", "b"]),
        rf"^policy_mapping_fn = \['a', 'b'\] is not allowed; {FUNCTION}, .* or a dict",
    ),
    "a mapping without an agent": (
        two(policy_mapping_fn={"agent_0": "a"}),
        "^policy_mapping_fn: the agent 'agent_1' has no policy; policies: a, b$",
    ),
    "a mapping of a typo": (
        two(policy_mapping_fn={"*": "aa"}),
        "^policy_mapping_fn: there is no policy 'aa'; policies: a, b; did you mean 'a'",
    ),
    "a mapping from nowhere": (
        two(policy_mapping_fn="nowhere:mapping"),
        f"^policy_mapping_fn: 'nowhere:mapping' cannot be found: No module .*; {FUNCTION}",
    ),
    "a mapping that is not in its module": (
        two(policy_mapping_fn="math:mapping"),
        f"^policy_mapping_fn: 'math:mapping' cannot be found: .* no attribute .*; {FUNCTION}",
    ),
    "a mapping that names no function": (
        two(policy_mapping_fn="math:pi"),
        f"^policy_mapping_fn = 'math:pi' is not allowed; {FUNCTION}",
    ),
    "a mapping that takes nothing": (
        two(policy_mapping_fn=lambda: "a"),
        rf"^policy_mapping_fn = .*<lambda> takes \(\): too many positional .*; {FUNCTION}$",
    ),
    "a mapping that takes too much": (
        two(policy_mapping_fn=lambda agent_id, episode, worker, team: team),
        rf"takes \(agent_id, episode, worker, team\): missing .* 'team'; {FUNCTION}$",
    ),
    "agents of one policy with other spaces": (
        {"env": TwoKinds, "policies": ["a"]},
        "^policies: 'a' is that of the agents 'agent_0' and 'agent_1', which have different spaces:"
        ".*; give them different policies$",
    ),
    "agents with other spaces, later": (
        {"env": TwoKinds, **two(policy_mapping_fn=swapped)},
        "^env '.*TwoKinds': the agent 'agent_0' sees Box.* but the policy 'b' is for Box.*; "
        r"allowed: a policy acts for agents with equal spaces \(change policy_mapping_fn\)$",
    ),
    "an environment of one agent": (
        {"env": "CartPole-v1", **two(policy_mapping_fn=None)},
        "^policy_mapping_fn: the agent 'agent0' has no policy; policies: a, b$",
    ),
    # --- policies_to_train
    "to train a typo": (
        two(policies_to_train=["aa"]),
        "^policies_to_train: there is no policy 'aa'; policies: a, b; did you mean 'a'",
    ),
    "to train a dict": (
        two(policies_to_train={"a": True}),
        r"^policies_to_train = {'a': True} is not allowed; allowed: .* \(policy_id, batch\) ->",
    ),
    "to train what is no bool": (
        two(policies_to_train=never_bool),
        "^policies_to_train = .*:never_bool returned 'yes' for the policy 'a'; allowed: True or F",
    ),
    "to train what raises": (
        two(policies_to_train=divides),
        "^policies_to_train = .*:divides raised ZeroDivisionError: .*, asked for the policy 'a'; ",
    ),
    "to train without a batch": (
        two(policies_to_train=lambda policy_id: True),
        rf"^policies_to_train = .*<lambda> takes \(policy_id\): too many .*; {TRAINS}$",
    ),
    "to train by a function from nowhere": (
        two(policies_to_train="nowhere:trains"),
        f"^policies_to_train: 'nowhere:trains' cannot be found: .*; {TRAINS}",
    ),
    # --- others
    "a policy of its own that does not exist": (
        two(**{OVERRIDES: {"aa": {"lr": 1e-3}}}),
        f"^{OVERRIDES}: there is no policy 'aa'; policies: a, b; did you mean 'a'",
    ),
    "a setting of its own with a typo": (
        two(**{OVERRIDES: {"a": {"gama": 0.5}}}),
        f"^{OVERRIDES}: 'a': unknown setting 'gama' of PPOConfig; did you mean 'gamma'",
    ),
    "a setting of all": (
        two(**{OVERRIDES: {"a": {"num_env_runners": 2}}}),
        f"^{OVERRIDES}: 'a': 'num_env_runners' is the same for all policies; allowed: .*gamma, lr",
    ),
    "a setting's value of its own": (
        two(**{OVERRIDES: {"a": {"lr": -1}}}),
        f"^{OVERRIDES}: 'a': lr = -1 is not allowed; allowed: float or schedule, >= 0$",
    ),
    "a typo of the section": (
        {"policy_maping_fn": {"*": "a"}},
        "^unknown setting 'policy_maping_fn' of PPOConfig; did you mean 'policy_mapping_fn'",
    ),
    "a typo of what is counted": (
        two(count_steps_by="agent_step"),
        "^count_steps_by = 'agent_step' is not allowed; allowed: one of 'env_steps', 'agent_steps'",
    ),
    "a typo of replay": (
        two(replay_mode="lock_step"),
        "^replay_mode = 'lock_step' is not allowed; allowed: one of 'independent'$",
    ),
    "observations by a function from nowhere": (
        two(observation_fn="nowhere:see"),
        r"^observation_fn: 'nowhere:see' cannot be found: .*; allowed: a function \(agent_obs, ",
    ),
    "an algorithm that is for one agent": (
        {"env": "multi_agent_cartpole", "kind": DreamerV3Config},
        "^DreamerV3 is not supported with several agents: it trains one agent so far; .*PPO",
    ),
    "a typo of a game": (
        {"env": "pettingzoo:mpe2.simple_spred_v3"},
        "^env 'pettingzoo:mpe2.simple_spred_v3' is no game .*mean 'pettingzoo:mpe2.simple_spread_v",
    ),
    "an argument that a game does not have": (
        {"env": "pettingzoo:mpe2.simple_spread_v3", "env_config": {"Nn": 3}},
        "^env 'pettingzoo:mpe2.simple_spread_v3' cannot be made with env_config={'Nn': 3}: TypeErr",
    ),
    "a native game of no agents": (
        {"env": "multi_agent_cartpole", "env_config": {"num_agents": -1}},
        "^env 'multi_agent_cartpole': env_config num_agents=-1; allowed: whole numbers at least 1",
    ),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_bad_settings_are_one_error(case: str) -> None:
    given, says = SETTINGS[case]
    if str(given.get("env")).startswith("pettingzoo:"):
        pytest.importorskip("mpe2", reason="needs the extra pettingzoo")
    message = str(the_error(lambda: run(small(**given))))
    assert re.search(says, message), message


def test_a_typo_of_a_part_of_a_policy() -> None:
    error = the_error(lambda: PolicySpec(policy_clas="random"))  # type: ignore[arg-type]
    assert str(error) == (
        f"PolicySpec: unknown part 'policy_clas'; allowed: {PARTS}; did you mean 'policy_class'?"
    )


# ------------------------------------------------------------------ environments

GO_ON = {"__all__": False}
B_ENDS = {"terminateds": {**GO_ON, "b": True}}
ENVS: dict[str, tuple[type, str]] = {
    "no __all__": (
        duel({"terminateds": {"a": False}}),
        r"step 1: step's terminateds has no key '__all__', .* all agents; it has \['a'\]",
    ),
    "an unknown agent is observed": (
        duel({"obs": {"c": SEEN}}),
        r"step 1: an observation is of agent 'c', .* the possible_agents are \['a', 'b'\]",
    ),
    "an unknown agent is rewarded": (
        duel({"rewards": {"c": 1.0}}),
        r"step 1: a reward is of agent 'c', .* the possible_agents are \['a', 'b'\]",
    ),
    "who has ended is observed": (
        duel({**B_ENDS, "rewards": {}}),
        "step 2: agent 'b' is observed, but ended in an earlier step; .* in the next episode again",
    ),
    "who has ended is rewarded": (
        duel({**B_ENDS, "obs": {"a": SEEN}}),
        r"step 2: agent 'b' gets the reward 1\.0, but ended in an .*; allowed: none, or 0",
    ),
    "a shape": (
        duel({"obs": {"a": np.zeros(3, np.float32)}}),
        r"step 1: the observation of agent 'a' has shape \(3,\), the space has \(2,\)",
    ),
    "a dtype": (
        duel({"obs": {"a": SEEN.astype(complex)}}),
        "step 1: the observation of agent 'a' has dtype complex128, the space has float32",
    ),
    "no number as a reward": (
        duel({"rewards": {"a": "1"}}),
        r"step 1: the reward of agent 'a' is '1' \(str\), not a finite number",
    ),
    "NaN as a reward": (
        duel({"rewards": {"a": float("nan")}}),
        "step 1 raised ValueError: the reward of agent 'a' is nan, not a finite number",
    ),
    "a reset without infos": (
        duel(reset={"a": SEEN}),
        r"reset: reset returns a dict, not \(observations, infos\): two dicts by agent",
    ),
    "an episode without agents": (
        duel(reset=({}, {})),
        "reset: reset observes no agent: .* must return the observation of at least one agent",
    ),
    "four values": (
        duel({"result": ({}, {}, {}, {})}),
        r"step 1: step returns \(dict, dict, dict, dict\), not \(observations, rewards, .* five",
    ),
    "a flag that is a number": (
        duel({"terminateds": {"__all__": 0}}),
        r"step 1: step's terminateds\['__all__'\] is 0 \(int\), not a bool",
    ),
    "no possible agents": (
        duel(possible_agents=[]),
        " has no possible_agents: set this attribute to the list of all agents that may ever take",
    ),
    "possible agents as a text": (
        duel(possible_agents="ab"),
        r": possible_agents is 'ab' \(str\); allowed: a list of agents' ids",
    ),
    "possible agents as a number": (
        duel(possible_agents=2),
        r": possible_agents is 2 \(int\); allowed: a list of agents' ids",
    ),
    "an agent without a space": (
        duel(observation_spaces={"a": BOX}),
        ": the observation space of agent 'b' is None: set observation_spaces to a dict with",
    ),
    "nobody acts any more": (
        duel({"obs": {}}),
        r"step 1000: no agent was asked to act in 1000 steps in a row, and \['a', 'b'\] have not "
        "ended; a step must observe who acts next, or end the episode",
    ),
    "a late NaN": (
        late(rewards={"a": float("inf")}),
        "slot 0 of env runner 0: step 10 raised ValueError: the reward of agent 'a' is inf, not a",
    ),
    "a late missing __all__": (
        late(truncateds={"b": False}),
        r"slot 0 of env runner 0, step 10: step's truncateds has no key '__all__'.*it has \['b'\]",
    ),
    "a late observation that is no number": (
        late(obs={"b": SEEN * np.nan}),
        r"slot 0 of env runner 0, agent 'b': the observation after step \d+ of its episode is nan",
    ),
}


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("case", ENVS)
def test_bad_environments_are_one_error(case: str, checked: bool) -> None:
    env, says = ENVS[case]
    config = small(env, policies=["p"]).environment(disable_env_checking=not checked)
    message = str(the_error(lambda: run(config)))
    assert re.search(DUEL + ".*" + says, message), message


@pytest.mark.parametrize(
    ("env", "says"),
    [
        (Unsaid, "^env '.*:Unsaid' has no possible_agents: set this attribute to the list of all"),
        (
            Nobody,
            "^env '.*Nobody': its 'action_mask' allows no action at step 0 .* agent 'agent_0'",
        ),
        (Seedless, r"^env '.*Seedless': reset raised TypeError: .* unexpected keyword .* 'seed'"),
    ],
)
def test_more_of_environments(env: type, says: str) -> None:
    message = str(the_error(lambda: run(small(env, policies=["p"]))))
    assert re.search(says, message), message


def test_an_agent_that_never_acts_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """It is no error: of many possible agents few may take part."""
    config = small(Absent, policies=["a", "b"]).env_runners(num_envs_per_env_runner=2)
    with caplog.at_level(logging.WARNING, "trainables"):
        run(config.training(train_batch_size=1000, minibatch_size=500))
    [said] = [r.getMessage() for r in caplog.records if "possible_agents" in r.getMessage()]
    assert said == (
        "possible_agents has ['b'], whom no step has observed in 100 episodes of slot 0: they "
        "never act, and nothing is learned from them"
    )


def test_all_that_have_ended_need_no_common_flag() -> None:
    ends = {**GO_ON, "a": True, "b": True}
    run(small(duel({"terminateds": ends, "obs": {}}), policies=["p"]))


def test_a_mapping_that_changes_amid_an_episode_is_not_asked_there() -> None:
    asked: list[tuple[int, str]] = []

    def fickle(agent_id: str, episode: Any, worker: Any, **kwargs: Any) -> str:
        if worker is not None:  # else it is asked which spaces the policies have
            asked.append((episode.episode_id, agent_id))
        return "ab"[len(asked) % 2]

    run(small(**two(policy_mapping_fn=fickle)))
    assert len(asked) == len({*asked}) > 4


# ------------------------------------------------------------------ policies written by hand


class Gives(FixedPolicy):
    """It gives what its config has; an error is raised."""

    def compute_actions(self, observations: Any, rng: Any, masks: Any = None) -> Any:
        if isinstance(self.config["gives"], Exception):
            raise self.config["gives"]
        return self.config["gives"]


BOTH = gym.spaces.Dict({"go": gym.spaces.MultiBinary(2), "to": gym.spaces.MultiDiscrete([2, 3])})


@pytest.mark.parametrize(
    ("gives", "space", "says"),
    [
        (np.zeros(3, np.int64), gym.spaces.Discrete(2), r"of shape \(3,\); allowed: \(2,\)"),
        (None, gym.spaces.Discrete(2), r"of shape \(\); allowed: \(2,\), a row for each"),
        ([0, 7], gym.spaces.Discrete(2), r"of which 7 is outside the space \(Discrete\(2\)"),
        ([2, 3], gym.spaces.Discrete(2, start=3), "actions of which 2 is outside the space"),
        ([0.0, 0.5], gym.spaces.Discrete(2), "actions of dtype float64; allowed: int64"),
        ([[0, np.nan]] * 2, gym.spaces.Box(-1, 1, (2,)), "actions that are not finite numbers"),
        ([[0], [0, 1]], gym.spaces.Box(-1, 1, (2,)), r"gave a list that holds .*ValueError: .*Box"),
        ({"go": np.zeros((2, 2), int)}, BOTH, "gave a dict that .*KeyError: 'to'.; allowed: "),
        ({"go": np.zeros((2, 2), int), "to": np.full((2, 2), 2)}, BOTH, "to' of which 2 is out"),
        ({"go": np.full((2, 2), 9), "to": np.zeros((2, 2), int)}, BOTH, "go' of which 9 is out"),
        (OSError("gone"), BOTH, r"raised OSError: gone, called with .* of 2 agents"),
    ],
)  # fmt: skip
def test_bad_actions_of_a_policy_written_by_hand(gives: Any, space: gym.Space, says: str) -> None:
    policy = Gives(BOX, space, {"gives": gives})
    rng = np.random.default_rng(0)
    act = lambda: actions_of(policy, "b", space, np.zeros((2, 2)), rng, None, 2)  # noqa: E731
    message = str(the_error(act))
    assert re.search(rf"^policies: 'b': compute_actions of .*:Gives .*{says}", message), message


def test_good_actions_of_a_policy_written_by_hand() -> None:
    good = {"go": [[True, False]] * 2, "to": np.ones((2, 2), np.int8)}
    policy, rng = Gives(BOX, BOTH, {"gives": good}), np.random.default_rng(0)
    given = actions_of(policy, "b", BOTH, np.zeros((2, 2)), rng, None, 2)
    assert given["go"].tolist() == good["go"] and given["to"].tolist() == [[1, 1]] * 2


# ------------------------------------------------------------------ a run that goes on


@pytest.fixture(scope="module")
def algo() -> Iterator[PPO]:
    mapping = {"agent_[01]": "a"}
    config = small("multi_agent_cartpole", {"num_agents": 2}, **two(policy_mapping_fn=mapping))
    with config.build() as made:
        yield made


OBS = np.zeros(4, np.float32)
CALLS: dict[str, tuple[Callable[[PPO], Any], str]] = {
    "an id that there is": (
        lambda algo: algo.add_policy("a"),
        "^add_policy: there is, or was, a policy 'a' in this run; allowed: an id that is new$",
    ),
    "spaces that no agent has": (
        lambda algo: algo.add_policy("c", observation_space=THREE),
        r"^policies: the spaces of 'c', .* fit no agent of env .* shape \(3,\) against \(4,\)\)$",
    ),
    "settings as a list": (
        lambda algo: algo.add_policy("c", config=[1]),  # type: ignore[arg-type]
        r"^add_policy: config = \[1\] is not allowed; allowed: a dict of settings, or None$",
    ),
    "a state without weights": (
        lambda algo: algo.add_policy("c", policy_state={"x": 1}),
        "^add_policy: policy_state = {'x': 1} is not allowed; allowed: what Policy.get_state ret",
    ),
    "a path for a policy": (
        lambda algo: algo.add_policy("c", policy="folder"),  # type: ignore[arg-type]
        "^add_policy: policy = 'folder' is not allowed; allowed: a Policy that learns, e.g. Policy",
    ),
    "a class from nowhere": (
        lambda algo: algo.add_policy("c", "nowhere:Policy"),
        "^policies: 'c': policy_class: 'nowhere:Policy' cannot be found: .*; allowed: 'module:nam",
    ),
    "a mapping that takes nothing": (
        lambda algo: algo.add_policy("c", policy_mapping_fn=lambda: "c"),
        rf"^policy_mapping_fn = .*<lambda> takes \(\): .*; {FUNCTION}$",
    ),
    "a mapping to what is not there": (
        lambda algo: algo.add_policy("c", policy_mapping_fn=lambda agent_id: "d"),
        "^policy_mapping_fn: the agent 'agent_0' has the policy 'd', which .*; policies: a, b, c$",
    ),
    "a mapping that goes on naming it": (
        lambda algo: algo.remove_policy("a"),
        "^policy_mapping_fn: there is no policy 'a'; policies: b",
    ),
    "an agent without a policy": (
        lambda algo: algo.compute_actions({"agent_7": OBS}),
        "^policy_mapping_fn: the agent 'agent_7' has no policy; policies: a, b$",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_bad_calls_are_one_error(case: str, algo: PPO) -> None:
    act, says = CALLS[case]
    before = algo.config
    message = str(the_error(lambda: act(algo)))
    assert re.search(says, message), message
    assert algo.config is before and [*algo.policies] == ["a", "b"]
    algo.train()  # nothing has changed


def test_bad_parts_of_a_checkpoint(algo: PPO, tmp_path: Path) -> None:
    algo.save_checkpoint(str(tmp_path))
    for given, says in (
        ({"policy_ids": ["aa"]}, "^policy_ids: there is no policy 'aa'; policies: a, b; did you m"),
        ({"policy_mapping_fn": {"*": "c"}}, "^policy_mapping_fn: there is no policy 'c'; policies"),
        ({"policies_to_train": ["c"]}, "^policies_to_train: there is no policy 'c'; policies: a, "),
    ):
        message = str(the_error(partial(PPO.from_checkpoint, tmp_path, **given)))
        assert re.search(says, message), message
    for mapping, says in (
        ("*=c", "holds no policy 'c'.*there are a, b"),
        ("agent_0=a", "the agent 'agent_1' has no policy; policies: a, b"),
        ("nowhere:mapping", "'nowhere:mapping' cannot be found"),
    ):
        play = partial(evaluate_folder, tmp_path, episodes=1, policy_mapping=mapping)
        error = the_error(play, ExperimentError, ConfigError)
        assert re.search(says, str(error)), error
