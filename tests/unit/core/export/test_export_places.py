"""`tunescape export`: whose policy a sweep's is, and which folders are left alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from analysis_sweeps import add_checkpoint, make_sweep, row
from gymnasium.spaces import Box, Discrete
from typer.testing import CliRunner

from analysis import ResultsError, export_best
from analysis.export import writer_of
from analysis.results.records import POLICY
from experiments.cli import app
from experiments.commands.evaluation.policy_sources import find_policy
from experiments.commands.export import export_policy
from experiments.errors import ExperimentError
from trainables.core.checkpoint import CheckpointError
from trainables.core.export.exported_policy import load_player
from trainables.core.policy.policy import Policy

WINNER = 77


def policy_at(folder: Path, seed: int) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    space = Box(-1, 1, (2,), "float32")
    return Policy(space, Discrete(2), {"fcnet_hiddens": [2]}, seed=seed).save(folder)


def weights(folder: Path) -> bytes:
    return (folder / "policy.safetensors").read_bytes()


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Two trials, of which t1 is the better one, at a name that no spec may have."""
    trials = {"t0": {"rows": [row(1, 5.0)]}, "t1": {"rows": [row(1, 30.0)]}}
    folder = make_sweep(tmp_path, trials, "ev<il> [red] ü (copy)")
    for seed, trial in enumerate(trials):
        policy_at(add_checkpoint(folder, trial, 0, iteration=1) / POLICY, seed)
    spec = {
        "name": "sweep",
        "trainable": "PPO",
        "config": {"env": "CartPole-v1"},
        "objective": {"metric": "episode_return_mean", "mode": "max"},
        "stop": {"training_iteration": 2},
    }
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    return folder


@pytest.fixture
def final(sweep: Path) -> Path:
    """The same with a `final`, which t0 has won."""
    (sweep / "final.json").write_text(json.dumps({"winner": "t0"}))
    said = {"checkpoint": "0008_x/checkpoint_000002", "winner_of_final": "t0", "value": 221.08}
    best = policy_at(sweep / "best", WINNER)
    (best / "export.json").write_text(json.dumps({**said, "metric": "episode_return_mean"}))
    return sweep


def test_a_finals_winner_is_what_the_sweep_stands_for(final: Path, tmp_path: Path) -> None:
    before = files(final / "best")
    done = CliRunner().invoke(app, ["export", str(final)])
    assert done.exit_code == 0, done.output
    assert "a held-out run of t0, the winner of the final" in done.output
    assert files(final / "best") == before
    out = export_policy(final, tmp_path / "out")
    assert weights(out) == weights(find_policy(final).folder) == before["policy.safetensors"]
    assert json.loads((out / "export.json").read_text())["winner_of_final"] == "t0"
    graph = export_policy(final, format="torch")
    assert json.loads((graph / "export.json").read_text())["winner_of_final"] == "t0"
    # Who asks for a search trial gets one, elsewhere.
    searched = export_policy(final, tmp_path / "searched", metric="episode_return_mean")
    assert weights(searched) == weights(final / "trial_t1" / "checkpoint_000000" / POLICY)


def test_nothing_takes_a_winners_place(final: Path) -> None:
    before = files(final)
    checkpoint = Path("trial_t1", "checkpoint_000000")
    with pytest.raises(ExperimentError, match="name its folder with -o"):
        export_policy(final, metric="episode_return_mean")
    with pytest.raises(ExperimentError, match="name its folder with -o"):
        export_policy(final, checkpoint=checkpoint)
    for folder, chosen in ((final, checkpoint), (final / "trial_t1", None)):
        with pytest.raises(ExperimentError, match="is for the policy of the final's winner"):
            export_policy(folder, final / "best", checkpoint=chosen)
    assert files(final) == before
    shutil.rmtree(final / "best")
    for form in ("policy", "torch"):
        with pytest.raises(ExperimentError, match="winner is gone; `tunescape resume`"):
            export_policy(final, format=form)
    assert not (final / "best").exists()


def test_a_sweep_without_final_is_exported_anew(sweep: Path, tmp_path: Path) -> None:
    policy_at(sweep / "best", WINNER)
    assert weights(export_policy(sweep, tmp_path / "out")) == weights(sweep / "best")
    best = export_policy(sweep)  # also what a sweep that runs on has found since
    assert weights(best) == weights(sweep / "trial_t1" / "checkpoint_000000" / POLICY)


@pytest.mark.parametrize("is_specified", [True, False])
def test_any_sweep_has_checkpoints_to_choose(
    sweep: Path, tmp_path: Path, is_specified: bool
) -> None:
    if not is_specified:
        (sweep / "spec.yaml").unlink()  # that of a plain tune.Tuner
    out = tmp_path / "out"
    for options, trial in (
        ({}, "t1"),
        ({"metric": "episode_return_mean", "mode": "min"}, "t0"),
        ({"checkpoint": Path("trial_t1/checkpoint_000000")}, "t1"),
    ):
        export_policy(sweep, out, **options)
        assert weights(out) == weights(sweep / f"trial_{trial}" / "checkpoint_000000" / POLICY)


@pytest.mark.parametrize("form", ["policy", "torch"])
@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("policy", "is the policy that is to be exported"),
        ("policy/../policy", "is the policy that is to be exported"),
        ("policy/torch", "lies in the policy that is to be exported"),
        (".", "holds the policy that is to be exported"),
    ],
)
def test_a_policy_is_not_exported_over_itself(
    tmp_path: Path, form: str, place: str, message: str
) -> None:
    folder = tmp_path / "outer"
    source = policy_at(folder / "policy", 1)
    (folder / "MLmodel").touch()  # so that it might be replaced
    before = files(folder)
    with pytest.raises(ResultsError, match=message):
        export_policy(source, folder / place, format=form)
    assert files(folder) == before


def test_a_checkpoint_stays_as_it_is(sweep: Path, tmp_path: Path) -> None:
    source = policy_at(tmp_path / "policy", 1)
    checkpoint = sweep / "trial_t1" / "checkpoint_000000"
    before = files(sweep)
    for place in (checkpoint / POLICY, checkpoint / "policies" / "mine"):
        with pytest.raises(ResultsError, match="is a checkpoint, which stays as it is"):
            export_policy(source, place)
    assert files(sweep) == before


def test_an_export_of_another_format_stays_as_it_is(sweep: Path, tmp_path: Path) -> None:
    other = policy_at(tmp_path / "other", 2)
    graph = export_policy(sweep, tmp_path / "graph", format="torch")
    before = files(tmp_path)
    with pytest.raises(ResultsError, match=r"other: an export of another format \(policy.json\)"):
        export_policy(sweep, other, format="torch")
    with pytest.raises(ResultsError, match=r"graph: an export of another format \(model.pt2"):
        export_policy(sweep, graph)
    assert files(tmp_path) == before
    again = export_policy(other, graph, format="torch", overwrite=True)
    assert again == graph  # of the same format


def test_trust_that_has_no_effect_is_refused(sweep: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    message = r"trust = \['foo:bar'\] has no effect on the format 'policy'"
    with pytest.raises(ResultsError, match=message):
        export_policy(sweep, out, trust=["foo:bar"])
    with pytest.raises(ResultsError, match=message):
        export_best(sweep, out, trust=["foo:bar"])
    with pytest.raises(ResultsError, match="has no effect on the format 'write'"):
        writer_of(write, trust=["foo:bar"])
    assert not out.exists()


def write(policy_folder: Path, target: Path) -> None:
    target.mkdir()


def test_paths_are_not_markup(sweep: Path, tmp_path: Path) -> None:
    out = tmp_path / "a[" / "x] [red]b"
    done = CliRunner().invoke(app, ["export", str(sweep), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert str(out) in done.output
    assert "[red] ü (copy), trial_t1/checkpoint_000000, episode_return_mean 30" in done.output


def test_trust_is_told_for_python_and_for_the_command_line(sweep: Path) -> None:
    graph = export_policy(sweep, format="torch")
    with pytest.raises(CheckpointError) as error:
        load_player(graph)
    assert "pass trust=['torch.export'] (on the command line: --trust torch.export)" in str(
        error.value
    )


@pytest.mark.parametrize(("form", "start"), [("torch", 3), ("onnx", 0)])
def test_a_graphs_action_is_of_the_policys_type(tmp_path: Path, form: str, start: int) -> None:
    policy = Policy(Box(-1, 1, (2,), "float32"), Discrete(2, start=start), {}, seed=0)
    export_policy(policy.save(tmp_path / "policy"), tmp_path / "graph", format=form)
    graph = load_player(tmp_path / "graph", trust=["torch.export"])
    obs = np.zeros(2, np.float32)
    expected = policy.compute_single_action(obs, explore=False)
    action = graph.compute_single_action(obs)
    # Two types of the same size, and np.int64 is what gymnasium's spaces have.
    assert type(action) is type(expected) is np.int64 and action == expected
