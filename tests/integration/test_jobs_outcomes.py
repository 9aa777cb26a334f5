"""The first-day jobs that end in a policy or a diagnosis: their pages' blocks run in page order."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import gymnasium as gym
import numpy as np
import pytest
from page_blocks import ROOT, blocks, text_of, write_files
from page_commands import follow, free_ports, output_of, play, servers

from analysis import curves_frame
from experiments.commands.recording.data_summary import summarise
from experiments.spec.metrics import declared_metrics
from experiments.sweep.load import load_specs
from trainables.core.export.policy_graph import ACTION, OBS
from trainables.core.reported_metrics import MODULE
from trainables.registry import get_algorithm

JOBS = "docs/jobs"
OFFLINE = f"{JOBS}/offline_from_pandas.md"
SELF_PLAY = f"{JOBS}/self_play.md"
SERVE = f"{JOBS}/serve_the_winner.md"
DIAGNOSIS = f"{JOBS}/did_not_learn.md"
KL = "learner/default_policy/approx_kl"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def specs_of(page: str) -> list[Any]:
    """The page's sweeps, whose spec is written into the current folder."""
    [(name, text)] = re.findall(r"cat > (\S+) <<'EOF'\n(.*?)^EOF", text_of(page), re.S | re.M)
    Path(name).write_text(text, encoding="utf-8")
    return load_specs(name)


# ------------------------------------------------------------------ from pandas


def test_the_log_of_the_shop_is_data_to_learn_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [module] = write_files(OFFLINE, folder)
    monkeypatch.syspath_prepend(folder)
    prepare = blocks(OFFLINE, "python")[1]
    assert "weeks=2000" in prepare
    exec(prepare.replace("weeks=2000", "weeks=20"), {})
    del sys.modules[module]
    found = summarise(["train.parquet"])
    assert (found.broken, found.num_episodes, found.num_terminated) == ([], 16, 16)
    assert found.num_logp == found.num_steps and found.actions[0].unseen == []
    specs = specs_of(OFFLINE)
    assert [spec.trainable for spec in specs] == ["BC", "MARWIL", "CQL", "IQL"]
    few = {"dataset_num_iters_per_learner": 2, "evaluation_interval": 1}
    estimate = {"fqe": {"type": "DirectMethod", "num_updates": 2}}
    config = {**specs[-1].config, **few, "off_policy_estimation_methods": estimate}
    with get_algorithm("IQL")(config=config) as algo:
        assert np.isfinite(algo.train()[specs[-1].objective.metric])


@pytest.mark.timeout(1200)
@pytest.mark.full("test_the_log_of_the_shop_is_data_to_learn_from")
def test_from_pandas(folder: Path) -> None:
    smaller = {
        "weeks=2000": "weeks=100",
        "dataset_num_iters_per_learner: 300": "dataset_num_iters_per_learner: 20",
        "num_updates: 800": "num_updates: 10",
        "evaluation_interval: 4": "evaluation_interval: 1",
        "training_iteration: 4": "training_iteration: 1",
        "num_samples: 4": "num_samples: 1",
        "--estimator dm": "",  # 2,000 updates
        "weeks=500": "weeks=5",
    }
    printed = follow(OFFLINE, folder, smaller)
    assert "80 episodes, 480 steps" in output_of(printed, "tunescape data")
    assert "IQL" in output_of(printed, "tunescape run")
    assert "wis" in output_of(printed, "tunescape evaluate")
    rule, policy = output_of(printed, "for name, who in").splitlines()[-2:]
    assert rule.startswith("rule ") and np.isfinite(float(policy.removeprefix("policy ")))


# ------------------------------------------------------------------ self-play


def test_the_league_plays_and_is_evaluated(folder: Path) -> None:
    [spec] = specs_of(SELF_PLAY)
    small = {"train_batch_size_per_learner": 512, "minibatch_size": 256, "evaluation_interval": 1}
    with get_algorithm(spec.trainable)(config={**spec.config, **small}) as algo:
        result = algo.train()
    assert -1 <= result[spec.objective.metric] <= 1
    named = re.findall(r"--metric (\S+)", text_of(SELF_PLAY))
    assert set(named) == {"league/main/elo", "league/main/win_rate"} <= set(result)


@pytest.mark.timeout(1200)
@pytest.mark.full("test_the_league_plays_and_is_evaluated")
def test_self_play(folder: Path) -> None:
    smaller = {
        "freeze_every: 10": "freeze_every: 1",
        "evaluation_interval: 10": "evaluation_interval: 1",
        "evaluation_duration: 200": "evaluation_duration: 20",
        "150000": "8192",
        "num_samples: 4": "num_samples: 1",
        "--episodes 1000": "--episodes 20",
        "--episodes 3": "--episodes 1",
    }
    printed = follow(SELF_PLAY, folder, smaller, {"--opponent human": partial(play, folder=folder)})
    for opponent in ("random", "look_ahead", "main_v0"):
        assert f"main against {opponent}" in output_of(printed, "--opponent random")
    assert "You are player_1." in output_of(printed, "--opponent human")
    assert "first move:" in output_of(printed, "first move")


# ------------------------------------------------------------------ serving


def test_the_script_of_the_web_page_is_cartpole_and_calls_the_graph_by_its_names() -> None:
    [page] = blocks(SERVE, "html")
    assert 'const obs = new ort.Tensor("float32", Float32Array.from(state), [1, 4])' in page
    assert f'policy.run({{ {OBS} }}, ["{ACTION}"])' in page
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    [script] = re.findall(r"<script>\n(.*?)</script>", page, re.DOTALL)
    env: Any = gym.make("CartPole-v1").unwrapped
    env.reset(seed=0)
    states, actions = [[float(x) for x in env.state]], [1, 0, 1, 1, 0, 0, 0, 1]
    for action in actions:
        env.step(action)
        states.append([float(x) for x in env.state])
    ask = (
        f"\nconsole.log(JSON.stringify({json.dumps(actions)}.map((a, i) => step({states}[i], a))))"
    )
    done = subprocess.run(["node", "-e", script + ask], capture_output=True, text=True, timeout=60)
    np.testing.assert_allclose(json.loads(done.stdout), states[1:], rtol=1e-9)


@pytest.mark.timeout(1200)
@pytest.mark.full("test_the_script_of_the_web_page_is_cartpole_and_calls_the_graph_by_its_names")
def test_serve_the_winner(folder: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    first, second = free_ports(2)
    with servers(folder) as start:
        smaller = {
            "80000": "2048",
            "num_samples: 4": "num_samples: 1",
            "--episodes 20": "--episodes 2",
            "5001": first,
            "http.server 8000": f"http.server {second}",
        }

        def save(code: str) -> str:
            (folder / "web" / "index.html").write_text(code, encoding="utf-8")
            return ""

        by_hand = {"mlflow models serve": start, "http.server": start, "<!doctype html>": save}
        printed = follow(SERVE, folder, smaller, by_hand)
        with urlopen(f"http://127.0.0.1:{second}/", timeout=30) as answer:
            assert b"policy.onnx" in answer.read()
    served = json.loads(output_of(printed, "curl -s"))["predictions"]
    assert json.loads(output_of(printed, "urlopen")) == served and {*served} <= {0, 1}
    # What the script gives and takes is what the graph has.
    session = onnxruntime.InferenceSession(folder / "web" / "policy.onnx")
    [given] = session.get_inputs()
    assert (given.name, given.type, given.shape[1:]) == (OBS, "tensor(float)", [4])
    [action] = [out for out in session.get_outputs() if out.name == ACTION]
    assert action.type == "tensor(int64)" and len(action.shape) == 1


# ------------------------------------------------------------------ diagnosis


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that draws the page's pictures."""
    spec = importlib.util.spec_from_file_location(
        "make_diagnosis", ROOT / JOBS / "make_diagnosis.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_diagnosis", module)
    spec.loader.exec_module(module)
    return module


def test_the_table_names_metrics_and_settings_that_there_are() -> None:
    metrics = {m.name.replace(f"learner/{MODULE}/", "") for m in declared_metrics()}
    algorithms = [get_algorithm(name) for name in ("PPO", "A2C", "DQN")]
    settings = {name for algorithm in algorithms for name in algorithm.config_class().to_dict()}
    rows = re.findall(r"^\| (.*) \| (.*) \| (.*) \| (.*) \|$", text_of(DIAGNOSIS), re.MULTILINE)[2:]
    assert len(rows) >= 12
    for symptom, metric, _, change in rows:
        named = re.findall(r"`(\S+)`", f"{symptom} {metric}")
        assert set(named) <= metrics, named
        changed = [code.partition(":")[0] for code in re.findall(r"`([^`]+)`", change)]
        assert set(changed) <= settings, changed


def test_every_fault_has_its_picture(pictures: Any, tmp_path: Path) -> None:
    shown = re.findall(r"!\[[^\]]+\]\((\w+)\.png\)", text_of(DIAGNOSIS))
    assert sorted(shown) == sorted(pictures.FAULTS) and len(shown) >= 6
    files = [ROOT / JOBS / f"{name}.png" for name in shown]
    assert {file.name: file.stat().st_size for file in files if file.stat().st_size > 150_000} == {}
    # The script that makes them runs.
    short = dataclasses.replace(pictures.FAULTS["lr_too_low"], steps=1500)
    drawn = pictures.draw(short, tmp_path / "short.png", seeds=[0])
    assert drawn.read_bytes().startswith(b"\x89PNG")
    [first, *_] = pictures.train("PPO", {**short.healthy, **short.broken, "seed": 0}, 1500)
    assert first[KL] < 1e-5  # what the page's table says of this fault


@pytest.mark.timeout(1200)
@pytest.mark.full("test_the_table_names_metrics_and_settings_that_there_are")
def test_did_not_learn(folder: Path) -> None:
    printed = follow(DIAGNOSIS, folder, {"30000": "10000"})
    found = curves_frame("runs/stuck", [KL]).groupby("config/lr")[KL].median()
    assert found[1e-6] < 1e-5 < found[2e-3] < found[0.05]
    assert "0.002" in output_of(printed, "curves_frame")
    assert all(Path(name).is_file() for name in ("kl.csv", "kl.png"))
