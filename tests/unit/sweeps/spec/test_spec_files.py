"""Specs from several files, and values from the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from refusals import Golden, refusals

from analysis.credentials import scrubbed
from experiments.running.tuner import _sweep_params
from experiments.spec.paths import absolute_location, absolute_tracking_uri
from experiments.sweep.load import dump_spec, load_spec, load_specs, make_spec, read_spec
from experiments.sweep.sweep import Sweep
from search_spaces.documents import SpecError

BASE = """\
name: base
trainable: sweep_dummy:Dummy
config:
  num_epochs: 2
  model: {fcnet_hiddens: [64, 64], fcnet_activation: tanh}
search_space:
  lr: {loguniform: [1e-4, 1e-1]}
  gamma: {uniform: [0.9, 1]}
search: {algorithm: optuna, n_startup_trials: 3}
scheduler: asha
stop: {num_env_steps_sampled_lifetime: 1_000}
num_samples: 4
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "parts").mkdir()
    return tmp_path


def write(folder: Path, text: str, name: str = "child.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


# -- extends and include ------------------------------------------------------------------------


def test_extends_merges_mappings_and_replaces_the_rest(folder: Path) -> None:
    spec = load_spec(
        write(
            folder,
            """\
extends: base.yaml
config:
  num_epochs: null
  model: {fcnet_hiddens: [8]}
search_space:
  lr: {uniform: [0.1, 0.2]}
search: {n_startup_trials: 5}
scheduler: {grace_period: 100}
""",
        )
    )
    assert spec.name == "child"  # not the base's: it names the sweep's folder
    assert spec.config == {"model": {"fcnet_hiddens": [8], "fcnet_activation": "tanh"}}
    assert spec.search_space == {
        "lr": {"uniform": [0.1, 0.2]},
        "gamma": {"uniform": [0.9, 1]},
    }
    assert (spec.search.algorithm, spec.search.n_startup_trials) == ("tpe", 5)  # type: ignore[union-attr]
    assert (spec.scheduler.algorithm, spec.scheduler.grace_period) == ("asha", 100)  # type: ignore[union-attr]
    assert spec.num_samples == 4


def test_another_algorithm_replaces_its_section(folder: Path) -> None:
    spec = load_spec(write(folder, "extends: base.yaml\nsearch: {algorithm: random}\n"))
    assert spec.search.algorithm == "random"
    same = "extends: base.yaml\nsearch: {algorithm: tpe, n_ei_candidates: 9}\n"
    assert load_spec(write(folder, same)).search.n_startup_trials == 3  # type: ignore[union-attr]


def test_several_files_in_order_and_relative_to_each(folder: Path) -> None:
    write(folder / "parts", "extends: more.yaml\nnum_samples: 5\nseed: 1\n", "one.yaml")
    write(folder / "parts", "seed: 2\nmax_failures: 7\n", "more.yaml")
    write(folder / "parts", "{num_samples: 6}", "two.yaml")
    spec = load_spec(write(folder, "extends: [base.yaml, parts/one.yaml, parts/two.yaml]\n"))
    assert (spec.num_samples, spec.seed, spec.max_failures) == (6, 1, 7)


def test_include_in_a_section(folder: Path) -> None:
    write(folder / "parts", "model: {fcnet_hiddens: [4]}\nminibatch_size: 8\n", "net.yaml")
    text = BASE.replace("config:\n", "config:\n  include: parts/net.yaml\n")
    spec = load_spec(write(folder, text))
    assert spec.config["minibatch_size"] == 8
    assert spec.config["model"]["fcnet_hiddens"] == [64, 64]  # the section's own keys win


def test_a_shipped_spec_and_a_named_space(folder: Path) -> None:
    spec = load_spec(
        write(folder, "extends: quickstart\nsearch_space: {lr: {loguniform: [1e-4, 1e-3]}}\n")
    )
    assert spec.trainable == "PPO"
    assert spec.search_space["lr"] == {"loguniform": [1e-4, 1e-3]}
    write(folder, "extends: quickstart\nsearch_space: ppo\n", "named.yaml")
    text = "extends: named.yaml\nsearch_space: {lr: null}\n"
    spec = load_spec(write(folder, text))
    assert "lr" not in spec.search_space and "gamma" in spec.search_space


def test_make_spec_extends_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert make_spec({"extends": "base.yaml", "name": "x", "num_samples": 9}).num_samples == 9


MISTAKES = [
    "name: x\nextends: bas.yaml\n",
    "extends: bas.yaml\n",
    "extends: quikstart\n",
    "extends: 3\n",
    "extends: [base.yaml, child.yaml]\n",
    "extends: base.yaml\nnum_samples: 0\n",
    "extends: bad.yaml\nseed: 1\n",
    "extends: list.yaml\n",
    "extends: loop.yaml\n",
]


def test_errors_name_the_file_in_which_a_key_was_written(folder: Path, golden: Golden) -> None:
    write(folder, "extends: base.yaml\nconfig:\n  num_epochs: many\n", "bad.yaml")
    write(folder, "[1]", "list.yaml")
    write(folder, "extends: child.yaml\n", "loop.yaml")
    texts = refusals(
        lambda text: load_spec(write(folder, text)),
        MISTAKES,
        SpecError,
        replace={str(folder): "<folder>"},
    )
    golden("sweeps/spec_files", texts)


# -- ${env:…} -----------------------------------------------------------------------------------


def test_references(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHS", "4")
    monkeypatch.setenv("TEAM", "blue")
    monkeypatch.delenv("SEED", raising=False)
    spec = load_spec(
        write(
            folder,
            """\
extends: base.yaml
config: {num_epochs: "${env:EPOCHS}"}
seed: ${env:SEED:7}
mlflow: {tags: {team: "the ${env:TEAM} team", price: "$${env:TEAM} $$${"}}
""",
        )
    )
    assert spec.config["num_epochs"] == 4
    assert spec.seed == 7
    assert spec.mlflow.tags == {"team": "the blue team", "price": "${env:TEAM} $${"}
    # What was read is written so that it is read back, whatever the environment is then.
    monkeypatch.delenv("TEAM")
    monkeypatch.delenv("EPOCHS")
    assert load_spec(write(folder, dump_spec(spec), "spec.yaml")) == spec
    assert read_spec(folder / "spec.yaml") == spec


def test_credentials_are_not_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("URI", "http://me:secret@host")
    text = BASE + 'mlflow: {tracking_uri: "${env:URI}", experiment_name: "${env:URI}"}\n'
    spec = load_spec(write(folder, text))
    assert spec.mlflow.tracking_uri == "http://me:secret@host"
    written = yaml.safe_load(dump_spec(spec))
    assert written["mlflow"]["tracking_uri"] == "${env:URI}"
    assert written["mlflow"]["experiment_name"] == "http://me:secret@host"  # no credential's key
    assert scrubbed("http://me:secret@host:1/x") == "http://***@host:1/x"
    again = read_spec(write(folder, dump_spec(spec), "spec.yaml"))
    assert again.mlflow.tracking_uri == "http://me:secret@host"


REFERENCES = [
    "seed: ${env:NOT_SET}",
    "seed: ${evn:SEED}",
    "mlflow: {tags: {a: 'x${y'}}",
    "seed: ${env:LIST}",
    "seed: ${env:WORD}",
]


def test_bad_references(folder: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setenv("LIST", "[1")
    monkeypatch.setenv("WORD", "word")
    monkeypatch.delenv("NOT_SET", raising=False)
    texts = refusals(
        lambda text: load_spec(write(folder, BASE + text)),
        REFERENCES,
        SpecError,
        replace={str(folder): "<folder>"},
    )
    golden("sweeps/spec_references", texts)


def test_credentials_in_a_spec_are_refused_unless_they_are_a_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = {"name": "s", "config": {"env": "CartPole-v1"}, "stop": {"training_iteration": 1}}
    with pytest.raises(SpecError, match="tracking_uri holds credentials") as caught:
        make_spec({**data, "mlflow": {"tracking_uri": "http://ada:pa55@h:1"}})
    assert "pa55" not in str(caught.value)
    monkeypatch.setenv("TRACKING", "http://ada:pa55@h:1")
    spec = make_spec({**data, "mlflow": {"tracking_uri": "${env:TRACKING}"}})
    assert spec.mlflow.tracking_uri == "http://ada:pa55@h:1"
    assert "pa55" not in dump_spec(spec)


def test_a_model_that_is_not_logged_cannot_be_registered() -> None:
    data = {"name": "s", "config": {"env": "CartPole-v1"}, "stop": {"training_iteration": 1}}
    with pytest.raises(SpecError, match=r"register_as = 'm' .* needs .*mlflow\.log_model"):
        make_spec({**data, "mlflow": {"register_as": "m", "log_model": False}})
    with pytest.raises(SpecError, match="register_as"):
        make_spec({**data, "mlflow": {"register_as": "a/b"}})


PLAIN = {"name": "s", "config": {"env": "CartPole-v1"}, "stop": {"training_iteration": 1}}
SECRETS: list[tuple[str, dict[str, Any]]] = [
    ("mysql://h/db?password=pa55", {"study_storage": "{}"}),
    ("postgresql://u@h/db?sslmode=require&password=pa55", {"study_storage": "{}"}),
    ("http://ada:pa55@h", {"warm_start": [{"mlflow_experiment": "e", "tracking_uri": "{}"}]}),
]


def put(section: Any, text: str) -> Any:
    """The section with `{}` replaced."""
    if isinstance(section, dict):
        return {key: put(value, text) for key, value in section.items()}
    if isinstance(section, list):
        return [put(value, text) for value in section]
    return section.replace("{}", text)


@pytest.mark.parametrize(("uri", "search"), SECRETS, ids=["mysql", "postgresql", "warm_start"])
def test_no_credential_of_the_search_is_written(
    monkeypatch: pytest.MonkeyPatch, uri: str, search: dict[str, Any]
) -> None:
    data = {**PLAIN, "search_space": {"lr": {"uniform": [0.1, 0.2]}}}
    monkeypatch.setenv("URI", uri)
    monkeypatch.delenv("NOT_SET", raising=False)
    for text in (uri, f"${{env:NOT_SET:{uri}}}"):
        with pytest.raises(SpecError, match="in an environment variable"):
            make_spec({**data, "search": {"algorithm": "tpe", **put(search, text)}})
    section = {"algorithm": "tpe", **put(search, "${env:URI}")}
    spec = make_spec({**data, "search": section})
    assert uri in str(spec.search)
    assert "pa55" not in dump_spec(spec)
    assert "pa55" not in str(_sweep_params(Sweep.of(spec)))
    written = yaml.safe_load(dump_spec(spec))
    assert make_spec(written) == spec


def test_a_reference_in_a_combination_is_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("URI", "http://ada:pa55@h")
    monkeypatch.setenv("LR", "0.5")
    text = BASE + (
        'mlflow: {tracking_uri: "${env:URI}", tags: {price: "$${x}"}}\n'
        "matrix:\n"
        '  seed: [1, "${env:LR:2}"]\n'
        "  where: {a: {}, b: {mlflow: {tracking_uri: 'http://b'}},"
        " c: {mlflow: {tracking_uri: '${env:URI}/c'}}}\n"
        "  exclude: [{seed: 0.5}]\n"
    )
    specs = load_specs(write(folder, text))
    found = {spec.name[-3:]: yaml.safe_load(dump_spec(spec))["mlflow"] for spec in specs}
    uris = {name: mlflow["tracking_uri"] for name, mlflow in found.items()}
    assert uris == {"1-a": "${env:URI}", "1-b": "http://b", "1-c": "${env:URI}/c"}
    assert [spec.mlflow.tracking_uri for spec in specs] == [
        "http://ada:pa55@h",
        "http://b",
        "http://ada:pa55@h/c",
    ]
    assert {spec.mlflow.tags["price"] for spec in specs} == {"${x}"}
    axis = BASE + 'matrix: {mlflow.tracking_uri: ["${env:URI}", "http://b"]}\n'
    names = [spec.name for spec in load_specs(write(folder, axis))]
    assert "pa55" not in str(names)


def test_local_files_do_not_depend_on_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep that is resumed from elsewhere would go on in a second, empty database."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DATABASE", "sqlite:///env.db")
    source = [{"folder": "runs/old"}, {"mlflow_experiment": "e", "tracking_uri": "sqlite:///w.db"}]
    search = {"algorithm": "tpe", "study_storage": "study.log", "warm_start": source}
    data = {
        **PLAIN,
        "search_space": {"lr": {"uniform": [0.1, 0.2]}},
        "search": search,
        "mlflow": {"tracking_uri": "${env:DATABASE}"},
    }
    (folder / "spec.yaml").write_text(dump_spec(make_spec(data)))
    monkeypatch.chdir(folder / "parts")
    spec: Any = load_spec(folder / "spec.yaml")
    assert spec.mlflow.tracking_uri == f"sqlite:///{folder}/env.db"
    assert spec.search.study_storage == f"{folder}/study.log"
    assert spec.search.warm_start[0].folder == f"{folder}/runs/old"
    assert spec.search.warm_start[1].tracking_uri == f"sqlite:///{folder}/w.db"
    assert absolute_tracking_uri("runs") == f"file://{folder}/parts/runs"
    for server in ("http://h:1/x", "postgresql+psycopg2://h/db"):
        assert absolute_location(server) == server


def test_a_saved_spec_that_was_shortened_by_hand_is_refused_by_key(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text("name: a\ntrainable: PPO\nsearch: tpe\nstop: {training_iteration: 1}\n")
    with pytest.raises(SpecError, match=r"search = 'tpe' is not allowed; .* mapping of algorithm"):
        read_spec(file)
