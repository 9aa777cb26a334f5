"""What a spec may say of a trainable that is its user's own: a class or a function."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import Golden, refusals
from sweep_dummy import NAME

from experiments.errors import SpecError
from experiments.spec.trainable import is_own, resolve_trainable
from experiments.sweep.actor_reuse import has_own, has_own_reset
from experiments.sweep.load import dump_spec, load_spec, make_spec
from experiments.sweep.sweep import Sweep


def data(trainable: str = "own_trainables:Quadratic", **keys: Any) -> dict[str, Any]:
    return {
        "name": "own",
        "trainable": trainable,
        "search_space": {"x": {"uniform": [0, 1]}},
        "objective": {"metric": "loss", "mode": "min"},
        "stop": {"training_iteration": 4},
        **keys,
    }


REUSED = [
    ("own_trainables:Quadratic", False),
    ("own_trainables:Bare", False),
    ("own_trainables:Resets", True),
    ("own_trainables:Refuses", True),
    ("own_trainables:plain", False),
    (NAME, True),
]


def test_processes_are_reused_where_the_class_has_a_reset_of_its_own() -> None:
    off = {"resources": {"reuse_actors": False}}
    for name, reused in REUSED:
        keys = data(name) if name != NAME else {"name": "own", "trainable": NAME}
        assert make_spec(keys).resources.reuse_actors is reused, name
        assert make_spec({**keys, **off}).resources.reuse_actors is False
        assert has_own_reset(resolve_trainable(name)) is reused
    # Those of our algorithms are, and several seeds of any class.
    assert make_spec({"name": "a", "config": {"env": "CartPole-v1"}}).resources.reuse_actors
    assert make_spec(data(seeds=2)).resources.reuse_actors


def test_a_function_reuses_processes_where_that_is_asked_for() -> None:
    asked = {"reuse_actors": True}
    assert make_spec(data("own_trainables:plain", resources=asked)).resources.reuse_actors
    assert has_own(resolve_trainable("own_trainables:plain"), "reset_config")


CANNOT: list[dict[str, Any]] = [
    data(resources={"reuse_actors": True}),
    {"name": "a", "trainable": NAME, "resources": {"reuse_actors": True}}
    | {"scheduler": "resource_changing"},
    {"name": "a", "config": {"env": "CartPole-v1"}} | {"resources": {"per_trial": {"CPU": 2}}},
    data(resources={"per_trial": {"CPU": 2, "cpu": 1}}),
    data("own_trainables:plain", seeds=3),
    data("own_trainables:plain", checkpoint={"frequency": 2}),
    data("own_trainables:Bare", checkpoint={"at_end": True}),
    data("own_trainables:Bare", scheduler="pbt"),
    data("own_trainables:two_arguments"),
    data("own_trainables:Path"),
    data("own_trainables:nothing"),
]


def test_what_the_trainable_cannot_do_is_one_error(golden: Golden) -> None:
    usual = data()
    cases = {str({k: v for k, v in spec.items() if usual.get(k) != v}): spec for spec in CANNOT}
    golden("sweeps/own_trainable_specs", refusals(make_spec, cases, SpecError))


@pytest.mark.parametrize("name", ["plain", "Bare"])
def test_without_checkpoints_of_its_own_tune_asks_for_none(name: str, tmp_path: Any) -> None:
    spec = make_spec(data(f"own_trainables:{name}"))
    assert (spec.checkpoint.frequency, spec.checkpoint.at_end) == (0, False)
    (tmp_path / "spec.yaml").write_text(dump_spec(spec))
    assert load_spec(tmp_path / "spec.yaml") == spec  # as a resume reads it


NEEDED: list[tuple[str, dict[str, Any], dict[str, float]]] = [
    ("plain", {}, {"CPU": 1}),
    ("two_cpus", {}, {"CPU": 2}),
    ("plain", {"per_trial": {"cpu": 0.5, "GPU": 1}}, {"CPU": 0.5, "GPU": 1}),
    ("Quadratic", {"per_trial": {"CPU": 3}}, {"CPU": 3}),
]


def test_what_a_trial_needs() -> None:
    for name, resources, needed in NEEDED:
        spec = make_spec(data(f"own_trainables:{name}", resources=resources))
        assert Sweep.of(spec).resources.needed == needed, (name, resources)
    # Resources may follow from what is searched.
    space = {"x": {"uniform": [0, 1]}, "n": {"choice": [2]}}
    spec = make_spec(data("own_trainables:by_config", search_space=space))
    assert Sweep.of(spec).resources.needed == {"CPU": 2}


def test_what_is_ones_own() -> None:
    assert is_own(resolve_trainable("own_trainables:plain"))
    assert not is_own(resolve_trainable("small_runs:Placed"))
