"""Whatever an error suggests is itself accepted, and what it lists is what it suggests from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tiers import rarely

from experiments.spec.files import find_spec, spec_names
from experiments.spec.matrix import expand_matrix
from experiments.spec.metrics import LEGACY, canonical_metric, declared_metrics, top_level
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import SpecError, make_spec
from search_spaces.documents import Document
from search_spaces.loader import known_preset_names, load_space, preset_names, space_names
from trainables.core.config.exploration import OPTIONS, ExplorationConfig
from trainables.core.config.model import MODEL_REFUSED
from trainables.core.config.reference.compatibility import ALIASES
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

SUGGESTED = re.compile(r"; did you mean (.*)\?$")


def misspelt(names: Iterable[str]) -> list[str]:
    """Each name without its last letter, with one doubled, and with two swapped."""
    found: list[str] = []
    for name in names:
        half = len(name) // 2
        found += [name[:-1], name[:half] + name[half - 1 :]]
        found.append(name[: half - 1] + name[half] + name[half - 1] + name[half + 1 :])
    return found


def suggestions(check: Callable[[str], object], name: str) -> list[str]:
    """What the error for a name suggests; [] if it suggests nothing, or the name is accepted."""
    try:
        check(name)
    except (SpecError, ConfigError) as error:
        found = SUGGESTED.search(str(error))
        if found is None:
            return []
        names = [re.sub(r" \(in \..*\)$", "", part) for part in found[1].split(" or ")]
        return [part.strip("'") for part in names]
    return []


def unaccepted(check: Callable[[str], object], names: Iterable[str]) -> dict[str, str]:
    """Suggested names that are refused in their turn, each with the error; none of many names."""
    found: dict[str, str] = {}  # what is suggested, and for what
    for name in misspelt(names):
        for suggested in suggestions(check, name):
            found.setdefault(suggested, name)
    assert found
    refused = {}
    for suggested, name in found.items():
        try:
            check(suggested)
        except (SpecError, ConfigError) as error:
            refused[f"{name} -> {suggested}"] = str(error)
    return refused


def spec_with(**keys: Any) -> SweepSpec:
    base = {"name": "x", "trainable": "sweep_dummy:Dummy", "stop": {"training_iteration": 2}}
    return make_spec({**base, "search_space": {"lr": {"uniform": [0.1, 1]}}, **keys})


def test_metrics() -> None:
    metrics = top_level(declared_metrics())
    assert unaccepted(canonical_metric, [*metrics, *LEGACY]) == {}
    for name in misspelt([*metrics, *LEGACY]):
        assert set(suggestions(canonical_metric, name)) <= set(metrics)
    with pytest.raises(SpecError, match=r"here it is num_env_steps_sampled_lifetime$"):
        canonical_metric("num_env_steps")


@pytest.mark.parametrize("key", ["search", "scheduler"])
def test_searches_and_schedulers(key: str) -> None:
    from analysis.results.searches import SEARCH_SYNONYMS
    from experiments.spec.pairs import SCHEDULERS, SEARCHES

    known = SEARCHES if key == "search" else SCHEDULERS

    def check(name: str) -> None:
        try:
            spec_with(**{key: name})
        except SpecError as error:
            if "unknown" in str(error):  # not what the algorithm needs besides
                raise

    names = [*known, *(SEARCH_SYNONYMS if key == "search" else ())]
    assert unaccepted(check, names) == {}
    for name in misspelt(names):
        assert set(suggestions(check, name)) <= set(known)


def test_keys_of_a_spec() -> None:
    def check(name: str) -> None:
        try:
            spec_with(**{name: None})
        except SpecError as error:
            if "unknown key" in str(error):
                raise

    assert unaccepted(check, SweepSpec.model_fields) == {}


def test_keys_of_a_matrix() -> None:
    def check(name: str) -> None:
        expand_matrix(Document({"name": "x", "matrix": {name: [1, 2]}}, "x.yaml"))

    names = set(SweepSpec.model_fields) - {"exclude"}
    refused = unaccepted(check, ["env", *names])
    assert [key for key in refused if not key.endswith("-> exclude")] == []


@pytest.mark.parametrize("name", rarely(["DQN", "PPO"], ["DQN"]))
def test_settings(name: str) -> None:
    config_class = get_algorithm(name).config_class

    def accepts(setting: str) -> None:
        """As a constructor does, which takes no older names; any value will do."""
        try:
            config_class(**{setting: object()})
        except ConfigError as error:
            if "is not allowed" not in str(error):
                raise

    assert unaccepted(accepts, [*config_class.settings(), *ALIASES]) == {}


def test_settings_inside_settings() -> None:
    config_class = get_algorithm("DQN").config_class
    for inside in config_class.nested_settings().values():

        def check(name: str, inside: Any = inside) -> None:
            try:
                inside.check({name: object()})
            except ConfigError as error:
                if "is not allowed" not in str(error) and "no option" not in str(error):
                    raise

        names = [*inside.known_names(), *inside.settings(), *MODEL_REFUSED]
        refused = {}
        for name in misspelt(names):
            for suggested in suggestions(check, name):
                try:
                    check(suggested)
                except ConfigError as error:
                    refused[suggested] = str(error)
        assert {
            key: why for key, why in refused.items() if "unknown" in why or "not sup" in why
        } == {}


def test_types_of_exploration() -> None:
    assert unaccepted(lambda name: ExplorationConfig.check({"type": name}), OPTIONS) == {}


def test_algorithms() -> None:
    assert unaccepted(get_algorithm, algorithm_names()) == {}


def test_specs_and_search_spaces() -> None:
    assert unaccepted(find_spec, spec_names()[::40]) == {}
    presets = [f"{name}/{preset}" for name in space_names() for preset in preset_names(name)]
    names = [*space_names()[::4], *presets[::50], *known_preset_names()]
    assert unaccepted(load_space, names) == {}


def test_a_preset_alone_is_suggested_where_it_is_a_name() -> None:
    spec = {"trainable": "PPO", "name": "x", "config": {"env": "CartPole-v1"}}
    with pytest.raises(SpecError, match="; did you mean 'small'\\?"):
        make_spec({**spec, "search_space": "smal"})
    assert make_spec({**spec, "search_space": "small"}).search_space
    with pytest.raises(SpecError, match="; 'small' is a preset: write a2c/small, …"):
        load_space("smal")
    with pytest.raises(SpecError, match="; did you mean 'ppo'\\?"):
        make_spec({**spec, "search_space": "pppo"})


def test_a_missing_run_is_no_misspelling_of_a_key(tmp_path: Path) -> None:
    from experiments.sweep.load import load_spec

    (tmp_path / "x.yaml").write_text("a: {rum: PPO, env: CartPole-v1, config: {}}\n")
    with pytest.raises(SpecError) as error:
        load_spec(tmp_path / "x.yaml")
    assert "did you mean 'rum'" not in str(error.value)


def test_gp_with_a_scheduler_that_stops_says_first_what_to_take() -> None:
    with pytest.raises(SpecError) as error:
        spec_with(search="gp", scheduler="asha")
    assert "; use search: tpe with asha, or gp with scheduler: fifo" in str(error.value)
    spec_with(search="gp", scheduler="fifo")
    asha = {"algorithm": "asha", "time_attr": "training_iteration"}
    spec_with(search="tpe", scheduler=asha)
