"""The example of the guide to callbacks runs as it stands."""

import sys
from pathlib import Path

import pytest
from page_blocks import blocks, write_modules

PAGE = "trainables/guides/callbacks.md"


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [module] = write_modules(PAGE, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {}
    exec(blocks(PAGE, "python")[1], names)
    config = names["config"].training(num_epochs=1).debugging(seed=0)  # type: ignore[attr-defined]
    with config.build() as algorithm:
        result = algorithm.train()
    least, mean = (result[f"custom_metrics/pole_angle_{what}"] for what in ("min", "mean"))
    assert 0.2 < least < mean < 0.5  # an episode ends at 12 degrees
    assert result["custom_metrics/long_episodes_sum"] == 0
    assert result["steps_per_episode"] > 5
    del sys.modules[module]
