"""Tables whose columns have names of their own, Parquet and CSV: settings, and what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from episode_files import batch, json_file
from refusals import Golden, refusals

from trainables import MARWILConfig
from trainables.core.errors import ConfigError
from trainables.runtime.offline.data_set import DataSet, load_data_set
from trainables.runtime.offline.inputs import find_source

NAMED: dict[str, Any] = {
    "obs_columns": ["customers", "price", "promo"],
    "action_column": "choice",
    "reward_column": "gain",
    "episode_column": "week",
}
FORMATS = ("parquet", "csv")


def frame(**columns: Any) -> pd.DataFrame:
    """Three weeks of ten rows; a column that is None is left out."""
    number = np.arange(30)
    plain = {
        "customers": number * 1000,
        "price": number / 4,
        "promo": number % 3 == 0,
        "choice": number % 2,
        "gain": number,
        "week": number // 10,
        "truncated": number % 10 == 9,
    }
    found = {name: column for name, column in {**plain, **columns}.items() if column is not None}
    return pd.DataFrame(found)


def file_of(table: pd.DataFrame, folder: Path, format_: str) -> Path:
    path = folder / f"logs.{format_}"
    table.to_parquet(path) if format_ == "parquet" else table.to_csv(path, index=False)
    return path


def load(path: Path, cache: Path, **names: Any) -> DataSet:
    return load_data_set(find_source(path, names), cache=cache)


@pytest.mark.parametrize("format_", FORMATS)
def test_columns_of_any_name_are_read(format_: str, tmp_path: Path) -> None:
    table = frame()
    data = load(file_of(table, tmp_path, format_), tmp_path / "cache", **NAMED)
    assert data.spaces.observation == gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    assert data.spaces.action == gym.spaces.Discrete(2)
    assert (data.num_episodes, data.num_steps) == (3, 30)
    assert data.episodes["truncated"].tolist() == [True] * 3
    valid = data.columns["valid"]
    expected = table[["customers", "price", "promo"]].to_numpy(np.float64)
    assert np.array_equal(data.columns["obs"][valid], expected)
    assert data.columns["actions"][valid].tolist() == table["choice"].tolist()
    assert data.columns["rewards"][valid].tolist() == table["gain"].tolist()


def test_one_column_is_the_observation_as_it_is(tmp_path: Path) -> None:
    table = frame(state=[[float(number), 1.0] for number in range(30)])
    names = {**NAMED, "obs_columns": ["state"]}
    data = load(file_of(table, tmp_path, "parquet"), tmp_path / "cache", **names)
    assert data.columns["obs"].shape == (33, 2)
    names = {**NAMED, "obs_columns": "price"}
    data = load(file_of(table, tmp_path, "parquet"), tmp_path / "cache", **names)
    assert data.columns["obs"].shape == (33,)


def test_ours_are_needed_in_no_setting(tmp_path: Path) -> None:
    """Also with numbers of CSV that look whole at first."""
    names = {"price": "obs/price", "choice": "action", "gain": "reward", "week": "episode_id"}
    table = frame(price=[1] * 20 + [0.5] * 10, gain=[0] * 20 + [0.5] * 10).rename(columns=names)
    (tmp_path / "logs.json").mkdir()
    data = load(file_of(table, tmp_path, "csv"), tmp_path / "cache")
    assert data.columns["obs"]["price"][[0, 29]].tolist() == [1, 0.5]
    assert data.num_episodes == 3


def test_it_trains(tmp_path: Path) -> None:
    path = file_of(frame(), tmp_path, "csv")
    config = MARWILConfig().offline_data(input_=str(path), input_config=NAMED)
    config.training(train_batch_size_per_learner=8, model={"fcnet_hiddens": [8]})
    algo = config.build()
    assert algo.train()["num_env_steps_trained_lifetime"] > 0
    algo.stop()


def test_tables_beside_other_data_are_passed_over(tmp_path: Path) -> None:
    json_file(tmp_path / "a.json", batch())
    (tmp_path / "progress.csv").write_text("a,b\n1,2\n")
    assert find_source(tmp_path).files == [str(tmp_path / "a.json")]


def test_what_is_missing_is_told_with_the_cure(tmp_path: Path, golden: Golden) -> None:
    texts = frame(choice=["left", "right"] * 15)
    given = {**NAMED}
    cases: dict[str, tuple[pd.DataFrame, dict[str, Any]]] = {
        "features in columns of their own": (texts, {}),
        "no action": (texts, {"obs_columns": ["price"]}),
        "no reward": (texts, {"obs_columns": ["price"], "action_column": "choice"}),
        "no ends": (frame(truncated=None), given),
        "texts as actions": (texts, given),
        "texts as features": (texts, {**given, "obs_columns": ["price", "choice"]}),
        "a name that no column has": (texts, {**given, "obs_columns": ["prise"]}),
        "a feature that is missing": (frame(price=[None] + [1.0] * 29), given),
    }
    found = {}
    for format_ in FORMATS:
        folder = tmp_path / format_
        folder.mkdir()

        def read(table: pd.DataFrame, names: dict[str, Any], folder: Path = folder) -> None:
            load(file_of(table, folder, folder.name), tmp_path / "cache", **names)

        hidden = {str(folder): "<folder>", f"logs.{format_}": "logs.<format>"}
        found[format_] = refusals(read, cases, replace=hidden)
    assert found["csv"] == found["parquet"]
    golden("bad_data/tables", found["csv"])


def test_what_is_no_table(tmp_path: Path) -> None:
    for text in (
        b"",
        b'"',
        b"\0",
        b"obs,action\n1\n",
        b"a,a\n1,2\n",
        b"\xfc,a\n",
        b'a,b\n"1\n2\n",1,1\n',
    ):
        (tmp_path / "a.csv").write_bytes(text)
        with pytest.raises(ConfigError, match=r"a\.csv[,:]") as raised:
            load(tmp_path / "a.csv", tmp_path / "cache", obs_columns=["obs"])
        assert "\n" not in str(raised.value)
