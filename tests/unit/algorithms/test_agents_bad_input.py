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
from refusals import Golden
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
PARTS = "policy_class, observation_space, action_space, config"


# ------------------------------------------------------------------ what users write


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

SETTINGS: dict[str, dict[str, Any]] = {
    # --- policies
    "no policies": {"policies": []},
    "an id too long for a folder": {"policies": ["x" * 201]},
    "a policy's model has a typo": {
        OVERRIDES: {"a": {"model": {"fcnet_hidens": [4]}}},
        "policies": ["a"],
    },
    "a class that is not finished": by_hand(Unfinished),
    "a class that does not exist": by_hand("nowhere:Policy"),
    "a name of what is no class": by_hand("math:pi"),
    "a class that cannot be made": by_hand(Unmakeable, config={"size": 3}),
    "another observation space": two(policies={"a": PolicySpec(None, THREE), "b": None}),
    "another action space": two(
        policies={"a": PolicySpec(None, None, gym.spaces.Discrete(3)), "b": None}
    ),
    # --- policy_mapping_fn
    "a mapping to an unknown policy": two(policy_mapping_fn=lambda agent_id, *_, **__: "c"),
    "a mapping to None": two(policy_mapping_fn=lambda agent_id, *_, **__: None),
    "a mapping to a list": two(policy_mapping_fn=lambda agent_id, *_, **__: ["a"]),
    "a mapping that raises": two(policy_mapping_fn=fails),
    "a mapping without an agent": two(policy_mapping_fn={"agent_0": "a"}),
    "a mapping of a typo": two(policy_mapping_fn={"*": "aa"}),
    "a mapping from nowhere": two(policy_mapping_fn="nowhere:mapping"),
    "a mapping that is not in its module": two(policy_mapping_fn="math:mapping"),
    "a mapping that names no function": two(policy_mapping_fn="math:pi"),
    "a mapping that takes nothing": two(policy_mapping_fn=lambda: "a"),
    "a mapping that takes too much": two(
        policy_mapping_fn=lambda agent_id, episode, worker, team: team
    ),
    "agents of one policy with other spaces": {"env": TwoKinds, "policies": ["a"]},
    "agents with other spaces, later": {"env": TwoKinds, **two(policy_mapping_fn=swapped)},
    "an environment of one agent": {"env": "CartPole-v1", **two(policy_mapping_fn=None)},
    # --- policies_to_train
    "to train a dict": two(policies_to_train={"a": True}),
    "to train what is no bool": two(policies_to_train=never_bool),
    "to train what raises": two(policies_to_train=divides),
    "to train without a batch": two(policies_to_train=lambda policy_id: True),
    "to train by a function from nowhere": two(policies_to_train="nowhere:trains"),
    # --- others
    "a typo of the section": {"policy_maping_fn": {"*": "a"}},
    "a typo of replay": two(replay_mode="lock_step"),
    "observations by a function from nowhere": two(observation_fn="nowhere:see"),
    "an algorithm that is for one agent": {"env": "multi_agent_cartpole", "kind": DreamerV3Config},
    "a native game of no agents": {"env": "multi_agent_cartpole", "env_config": {"num_agents": -1}},
}


def test_bad_settings_are_one_error(golden: Golden) -> None:
    def start(settings: dict[str, Any]) -> None:
        run(small(**settings))

    errors = {case: str(the_error(partial(start, given))) for case, given in SETTINGS.items()}
    golden("agents_bad_input/settings", errors)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"env": "pettingzoo:mpe2.simple_spred_v3"},
            "^env 'pettingzoo:mpe2.simple_spred_v3' is no game .*mean 'pettingzoo:mpe2.simple",
        ),
        (
            {"env": "pettingzoo:mpe2.simple_spread_v3", "env_config": {"Nn": 3}},
            "^env 'pettingzoo:mpe2.simple_spread_v3' cannot be made with env_config={'Nn': 3}: Ty",
        ),
    ],
)
def test_bad_names_of_a_game_are_one_error(settings: dict[str, Any], says: str) -> None:
    pytest.importorskip("mpe2", reason="needs the extra pettingzoo")
    message = str(the_error(lambda: run(small(**settings))))
    assert re.search(says, message), message


def test_a_typo_of_a_part_of_a_policy() -> None:
    error = the_error(lambda: PolicySpec(policy_clas="random"))  # type: ignore[arg-type]
    assert str(error) == (
        f"PolicySpec: unknown part 'policy_clas'; allowed: {PARTS}; did you mean 'policy_class'?"
    )


# ------------------------------------------------------------------ environments

GO_ON = {"__all__": False}
B_ENDS = {"terminateds": {**GO_ON, "b": True}}
ENVS: dict[str, type] = {
    "no __all__": duel({"terminateds": {"a": False}}),
    "an unknown agent is observed": duel({"obs": {"c": SEEN}}),
    "an unknown agent is rewarded": duel({"rewards": {"c": 1.0}}),
    "who has ended is observed": duel({**B_ENDS, "rewards": {}}),
    "who has ended is rewarded": duel({**B_ENDS, "obs": {"a": SEEN}}),
    "a shape": duel({"obs": {"a": np.zeros(3, np.float32)}}),
    "a dtype": duel({"obs": {"a": SEEN.astype(complex)}}),
    "no number as a reward": duel({"rewards": {"a": "1"}}),
    "NaN as a reward": duel({"rewards": {"a": float("nan")}}),
    "a reset without infos": duel(reset={"a": SEEN}),
    "an episode without agents": duel(reset=({}, {})),
    "four values": duel({"result": ({}, {}, {}, {})}),
    "a flag that is a number": duel({"terminateds": {"__all__": 0}}),
    "no possible agents": duel(possible_agents=[]),
    "possible agents as a text": duel(possible_agents="ab"),
    "possible agents as a number": duel(possible_agents=2),
    "an agent without a space": duel(observation_spaces={"a": BOX}),
    "nobody acts any more": duel({"obs": {}}),
    "a late NaN": late(rewards={"a": float("inf")}),
    "a late missing __all__": late(truncateds={"b": False}),
    "a late observation that is no number": late(obs={"b": SEEN * np.nan}),
}


@pytest.mark.parametrize("checked", [True, False])
def test_bad_environments_are_one_error(checked: bool, golden: Golden) -> None:
    errors = {}
    for case, env in ENVS.items():
        config = small(env, policies=["p"]).environment(disable_env_checking=not checked)
        errors[case] = str(the_error(partial(run, config)))
    golden(f"agents_bad_input/environments{'' if checked else '_unchecked'}", errors)


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
CALLS: dict[str, Callable[[PPO], Any]] = {
    "an id that there is": lambda algo: algo.add_policy("a"),
    "spaces that no agent has": lambda algo: algo.add_policy("c", observation_space=THREE),
    "settings as a list": lambda algo: algo.add_policy("c", config=[1]),  # type: ignore[arg-type]
    "a state without weights": lambda algo: algo.add_policy("c", policy_state={"x": 1}),
    "a path for a policy": lambda algo: algo.add_policy("c", policy="folder"),  # type: ignore[arg-type]
    "a class from nowhere": lambda algo: algo.add_policy("c", "nowhere:Policy"),
    "a mapping that takes nothing": lambda algo: algo.add_policy(
        "c", policy_mapping_fn=lambda: "c"
    ),
    "a mapping to what is not there": lambda algo: algo.add_policy(
        "c", policy_mapping_fn=lambda agent_id: "d"
    ),
    "a mapping that goes on naming it": lambda algo: algo.remove_policy("a"),
    "an agent without a policy": lambda algo: algo.compute_actions({"agent_7": OBS}),
}


def test_bad_calls_are_one_error(algo: PPO, golden: Golden) -> None:
    before, errors = algo.config, {}
    for case, act in CALLS.items():
        errors[case] = str(the_error(partial(act, algo)))
        assert algo.config is before and [*algo.policies] == ["a", "b"], case
    algo.train()  # nothing has changed
    golden("agents_bad_input/calls", errors)


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
        ("*=c", "holds no policy 'c'.*it holds a, b"),
        ("agent_0=a", "the agent 'agent_1' has no policy; policies: a, b"),
        ("nowhere:mapping", "'nowhere:mapping' cannot be found"),
    ):
        play = partial(evaluate_folder, tmp_path, episodes=1, policy_mapping=mapping)
        error = the_error(play, ExperimentError, ConfigError)
        assert re.search(says, str(error)), error
