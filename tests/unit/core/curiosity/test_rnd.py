"""Random network distillation: what it predicts, and where it learns to."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.curiosity.novelty import BONUS
from trainables.core.curiosity.rnd import RandomDistillation
from trainables.core.data.batch import Batch, tree_of
from trainables.core.data.features import FeatureSpec
from trainables.core.learning.ranks import ALONE


def made(**options: Any) -> RandomDistillation:
    torch.manual_seed(0)
    given = {"type": "RND", "feature_dim": 6, "normalize_observations": False, **options}
    return RandomDistillation(FeatureSpec(3), ExplorationConfig.of(given))


def leading_to(rows: Tensor) -> Batch:
    """Transitions to some observations."""
    return {"features": torch.full_like(rows, torch.nan), "next_features": rows}


def around(center: float, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return leading_to(center + 0.3 * torch.randn(64, 3, generator=generator))


def dense(network: nn.Sequential, row: np.ndarray, rectified: bool) -> np.ndarray:
    """Linear layers of one row, a ReLU between them and, if it is asked for, behind the last."""
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    for layer in layers:
        row = layer.weight.detach().double().numpy() @ row + layer.bias.detach().double().numpy()
        if rectified or layer is not layers[-1]:
            row = np.maximum(row, 0)
    return row


def test_the_bonus_is_the_mean_squared_error_over_the_features() -> None:
    rnd, batch = made(), around(0.0, 1)
    expected = []
    features, _, head = rnd.predictor
    assert isinstance(features, nn.Sequential) and isinstance(head, nn.Sequential)
    for row in batch["next_features"].double().numpy():
        predicted = dense(head, dense(features, row, True), False)
        aim = dense(rnd.random, row, False)
        assert len(aim) == 6
        expected.append(sum((p - a) ** 2 for p, a in zip(predicted, aim, strict=True)) / 6)
    np.testing.assert_allclose(rnd.bonus(batch).detach(), expected, rtol=1e-5)
    loss, metrics = rnd.loss(batch)
    np.testing.assert_allclose(loss.item(), np.mean(expected), rtol=1e-5)
    assert metrics["predictor_loss"] == loss.item()
    np.testing.assert_allclose(batch[BONUS], expected, rtol=1e-5)
    assert not batch[BONUS].requires_grad


def test_the_predictor_alone_learns_and_only_where_it_was() -> None:
    rnd, here, elsewhere = made(), around(1.0, 2), around(-1.0, 3)
    before = {name: value.clone() for name, value in rnd.random.state_dict().items()}
    first_here, first_elsewhere = (rnd.bonus(batch).mean().item() for batch in (here, elsewhere))
    assert rnd.trained is not None
    optimizer = torch.optim.Adam(rnd.trained.parameters(), 1e-3)
    for _ in range(300):
        optimizer.zero_grad()
        rnd.loss(here)[0].backward()
        optimizer.step()
    assert all(p.grad is None and not p.requires_grad for p in rnd.random.parameters())
    assert all(p.grad is not None and p.grad.any() for p in rnd.predictor.parameters())
    torch.testing.assert_close(dict(rnd.random.state_dict()), before, rtol=0, atol=0)
    last_here, last_elsewhere = (rnd.bonus(batch).mean().item() for batch in (here, elsewhere))
    assert last_here < 0.05 * first_here
    assert last_elsewhere > 10 * last_here
    assert last_elsewhere > 0.2 * first_elsewhere


def test_the_random_network_is_saved_but_not_trained() -> None:
    rnd, other = made(), made()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    assert rnd.trained is not None
    trained = {id(p) for p in rnd.trained.parameters()}
    assert not trained & {id(p) for p in rnd.random.parameters()}
    other.load_state_dict(rnd.state_dict())
    batch = around(0.0, 4)
    torch.testing.assert_close(other.bonus(batch), rnd.bonus(batch), rtol=0, atol=0)


def test_the_predictor_has_hidden_layers_that_the_random_network_has_not() -> None:
    def widths(network: nn.Module) -> list[int]:
        layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
        return [layer.out_features for layer in layers]

    rnd = made(predictor_hiddens=[9, 10], feature_net_config={"fcnet_hiddens": [11]})
    assert widths(rnd.random) == [11, 6]
    assert widths(rnd.predictor) == [11, 6, 9, 10, 6]


def test_both_networks_see_normalised_observations() -> None:
    rnd, batch = made(normalize_observations=True), around(5.0, 5)
    rnd.observe(tree_of(batch, "next_features"), ALONE)
    rows = batch["next_features"].double().numpy()
    scaled = torch.from_numpy((rows - rows.mean(0)) / rows.std(0, ddof=1)).float().clamp(-5, 5)
    torch.testing.assert_close(rnd.bonus(batch), made().bonus(leading_to(scaled)))
