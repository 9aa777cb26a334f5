"""The JSON schema that editors use: current, right about every shipped spec, and of some use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.spec.files import find_spec, spec_names
from experiments.spec.json_schema import spec_schema
from search_spaces.documents import load_document, parse

FILE = Path(__file__).parents[4] / "experiments" / "spec.schema.json"


@pytest.fixture(scope="module")
def validator() -> Any:
    import jsonschema

    schema = json.loads(FILE.read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def test_the_file_is_current() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == spec_schema(), (
        "run `tunescape schema -o experiments/spec.schema.json`"
    )


def test_shipped_specs_validate(validator: Any) -> None:
    """As they are written; as they are dumped in `test_every_shipped_spec_is_valid`."""
    wrong = []
    for name in spec_names():
        data = load_document(find_spec(name)).data
        wrong += [f"{name}: {error.message}" for error in errors(validator, data)]
    assert wrong == []


def errors(validator: Any, data: Any) -> list[Any]:
    return list(validator.iter_errors(data))


GOOD = [
    "search: optuna",
    "search: {algorithm: optuna, n_startup_trials: 3}",
    "search: {n_startup_trials: 3}",  # of a spec that is extended
    "scheduler: {algorithm: asha, max_t: '${env:BUDGET:100}'}",
    "extends: quickstart",
    "extends: [a.yaml, b.yaml]",
    "config: {include: a.yaml, anything: [1, {x: 2}]}",
    "checkpoint: {include: a.yaml, at_end: ${env:X:true}}".replace("${env:X:true}", "'${env:X:1}'"),
    "seed: '${env:SEED}'",
    "seeds: 5",
    "seeds: [1, 2]",
    "seeds: {values: [1, 2], parallel: auto}",
    "objective: [{metric: a}, {metric: b, mode: min}]",
    "search_space: ppo/small",
    "search_space: {base: ppo, lr: null, model: {x: {choice: [1]}}, m.y: {grid_search: [1]}}",
    "search_space: {algorithm_config_overrides_per_module: {left: {lr: {uniform: [0, 1]}}}}",
    "search_space: {gamma: {loguniform: [1e-3, 1], transform: one_minus}}",
    "matrix: {env: [a, b], config.lr: [1e-3], v: {a: {seed: 1}}, exclude: [{env: a}]}",
    "stop: {training_iteration: 3, episode_return_mean: 2.5}",
    "scheduler: {algorithm: pbt, perturbation_factors: [1.2, 0.8]}",
    "seed: null",
    "callbacks: my_callbacks:Mine",
    "callbacks: [my_callbacks:Mine, {class: wandb, args: {project: x, deep: {a: [1]}}}]",
    "loggers: [json, wandb]",
]
BAD = [
    "num_sample: 3",
    "num_samples: 0",
    "num_samples: many",
    "objective: {mode: maximum}",
    "search: optina",
    "search: {algorithm: tpe, n_startup: 3}",
    "search: {algorithm: random, n_startup_trials: 3}",
    "scheduler: {algorithm: asha, grace_perod: 3}",
    "search_space: {lr: {loguniforn: [1, 2]}}",
    "search_space: {lr: {uniform: [1, 2], transfrm: one_minus}}",
    "search_space: {algorithm_config_overrides_per_module: {left: {lr: {unifrom: [0, 1]}}}}",
    "checkpoint: {frequency: -1}",
    "matrix: {env: CartPole-v1}",
    "seed: '${evn:SEED}'",
    "stop: {training_iteration: soon}",
    "resources: {num_cpus: 0}",
    "callbacks: [{class: a:B, arguments: {}}]",
    "loggers: [wandbb]",
]


def test_every_form_validates_and_mistakes_are_marked(validator: Any) -> None:
    assert [text for text in GOOD if errors(validator, parse(text, "here")[0])] == []
    assert [text for text in BAD if not errors(validator, parse(text, "here")[0])] == []


def test_it_says_what_keys_mean() -> None:
    schema = spec_schema()
    assert schema["$defs"]["AshaScheduler"]["properties"]["reduction_factor"]["description"]
    assert "discount" in schema["$defs"]["PPOConfig"]["properties"]["gamma"]["description"].lower()
