"""Schedulers in specs: budgets from `stop`, and one message for what does not go together."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from page_blocks import text_of
from ray.tune.experiment import Trial
from refusals import Golden, refusals
from sweep_dummy import NAME

from analysis.results.schedulers import POPULATION, STOPPING
from experiments.schedulers.hyperband import (
    Bracket,
    HyperBand,
    bracket_sizes,
    num_halvings,
    num_kept,
)
from experiments.schedulers.kind import scheduler_kind
from experiments.spec.pairs import PART, markdown, why_not
from experiments.spec.scheduler_schema import SCHEDULERS
from experiments.spec.search_schema import SEARCHES
from experiments.sweep.load import make_spec
from search_spaces.documents import SpecError
from trainables import DQNConfig, PPOConfig, SACConfig

ENV_STEPS = "num_env_steps_sampled_lifetime"
LR = {"lr": {"loguniform": [1e-4, 1e-1]}}


def data(scheduler: Any, **keys: Any) -> dict[str, Any]:
    return {
        "name": "sweep",
        "trainable": NAME,
        "search_space": LR,
        "stop": {ENV_STEPS: 8000},
        "num_samples": 4,
        "scheduler": scheduler,
        **keys,
    }


def ppo(scheduler: Any, **keys: Any) -> dict[str, Any]:
    return data(scheduler, **{"trainable": "PPO", "config": {"env": "CartPole-v1"}, **keys})


@pytest.mark.parametrize(
    ("scheduler", "completed"),
    [
        ("hyperband", {"max_t": 8000, "grace_period": 888}),
        ("median_stopping", {"grace_period": 800}),
        ("pbt", {"perturbation_interval": 400}),
        ("pb2", {"perturbation_interval": 400}),
    ],
)
def test_budgets_follow_from_stop(scheduler: str, completed: dict[str, Any]) -> None:
    options = make_spec(data(scheduler)).scheduler
    assert {name: getattr(options, name) for name in completed} == completed
    with pytest.raises(SpecError, match=rf"{scheduler} needs \w+, or stop.{ENV_STEPS}"):
        make_spec(data(scheduler, stop={"training_iteration": 5}))
    own = {"algorithm": scheduler, "time_attr": "training_iteration"}
    make_spec(data(own, stop={"training_iteration": 50}))


def test_hyperbands_budget_is_added_to_the_stop_criteria() -> None:
    spec = make_spec(data({"algorithm": "hyperband", "max_t": 900}, stop={"time_total_s": 60}))
    assert spec.stop == {"time_total_s": 60, ENV_STEPS: 900}


def test_brackets_of_millions_of_steps() -> None:
    assert num_halvings(9_000_000, 1_000_000, 3) == 2
    assert num_halvings(81, 1, 3) == 4
    # ceil((s_max + 1) / (s + 1) * eta^s), from the most halvings on, as in the paper's table
    assert bracket_sizes(17, 2, 3) == [(2, 9), (1, 5), (0, 3)]
    assert bracket_sizes(34, 2, 3) == [(2, 9), (1, 5), (0, 3)] * 2
    assert bracket_sizes(143, 4, 3) == [(4, 81), (3, 34), (2, 15), (1, 8), (0, 5)]


def test_every_bracket_has_its_share_of_the_trials() -> None:
    assert bracket_sizes(9, 2, 3) == [(2, 5), (1, 3), (0, 1)]
    assert bracket_sizes(22, 2, 3) == [(2, 12), (1, 6), (0, 4)]
    assert bracket_sizes(35, 2, 3) == [(2, 10), (1, 5), (0, 3), (2, 9), (1, 5), (0, 3)]
    assert bracket_sizes(3, 2, 3) == [(2, 1), (1, 1), (0, 1)]
    assert bracket_sizes(2, 2, 3) == [(2, 2)]  # they are at least compared
    for count in range(1, 200):
        assert sum(size for _, size in bracket_sizes(count, 4, 3)) == count


def test_hyperband_rounds_down_what_goes_on() -> None:
    assert [num_kept(alive, 3) for alive in (9, 5, 3, 2, 1)] == [3, 1, 1, 1, 1]
    scheduler = HyperBand(5, time_attr="t", max_t=3, grace_period=1, reduction_factor=3)
    (bracket, _) = scheduler._brackets
    stopped: list[str] = []
    controller: Any = SimpleNamespace(
        search_alg=SimpleNamespace(on_trial_complete=lambda *_, **__: None),
        stop_trial=lambda trial: stopped.append(trial.trial_id),
    )
    trials = [Trial("__fake", stub=True, trial_id=name) for name in "abc"]
    bracket.size, bracket.members = 3, trials
    bracket.scores = dict(zip(trials, (2.0, 3.0, 1.0), strict=True))
    for trial in trials:
        trial.set_status(Trial.PAUSED)
    scheduler._factor = 2
    scheduler._halve(controller, bracket)
    assert stopped == ["c", "a"]
    assert scheduler.has_acted  # and that is to be saved before the best goes on


def test_a_trial_waits_at_the_rung_where_its_checkpoint_was_made() -> None:
    """A kill came after that was noted, and before the scheduler's state was saved."""
    trial = Trial("__fake", stub=True, trial_id="a")

    def bracket(rung: float, scores: dict[Trial, float]) -> tuple[HyperBand, Bracket]:
        found = Bracket(1, 1, rung, [trial], scores)
        scheduler = HyperBand(1, time_attr="t", max_t=4, grace_period=2, reduction_factor=2)
        scheduler._bracket_of = {trial: found}
        return scheduler, found

    waiting, _ = bracket(2, {trial: 3.0})
    noted = json.loads(json.dumps(waiting.trial_state(trial)))
    for rung, expected in ((2, {trial: 3.0}), (4, {})):  # that of the rung before is of no account
        scheduler, found = bracket(rung, {})
        scheduler.set_trial_state(trial, noted)
        assert found.scores == expected


# -- refused -------------------------------------------------------------------------------------


def test_a_refused_pair_is_named_with_the_reason_and_what_to_do() -> None:
    pairs = [(search, name) for search in SEARCHES for name in SCHEDULERS if why_not(search, name)]
    assert len(pairs) > 10
    for search, scheduler in pairs:
        samples = 1 if search == "grid" else 4
        space = {"lr": {"choice": [1e-3, 1e-2]}} if search == "grid" else LR
        spec = data(scheduler, search=search, num_samples=samples, search_space=space)
        with pytest.raises(SpecError, match=r"^spec:\d*.*scheduler: ") as error:
            make_spec(spec)
        for text in (str(why_not(search, scheduler)), "; use search: ", search, scheduler):
            assert text in str(error.value), (search, scheduler)


@pytest.mark.parametrize("search", ["cmaes", "gp", "nsga2"])
def test_what_shares_cpus_stops_no_trial_that_the_search_must_see_end(search: str) -> None:
    keys = {"algorithm": "resource_changing", "base": "asha"}
    with pytest.raises(SpecError, match=f"{search} learns only from trials that ran to their end"):
        make_spec(data(keys, search=search))
    make_spec(data({**keys, "base": "fifo"}, search=search))


def test_the_table_in_the_guide_is_the_one_in_the_code() -> None:
    assert PART.current() == PART.text(), f"python -m {PART.command} --write"
    assert {len(line.split("|")) for line in markdown().splitlines()} == {len(SCHEDULERS) + 3}
    assert len(markdown().splitlines()) == len(SEARCHES) + 2


def test_the_guide_has_a_row_for_every_scheduler() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", text_of("experiments/guides/schedulers.md"), re.M)
    assert rows == [*SCHEDULERS]


CANNOT: list[dict[str, Any]] = [
    data("pbt", num_samples=1),
    data("pbt", max_concurrent=2),
    data("hyperband", max_concurrent=2),
    data("pbt", search_space={}),
    data({"algorithm": "pbt", "mutations": ["gama"]}),
    data({"algorithm": "pbt", "mutations": ["lrr"]}),
    data({"algorithm": "pbt", "perturbation_interval": 8000}),
    data({"algorithm": "pbt", "burn_in_period": 9000}),
    data({"algorithm": "pbt", "perturbation_factors": [1.2, 1.5]}),
    data("pb2", search_space={**LR, "num_epochs": {"randint": [1, 3]}}),
    data("pbt", search_space={"seconds": {"uniform": [0, 1]}}),
    data("pbt", search_space={**LR, "num_env_runners": {"choice": [0, 1]}}),
    data(
        {"algorithm": "pbt", "mutations": ["lr"]},
        search_space={**LR, "num_env_runners": {"choice": [0, 1]}},
    ),
    ppo("pbt", search_space={**LR, "model.fcnet_hiddens": {"choice": [[64], [32]]}}),
    ppo("pbt", search_space={"kl_coeff": {"uniform": [0, 1]}}),
    ppo("pbt", config={}, search_space={"env": {"choice": ["CartPole-v1", "Acrobot-v1"]}}),
    ppo("pbt", search_space={"num_envs_per_env_runner": {"choice": [4, 8]}}),
    ppo("resource_changing", config={"env": "CartPole-v1", "num_env_runners": 2}),
    data({"algorithm": "resource_changing", "base": "asha"}, stop={"time_total_s": 5}),
    data("pbt_replay"),
    data({"algorithm": "pbt_replay", "sweep": "/nowhere"}),
    data({"algorithm": "pbt_replay", "schedule": [[0, {"lr": 0.1}]]}),
    data({"algorithm": "pbt_replay", "schedule": [[5, {"gamma": 0.1}]]}),
    data({"algorithm": "pbt_replay", "schedule": [[0, {"gamma": 7}]]}),
    data("bohb"),
    data("fifo", search="bohb"),
]


def test_what_a_scheduler_cannot_do_is_one_message(golden: Golden) -> None:
    usual = data(None)
    cases = {str({k: v for k, v in spec.items() if usual.get(k) != v}): spec for spec in CANNOT}
    golden("sweeps/scheduler_specs", refusals(make_spec, cases, SpecError))


@pytest.mark.parametrize(("trainable", "scheduler"), [("DQN", "pbt"), ("SAC", "hyperband")])
def test_a_scheduler_that_pauses_needs_the_replay_buffer_in_checkpoints(
    trainable: str, scheduler: str
) -> None:
    keys = {"trainable": trainable, "config": {"env": "CartPole-v1"}}
    with pytest.raises(SpecError, match=r"set config\.store_buffer_in_checkpoints: true, or use"):
        make_spec(data(scheduler, **keys))
    keys["config"] = {"env": "CartPole-v1", "store_buffer_in_checkpoints": True}
    make_spec(data(scheduler, **keys))


def test_shapes_may_be_searched_where_they_are_not_mutated() -> None:
    space = {**LR, "model.fcnet_hiddens": {"choice": [[64], [32]]}}
    make_spec(ppo({"algorithm": "pbt", "mutations": ["lr"]}, search_space=space))


@pytest.mark.parametrize("name", ["train_batch_size", "train_batch_size_per_learner"])
def test_mutations_may_have_older_names(name: str) -> None:
    space = {**LR, "train_batch_size": {"randint": [128, 512]}}
    spec = make_spec(ppo({"algorithm": "pbt", "mutations": [name]}, search_space=space))
    assert spec.scheduler.algorithm == "pbt"
    assert spec.scheduler.mutations == ["train_batch_size_per_learner"]


def test_resource_changing_switches_the_reuse_of_processes_off() -> None:
    assert make_spec(data("fifo")).resources.reuse_actors
    assert not make_spec(data("resource_changing")).resources.reuse_actors


# -- which settings a running trial can change -----------------------------------------------------


CHANGES: list[tuple[Any, str, str | None]] = [
    (PPOConfig, "lr", None),
    (PPOConfig, "optimizer.eps", None),
    (PPOConfig, "optimizer.type", "means nothing to another"),
    (PPOConfig, "model", "networks are built of"),
    (PPOConfig, "model.fcnet_hiddens", "networks are built of"),
    (PPOConfig, "num_env_runners", "processes"),
    (PPOConfig, "num_gpus_per_learner", "resources follow"),
    (PPOConfig, "evaluation_interval", "does not change how a trial learns"),
    (DQNConfig, "replay_buffer_config.capacity", "stored with it"),
    (DQNConfig, "replay_buffer_config.beta", None),
    (DQNConfig, "num_epochs", "every update draws a batch of its own"),
    (DQNConfig, "num_atoms", "networks are built of"),
    (SACConfig, "initial_alpha", "learned value starts"),
    (SACConfig, "target_entropy", None),
]


def test_what_can_change_is_declared_with_the_setting() -> None:
    for config_class, path, reason in CHANGES:
        found = config_class.why_fixed(path.split("."))
        assert found is None if reason is None else reason in (found or ""), path


# -- the kinds -------------------------------------------------------------------------------------


def test_every_scheduler_of_a_spec_has_its_kind() -> None:
    for name, section in SCHEDULERS.items():
        kind = scheduler_kind(section())
        assert type(kind).__module__ == f"experiments.schedulers.{name}"
        (base,) = type(kind).__orig_bases__  # type: ignore[attr-defined]
        assert base.__args__ == (section,), name
        assert kind.needs_all == (name in (*POPULATION, "hyperband")), name
        assert kind.compares == (name in (*STOPPING, *POPULATION, "resource_changing")), name


def test_what_a_kind_declares_for_an_extension() -> None:
    kinds = {name: scheduler_kind(section()) for name, section in SCHEDULERS.items()}
    fixed = {name for name, kind in kinds.items() if kind.fixed_size or kind.fixed_budget}
    assert fixed == {"hyperband", "pbt", "pb2", "pbt_replay", "resource_changing"}
    assert fixed == {name for name, kind in kinds.items() if kind.pauses}
