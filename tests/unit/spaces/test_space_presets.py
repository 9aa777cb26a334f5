"""Every preset of every space is valid, can be named, printed and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from recorded_data import recorded
from refusals import Golden, refusals
from small_runs import needs_data
from tiers import rarely

from experiments.commands.space import (
    _EXPRESSIONS,
    FORMS,
    show_space,
    space_as_python,
    space_as_yaml,
)
from experiments.spec.trainable import resolve_trainable
from experiments.sweep.load import make_spec, spec_space
from experiments.terminal import make_console
from search_spaces import SearchSpace, SpecError, load_preset, load_space, preset_names, space_names
from search_spaces.conditions import look_up, settings_of
from search_spaces.domains import TRANSFORMS
from search_spaces.loader import spaces_by_trainable
from trainables.registry import algorithm_names

PRESETS = [f"{name}/{preset}" for name in space_names() for preset in preset_names(name)]


def config_class(name: str) -> Any:
    trainable: Any = resolve_trainable(load_preset(name).trainable)
    return trainable.config_class


def test_every_algorithm_has_a_space_with_the_same_presets() -> None:
    assert sorted(spaces_by_trainable()) == sorted(algorithm_names())
    for name in space_names():
        own, elsewhere = preset_names(name)[:3], preset_names(name)[3:]
        assert own == ["default", "small", "wide"]
        # What others search, of the algorithms that they have.
        both = ["zoo", "arlbench"]
        theirs = {"a2c": ["zoo"], "dqn": both, "ppo": both, "sac": both}
        assert elsewhere == theirs.get(name, [])


@pytest.mark.parametrize("draws", [2, pytest.param(15, marks=pytest.mark.full)])
def test_every_draw_of_a_preset_is_a_valid_config(draws: int) -> None:
    wrong = []
    for name in PRESETS:
        config, space = config_class(name), load_space(name)
        assert space.check(config).keys == space.keys  # canonical names only
        generator = np.random.default_rng(0)
        # Nothing is read of the data of an algorithm that needs some.
        data = {} if config().needs_env else {"input_": "data"}
        for _ in range(draws):
            drawn = space.config(space.sample(generator))
            try:
                config.from_dict({"env": "CartPole-v1", **data, **drawn}).validate()
            except ValueError as error:
                wrong.append(f"{name}: {error}")
    assert wrong == []


def test_a_preset_says_where_its_ranges_come_from() -> None:
    authors = {"zoo": "RL-Baselines3-Zoo", "arlbench": "ARLBench"}
    for name in PRESETS:
        preset = load_preset(name)
        assert preset.description.endswith(".") and preset.source.endswith("."), name
        assert set(preset.notes) <= set(preset.space.keys), name
        assert authors.get(name.partition("/")[2], "") in preset.source, name


def test_small_is_small_and_wide_is_wide() -> None:
    for name in space_names():
        keys = [load_space(f"{name}/{preset}").keys for preset in ("small", "default", "wide")]
        small, default, wide = keys
        assert 3 <= len(small) <= 4 and set(small) <= set(default), name
        assert len(wide) > 1.5 * len(default), name


def test_names() -> None:
    assert load_space("ppo") == load_space("PPO") == load_space("ppo/default")
    assert load_preset("PPO/Zoo".lower()).name == "ppo/zoo"
    assert load_preset("ppo").notes["minibatch_size"] == "16 … 256"


UNKNOWN = [
    "pppo",
    "smal",
    "small",
    "zoo",
    "ppo/zo",
    "pppo/zoo",
]


def test_unknown_names(golden: Golden) -> None:
    golden("search_spaces/unknown_names", refusals(load_space, UNKNOWN, SpecError))


ONE = "trainable: PPO\nparameters:\n  lr: {uniform: [0, 1]}  # any\n"
SEVERAL = """\
presets:
  default:
    parameters: {lr: {uniform: [0, 1]}}
  hash:
    parameters:
      env: {choice: ["a#b", 'c # d']} # "e" # f
      model:
        fcnet_activation:
          choice: [tanh]
"""


def test_files_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(ONE)
    preset = load_preset(str(path))
    assert (preset.trainable, preset.space.keys, preset.notes) == ("PPO", ["lr"], {"lr": "any"})
    path.write_text(SEVERAL)
    assert load_space(str(path)).keys == ["lr"]
    preset = load_preset(f"{path}/hash")
    assert preset.space.keys == ["env", "model.fcnet_activation"]
    assert preset.notes == {"env": '"e" # f'}


BAD_FILES = [
    "parametres:\n  lr: {uniform: [0, 1]}\n",
    "parameters:\n  lr: {uniform: [2, 1]}\n",
    "trainable: PPO\n",
    "presets: {small: {parameters: {}}}\n",
    "presets: {default: 3}\n",
    "presets:\n  default:\n    sorce: a\n",
    "presets:\n  default: {source: a}\n",
    "source: a\npresets: {default: {parameters: {}}}\n",
]


def test_bad_files(tmp_path: Path, golden: Golden) -> None:
    path = tmp_path / "mine.yaml"

    def read(text: str) -> None:
        path.write_text(text)
        load_space(str(path))

    texts = refusals(read, BAD_FILES, SpecError, replace={str(tmp_path): "<folder>"})
    golden("search_spaces/files", texts)


# -- in a spec -------------------------------------------------------------------------------------


def spec(**keys: Any) -> SearchSpace:
    config = {"env": "CartPole-v1"}
    data = {"name": "x", "config": config, "stop": {"training_iteration": 1}, **keys}
    return spec_space(make_spec(data))


@pytest.mark.parametrize("trainable", rarely([*algorithm_names()], ["BC", "PPO"]))
def test_a_preset_alone_is_the_trainables_own(trainable: str) -> None:
    own = spaces_by_trainable()[trainable]
    config: dict[str, Any] = {"env": "CartPole-v1", "evaluation_interval": 1}
    if needs_data(trainable):
        config["input_"] = recorded("CartPole-v1")
    keys: dict[str, Any] = {"trainable": trainable, "config": config}
    assert spec(**keys, search_space="small") == load_space(f"{own}/small")
    without = load_space(f"{own}/default").keys[-1]
    based = spec(**keys, search_space={"base": "default", without: None})
    assert without not in based.keys and "lr" in based.keys


def test_an_algorithm_that_extends_another_has_its_space() -> None:
    assert spec(trainable="test_space_presets:MyPPO", search_space="small").keys[0] == "lr"


DO_NOT_FIT: list[dict[str, Any]] = [
    {"search_space": "dqn"},
    {"search_space": "ppo/smal"},
    {"search_space": {"base": "small", "grad_clip": None}},
    {"trainable": "sweep_dummy:Dummy", "search_space": "small"},
]


def test_spaces_that_do_not_fit(golden: Golden) -> None:
    def read(keys: dict[str, Any]) -> None:
        spec(**{"trainable": "PPO", **keys})

    golden("search_spaces/do_not_fit", refusals(read, DO_NOT_FIT, SpecError))


def __getattr__(name: str) -> type:
    """`MyPPO`: made when a test names it, as its base imports torch and Ray."""
    if name != "MyPPO":
        raise AttributeError(name)
    return type("MyPPO", (resolve_trainable("PPO"),), {"__module__": __name__})


# -- printed ---------------------------------------------------------------------------------------


def test_yaml_reads_back() -> None:
    for preset in map(load_preset, PRESETS):
        text = space_as_yaml(preset)
        assert SearchSpace.parse(yaml.safe_load(text)["search_space"]) == preset.space, preset.name
        assert all(f"# {note}" in text for note in preset.notes.values()), preset.name


def test_python_draws_the_same() -> None:
    for name in PRESETS:
        check_python(name)


def check_python(name: str) -> None:
    from ray.tune.search.variant_generator import generate_variants

    code = space_as_python(load_preset(name))
    assert max(len(line) for line in code.splitlines() if line.startswith("#")) <= 100
    scope: dict[str, Any] = {}
    exec(code.rpartition("\n")[0], scope)  # without the last line, which makes a Tuner
    values: dict[str, list[Any]] = {}
    space, defaults = load_space(name), settings_of(config_class(name)())
    for _ in range(4):
        ((_, variant),) = generate_variants({"config": scope["param_space"]})
        # An inactive setting has its default.
        drawn = {p.path: look_up(variant["config"], p.path)[1] for p in space.parameters}
        for parameter in space.parameters:
            if parameter.active(drawn):
                values.setdefault(parameter.key, []).append(drawn[parameter.path])
            else:
                assert drawn[parameter.path] == look_up(defaults, parameter.path)[1]
    for parameter in space.parameters:
        domain = parameter.domain
        if parameter.key not in values:
            continue  # never active in these few
        if domain.finite is not None:
            allowed = [domain.value(searched) for searched in domain.finite]
            assert all(value in allowed for value in values[parameter.key])
        else:
            low, high = sorted(domain.value(probe) for probe in domain.probes())
            assert low <= min(values[parameter.key]) <= max(values[parameter.key]) <= high


def test_python_knows_every_transform() -> None:
    assert set(_EXPRESSIONS) == set(TRANSFORMS)
    for name, transform in TRANSFORMS.items():
        assert eval(_EXPRESSIONS[name].format(3)) == transform.forward(3)


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    show_space(load_preset("ppo/wide"), "table", make_console())
    output = capsys.readouterr().out
    assert "loguniform of one_minus_…" in output and "0.8 … 0.9999" in output
    assert "depends on the scale of returns" in output and "ARLBench" not in output
    assert "use_kl_loss: True" in output
    with pytest.raises(SpecError, match="did you mean 'yaml'"):
        show_space(load_preset("ppo"), "yml", make_console())
    assert FORMS[0] == "table"


def test_a_space_with_conditions_is_for_some_trainable(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "parameters:\n  noisy: {choice: [true]}\n  sigma0: {uniform: [0, 1], when: {noisy: true}}\n"
    )
    with pytest.raises(SpecError, match="has conditions: name its trainable"):
        space_as_python(load_preset(str(path)))
