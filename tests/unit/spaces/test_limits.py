"""What no sweep needs is refused at once, and the bound is named: a spec cannot hang a machine."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.spec import compose as spec_compose
from experiments.spec import remote as remote_spec
from experiments.spec.references import escaped
from experiments.sweep.load import dump_spec, load_specs
from search_spaces import SpecError
from search_spaces.documents import Document, parse, shortened
from search_spaces.domains import parse_domain
from search_spaces.space import SearchSpace
from search_spaces.yaml_limits import MAX_BYTES, MAX_DEPTH, MAX_VALUES

SPEC = "trainable: sweep_dummy:Dummy\n"
PPO = "config: {env: CartPole-v1}\n"
SEARCHED = ("lr", "gamma", "lambda_", "clip_param", "vf_loss_coeff", "entropy_coeff", "kl_coeff")
SEARCHED = (*SEARCHED, "kl_target")
LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)
MERGES = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{i}: &a{i}\n  <<: [{','.join([f'*a{i - 1}'] * 10)}]\n  k{i}: 1\n" for i in range(1, 12)
)
DEEP_ALIASES = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 3000))
TEXTS = {
    "a billion laughs": (LAUGHS, f"{MAX_VALUES:,} values, aliases written out"),
    "merges of merges": (MERGES, f"{MAX_VALUES:,} values, aliases written out"),
    "a chain of aliases": (DEEP_ALIASES, f"nests more than {MAX_DEPTH} levels"),
    "brackets": ("a: " + "[" * 100_000, f"nests more than {MAX_DEPTH} levels"),
    "closed brackets": ("a: " + "[" * 5000 + "]" * 5000, f"nests more than {MAX_DEPTH} levels"),
    "braces": ("{a: " * 5000, f"nests more than {MAX_DEPTH} levels"),
    "indents": ("".join(" " * i + "a:\n" for i in range(3000)), f"more than {MAX_DEPTH} levels"),
    "dashes": ("a: \n " + "- " * 100_000, f"nests more than {MAX_DEPTH} levels"),
    "questions": ("? " * 100_000, f"nests more than {MAX_DEPTH} levels"),
    "values": ("a: [" + "1, " * 300_000 + "]", f"{MAX_VALUES:,} values"),
    "keys": ("\n".join(f"k{i}: {{a: 1}}" for i in range(90_000)), f"{MAX_VALUES:,} values"),
    "a long key": ("x" * 1000 + ": 1", "has more than 500 characters"),
    "seeds": (
        SPEC + "seeds: 1000000000",
        "seeds = 1000000000 is not allowed; allowed: at most 1000",
    ),
    "seeds in a mapping": (SPEC + "seeds: {values: 1000000000}", "at most 1000 seeds"),
    "listed seeds": (SPEC + f"seeds: {list(range(2000))}", "at most 1000 items"),
    "final seeds": (SPEC + "final: {seeds: 1000000000}", "less than or equal to 1000"),
    "final top": (SPEC + "final: {top: 1000000000}", "less than or equal to 1000"),
    "samples": (SPEC + f"num_samples: {10**30}", "less than or equal to 100000"),
    "brackets of asha": (
        SPEC + "stop: {training_iteration: 9}\nscheduler: {algorithm: asha, brackets: 1000000000}",
        "less than or equal to 100",
    ),
    "candidates": (
        SPEC + "search: {algorithm: tpe, n_ei_candidates: 1000000000}",
        "less than or equal to 100000",
    ),
    "a matrix": (
        SPEC + "matrix:\n" + "".join(f"  config.k{i}: [1, 2, 3, 4]\n" for i in range(20)),
        "matrix: its keys have about 10^12 combinations; allowed: at most 500",
    ),
    "a long axis": (SPEC + f"matrix: {{config.lr: {list(range(90_000))}}}", "90,000 combinations"),
    "a large matrix": (
        SPEC + f"config: {{k: {list(range(20_000))}}}\nmatrix: {{config.lr: {list(range(400))}}}",
        "400 combinations of a spec with 2",
    ),
    "a grid": (
        PPO
        + "search_space:\n"
        + "".join(f"  {key}: {{grid: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}}\n" for key in SEARCHED),
        "its grids have 1,679,616 combinations, each run num_samples = 1 times; allowed: at most",
    ),
    "a grid of ranges": (
        PPO + "search: grid\nsearch_space: {num_epochs: {randint: [1, 1000000000000]}}",
        "randint with at most 100,000 values",
    ),
    "a grid of steps": (
        PPO + "search: grid\nsearch_space: {num_epochs: {quniform: [1, 1000000000000, 1]}}",
        "quniform or randint with at most 100,000 values",
    ),
    "no end of steps": (SPEC + "search_space: {lr: {quniform: [0, 1, 1e-320]}}", "more than 9.0"),
    "a power": (
        SPEC + "search_space: {lr: {randint: [1, 1000000000000], transform: power_of_two}}",
        "is above 62",
    ),
    "a range": (SPEC + f"search_space: {{lr: {{randint: [0, {10**30}]}}}}", "must lie within"),
    "a name": (SPEC + f"name: {'x' * 300}", "it has 300 characters; at most 200"),
    "dollars": (SPEC + "config: {env: '" + "$" * 1_000_000 + " ${env:NONE_SUCH}'}", "is not set"),
    "a text": (SPEC + "storage: [" + "x" * 3_000_000 + "]", "x … x"),
}


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    """A second on an idle machine; CI is not.

    Of this thread alone, and without the collector's walks through what all tests before have left.
    """
    gc.freeze()
    start = time.thread_time()
    yield
    seconds = time.thread_time() - start
    gc.unfreeze()
    assert seconds < 10


@pytest.mark.parametrize("kind", TEXTS)
def test_what_is_out_of_bounds_is_refused(kind: str, tmp_path: Path) -> None:
    text, bound = TEXTS[kind]
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(SpecError) as error:
        load_specs(tmp_path / "x.yaml")
    assert bound in str(error.value)
    assert len(str(error.value)) < 5000


@pytest.mark.parametrize("kind", ["a billion laughs", "brackets", "values", "a long key"])
def test_so_it_is_from_a_url_and_the_command_line(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, bound = TEXTS[kind]
    monkeypatch.setattr(remote_spec, "_fetch", lambda url: text)
    with pytest.raises(SpecError) as error:
        load_specs("https://example.com/x.yaml")
    assert bound in str(error.value)
    with pytest.raises(SpecError) as error:
        Document({}, "x").set(f"a={text}")
    assert bound in str(error.value) and len(str(error.value)) < 5000


def test_a_url_has_no_other_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("seeds", "final seeds", "samples", "a matrix", "a grid"):
        text, bound = TEXTS[kind]
        monkeypatch.setattr(remote_spec, "_fetch", lambda url, text=text: text.replace(SPEC, PPO))
        with pytest.raises(SpecError) as error:
            load_specs("https://example.com/x.yaml")
        assert bound in str(error.value)


def test_files_that_are_too_large_or_none_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_text("# a comment\n" * 1_000_000)
    with pytest.raises(SpecError, match=rf"large\.yaml: has more than {MAX_BYTES:,} bytes"):
        load_specs(tmp_path / "large.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(SpecError, match=r"pipe\.yaml: is a pipe or a device; expected a regular"):
        load_specs(tmp_path / "pipe.yaml")
    for device in ("/dev/zero", "/dev/null", "/dev/stdin"):
        if not Path(device).is_file():
            with pytest.raises(SpecError, match="is a pipe or a device"):
                load_specs(device)
    with pytest.raises(SpecError, match="is a folder; expected a regular file"):
        load_specs(tmp_path)


def test_the_most_that_is_read_is_read(tmp_path: Path) -> None:
    lists = [[1] * 100 for _ in range(MAX_VALUES // 200)]
    text = f"config: {{env: x}}\nsearch_space: {{lr: {{choice: {lists}}}}}\n# " + "x" * 4_000_000
    data, lines = parse(text, "x")
    assert len(data["search_space"]["lr"]["choice"]) == len(lists)
    assert len(lines) == MAX_VALUES // 200 * 101 + 5
    nested: Any = parse("[" * MAX_DEPTH + "]" * MAX_DEPTH, "x")[0]
    for _ in range(MAX_DEPTH - 1):
        (nested,) = nested
    assert nested == []


def test_files_that_extend_each_other_are_counted(tmp_path: Path) -> None:
    """Two files that each extend the next one twice: 2**30 files, and no circle."""
    for number in range(30):
        (tmp_path / f"{number}.yaml").write_text(f"extends: [{number + 1}.yaml, {number + 1}.yaml]")
    (tmp_path / "30.yaml").write_text(SPEC)
    with pytest.raises(SpecError, match="is put together from more than 100 files"):
        load_specs(tmp_path / "0.yaml")
    for number in range(500):
        (tmp_path / f"{number}.yaml").write_text(f"extends: {number + 1}.yaml")
    with pytest.raises(SpecError, match="is put together from more than 100 files"):
        load_specs(tmp_path / "0.yaml")
    (tmp_path / "99.yaml").write_text(SPEC)
    assert load_specs(tmp_path / "0.yaml")
    assert spec_compose.MAX_FILES == 100


def test_thousands_of_keys_are_composed_at_once(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("config: {a: 1}\n")
    many = "\n".join(f"k{i}: [1, 2]" for i in range(20_000))
    (tmp_path / "x.yaml").write_text(f"extends: base.yaml\n{many}\n")
    with pytest.raises(SpecError, match=r"x\.yaml:2: unknown key 'k0'"):
        load_specs(tmp_path / "x.yaml")


def test_dollars_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert escaped("$" * 100_000) == "$" * 100_000
    assert escaped("a ${x} $${y}") == "a $${x} $$${y}"
    monkeypatch.setenv("HERE", "x")
    text = f"$${{a}} $$${{b}} ${{env:HERE}}{'$' * 10}"
    (spec,) = load_specs_of({"mlflow": {"experiment_name": text}})
    assert spec.mlflow.experiment_name == "${a} $${b} x" + "$" * 10
    assert load_specs_of(parse(dump_spec(spec), "x")[0])[0] == spec


def load_specs_of(data: dict[str, Any]) -> list[Any]:
    from experiments.sweep.load import make_spec

    return [make_spec({"name": "x", "trainable": "sweep_dummy:Dummy", **data})]


def test_domains_list_no_more_than_they_may() -> None:
    assert parse_domain({"randint": [0, 10**12]}).finite is None
    assert parse_domain({"quniform": [0, 10**12, 1]}).finite is None
    assert parse_domain({"randint": [0, 100_000]}).finite == list(range(100_000))
    space = SearchSpace.parse({"a": {"grid": [1, 2]}, "b": {"choice": [1, 2, 3]}})
    assert (space.most_grid_points(), space.most_grid_points(whole=True)) == (2, 6)


def test_messages_keep_their_ends() -> None:
    assert shortened("a" * 4000) == "a" * 4000
    assert shortened("a" * 5000 + "b") == f"{'a' * 500} … {'a' * 499}b"
