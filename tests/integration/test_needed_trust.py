"""What a sweep prints for its policy works as printed, in a process that knows nothing of it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import own_env
import pytest
from gymnasium.spaces import Box, Discrete
from sweep_processes import start

from experiments.commands.results.summary import evaluate_command, next_commands
from experiments.running.results import Outcome
from experiments.sweep.load import make_spec
from trainables import PPO
from trainables.core.policy.policy import Policy
from trainables.runtime.evaluation.needed_trust import names_no_environment, needed_trust

SMALL = {"model": {"fcnet_hiddens": [8]}}
IN_FOLDER = {"folder": "a folder/x"}
later = pytest.mark.full


@pytest.mark.parametrize(
    ("algorithm", "env", "env_config", "needed"),
    [
        pytest.param(PPO, "CartPole-v1", {}, [], marks=later),
        pytest.param(PPO, "own_env:Corridor", IN_FOLDER, ["own_env:Corridor"], marks=later),
        pytest.param(PPO, "own_env:OwnCorridor-v0", {}, ["own_env:OwnCorridor-v0"], marks=later),
        (own_env.OwnPPO, "OwnCorridor-v0", IN_FOLDER, ["env_config", "own_env:OwnPPO"]),
    ],
)
def test_the_command_that_is_printed_plays(
    tmp_path: Path, algorithm: type[PPO], env: str, env_config: dict[str, Any], needed: list[str]
) -> None:
    algo = algorithm({"env": env, "env_config": env_config, **SMALL})
    folder = tmp_path / "a best"
    algo.export_policy_checkpoint(str(folder))
    algo.stop()
    assert needed_trust(folder) == needed
    words = shlex.split(evaluate_command(folder))[1:]
    process = start(tmp_path, *words, "--episodes", "1", "--max-steps", "30")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert "Played" in output
    if needed:  # the options are needed, no decoration
        bare = start(tmp_path, "evaluate", str(folder), "--episodes", "1")
        output, _ = bare.communicate(timeout=300)
        assert bare.returncode == 2 and "--trust, once" in output, output


def test_several_policies_need_what_each_and_their_mapping_name(tmp_path: Path) -> None:
    env, mapping = "telling_agents:TellingAgents", "telling_agents:moving"
    algo = PPO({"env": env, "policies": ["a", "b"], "policy_mapping_fn": mapping, **SMALL})
    for policy_id in algo.policies:
        algo.export_policy_checkpoint(str(tmp_path / policy_id), policy_id=policy_id)
    algo.stop()
    for folder in (tmp_path, tmp_path / "a"):
        assert needed_trust(folder) == [env, mapping]
        assert evaluate_command(folder).endswith(f"--trust {env} --trust {mapping}")


def test_nothing_is_played_where_no_environment_is_known(tmp_path: Path) -> None:
    box = Box(-1, 1, (2,))
    for name, env in (("data", None), ("env", "CartPole-v1")):
        Policy(box, Discrete(2), metadata={"env": env}).save(tmp_path / name)
        outcome = Outcome(None, tmp_path, False, best=tmp_path / name)  # type: ignore[arg-type]
        commands = next_commands(
            outcome, make_spec({"name": "x", "trainable": "sweep_dummy:Dummy"})
        )
        assert any("evaluate" in line for line in commands) == (env is not None)
    (tmp_path / "nothing").mkdir()
    assert not names_no_environment(tmp_path / "nothing")


def test_of_what_is_no_policy_nothing_is_needed(tmp_path: Path) -> None:
    assert needed_trust(tmp_path) == []
    (tmp_path / "policy.json").write_text("{")
    assert needed_trust(tmp_path) == []
