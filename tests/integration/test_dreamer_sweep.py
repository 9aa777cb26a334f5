"""A sweep of DreamerV3 leaves a picture of what its world model expects, wherever one looks."""

from __future__ import annotations

import base64
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cheap_sweeps import drawn
from mlflow_client import mlflow_client
from report_pages import parse_page
from small_runs import small

from analysis import write_report
from analysis.overview.best_pictures import OPEN_LOOP
from analysis.results.mlflow_tags import PARENT_TAG
from experiments.running.runner import run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep

pytestmark = pytest.mark.usefixtures("ray_here")


def shown(page: Path) -> bytes:
    """The only picture on a page."""
    (source,) = [v for tag, name, v in parse_page(page).attributes if (tag, name) == ("img", "src")]
    return base64.b64decode(source.removeprefix("data:image/png;base64,"))


@pytest.mark.full("integration/test_league_picture.py::test_report_and_mlflow_show_the_league")
def test_report_and_mlflow_show_what_the_model_expects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Sweep.of(
        make_spec(
            {
                "name": "dreams",
                "trainable": "DreamerV3",
                "config": {**small("DreamerV3"), "env": "CartPole-v1"},
                "num_samples": 1,
                "stop": {"training_iteration": 1},
                "storage": str(tmp_path),
            }
        )
    )
    with drawn():
        outcome = run_sweep(made)
    assert outcome.succeeded
    assert outcome.pictures == {OPEN_LOOP: outcome.folder / "open_loop.png"}
    picture = outcome.pictures[OPEN_LOOP].read_bytes()
    assert outcome.report is not None and shown(outcome.report) == picture
    moved = outcome.folder.rename(tmp_path / "moved")  # as an old folder that was copied
    assert shown(write_report(moved)) == picture

    client = mlflow_client(made.tracking_uri)
    found = client.search_runs([e.experiment_id for e in client.search_experiments()])
    (parent,) = [run for run in found if PARENT_TAG not in run.data.tags]
    plots = {file.path for file in client.list_artifacts(parent.info.run_id, "plots")}
    assert "plots/open_loop.png" in plots
    assert "plots/open_loop.png" in parent.data.tags["mlflow.note.content"]
    _check_model(client, outcome.model, monkeypatch)


def _check_model(client: Any, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It acts, and its state is of use for the step after."""
    from mlflow import pyfunc

    monkeypatch.setattr(sys, "path", [*sys.path])  # a loaded model puts its code there
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    model = client.get_logged_model(uri.rpartition("/")[2])
    served = pyfunc.load_model(model.artifact_location)
    example: Any = served.input_example
    inputs = {name: np.asarray(part) for name, part in example.items()}
    first = served.predict(inputs)
    state = {name: part for name, part in first.items() if name.startswith("state/")}
    assert state.keys() == {name for name in inputs if name.startswith("state/")}
    second = served.predict({"obs": inputs["obs"]} | state)
    assert first["action"].shape == second["action"].shape == (1,)
    assert not np.array_equal(first["state/h"], second["state/h"])
