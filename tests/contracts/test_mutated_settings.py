"""A clone in population-based training learns with its mutated settings, each and at once.

Each setting that may be mutated is changed alone. The clone must then do what a trial does that had
the new value from the start, to the bit, and something else than one with the old value: nothing is
left of the old one, in the optimiser, the losses, the replay buffer, the clocks or the exploration.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from recorded_data import recorded
from small_runs import home, learns_from_replay, needs_data, settings_of

from trainables import Algorithm
from trainables.core.config.intrinsic import INTRINSIC_OPTIONS
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
LARGE_RETURNS = {"env": "Pendulum-v1", "lr": 0.05, "warmup_updates": 0, "training_ratio": 8}
# Of settings for which `another` value does not do.
CASES: dict[str, Case] = {
    "lr": (5e-3, {}),
    "gamma": (0.8, {}),
    "grad_clip": (0.01, {}),
    "grad_clip_by": ("value", {"grad_clip": 0.01}),
    "optimizer.eps": (0.01, {}),
    "optimizer.beta1": (0.5, {}),
    "optimizer.beta2": (0.9, {}),
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
    "actor_lr": (5e-3, {}),
    "critic_lr": (5e-3, {}),
    "alpha_lr": (5e-3, {}),
    "value_lr": (5e-3, {}),
    "world_model_lr": (5e-3, {}),
    "warmup_updates": (1000, {}),
    "free_nats": (1000.0, {}),
    "return_normalization_decay": (0.0, LARGE_RETURNS),
    "_lr_vf": (5e-3, {"_separate_vf_optimizer": True}),
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


ALL = [(name, setting) for name in algorithm_names() for setting in mutable(name)]


def base(name: str, **more: Any) -> dict[str, Any]:
    frequent: dict[str, Any] = {}
    if learns_from_replay(name):  # in few steps
        frequent = {"target_network_update_freq": 16, "tau": 0.9}
        frequent["min_sample_timesteps_per_iteration"] = 64
        without = get_algorithm(name).config_class.without
        frequent = {key: value for key, value in frequent.items() if key not in without}
    return {**settings_of(name, home(name), **frequent), **more}


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


class Donors:
    """A donor's checkpoint for each base configuration, and what a clone of it learns."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, tuple[Any, list[np.ndarray]]] = {}

    def of(self, name: str, more: dict[str, Any]) -> tuple[Any, list[np.ndarray]]:
        key = f"{name}-{len(more)}-{sorted(map(str, more.items()))}"
        if key not in self._made:
            settings = base(name, **more)
            with named(get_algorithm(name)(settings), "donor") as donor:
                donor.train()
                saved = donor.save(str(self._folder / str(len(self._made))))
            with named(get_algorithm(name)(settings), "clone") as clone:
                clone.restore(saved)
                clone.train()
                self._made[key] = saved, learned(clone)
        return self._made[key]


@pytest.fixture(scope="module")
def donors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Donors]:
    yield Donors(tmp_path_factory.mktemp("donors"))


@pytest.fixture(scope="module")
def processes() -> Iterator[dict[str, Algorithm]]:
    """The process that a clone goes on in: it has trained with the old settings."""
    made: dict[str, Algorithm] = {}
    for name in algorithm_names():
        made[name] = named(get_algorithm(name)(base(name)), "clone")
        made[name].train()
    yield made
    for algo in made.values():
        algo.stop()


@pytest.mark.parametrize(("name", "setting"), ALL)
def test_a_mutated_setting_takes_effect_in_full(
    name: str, setting: str, donors: Donors, processes: dict[str, Algorithm]
) -> None:
    value, more = case(name, setting)
    saved, with_old_value = donors.of(name, more)
    settings = changed(base(name, **more), setting, value)

    clone = processes[name]
    clone.reset_config(settings)
    clone.restore(saved)
    result = clone.train()
    assert result["training_iteration"] == 2
    mutated = learned(clone)
    with named(get_algorithm(name)(settings), "clone") as fresh:
        fresh.restore(saved)
        fresh.train()
        assert equal(mutated, learned(fresh)), "something of the old settings is left"
    nothing = f"{setting} = {value} changes nothing; another value belongs into CASES or OF"
    assert not equal(mutated, with_old_value), nothing


def test_every_case_is_of_a_setting_that_may_be_mutated() -> None:
    assert set(CASES) <= {setting for _, setting in ALL} and set(OF) <= set(ALL)


@pytest.mark.parametrize("name", algorithm_names())
def test_the_live_objects_have_the_mutated_values(
    name: str, donors: Donors, processes: dict[str, Algorithm]
) -> None:
    """The same, seen from inside: the optimiser, the clipping, what replay is asked for."""
    saved, _ = donors.of(name, {})
    new = base(name, lr=2e-3, grad_clip=0.25, gamma=0.7, optimizer={"eps": 0.02, "beta1": 0.3})
    clone = processes[name]
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
    draws_rows &= (
        "batch_length_T" not in get_algorithm(name).config_class.settings()
    )  # no sequences
    assert set(asked) == ({0.7} if draws_rows else set())
