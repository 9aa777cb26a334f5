"""Gradient steps of several learners on replayed rows at once: each as it is alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tiers import covering
from torch import Tensor, nn

from trainables.core.callables import callable_name
from trainables.core.data.features import ACTION_MASK, VECTOR, FeatureSpec
from trainables.core.distributions.base import Distribution
from trainables.core.distributions.categorical import Categorical
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy
from trainables.core.distributions.gaussian import SquashedGaussian
from trainables.core.learning.learner import Learner
from trainables.core.learning.members.company import NotTogetherError, in_company
from trainables.core.learning.members.hosted_learner import HostedLearner
from trainables.core.learning.members.lifted_loss import LIFTED
from trainables.core.learning.members.request import StepRequest
from trainables.core.learning.members.together import Members
from trainables.core.networks.q_network import QNetwork
from trainables.core.networks.soft_actor_critic import SoftActorCritic
from trainables.core.policy.shelf import PolicyShelf, Shelved
from trainables.dqn import DQNOptions, dqn_loss
from trainables.sac import discrete_sac_loss, sac_loss

WIDTH, ACTIONS, STEPS = 3, 4, 8
DOUBLE = DQNOptions(True, "huber")
SQUASHED = SquashedGaussian((2,))
Made = tuple[HostedLearner, Any, Callable[[], None]]
"""A learner, its loss, and what is drawn before each of its steps."""


def dqn(
    seed: int, options: DQNOptions = DOUBLE, spec: FeatureSpec | None = None, **network: Any
) -> Made:
    stream = torch.Generator().manual_seed(seed)
    model = {"fcnet_hiddens": [8, 8], "fcnet_activation": "relu"}
    spec = spec or FeatureSpec(WIDTH)
    module = QNetwork(spec, EpsilonGreedy(ACTIONS), model, stream, **network).double()
    one = HostedLearner(
        module,
        {"eps": 1e-8 * (1 + seed)},
        0.5 + seed,
        groups={"q": module.parameters()},
        targets={"q": module},
    )
    one.set_lr(1e-3 * (seed + 1))
    target: Any = one.targets["q"].network
    noise = torch.Generator().manual_seed(100 + seed)

    def draw() -> None:
        for each in (module, target):
            each.set_noise(noise)

    return one, partial(dqn_loss, target=target, options=options), draw


def sac(seed: int, distribution: Distribution = SQUASHED, **network: Any) -> Made:
    stream = torch.Generator().manual_seed(seed)
    model = {"fcnet_hiddens": [8, 8], "fcnet_activation": "relu", **network.pop("model", {})}
    mask = network.pop("num_mask", 0)
    spec = FeatureSpec(WIDTH, num_mask=mask)
    module = SoftActorCritic(spec, distribution, model, stream, **network).double()
    groups = {
        "actor": module.actor.parameters(),
        "critic": module.critic.parameters(),
        "alpha": [module.log_alpha],
    }
    one = HostedLearner(
        module,
        {"type": "adamw", "weight_decay": 0.01},
        5.0 + seed,
        groups=groups,
        targets={"critic": module.critic},
        undecayed=("alpha",),
    )
    one.set_lr({"actor": 1e-3, "critic": 1e-3 * (seed + 1), "alpha": 1e-2 * (3 - seed)})
    target = one.targets["critic"].network
    if isinstance(distribution, SquashedGaussian):
        loss = partial(
            sac_loss, target=target, distribution=distribution, target_entropy=-2.0 - seed
        )
    else:
        goal = None if mask else 0.5 + 0.1 * seed
        loss = partial(discrete_sac_loss, target=target, target_entropy=goal)
    return one, loss, lambda: None


def replayed(
    seed: int, rows: int, masked: bool = False, continuous: bool = False
) -> dict[str, Tensor]:
    stream = torch.Generator().manual_seed(seed)
    draw = partial(torch.randn, generator=stream, dtype=torch.float64)
    batch = {"features": draw(rows, WIDTH), "next_features": draw(rows, WIDTH)}
    if masked:
        mask = torch.rand(rows, ACTIONS, generator=stream) < 0.6
        batch = {f"{name}/{VECTOR}": column for name, column in batch.items()}
        batch |= {f"{name}/{ACTION_MASK}": mask for name in ("features", "next_features")}
    if continuous:
        batch |= {name: draw(rows, 2) for name in ("noise", "next_noise")}
    return batch | {
        "actions": draw(rows, 2).tanh()
        if continuous
        else torch.randint(ACTIONS, (rows,), generator=stream),
        "rewards": 3 * draw(rows),
        # As of members that differ in gamma and n_step, and after terminal states.
        "discounts": (0.99 - 0.05 * (seed % 3)) * (draw(rows) > -1),
        "weights": draw(rows).abs(),
    }


def step(program: Members, made: list[Made], batches: list[dict[str, Tensor]]) -> Any:
    for _, _, draw in made:
        draw()
    requests = [StepRequest(m[0], b, m[1]) for m, b in zip(made, batches, strict=True)]
    assert [request.why_alone() for request in requests] == [None] * len(requests)
    assert len({request.key() for request in requests}) == 1
    return program.run(requests)


def assert_alike(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        shape = value.shape if name == "priorities" else ()
        torch.testing.assert_close(found[name], value.reshape(shape), rtol=1e-9, atol=1e-9)


def state(one: Learner) -> list[Tensor]:
    """Parameters, moments and targets."""
    moments = one.get_state()["moments"].values()
    parts = [part for of_group in moments for part in of_group.values()]
    return [*one.module.parameters(), *parts, *one.get_state()["targets"].values()]


def train(make: Callable[[int], Made], sizes: list[int], **rows: bool) -> None:
    """Steps on both sides, each with its own tau; compares all that is reported and learned."""
    together, alone = ([make(seed) for seed in range(len(sizes))] for _ in range(2))
    program = Members([one for one, _, _ in together])
    before = [part.detach().clone() for part in alone[0][0].module.parameters()]
    for number in range(STEPS):
        batches = [replayed(7 * number + s, size, **rows) for s, size in enumerate(sizes)]
        reports = step(program, together, batches)
        for seed, (one, loss, draw) in enumerate(alone):
            draw()
            assert_alike(reports[seed], one.update_step(batches[seed], loss))
            for name in one.targets:
                one.update_target(name, 0.01 * (1 + seed))
                together[seed][0].update_target(name, 0.01 * (1 + seed))
    for (ours, _, _), (theirs, _, _) in zip(together, alone, strict=True):
        for mine, other in zip(state(ours), state(theirs), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9, check_dtype=False)
    moved = [
        (p - q).abs().max() for p, q in zip(alone[0][0].module.parameters(), before, strict=True)
    ]
    assert max(moved) > 1e-3


@pytest.mark.parametrize(
    ("count", "double", "loss"), covering([1, 3], [True, False], ["huber", "mse"])
)
def test_dqn(count: int, double: bool, loss: str) -> None:
    train(partial(dqn, options=DQNOptions(double, loss)), [16] * count)


@pytest.mark.parametrize(
    "network",
    [
        {"dueling": True, "hiddens": [6]},
        {"noisy": True},
        {"num_atoms": 5, "v_min": -3.0, "v_max": 3.0},
        {"dueling": True, "noisy": True, "hiddens": [6], "num_atoms": 5},
    ],
    ids=["dueling", "noisy", "distributional", "rainbow"],
)
def test_each_part_of_rainbow(network: dict[str, Any]) -> None:
    train(partial(dqn, **network), [16, 16, 16])


def test_batches_of_different_sizes() -> None:
    train(partial(dqn, dueling=True), [16, 9, 1])


def test_masked_actions() -> None:
    spec = FeatureSpec(WIDTH, num_mask=ACTIONS)
    train(partial(dqn, spec=spec, dueling=True, num_atoms=5), [16, 12], masked=True)


@pytest.mark.parametrize(("count", "twin_q"), covering([1, 3], [True, False], strength=1))
def test_sac(count: int, twin_q: bool) -> None:
    train(partial(sac, twin_q=twin_q), [16] * count, continuous=True)


class _Own(nn.Module):
    """A user's encoder: a layer of its own, and a parameter beside it."""

    def __init__(self, spec: FeatureSpec):
        super().__init__()
        self.layer, self.width = nn.Linear(spec.num_features, 6), 6
        self.gain = nn.Parameter(torch.ones(6))

    def forward(self, features: Tensor) -> Tensor:
        return self.layer(features).tanh() * self.gain


def test_sac_with_an_encoder_of_ones_own() -> None:
    """What climbs Q through the encoder moves the policy alone."""
    train(partial(sac, model={"custom_model": _Own}), [16, 16], continuous=True)


def test_sac_of_different_batch_sizes() -> None:
    train(sac, [16, 9, 2], continuous=True)


@pytest.mark.parametrize("masked", [True, False])
def test_sac_of_discrete_actions(masked: bool) -> None:
    num_mask = ACTIONS if masked else 0
    make = partial(sac, distribution=Categorical(ACTIONS), num_mask=num_mask)
    train(make, [16, 12], masked=masked)


def test_a_member_that_diverges_leaves_the_others_bits_unchanged() -> None:
    found = []
    for rate in (1e-3, float("nan")):
        made = [dqn(seed, noisy=True) for seed in range(3)]
        made[1][0].set_lr(rate)
        program = Members([one for one, _, _ in made])
        for number in range(3):
            step(program, made, [replayed(number + 10 * seed, 8) for seed in range(3)])
            for one, _, _ in made:
                one.update_target("q", 0.5)
        found.append([state(one) for one, _, _ in made])
    sound, diverged = found
    assert not all(part.isfinite().all() for part in diverged[1])
    for seed in (0, 2):
        for mine, other in zip(sound[seed], diverged[seed], strict=True):
            torch.testing.assert_close(mine, other, rtol=0, atol=0)


def test_members_may_step_alone_and_with_others_in_between() -> None:
    """Whoever they step with: their memory goes along."""
    made, alone = ([dqn(seed, noisy=True) for seed in range(3)] for _ in range(2))
    programs: dict[tuple[int, ...], Members] = {}
    for number, present in enumerate([(0, 1, 2), (0, 2), (1,), (2, 1), (0, 1, 2), (0, 2)] * 2):
        if present not in programs:
            programs[present] = Members([made[seed][0] for seed in present])
        batches = [replayed(number + 10 * seed, 8) for seed in present]
        step(programs[present], [made[seed] for seed in present], batches)
        one, loss, draw = made[number % 3]
        draw()
        one.update_step(replayed(number, 8), loss)
        for seed, batch in zip(present, batches, strict=True):
            alone[seed][2]()
            alone[seed][0].update_step(batch, alone[seed][1])
        one, loss, draw = alone[number % 3]
        draw()
        one.update_step(replayed(number, 8), loss)
        if number == 5:  # as a clone or a resumed trial
            made[0][0].set_state(made[0][0].get_state())
    for (ours, _, _), (theirs, _, _) in zip(made, alone, strict=True):
        for mine, other in zip(state(ours), state(theirs), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)


def test_what_a_member_hands_out_is_a_copy_of_its_own_alone() -> None:
    made = [dqn(seed) for seed in range(3)]
    program = Members([one for one, _, _ in made])
    step(program, made, [replayed(seed, 8) for seed in range(3)])
    kept = made[1][0].get_state()
    for part in kept["moments"][0].values():
        assert part.untyped_storage().nbytes() == part.nbytes
    before = kept["targets"]["q"].clone()
    made[1][0].update_target("q", 1.0)
    torch.testing.assert_close(kept["targets"]["q"], before, rtol=0, atol=0)


class Shelved(Shelved):
    """What a policy's memory comes and goes with, always in memory."""

    def use(self) -> None:
        pass


def test_whose_memory_comes_and_goes_has_memory_of_its_own(tmp_path: Path) -> None:
    made = [dqn(seed, noisy=True) for seed in range(2)]
    one = made[0][0]
    program = Members([m[0] for m in made])
    step(program, made, [replayed(seed, 8) for seed in range(2)])

    def memory(learner: Learner) -> set[int]:
        parts = [*learner.tensors(), *learner.module.buffers()]
        return {part.untyped_storage().data_ptr() for part in parts}

    before = [part.clone() for part in state(one)]
    assert memory(one) & memory(made[1][0])
    Shelved(PolicyShelf(1, str(tmp_path)), tmp_path / "file").add(one)
    assert one.why_alone() == "its policy is on disk while others learn"
    assert not memory(one) & memory(made[1][0])
    for mine, other in zip(state(one), before, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)


# ------------------------------------------------------------------ who steps with whom


def test_what_differs_in_more_than_numbers_has_another_key() -> None:
    def key(made: Made, rows: int = 8) -> Any:
        return StepRequest(made[0], replayed(0, rows), made[1]).key()

    base = key(dqn(0))
    assert base == key(dqn(2), 5)
    assert base != key(dqn(0, DQNOptions(False, "huber")))
    assert base != key(dqn(0, DQNOptions(True, "mse")))
    assert base != key(dqn(0, dueling=True))
    atoms = {"num_atoms": 5}
    assert key(dqn(0, v_min=-3.0, **atoms)) != key(dqn(0, v_min=-4.0, **atoms))


def test_a_loss_that_takes_another_network_is_the_learners_alone() -> None:
    one, _, _ = dqn(0)
    loss = partial(dqn_loss, target=dqn(1)[0].module, options=DOUBLE)
    reason = StepRequest(one, replayed(0, 8), loss).why_alone()
    assert reason == "its loss takes a QNetwork that is no target network"


def _of_all(module: Any, batch: dict[str, Tensor], target: nn.Module) -> Any:
    """Its rows know of all rows, whose they may be."""
    q_values = module.q_values(batch["features"]).sum(-1)
    rows = (q_values - q_values.mean()).square()
    loss = rows.mean(-1)
    return loss, {"loss": loss.detach(), "priorities": rows.detach()}


def test_a_loss_that_mixes_members_is_refused_before_anything_is_stepped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(LIFTED, callable_name(_of_all), ())
    made = [dqn(seed) for seed in range(2)]
    before = [part.clone() for one, _, _ in made for part in one.module.parameters()]
    requests = [
        StepRequest(one, replayed(seed, 8), partial(_of_all, target=loss.keywords["target"]))
        for seed, (one, loss, _) in enumerate(made)
    ]
    with pytest.raises(NotTogetherError, match="its loss mixes what is of several members"):
        Members([one for one, _, _ in made]).run(requests)
    after = [part for one, _, _ in made for part in one.module.parameters()]
    for mine, other in zip(after, before, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)


def test_a_step_is_asked_for_only_in_company_and_of_one_process() -> None:
    class Notes:
        def ask(self, request: Any) -> dict[str, Any]:
            return {"asked": request.num_rows}

    one, loss, _ = dqn(0)
    with in_company(Notes()):
        assert one.update_step(replayed(0, 7), loss) == {"asked": 7}
        assert "qf_loss" in one.update_step(replayed(0, 7), loss, 1.0)
    assert "qf_loss" in one.update_step(replayed(0, 7), loss)
