"""Policies as ONNX graphs, by onnxruntime."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import Golden, refusals
from tiers import rarely

from tests.unit.core.export.test_export_graph import POLICIES, made, obs_of
from trainables.core.errors import ConfigError
from trainables.core.export import onnx_program as onnx_export
from trainables.core.export.exported_policy import ExportedPolicy
from trainables.core.export.onnx_program import OPSETS, export_onnx, onnx_program
from trainables.core.policy.policy import Policy

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

QUICK = ["dqn_masked", "squashed_with_previous", "frames", "numbers"]


def exported(policy: Policy, folder: Path, **options: Any) -> ExportedPolicy:
    export_onnx(policy, folder, **options)  # compared on 1,000 observations there
    return ExportedPolicy.load(folder)


@pytest.mark.parametrize(
    "name",
    [
        *rarely(QUICK, QUICK[1:2]),
        *(pytest.param(n, marks=pytest.mark.slow) for n in POLICIES if n not in QUICK),
    ],
)
def test_a_graph_acts_as_its_policy(tmp_path: Path, name: str) -> None:
    policy = made(name)
    graph = exported(policy, tmp_path)
    ours: Any = None
    theirs: Any = None
    for obs in obs_of(policy, 3):
        first = policy.compute_single_action(obs, ours, explore=False, full_fetch=True)
        second = graph.compute_single_action(obs, theirs, full_fetch=True)
        ours, theirs = first.state, second.state
        if "with_previous" in name:  # the policy must be told the action before
            break
    assert ("vf_preds" in second.extra) == (name.partition("_")[0] not in ("dqn", "sac"))
    for said, given in second.extra.items():
        np.testing.assert_allclose(given, first.extra[said], rtol=1e-5, atol=1e-5)
    assert policy.action_space.contains(second.actions)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["policy.onnx", "policy.onnx.json"]


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> tuple[Policy, Path]:
    """A policy and its file."""
    policy = made("frames")
    return policy, export_onnx(policy, tmp_path_factory.mktemp("frames"), opset=20)


def test_the_file_is_whole_named_and_of_any_batch(frames: tuple[Policy, Path]) -> None:
    policy, path = frames
    model = onnx.load(path, load_external_data=False)
    onnx.checker.check_model(model, full_check=True)
    assert {entry.version for entry in model.opset_import if not entry.domain} == {20}
    said = json.loads(path.with_name("policy.onnx.json").read_text())
    assert said["versions"]["opset"] == 20
    for given, values in (("inputs", model.graph.input), ("outputs", model.graph.output)):
        assert [entry["name"] for entry in said[given]] == [value.name for value in values]
        for entry, value in zip(said[given], values, strict=True):
            tensor = value.type.tensor_type
            assert onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type) == entry["dtype"]
            assert tensor.shape.dim[0].dim_param  # a name: any number
            assert [d.dim_value for d in tensor.shape.dim][1:] == entry["shape"]
    assert said["inputs"][0] == {"name": "obs", "shape": [10, 10], "dtype": "uint8"}
    run = onnx_program(path)
    for size in (1, 4, 129):
        obs = np.random.default_rng(size).integers(0, 256, (size, 10, 10), np.uint8)
        outputs = run({"obs": obs, "state/@frames": np.zeros((size, 2, 10, 10), np.uint8)})
        np.testing.assert_array_equal(
            outputs["action"], policy.compute_actions(obs, explore=False).actions
        )
        np.testing.assert_array_equal(outputs["next_state/@frames"][:, -1], obs)


def test_a_graph_that_acts_otherwise_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = onnx_export.onnx_program

    def wrong(path: Any) -> Any:
        run = true(path)
        return lambda inputs: {**run(inputs), "action": run(inputs)["action"] % 2}

    monkeypatch.setattr(onnx_export, "onnx_program", wrong)
    with pytest.raises(ConfigError, match=r"does not act as the policy does: action: . became"):
        export_onnx(made("starts"), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("opset", [11, OPSETS.stop])
def test_other_opsets_are_refused(tmp_path: Path, opset: int) -> None:
    with pytest.raises(ConfigError, match=rf"opset = {opset} is not supported; allowed: 18 to"):
        export_onnx(made("starts"), tmp_path, opset)


@pytest.mark.slow
@pytest.mark.parametrize("opset", OPSETS)
def test_every_opset_is_written(tmp_path: Path, opset: int) -> None:
    exported(made("clipped_with_previous"), tmp_path, opset=opset)


def test_a_missing_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    def act(missing: str) -> None:
        for name in [n for n in sys.modules if n.partition(".")[0] == missing]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, missing, None)
        export_onnx(made("starts"), tmp_path)

    cases = ["onnx", "onnxscript", "onnxruntime"]
    golden("export_onnx/a_missing_library_is_named", refusals(act, cases))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "policy.onnx").write_bytes(b"nothing")
    with pytest.raises(ConfigError, match=r"onnxruntime does not take policy.onnx"):
        onnx_program(tmp_path / "policy.onnx")


def test_a_state_comes_back_in_the_form_that_was_given(frames: tuple[Policy, Path]) -> None:
    policy, path = frames
    graph = ExportedPolicy.load(path.parent)
    obs = next(iter(obs_of(policy, 1)))
    by_name = graph.compute_single_action(obs, graph.get_initial_state())
    as_list = graph.compute_single_action(obs, list(graph.get_initial_state().values()))
    assert isinstance(as_list.state, list)
    for mine, theirs in zip(by_name.state.values(), as_list.state, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(ConfigError, match="state has 2 parts; the policy's has 1"):
        graph.compute_actions(obs[None], as_list.state * 2)
