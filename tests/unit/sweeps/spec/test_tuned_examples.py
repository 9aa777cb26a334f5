"""What RLlib's documents name as tuned examples have specs here, to be planned without a GPU.

That each of them trains is in `tests/integration/test_readme.py`.
"""

from __future__ import annotations

import re
import sys

import pytest
from small_runs import missing_extra

from experiments import cli
from experiments.spec.files import find_spec
from experiments.sweep.load import load_specs

# By algorithm, the examples as the documents name them, and the specs.
EXAMPLES = {
    "PPO": {"Pong-v5": "ppo/pong", "CartPole-v1": "ppo/cartpole", "Pendulum-v1": "ppo/pendulum"},
    "DQN": {
        "PongDeterministic-v4": "dqn/pong",
        "Rainbow configuration": "dqn/pong_rainbow",
        "four games": "dqn/atari",
        "with Dueling and Double-Q": "dqn/atari",
        "with Distributional DQN": "dqn/atari",
    },
    "SAC": {"Pendulum-v1": "sac/pendulum", "HalfCheetah-v3": "sac/halfcheetah"},
    "APPO": {"Pong-v5": "appo/pong", "HalfCheetah-v4": "appo/halfcheetah"},
    "IMPALA": {
        "PongNoFrameskip-v4": "impala/pong",
        "vectorized configuration": "impala/pong_vectorized",
        "multi-gpu configuration": "impala/pong_multi_gpu",
        "four games": "impala/atari",
    },
    "DreamerV3": {
        "Atari 100k": "dreamerv3/pong_100k",
        "DeepMind Control Suite": "dreamerv3/walker_walk",
    },
}
NAMES = sorted({name for examples in EXAMPLES.values() for name in examples.values()})
GAMES = ["BeamRider", "Breakout", "Qbert", "SpaceInvaders"]
HERE = (
    "config.num_env_runners=0",
    "config.num_learners=0",
    "config.num_gpus_per_learner=0",
    "resources.num_cpus=2",
)


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_planned(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = find_spec(f"tuned/{name}").read_text()
    if missing_extra(text):
        pytest.skip("needs an extra")
    sets = [part for value in HERE for part in ("--set", value)]
    if name.startswith(("dqn", "dreamerv3", "sac")):
        sets = [part for value in (HERE[0], *HERE[2:]) for part in ("--set", value)]
    if "\nmatrix:" in text:
        sets += ["--set", "matrix.env=[ALE/Breakout-v5]"]
    monkeypatch.setattr(sys, "argv", ["tunescape", "run", f"tuned/{name}", "--dry-run", *sets])
    with pytest.raises(SystemExit) as status:
        cli.main()
    captured = capsys.readouterr()
    assert not status.value.code, captured.err
    assert re.search("# trials: 1, |: 1 trials of DQN", captured.out)


def test_what_was_not_scored_says_so() -> None:
    for name in NAMES:
        text = " ".join(find_spec(f"tuned/{name}").read_text().replace("\n# ", " ").split())
        needs_gpu = "num_gpus_per_learner" in text
        assert ("not scored, because no GPU was available." in text) == needs_gpu, name
        # Whose number it is.
        assert not needs_gpu or "RLlib" in text or "author publishes" in text, name


@pytest.mark.parametrize("name", ["dqn/atari", "impala/atari"])
def test_four_games_are_four_sweeps(name: str) -> None:
    specs = load_specs(f"tuned/{name}", ["resources.address=auto"])  # nothing is tried
    games = [spec.config["env"] for spec in specs]
    assert sorted(set(games)) == [f"ALE/{game}-v5" for game in GAMES]
    kinds = {spec.name.rpartition("-")[2]: spec.config for spec in specs[:4]}
    if name == "dqn/atari":
        assert not kinds["plain"]["double_q"] and not kinds["plain"]["dueling"]
        assert kinds["dueling"]["double_q"] and kinds["dueling"]["dueling"]
        assert kinds["distributional"]["num_atoms"] == 51
        assert kinds["rainbow"]["noisy"] and kinds["rainbow"].get("epsilon") is None
        assert kinds["rainbow"]["replay_buffer_config"]["capacity"] == 1_000_000


def test_several_gpus_have_a_learner_each() -> None:
    [spec] = load_specs("tuned/impala/pong_multi_gpu", ["resources.address=auto"])
    assert (spec.config["num_learners"], spec.config["num_gpus_per_learner"]) == (2, 1)
