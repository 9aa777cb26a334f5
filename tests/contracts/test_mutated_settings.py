"""A clone in population-based training learns with its mutated settings, each and at once.

All settings of an algorithm that may be mutated are changed, as many at a time as go together. The
clone must then do what a trial does that had the new values from the start, to the bit. And what is
learned must hang on each of the values, so that an old one could not hide: nothing is left of them,
in the optimiser, the losses, the replay buffer, the clocks or the exploration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from recorded_data import recorded
from small_runs import home, learns_from_replay, needs_data, settings_of
from tiers import rarely

from trainables import Algorithm
from trainables.core.config.exploration import INTRINSIC_OPTIONS
from trainables.core.config.off_policy import OffPolicyConfig
from trainables.core.config.settings import Setting
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

Case = tuple[Any, dict[str, Any]]
"""A setting's new value, and what else must be set for it to matter."""


def exploring(kind: str, new: dict[str, Any], **more: Any) -> dict[str, Case]:
    """Options of one type of exploration."""
    given = {"exploration_config": {"type": kind}, **more}
    return {f"exploration_config.{name}": (value, given) for name, value in new.items()}


# Of exploration, what does not wait for a schedule to come to it.
GREEDY = {
    "initial_epsilon": 0.1,
    "final_epsilon": 0.9,
    "warmup_timesteps": 5000,
    "epsilon_timesteps": 100,
    "epsilon_schedule": 0.9,
}
QUICKLY = {"exploration_config": {"type": "EpsilonGreedy", "epsilon_timesteps": 300}}
SCALE = {"initial_scale": 5.0, "final_scale": 5.0, "scale_timesteps": 50, "scale_schedule": 5.0}
OU = {"ou_theta": 0.5, "ou_sigma": 2.0, "ou_base_scale": 1.0, "ou_dt": 0.25}
CURIOSITY = {
    "eta": 0.5,
    "lr": 0.01,
    "num_epochs": 3,
    "minibatch_size": 8,
    "beta": 0.9,
    "detach_features": True,
}
REMEMBERING = {
    "model": {"use_lstm": True, "lstm_cell_size": 8, "fcnet_hiddens": [8], "max_seq_len": 4},
    "replay_buffer_config": {"capacity": 2000},
}
REPLAYING = {"replay_proportion": 1.0, "replay_buffer_num_slots": 4}
FILTERED = {"observation_filter": "MeanStdFilter"}
WEIGHED = {"beta": 0.5}
PENDULUM = {"env": "Pendulum-v1", "input_": recorded("Pendulum-v1")}
LARGE_RETURNS = {
    "env": "Pendulum-v1",
    "env_config": {"max_episode_steps": 16},
    "lr": 0.05,
    "warmup_updates": 0,
    "training_ratio": 8,
}
# Of settings for which `another` value does not do.
CASES: dict[str, Case] = {
    "lr": (5e-3, {}),
    "gamma": (0.8, {}),
    "grad_clip": (0.01, {}),
    "grad_clip_by": ("value", {"grad_clip": 0.01}),
    "optimizer.eps": (0.01, {}),
    "optimizer.beta1": (0.5, {"optimizer": {"type": "adam"}}),
    "optimizer.beta2": (0.9, {"optimizer": {"type": "adam"}}),
    "optimizer.weight_decay": (0.5, {}),
    "optimizer.decay": (0.5, {"optimizer": {"type": "rmsprop"}}),
    "optimizer.momentum": (0.5, {"optimizer": {"type": "sgd"}}),
    "use_gae": (False, {"lambda_": 0.5}),
    "lambda_": (0.5, {}),
    "kl_target": (1e-9, {}),
    "clip_param": (0.001, {}),
    "vf_loss_coeff": (0.1, {}),
    "vf_clip_param": (0.5, {}),
    "entropy_coeff": (0.1, {}),
    "advantage_std_floor": (0.9, {"normalize_advantages": True}),
    "tau": (0.5, {}),
    "target_network_update_freq": (128, {}),
    "n_step": (5, {}),
    "replay_buffer_config.beta": (1.0, {}),
    "target_entropy": (1.0, {}),
    "actor_lr": (4e-3, {}),
    "critic_lr": (3e-3, {}),
    "alpha_lr": (6e-3, {}),
    "value_lr": (2e-3, {}),
    "world_model_lr": (7e-3, {}),
    "warmup_updates": (1000, {}),
    "free_nats": (1000.0, {}),
    "return_normalization_decay": (0.0, LARGE_RETURNS),
    "_lr_vf": (8e-3, {"_separate_vf_optimizer": True}),
    "adam_epsilon": (0.01, {}),
    "epsilon": (0.9, {}),
    "burn_in_len": (1, REMEMBERING),
    "td_error_loss_fn": ("mse", {"num_atoms": 1}),
    "categorical_distribution_temperature": (5.0, {}),
    "replay_proportion": (2.0, REPLAYING),
    "replay_buffer_num_slots": (1, REPLAYING),
    "broadcast_interval": (1000, FILTERED),
    "beta": (2.0, {}),
    "lagrangian_thresh": (2.5, {"lagrangian": True}),
    "bc_logstd_coeff": (0.5, PENDULUM),
    "moving_average_sqd_adv_norm_update_rate": (0.5, WEIGHED),
    "vf_coeff": (0.1, {**WEIGHED, "model": {"fcnet_hiddens": [8], "vf_share_layers": True}}),
    **exploring("EpsilonGreedy", GREEDY),
    **exploring("SoftQ", {"temperature": 50.0}),
    **exploring("OrnsteinUhlenbeckNoise", {**SCALE, **OU, "base": "mode"}),
    **exploring("GaussianNoise", {"stddev": 2.0}),
    **exploring("Curiosity", CURIOSITY),
    **exploring("Counts", {"normalize_bonus": True}),
    **exploring("ParameterNoise", {"target_distance": 1e-9}, training_intensity=8),
}
# Of one algorithm, where those do not do.
OF: dict[tuple[str, str], Case] = {
    ("BC", "gamma"): (0.8, WEIGHED),
    ("APPO", "use_gae"): (False, {"vtrace": False, "lambda_": 0.5}),
    ("APPO", "target_network_update_freq"): (4.0, {}),
    ("APPO", "broadcast_interval"): (3, FILTERED),
    ("APPO", "circular_buffer_num_batches"): (1, {}),
    ("APPO", "target_worker_clipping"): (0.5, {}),
    ("CQL", "exploration_config.target_distance"): (
        1e9,
        {
            "exploration_config": {"type": "ParameterNoise"},
            "min_sample_timesteps_per_iteration": 512,
        },
    ),
    ("DQN", "exploration_config.target_distance"): (
        1e9,
        {
            "exploration_config": {"type": "ParameterNoise"},
            "noisy": False,
            "categorical_distribution_temperature": 1.0,
            "min_sample_timesteps_per_iteration": 512,  # a step of sigma shows in few actions
        },
    ),
}


QUICK = ["A2C", "APPO", "BC", "DQN", "IQL", "MARWIL", "PPO", "SAC"]

# Those that leave many others without effect, or show among few, and so are changed alone,
ALONE = {"use_gae", "use_kl_loss", "warmup_updates", "lagrangian_thresh", "clip_param"}
# and of which one hides another.
APART: tuple[set[str], ...] = (
    {"lr", "critic_lr"},
    {"tau", "target_network_update_freq"},
    {"adam_epsilon", "optimizer.eps"},
    {"vf_loss_coeff", "vf_clip_param"},
    {"burn_in_len", "replay_buffer_config.beta"},
    {"free_nats", "dynamics_loss_scale"},
    {"free_nats", "representation_loss_scale"},
    {"epsilon", "exploration_config.epsilon_schedule"},
    {f"exploration_config.{name}" for name in GREEDY if name != "epsilon_schedule"},
    {f"exploration_config.{name}" for name in SCALE if name != "scale_schedule"},
)

# Its schedule counts from 1 to the second iteration, too slowly to change an action there.
OF |= {
    ("QMIX", "exploration_config.final_epsilon"): (0.0, QUICKLY),
    ("QMIX", "exploration_config.warmup_timesteps"): (5000, QUICKLY),
}

# Rewards for what is new go with steps, not with sums of several.
OF |= {
    (name, path): (value, {**more, "n_step": 1})
    for name in ("DQN", "SAC")
    for path, (value, more) in CASES.items()
    if more.get("exploration_config", {}).get("type") in INTRINSIC_OPTIONS
    and path.partition(".")[2] not in OffPolicyConfig.intrinsic_without
}


def mutable(name: str) -> list[str]:
    """Every setting that a scheduler may change in a running trial."""
    config_class = get_algorithm(name).config_class
    nested = config_class.nested_settings()
    paths = [setting for setting in config_class.settings() if setting not in nested]
    paths += [f"{outer}.{inner}" for outer, found in nested.items() for inner in found.settings()]
    return [path for path in paths if config_class.why_fixed(path.split(".")) is None]


def another(name: str, setting: str) -> Case:
    """A value that a setting does not have, and is allowed to have."""
    declared, present = get_algorithm(name).config_class.settings()[setting], now(name, setting)
    if declared.choices:
        return next(choice for choice in declared.choices if choice != present), {}
    if isinstance(present, bool):
        return not present, {}
    assert isinstance(present, int | float), f"give {setting} of {name} a value in CASES"
    kind = type(present)
    tried = (kind(present / 2), kind(present * 2), kind(present + 1))
    return next(value for value in tried if value != present and is_allowed(declared, value)), {}


def is_allowed(declared: Setting, value: Any) -> bool:
    try:
        declared.check(value)
    except ConfigError:
        return False
    return True


def now(name: str, setting: str) -> Any:
    """The present value of a setting that is not inside another one; None of others."""
    declared = get_algorithm(name).config_class.settings().get(setting)
    return declared and base(name).get(setting, declared.default)


def case(name: str, setting: str) -> Case:
    given = OF.get((name, setting)) or CASES.get(setting)
    return given if given and given[0] != now(name, setting) else another(name, setting)


@dataclass
class Group:
    """Settings that are changed together, and what else must be set for them to matter."""

    new: dict[str, Any]
    more: dict[str, Any]

    def with_(self, other: Group) -> Group | None:
        """This and another one together, or None if one says otherwise of what the other sets."""
        names = {*self.new, *other.new}
        if names & ALONE or any(len(names & apart) > 1 for apart in APART):
            return None
        if any(self.more[key] != other.more[key] for key in self.more.keys() & other.more):
            return None
        both = Group({**self.new, **other.new}, {**self.more, **other.more})
        return None if both.new.keys() & both.more else both

    def is_allowed(self, name: str) -> bool:
        try:
            for settings in [base(name, **self.more), self.of(name)][not self.more :]:
                get_algorithm(name).config_class.from_dict(settings).validate()
        except ConfigError:
            return False
        return True

    def of(self, name: str, without: str = "", only: str = "") -> dict[str, Any]:
        """The settings with the new values: all of them, all but one, or one."""
        settings = base(name, **self.more)
        for setting, value in self.new.items():
            if setting != without and only in ("", setting):
                settings = changed(settings, setting, value)
        return settings


@cache
def groups(name: str) -> tuple[Group, ...]:
    """The settings in as few groups as they go together in."""
    alone = []
    for setting in mutable(name):
        value, more = case(name, setting)
        alone.append(Group({setting: value}, more))
    found: list[Group] = []
    for group in together(name, alone, asks=False):  # to ask of each pair takes long
        own = [one for one in alone if one.new.keys() <= group.new.keys()]
        found += [group] if group.is_allowed(name) else together(name, own, asks=True)
    return tuple(found)


def together(name: str, alone: list[Group], *, asks: bool) -> list[Group]:
    """Groups of some settings; those that the algorithm allows, where it is asked."""
    found: list[Group] = []
    for own in alone:
        for i, group in enumerate(found):
            both = group.with_(own)
            if both is not None and (not asks or both.is_allowed(name)):
                found[i] = both
                break
        else:
            found.append(own)
    return found


def base(name: str, **more: Any) -> dict[str, Any]:
    return {**small_and_frequent(name), **more}


@cache  # it is asked for hundreds of times, and makes configs to find out
def small_and_frequent(name: str) -> dict[str, Any]:
    frequent: dict[str, Any] = {}
    if learns_from_replay(name):  # in few steps
        frequent = {"target_network_update_freq": 16, "tau": 0.9}
        frequent["min_sample_timesteps_per_iteration"] = 32 if name == "DreamerV3" else 64
        if home(name) == "Pendulum-v1":  # no iteration waits for 200 steps
            frequent["env_config"] = {"max_episode_steps": 100}
        without = get_algorithm(name).config_class.without
        frequent = {key: value for key, value in frequent.items() if key not in without}
    return settings_of(name, home(name), **frequent)


def changed(settings: dict[str, Any], setting: str, value: Any) -> dict[str, Any]:
    outer, _, inner = setting.partition(".")
    return {**settings, outer: {**settings.get(outer, {}), inner: value} if inner else value}


def named(algo: Algorithm, trial_id: str) -> Algorithm:
    algo._trial_info = SimpleNamespace(trial_id=trial_id, trial_name=trial_id)
    return algo


def learned(algo: Algorithm) -> list[np.ndarray]:
    """All that training changes: weights, targets, adaptive coefficients, what trains beside."""
    weights = [np.asarray(w) for w in algo.get_weights()["default_policy"].values()]
    learner = algo.learners["default_policy"]
    for target in learner.targets.values():
        weights += [p.detach().numpy().copy() for p in target.network.parameters()]
    for part in algo.learners.worker.parts.get("default_policy", {}).values():
        weights += [value.numpy().copy() for value in part.networks.state_dict().values()]
    return [*weights, np.array([*getattr(algo, "kl_coeffs", {}).values()])]


def equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


class Process:
    """The process that clones of an algorithm go on in: it has trained with other settings."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._folder = name, folder
        self.algo = named(get_algorithm(name)(base(name)), "clone")
        self.algo.train()
        self._donors: list[tuple[dict[str, Any], Any]] = []

    def donor(self, more: dict[str, Any]) -> Any:
        """The checkpoint of a donor with the base configuration and some settings."""
        for known, saved in self._donors:
            if known == more:
                return saved
        with named(get_algorithm(self.name)(base(self.name, **more)), "donor") as donor:
            donor.train()
            saved = donor.save(str(self._folder / str(len(self._donors))))
        self._donors.append((more, saved))
        return saved

    def clone(self, settings: dict[str, Any], saved: Any) -> list[np.ndarray]:
        """What a clone learns here."""
        self.algo.reset_config(settings)
        self.algo.restore(saved)
        assert self.algo.train()["training_iteration"] == 2
        return learned(self.algo)

    def fresh(self, settings: dict[str, Any], saved: Any) -> list[np.ndarray]:
        """What it learns in a process that has known no other settings."""
        with named(get_algorithm(self.name)(settings), "clone") as fresh:
            fresh.restore(saved)
            fresh.train()
            return learned(fresh)

    def leaves_something(self, settings: dict[str, Any], saved: Any) -> bool:
        return not equal(self.clone(settings, saved), self.fresh(settings, saved))


@pytest.fixture(scope="module", params=rarely(algorithm_names(), QUICK))
def process(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Process]:
    process = Process(request.param, tmp_path_factory.mktemp("donors"))
    yield process
    process.algo.stop()


def test_a_mutated_setting_takes_effect_in_full(process: Process) -> None:
    name = process.name
    for group in groups(name):
        saved, settings = process.donor(group.more), group.of(name)
        if process.leaves_something(settings, saved):
            singly = [
                s for s in group.new if process.leaves_something(group.of(name, only=s), saved)
            ]
            pytest.fail(f"something of the old settings is left: {singly or [*group.new]}")
        known = process.algo.config.to_dict()
        for setting in group.new:
            outer, _, inner = setting.partition(".")
            value, wanted = known[outer], settings[outer]
            assert value[inner] == wanted[inner] if inner else value == wanted, setting


@pytest.mark.full("test_a_mutated_setting_takes_effect_in_full")
def test_what_is_learned_hangs_on_each_mutated_setting(process: Process) -> None:
    """Else an old value could hide among the new ones; another value belongs into CASES or OF."""
    name, hidden = process.name, []
    for group in groups(name):
        saved = process.donor(group.more)
        mutated = process.clone(group.of(name), saved)
        hidden += [
            f"{setting} = {value} among {[*group.new]}"
            for setting, value in group.new.items()
            if equal(mutated, process.clone(group.of(name, without=setting), saved))
        ]
    assert hidden == []


def test_every_case_is_of_a_setting_that_may_be_mutated() -> None:
    known = {(name, setting) for name in algorithm_names() for setting in mutable(name)}
    assert {*CASES} | ALONE | set().union(*APART) <= {setting for _, setting in known} and {
        *OF
    } <= known


def test_the_live_objects_have_the_mutated_values(process: Process) -> None:
    """The same, seen from inside: the optimiser, the clipping, what replay is asked for."""
    name, clone, saved = process.name, process.algo, process.donor({})
    new = base(name, lr=2e-3, grad_clip=0.25, gamma=0.7, optimizer={"eps": 0.02, "beta1": 0.3})
    clone.reset_config(new)
    clone.restore(saved)
    asked: list[float] = []
    for replay in getattr(clone, "experience", {}).values():
        original = replay.sample

        def sample(*args: Any, original: Any = original, **options: Any) -> Any:
            asked.append(options["gamma"])
            return original(*args, **options)

        replay.sample = sample
    clone.train()
    learner = clone.learners["default_policy"]
    for group in learner.optimizer.param_groups:
        assert (group["lr"], group["eps"], group["betas"][0]) == (2e-3, 0.02, 0.3)
    [stepping] = learner.steppings.values()
    assert stepping.grad_clip == 0.25
    draws_rows = learns_from_replay(name) or needs_data(name)
    draws_rows &= name != "DreamerV3"  # which draws sequences
    assert set(asked) == ({0.7} if draws_rows else set())
