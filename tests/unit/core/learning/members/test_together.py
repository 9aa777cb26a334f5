"""Several learners as one tensor program: each as it is alone."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
from tiers import covering
from torch import Tensor, nn

from trainables import ppo
from trainables.core.callables import callable_name
from trainables.core.config.model import OptimizerConfig
from trainables.core.data.features import FeatureSpec
from trainables.core.distributions.base import Distribution
from trainables.core.distributions.categorical import Categorical
from trainables.core.distributions.gaussian import DiagGaussian
from trainables.core.learning.learner import Learner
from trainables.core.learning.members.company import NotTogetherError, company, in_company
from trainables.core.learning.members.hosted_learner import HostedLearner, hosted_learner
from trainables.core.learning.members.lifted_loss import LIFTED
from trainables.core.learning.members.request import UpdateRequest
from trainables.core.learning.members.together import Members
from trainables.core.networks.modules import ActorCritic

WIDTH, ITERATIONS = 3, 6
MINIBATCH = 16
DISTRIBUTIONS: dict[str, Distribution] = {
    "discrete": Categorical(4),
    "continuous": DiagGaussian((2,)),
}


def learner(
    seed: int, distribution: Distribution, model: Any = None, **options: Any
) -> HostedLearner:
    generator = torch.Generator().manual_seed(seed)
    settings = {"fcnet_hiddens": [8, 8], **(model or {})}
    module = ActorCritic(FeatureSpec(WIDTH), distribution, settings, generator).double()
    clip = options.pop("grad_clip", 0.5)
    made = HostedLearner(module, options.pop("optimizer", {}), clip, **options)
    made.set_lr(1e-3 * (seed + 1))
    return made


def batch_of(
    generator: torch.Generator, module: ActorCritic, distribution: Distribution, rows: int
) -> dict[str, Tensor]:
    """Rows as PPO learns from them, sampled by the module itself."""
    draw = partial(torch.randn, generator=generator, dtype=torch.float64)
    features = draw(rows, WIDTH)
    with torch.no_grad():
        inputs, values = module(features)
    actions = distribution.sample(inputs, generator)
    return {
        "features": features,
        "actions": actions,
        "logp": distribution.logp(inputs, actions) + 0.1 * draw(rows),
        "advantages": draw(rows),
        "values": values,
        "value_targets": values + draw(rows),
        "dist_inputs": inputs,
    }


def coefficients(seed: int, *, alike: bool) -> ppo.PPOCoefficients:
    number = 0 if alike else seed
    return ppo.PPOCoefficients(
        clip=0.1 + 0.05 * number,
        entropy=0.01 * (1 + number),
        kl=0.2 * (1 + number),
        value=0.5 + 0.1 * number,
        value_clip=1.0 + number,
    )


def request_of(
    one: HostedLearner, batch: Any, loss: Any, seed: int, iteration: int, **options: Any
) -> UpdateRequest:
    generator = torch.Generator().manual_seed(1000 * iteration + seed)
    given = {"num_epochs": 2, "minibatch_size": MINIBATCH, "normalize": {"advantages": 0.01 + seed}}
    return UpdateRequest(one, batch, loss, generator=generator, **{**given, **options})


def train(
    together: list[HostedLearner],
    alone: list[HostedLearner],
    distribution: Distribution,
    sizes: list[int],
    *,
    alike: bool = False,
) -> None:
    """Some iterations on both sides, with equal batches; compares all that is reported."""
    program = Members(together)
    for iteration in range(ITERATIONS):
        requests, reports = [], []
        for seed, (one, other) in enumerate(zip(together, alone, strict=True)):
            stream = torch.Generator().manual_seed(77 * iteration + seed)
            rows = sizes[seed] - (iteration + seed) % 3
            batch = batch_of(stream, other.module, distribution, rows)  # type: ignore[arg-type]
            used = coefficients(seed, alike=alike)
            loss = partial(ppo._loss, distribution=distribution, coefficients=used)
            requests.append(request_of(one, batch, loss, seed, iteration))
            reports.append(request_of(other, batch, loss, seed, iteration).alone())
        assert len({request.key() for request in requests}) == 1
        assert [request.why_alone() for request in requests] == [None] * len(requests)
        for found, expected in zip(program.run(requests), reports, strict=True):
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def differ(one: Learner, other: Learner) -> float:
    return max(
        float((p - q).abs().max().detach())
        for p, q in zip(one.module.parameters(), other.module.parameters(), strict=True)
    )


@pytest.mark.parametrize(
    ("name", "count", "kind"), covering(sorted(DISTRIBUTIONS), [1, 3], ["adam", "adamw"])
)
def test_a_member_equals_the_same_learner_alone(name: str, count: int, kind: str) -> None:
    distribution = DISTRIBUTIONS[name]
    optimizer = OptimizerConfig.of({"type": kind, "weight_decay": 0.01})
    make = partial(learner, distribution=distribution, optimizer=optimizer)
    together, alone = ([make(seed) for seed in range(count)] for _ in range(2))
    before = copy.deepcopy(alone[0].module.state_dict())
    train(together, alone, distribution, [64 - 5 * seed for seed in range(count)])
    assert any((before[k] - v).abs().max() > 1e-3 for k, v in alone[0].module.state_dict().items())
    for one, other in zip(together, alone, strict=True):
        assert differ(one, other) < 1e-9
        ours, theirs = one.get_state()["moments"], other.get_state()["moments"]
        for name_ in ("exp_avg", "exp_avg_sq", "step"):
            torch.testing.assert_close(ours[0][name_], theirs[0][name_], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        {"vf_share_layers": True},
        {"fcnet_activation": "relu", "free_log_std": True},
        {"free_log_std": False},
        {"fcnet_hiddens": []},
    ],
)
def test_of_any_layers(model: dict[str, Any]) -> None:
    distribution = DISTRIBUTIONS["continuous"]
    together, alone = ([learner(s, distribution, model) for s in range(2)] for _ in range(2))
    train(together, alone, distribution, [32, 32], alike=True)
    assert max(map(differ, together, alone)) < 1e-9


@pytest.mark.parametrize("clip", [None, 1e-3])
@pytest.mark.parametrize("by", ["value", "global_norm"])
def test_of_any_clipping(by: str, clip: float | None) -> None:
    distribution = DISTRIBUTIONS["discrete"]
    make = partial(learner, distribution=distribution, grad_clip=clip, grad_clip_by=by)
    together, alone = ([make(seed) for seed in range(2)] for _ in range(2))
    train(together, alone, distribution, [20, 31])
    assert max(map(differ, together, alone)) < 1e-9


def test_a_member_that_diverges_leaves_the_others_bits_unchanged() -> None:
    distribution = DISTRIBUTIONS["discrete"]
    found = []
    for rate in (1e-3, float("nan")):
        members = [learner(seed, distribution) for seed in range(3)]
        members[1].set_lr(rate)
        program = Members(members)
        for iteration in range(3):
            requests = []
            for seed, one in enumerate(members):
                stream = torch.Generator().manual_seed(iteration + 10 * seed)
                other = learner(seed, distribution).module
                batch = batch_of(stream, other, distribution, 40)  # type: ignore[arg-type]
                used = coefficients(seed, alike=False)
                loss = partial(ppo._loss, distribution=distribution, coefficients=used)
                requests.append(request_of(one, batch, loss, seed, iteration))
            program.run(requests)
        found.append(members)
    sound, diverged = found
    assert not all(p.isfinite().all() for p in diverged[1].module.parameters())
    for seed in (0, 2):
        assert differ(sound[seed], diverged[seed]) == 0


def test_a_norm_that_overflows_is_nothing_to_a_member_without_clipping() -> None:
    distribution = DISTRIBUTIONS["discrete"]
    members = [learner(seed, distribution, grad_clip=clip) for seed, clip in enumerate((None, 0.5))]
    requests = []
    for seed, one in enumerate(members):
        batch = batch_of(torch.Generator().manual_seed(seed), one.module, distribution, 40)  # type: ignore[arg-type]
        used = coefficients(seed, alike=False)._replace(value=(1e200, 0.5)[seed])
        loss = partial(ppo._loss, distribution=distribution, coefficients=used)
        requests.append(request_of(one, batch, loss, seed, 0))
    Members(members).run(requests)
    for one in members:
        assert all(parameter.isfinite().all() for parameter in one.module.parameters())


# ------------------------------------------------------------------ what cannot be together


def _of_features(module: nn.Module, batch: dict[str, Tensor]) -> Any:
    loss = module(batch["features"]).square().mean(-1).squeeze(-1)
    return loss, {"loss": loss.detach()}


class _Mixes(nn.Module):
    """Tells rows apart by what all rows are, whose they may be."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, 1)

    def forward(self, features: Tensor) -> Tensor:
        return self.layer(features - features.mean())


def test_a_network_that_mixes_members_is_refused_before_anything_is_stepped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(LIFTED, callable_name(_of_features), ())
    torch.manual_seed(0)
    learners = [HostedLearner(_Mixes(), {}, None) for _ in range(2)]
    before = [copy.deepcopy(one.module.state_dict()) for one in learners]
    requests = [
        request_of(one, {"features": torch.randn(8, WIDTH)}, partial(_of_features), seed, 0)
        for seed, one in enumerate(learners)
    ]
    requests = [UpdateRequest(**{**vars(one), "normalize": {}}) for one in requests]
    with pytest.raises(NotTogetherError, match="mixes what is of several members"):
        Members(learners).run(requests)
    for one, expected in zip(learners, before, strict=True):
        for name, value in one.module.state_dict().items():
            torch.testing.assert_close(value, expected[name], rtol=0, atol=0)


def test_reasons_for_learning_alone() -> None:
    distribution = DISTRIBUTIONS["discrete"]
    loss = partial(ppo._loss, distribution=distribution, coefficients=coefficients(0, alike=True))

    def reason(one: HostedLearner, loss_fn: Any = loss) -> str | None:
        return request_of(one, {"features": torch.zeros(1, WIDTH)}, loss_fn, 0, 0).why_alone()

    class Own(Learner):
        pass

    assert reason(learner(0, distribution)) is None
    assert reason(learner(0, distribution, optimizer={"type": "sgd"})) == "its optimizer is SGD"
    assert reason(learner(0, distribution, grad_clip_by="norm")) == "grad_clip_by = 'norm'"
    assert reason(learner(0, distribution, {"use_lstm": True})) == "its network has a memory"
    assert reason(learner(0, distribution, microbatch_size=2)) == "it has a microbatch_size"
    assert reason(hosted_learner(Own)(nn.Linear(2, 2), {})) == "its learner_class is Own"
    slower = ", which takes up to twice as long for several members at once"
    assert reason(HostedLearner(nn.Conv2d(1, 1, 2), {})) == f"its layer itself is a Conv2d{slower}"
    assert reason(HostedLearner(nn.GRU(1, 1), {})) == "its layer itself is a GRU"
    wide = learner(0, distribution, {"fcnet_hiddens": [1100, 1100]})  # 2.4 million parameters
    assert "its products, 1 rows by" not in str(reason(wide))
    batch = {"features": torch.zeros(MINIBATCH, WIDTH)}
    assert "its products, 16 rows by 2," in str(request_of(wide, batch, loss, 0, 0).why_alone())
    unknown = reason(learner(0, distribution), lambda module, batch: None)
    assert unknown == "its loss is not written for several members"


def test_what_differs_in_more_than_numbers_has_another_key() -> None:
    distribution = DISTRIBUTIONS["discrete"]
    batch = {"features": torch.zeros(20, WIDTH)}

    def key(one: HostedLearner, used: ppo.PPOCoefficients, **options: Any) -> Any:
        loss = partial(ppo._loss, distribution=distribution, coefficients=used)
        return request_of(one, batch, loss, 0, 0, **options).key()

    base, used = learner(0, distribution), coefficients(0, alike=True)
    assert key(base, used) == key(learner(5, distribution), coefficients(3, alike=False))
    others = [
        key(learner(0, distribution, {"fcnet_hiddens": [8, 9]}), used),
        key(learner(0, distribution, {"fcnet_activation": "relu"}), used),
        key(base, used._replace(value_clip=None)),
        key(base, used._replace(entropy=0.0)),
        key(base, used, num_epochs=3),
        key(base, used, minibatch_size=5),
        key(base, used, generator=None) if False else key(base, used, normalize={}),
    ]
    assert key(base, used) not in others


def test_a_learner_is_in_company_only_where_it_is_said() -> None:
    class Notes:
        def ask(self, request: UpdateRequest) -> dict[str, float]:
            return {"asked": request.num_rows}

    distribution = DISTRIBUTIONS["discrete"]
    one = learner(0, distribution)
    loss = partial(ppo._loss, distribution=distribution, coefficients=coefficients(0, alike=True))
    batch = batch_of(torch.Generator(), one.module, distribution, 7)  # type: ignore[arg-type]
    assert company() is None
    with in_company(Notes()):
        assert one.update(batch, loss) == {"asked": 7}
    assert "policy_loss" in one.update(batch, loss)
