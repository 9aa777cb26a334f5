"""The example of trainables/README.md's section on callbacks runs as it stands."""

import re
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "trainables" / "README.md").read_text(encoding="utf-8")


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = README.partition("## Callbacks")[2].partition("\n## ")[0]
    module, use = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    (tmp_path / "my_callbacks.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {}
    exec(use, names)
    config = names["config"].training(num_epochs=1).debugging(seed=0)  # type: ignore[attr-defined]
    with config.build() as algorithm:
        result = algorithm.train()
    least, mean = (result[f"custom_metrics/pole_angle_{what}"] for what in ("min", "mean"))
    assert 0.2 < least < mean < 0.5  # an episode ends at 12 degrees
    assert result["custom_metrics/long_episodes_sum"] == 0
    assert result["steps_per_episode"] > 5
    del sys.modules["my_callbacks"]
