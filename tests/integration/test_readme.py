"""The README's examples run as they stand, with smaller budgets, and so does every shipped spec."""

from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml
from page_blocks import blocks
from small_runs import missing_extra, on_two_cores
from tiers import rarely

from experiments.spec.json_schema import spec_schema
from experiments.sweep.load import dump_spec, load_spec, load_specs
from trainables.registry import get_algorithm

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "experiments").glob("*.yaml")) + sorted(
    (ROOT / "experiments" / "tuned").rglob("*.yaml")
)


SOME = [
    *("appo-cartpole", "bc-cartpole", "cql-pendulum", "dqn-cartpole", "ppo-cartpole"),
    *("experiments-two_step_game", "experiments-multi_agent_cartpole"),
]
SMALL = ".training(train_batch_size_per_learner=512, minibatch_size=256).build()"
BY_NAME = {f"{path.parent.name}-{path.stem}": path for path in SPECS}


@pytest.mark.usefixtures("ray_here")
def test_the_examples_tell_one_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spec is run; its folder is analysed; the exported policy acts; then the Python sweep."""
    from experiments import run

    monkeypatch.chdir(tmp_path)
    [spec] = blocks("README.md", "yaml")
    [sweep] = blocks("README.md", "python")
    memory, agents, large, analysis, policy = blocks("docs/python.md", "python")
    Path("cartpole.yaml").write_text(spec, encoding="utf-8")
    few = ["num_samples=2", "stop.num_env_steps_sampled_lifetime=2000"]
    run(load_spec("cartpole.yaml", few))

    names: dict[str, object] = {"observation": np.zeros(4, np.float32)}
    exec(memory.replace(".build()", SMALL), names)
    assert names["algo"].get_policy().is_recurrent  # type: ignore[attr-defined]
    names["algo"].stop()  # type: ignore[attr-defined]
    exec(agents.replace(".build()", SMALL), names)
    assert {*names["algo"].policies} == {"red", "blue"}  # type: ignore[attr-defined]
    names["algo"].stop()  # type: ignore[attr-defined]
    exec(large, names)
    names["large"].validate()  # type: ignore[attr-defined]
    exec(analysis, names)
    assert len(names["curves"]) > 0  # type: ignore[arg-type]
    exec(policy, names)
    assert names["action"] in (0, 1)

    smaller = sweep.replace("num_samples=8", "num_samples=2").replace("50_000", "1_000")
    assert smaller != sweep
    smaller = smaller.replace("param_space={", 'param_space={"train_batch_size_per_learner": 500,')
    monkeypatch.setenv("HOME", str(tmp_path))
    exec(smaller, names)
    assert names["best"].metrics["num_env_steps_sampled_lifetime"] >= 1000  # type: ignore[attr-defined]


def test_the_readme_is_short() -> None:
    """Five minutes of reading; the guides have the rest."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_every_shipped_spec_is_valid() -> None:
    """And what is dumped of it fits the schema; the next test builds them."""
    schema = jsonschema.Draft7Validator(spec_schema())
    wrong = {}
    for name, path in BY_NAME.items():
        if missing_extra(path.read_text()):
            continue
        try:
            for spec in load_specs(str(path)):
                get_algorithm(spec.trainable).config_class.from_dict(dict(spec.config)).validate()
                schema.validate(yaml.safe_load(dump_spec(spec)))
        except Exception as error:
            wrong[name] = error
    assert not wrong


@pytest.mark.parametrize("name", rarely(list(BY_NAME), SOME))
def test_every_shipped_spec_runs(name: str) -> None:
    path = BY_NAME[name]
    if extra := missing_extra(path.read_text()):
        pytest.skip(f"needs the extra {extra}")
    specs = load_specs(str(path))
    for spec in specs[:: len(specs) // 4 + 1]:  # of a matrix a diagonal: of each row and column one
        with get_algorithm(spec.trainable)(config=on_two_cores(dict(spec.config))) as algo:
            result = algo.train()
            # There is no return before an episode has ended.
            while result.get("num_episodes_lifetime") == 0:
                result = algo.train()
        assert np.isfinite(result[spec.objective.metric])
