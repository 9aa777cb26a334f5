"""The functional ANOVA of a tree against optuna's, and against slow averages over a dense grid."""

from __future__ import annotations

import numpy as np
import pytest
from settings_sweeps import log_uniform, sweep_of, uniform
from sklearn.tree import DecisionTreeRegressor

from analysis.importance.fanova import Axis, TreeMarginals
from analysis.importance.surrogate import fit_surrogate


def fitted(seed: int = 0) -> tuple[DecisionTreeRegressor, TreeMarginals]:
    """A tree whose thresholds lie on the edges of 40 cells: their average is exact."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 21, size=(60, 3)) / 20
    y = x[:, 0] + 3 * (x[:, 1] - 0.5) * (x[:, 2] - 0.5)
    tree = DecisionTreeRegressor(random_state=0).fit(x, y)
    return tree, TreeMarginals(tree.tree_, (Axis(0, 1),) * 3)


def test_averages_are_those_of_predictions() -> None:
    tree, marginals = fitted()
    coarse = (np.arange(40) + 0.5) / 40
    cube = np.stack(np.meshgrid(coarse, coarse, coarse, indexing="ij"), axis=-1)
    values = tree.predict(cube.reshape(-1, 3)).reshape(cube.shape[:-1])
    assert marginals.mean == pytest.approx(values.mean())
    assert marginals.variance == pytest.approx(values.var())
    assert marginals.curve(1, coarse) == pytest.approx(values.mean(axis=(0, 2)))
    surface = marginals.surface(0, 2, coarse, coarse)
    assert surface == pytest.approx(values.mean(axis=1))
    main = [values.mean(axis=axes).var() / values.var() for axes in ((1, 2), (0, 2), (0, 1))]
    assert [marginals.main(setting) for setting in range(3)] == pytest.approx(main)
    pair = values.mean(axis=0).var() / values.var() - main[1] - main[2]
    assert marginals.pair(1, 2) == pytest.approx(pair, abs=1e-6) and pair > 0.01
    assert marginals.pair(2, 1) == pytest.approx(marginals.pair(1, 2))


def test_levels_and_absence_have_their_shares() -> None:
    """Setting 0 is a choice with uneven shares, setting 1 a number that a third of trials lack."""
    rng = np.random.default_rng(1)
    numbers = np.where(rng.uniform(size=200) < 1 / 3, -0.25, rng.uniform(size=200))
    x = np.stack([rng.integers(0, 3, size=200), numbers], axis=1)
    y = 2.0 * (x[:, 0] == 1) + 5.0 * (numbers < 0)
    tree = DecisionTreeRegressor(random_state=0).fit(x, y)
    choice = Axis(levels=(0.0, 1.0, 2.0), shares=(0.5, 0.25, 0.25))
    number = Axis(numbers[numbers >= 0].min(), numbers.max(), absent=-0.25, absent_share=1 / 3)
    marginals = TreeMarginals(tree.tree_, (choice, number))
    assert marginals.mean == pytest.approx(2 * 0.25 + 5 / 3)
    of_choice, of_number = 4 * 0.25 * 0.75, 25 * (1 / 3) * (2 / 3)
    assert marginals.variance == pytest.approx(of_choice + of_number)
    assert marginals.main(0) == pytest.approx(of_choice / (of_choice + of_number))
    assert marginals.main(1) == pytest.approx(of_number / (of_choice + of_number))
    assert marginals.pair(0, 1) == pytest.approx(0, abs=1e-9)


def test_importances_are_optunas() -> None:
    """On the scale that was searched: optuna itself would average over step sizes linearly."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sweep = sweep_of(
        lambda c: np.log10(c["lr"]) + 2 * c["x"] * c["y"],
        {"lr": log_uniform, "x": uniform, "y": uniform},
        trials=24,
    )
    learned = fit_surrogate(sweep, forests=1)
    data = learned.data
    assert [scale.kind for scale in data.scales] == ["log", "linear", "linear"]
    ranges = {
        name: optuna.distributions.FloatDistribution(column.min(), column.max())
        for name, column in zip(data.settings, data.positions.T, strict=True)
    }
    study = optuna.create_study()
    for row, value in zip(data.positions, data.values, strict=True):
        params = dict(zip(data.settings, map(float, row), strict=True))
        study.add_trial(
            optuna.trial.create_trial(params=params, distributions=ranges, value=float(value))
        )
    theirs = optuna.importance.FanovaImportanceEvaluator(seed=0).evaluate(study)
    for place, name in enumerate(data.settings):
        ours = np.mean([tree.main(place) for tree in learned.trees[0]])
        assert ours == pytest.approx(theirs[name], abs=1e-9)
