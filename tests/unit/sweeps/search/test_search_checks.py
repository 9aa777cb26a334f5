"""What a search section may ask for: one error each, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from refusals import Golden, refusals

from analysis.results.searches import LEARNING
from experiments.search.kind import search_kind
from experiments.search.optuna_kind import LearningKind
from experiments.search.samplers import build_sampler
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import SEARCHES, Nsga2Search, Nsga3Search, TpeSearch
from experiments.sweep.load import dump_spec, load_spec, make_spec, spec_space
from search_spaces import SearchSpace, SpecError

TWO = [{"metric": "episode_return_mean"}, {"metric": "time_total_s", "mode": "min"}]
NUMBERS = {"lr": {"loguniform": [1e-4, 1e-1]}, "gamma": {"uniform": [0.5, 1]}}
CHOICES = {"num_epochs": {"choice": [1, 2]}}
CONDITIONAL = {**CHOICES, "lr": {"uniform": [0.1, 1], "when": {"num_epochs": 1}}}


def spec(search: Any = "tpe", space: Any = None, **keys: Any) -> Any:
    data = {
        "name": "sweep",
        "trainable": "sweep_dummy:Dummy",
        "search": search,
        "search_space": NUMBERS if space is None else space,
        "stop": {"training_iteration": 2},
        **keys,
    }
    return make_spec(data)


def notes(spec: SweepSpec, space: SearchSpace) -> list[str]:
    return search_kind(spec.search).notes(spec, space)


def points(*given: dict[str, Any], algorithm: str = "random") -> dict[str, Any]:
    return {"algorithm": algorithm, "points_to_evaluate": list(given)}


REFUSED: list[tuple[Any, dict[str, Any]]] = [
    ("cmaes", {"objective": TWO}),
    ("cmaes", {"space": CHOICES}),
    ("cmaes", {"space": CONDITIONAL}),
    ({"algorithm": "cmaes", "population_size": 3}, {}),
    ("gp", {"space": {}}),
    ("sobol", {"space": {"lr": {"grid": [0.1]}}}),
    ({"algorithm": "tpe", "group": True, "multivariate": False}, {}),
    ("nsga2", {"objective": [TWO[0], TWO[0]]}),
    ("tpe", {"objective": TWO, "scheduler": {"algorithm": "asha"}}),
    ({"algorithm": "sobol", "warm_start": []}, {}),
    ({"algorithm": "grid", "points_to_evaluate": []}, {}),
    (points({"lr": 0.01}, {"lr": 0.02}), {}),
    (points({"lr": 0.5}), {}),
    (points({"lr": "fast"}), {}),
    (points({"lr": True}), {}),
    (points({"gama": 0.5}), {}),
    (points({"num_epochs": 1}), {}),
    (points({"num_epochs": 4}), {"space": CHOICES}),
    (points({"num_epochs": 1}), {"space": {"num_epochs": {"grid": [1]}}}),
]


def test_what_a_search_cannot_do_is_one_message(golden: Golden) -> None:
    golden("sweeps/searches", refusals(lambda how, keys: spec(how, **keys), REFUSED, SpecError))


def test_a_point_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(
        "trainable: sweep_dummy:Dummy\nsearch_space: {lr: {uniform: [0.1, 1]}}\n"
        "num_samples: 2\nsearch:\n  algorithm: tpe\n  points_to_evaluate:\n"
        "    - lr: 0.5\n    - lr: 2\n"
    )
    with pytest.raises(SpecError, match=r"sweep.yaml:8: search: points_to_evaluate\[1\]: lr = 2"):
        load_spec(file)


def test_tpe_models_conditional_settings_jointly_by_default(tmp_path: Path) -> None:
    def options(**keys: Any) -> tuple[bool | None, bool | None]:
        found = spec("tpe", **keys).search
        assert isinstance(found, TpeSearch)
        return found.multivariate, found.group

    assert options() == (True, False)
    assert options(space=CONDITIONAL) == (True, True)
    assert options(objective=TWO) == (False, False)
    assert options(objective=TWO, space=CONDITIONAL) == (False, False)


def test_a_spec_with_everything_round_trips(tmp_path: Path) -> None:
    whole = spec(
        points({"num_epochs": 1, "lr": 0.5}, algorithm="nsga2"), CONDITIONAL, objective=TWO
    )
    file = tmp_path / "again.yaml"
    file.write_text(dump_spec(whole))
    assert load_spec(file) == whole
    assert whole.objective.metric == "episode_return_mean" and len(whole.objectives) == 2


def test_notes_say_what_is_drawn_at_random() -> None:
    mixed = {**CONDITIONAL, "gamma": {"uniform": [0.5, 1]}}
    for algorithm, expected in (("cmaes", "(num_epochs, lr)"), ("gp", "(lr)"), ("nsga2", "(lr)")):
        whole = spec(algorithm, mixed, num_samples=8)
        (note,) = notes(whole, spec_space(whole))
        assert note.startswith(f"{algorithm} draws") and expected in note
    for algorithm in ("tpe", "sobol", "random"):
        assert notes(spec(algorithm, mixed), spec_space(spec(algorithm, mixed))) == []


@pytest.mark.parametrize("algorithm", ["nsga2", "nsga3"])
def test_an_evolution_has_generations_to_learn_from(algorithm: str) -> None:
    def found(num_samples: int, **options: Any) -> tuple[int, list[str]]:
        section = {"algorithm": algorithm, **options}
        whole = spec(section, num_samples=num_samples)
        assert isinstance(whole.search, Nsga2Search | Nsga3Search)
        size = whole.search.population_size or 0
        sampler: Any = build_sampler(whole.search, spec_space(whole), 0)
        assert sampler.population_size == size
        return size, notes(whole, spec_space(whole))

    sizes = {samples: found(samples)[0] for samples in (5, 20, 40, 250, 1000)}
    assert sizes == {5: 4, 20: 4, 40: 8, 250: 50, 1000: 50}
    assert found(40)[1] == found(40, population_size=39)[1] == []
    size, (note,) = found(40, population_size=40)
    assert size == 40 and "makes no second one of population_size = 40" in note
    warm = [{"folder": "runs/old"}]  # its trials are the first generation
    assert found(40, population_size=40, warm_start=warm)[1] == []


def test_every_search_of_a_spec_has_its_kind() -> None:
    for name, section in SEARCHES.items():
        kind = search_kind(section())
        assert type(kind).__module__ == f"experiments.search.{name}"
        (base,) = type(kind).__orig_bases__  # type: ignore[attr-defined]
        assert base.__args__ == (section,), name
        assert kind.whole_grid == (name == "grid"), name
        assert isinstance(kind, LearningKind) == (name in LEARNING), name
