"""The tutorial's commands run as they stand, one after another, in an empty folder."""

import json
import re
import shutil
from pathlib import Path

import pytest
from page_blocks import code_in, text_of
from page_commands import follow, output_of, servers

from experiments.sweep.load import load_specs
from trainables.registry import get_algorithm

TUTORIAL = "experiments/tutorial.md"
SERVERS = ("mlflow models serve", "tunescape ui")
# The same commands with budgets that show nothing about learning.
SMALLER = {
    "grace_period: 8192": "grace_period: 1024",
    "24576": "2048",
    "n_startup_trials: 5": "n_startup_trials: 2",
    "num_samples: 10": "num_samples: 3",
    "seeds: 3": "seeds: 2",
    "[101, 102, 103, 104, 105]": "[101, 102]",
    "--episodes 100": "--episodes 10",
}


def test_the_tutorial_holds_what_it_promises() -> None:
    commands = "\n".join(block.code for block in code_in(TUTORIAL))
    assert all(words in commands for words in SMALLER)
    for word in ("run", "resume", "report", "frames", "compare", "evaluate", "export", "ui"):
        assert f"tunescape {word}" in commands


def test_the_comparison_is_fair(tmp_path: Path) -> None:
    """With who sets nothing, and apart from what was searched, with the search's own settings."""
    searched_for, *_ = load_specs(written("cartpole.yaml", tmp_path))
    check = load_specs(written("check.yaml", tmp_path))
    nothing, batch, searched = (spec.config for spec in check)
    assert nothing == {"env": "CartPole-v1"}
    assert batch == searched_for.config
    changed = {name: searched[name] for name in searched if name not in batch}
    assert set(changed) == set(searched_for.search_space or {})
    assert searched == {**batch, **changed}
    defaults = get_algorithm("PPO").config_class()
    assert all(defaults[name] != value for name, value in changed.items())
    assert {str(spec.stop) for spec in check} == {str(searched_for.stop)}


def written(name: str, folder: Path) -> str:
    """A spec that the tutorial writes."""
    [text] = re.findall(
        rf"cat > {name} <<'EOF'\n(.*?)^EOF", text_of(TUTORIAL), re.DOTALL | re.MULTILINE
    )
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "smaller",
    [
        pytest.param(
            SMALLER,
            id="smaller",
            marks=pytest.mark.full("test_the_tutorial_holds_what_it_promises"),
        ),
        pytest.param({}, id="as it stands", marks=pytest.mark.slow),
    ],
)
def test_the_commands_follow_one_sweep(tmp_path: Path, smaller: dict[str, str]) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    with servers(tmp_path) as start:
        printed = follow(TUTORIAL, tmp_path, smaller, dict.fromkeys(SERVERS, start))

    count = 3 if smaller else 10
    assert f"all {count} trials" in output_of(printed, "tunescape run cartpole.yaml\n")
    compared = output_of(printed, "tunescape compare")
    assert "searched" in compared if smaller else "searched is better than nothing" in compared
    page = (tmp_path / "runs" / "cartpole" / "report.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert (tmp_path / "best.mp4").stat().st_size > 1000
    asked = json.loads((tmp_path / "observations.json").read_text())["inputs"]
    served = json.loads(output_of(printed, "curl"))["predictions"]
    predicted = json.loads(output_of(printed, "mlflow models predict").splitlines()[-1])[
        "predictions"
    ]
    assert served == predicted and len(served) == len(asked)
    # The exported graph plays the very episodes that the policy played.
    first, second = (
        re.search(r"return (-?[\d.]+)", output_of(printed, command))
        for command in ("evaluate runs/cartpole --episodes 10", "evaluate policy-onnx")
    )
    assert first is not None and second is not None
    assert first.group(1) == second.group(1)
