"""Several losses in a step, each with an optimiser of its own, as model-based algorithms have."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from refusals import Golden, refusals
from thread_ranks import on_ranks
from torch import Tensor, nn

from trainables.core.config.model import OptimizerConfig
from trainables.core.data.batch import Batch
from trainables.core.errors import ConfigError
from trainables.core.learning.learner import Learner, LossFn, Metrics
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.learning.stepping import OptimizerOptions

OPTIONS = {
    "world": OptimizerOptions(grad_clip=0.05),
    "actor": OptimizerOptions(None, {"type": "sgd"}, grad_clip=0.1, grad_clip_by="value"),
    "critic": OptimizerOptions(["critic", "scale"], {"type": "rmsprop"}),
}


class Agent(nn.Module):
    """A world model, and two heads that see what it makes of observations."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.world, self.actor, self.critic = nn.Linear(3, 3), nn.Linear(3, 2), nn.Linear(3, 1)
        self.scale = nn.Parameter(torch.ones(()))


def world_loss(agent: Agent, batch: Batch) -> tuple[Tensor, Metrics]:
    seen = agent.world(batch["x"])
    batch["seen"] = seen.detach()  # for the losses after it
    loss = (seen - batch["x"]).square().mean()
    return loss, {"world_loss": loss.detach()}


def actor_loss(agent: Agent, batch: Batch) -> tuple[Tensor, Metrics]:
    loss = agent.actor(batch["seen"] + agent.world(batch["x"])).square().mean()
    return loss, {"actor_loss": loss.detach()}


def critic_loss(agent: Agent, batch: Batch) -> tuple[Tensor, Metrics]:
    loss = (agent.scale * agent.critic(batch["seen"]) - 1).square().mean()
    return loss, {"critic_loss": loss.detach()}


LOSSES: dict[str, LossFn] = {"world": world_loss, "actor": actor_loss, "critic": critic_loss}


def make_learner(kind: type[Learner] = Learner, **options: Any) -> Learner:
    agent = Agent()
    groups = {"critic": agent.critic.parameters(), "scale": [agent.scale]}
    groups |= {"world": agent.world.parameters(), "actor": agent.actor.parameters()}
    given: dict[str, Any] = {"groups": groups, "optimizers": OPTIONS, **options}
    learner = kind(agent, {"type": "adam", "eps": 1e-5}, targets={"critic": agent.critic}, **given)
    learner.set_lr({"world": 0.1, "actor": 0.2, "critic": 0.3, "scale": 0.4})
    return learner


def rows(seed: int, count: int = 8) -> Batch:
    return {"x": torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))}


def state_of(learner: Learner) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in learner.module.state_dict().items()}


def test_each_loss_is_stepped_by_its_own_optimiser_in_order() -> None:
    """Written out with PyTorch's own optimisers: the actor's loss leaves the world as it is."""
    learner, twin = make_learner(), Agent()
    world = torch.optim.Adam(twin.world.parameters(), lr=0.1, eps=1e-5)
    actor = torch.optim.SGD(twin.actor.parameters(), lr=0.2)
    heads = [{"params": twin.critic.parameters(), "lr": 0.3}, {"params": [twin.scale], "lr": 0.4}]
    defaults = OptimizerConfig.of({"type": "rmsprop"})
    critic = torch.optim.RMSprop(heads, alpha=defaults.decay, eps=defaults.eps)
    for step in range(4):
        batch = rows(step)
        metrics = learner.update_step(batch, LOSSES)
        assert list(batch) == ["x"]  # the caller's own stays
        world.zero_grad()
        world_loss(twin, batch)[0].backward()
        norm = nn.utils.clip_grad_norm_(twin.world.parameters(), 0.05)
        world.step()
        actor.zero_grad()
        actor_loss(twin, batch)[0].backward()
        nn.utils.clip_grad_value_(twin.actor.parameters(), 0.1)
        actor.step()
        critic.zero_grad()
        critic_loss(twin, batch)[0].backward()
        critic.step()
        torch.testing.assert_close(state_of(learner), dict(twin.state_dict()))
        torch.testing.assert_close(metrics["world_grad_norm"], norm)
    names = [*LOSSES, "scale"]
    assert set(metrics) == {*(f"{n}_loss" for n in LOSSES), *(f"{n}_grad_norm" for n in names)}


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_learn_what_one_learns(size: int) -> None:
    def learned(ranks: Ranks) -> tuple[dict[str, Tensor], dict[str, float]]:
        learner = learners[ranks.rank]  # threads would draw weights from one stream
        learner.ranks = ranks
        ids = torch.arange(10)[ranks.rank :: ranks.size]
        batch = {"x": rows(7, 10)["x"][ids]}
        options: dict[str, Any] = {"ids": ids} if ranks.size > 1 else {}
        generator = torch.Generator().manual_seed(3)
        metrics = learner.update(
            batch, LOSSES, num_epochs=3, minibatch_size=4, generator=generator, **options
        )
        return state_of(learner), metrics

    learners = [make_learner() for _ in range(size)]
    expected = learned(ALONE)
    learners[0] = make_learner()
    for found in on_ranks(size, learned):
        torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-5)
        assert found[1] == pytest.approx(expected[1], rel=1e-4)


def test_a_state_goes_on_to_the_bit_and_others_are_refused() -> None:
    one, other = make_learner(), make_learner()
    one.update_step(rows(0), LOSSES)
    one.update_target("critic", 0.3)
    other.module.load_state_dict(one.module.state_dict())
    other.set_state(copy.deepcopy(one.get_state()))
    for learner in (one, other):
        learner.update_step(rows(1), LOSSES)
    torch.testing.assert_close(state_of(one), state_of(other), rtol=0, atol=0)
    assert torch.equal(one.targets["critic"].get_state(), other.targets["critic"].get_state())
    assert {n: s["type"] for n, s in one.get_state()["optimizers"].items()} == {
        "world": "Adam",
        "actor": "SGD",
        "critic": "RMSprop",
    }
    with pytest.raises(ConfigError, match=r"optimizers \['world', 'actor', 'critic'\], not of"):
        make_learner(optimizers=None).set_state(one.get_state())
    with pytest.raises(ValueError, match=r"several optimizers, .*world.*critic"):
        _ = one.optimizer


def test_one_loss_may_be_stepped_by_all_of_them() -> None:
    def total(agent: Agent, batch: Batch) -> tuple[Tensor, Metrics]:
        batch = dict(batch)
        return sum(loss(agent, batch)[0] for loss in LOSSES.values()), {}  # type: ignore[return-value]

    learner = make_learner()
    before = state_of(learner)
    learner.update_step(rows(0), total)
    assert not any(torch.equal(before[name], now) for name, now in state_of(learner).items())


def test_an_optimiser_of_ones_own_is_made_for_each() -> None:
    made: list[tuple[list[str], str]] = []

    class Own(Learner):
        def make_optimizer(
            self, groups: list[dict[str, Any]], settings: OptimizerConfig
        ) -> torch.optim.Optimizer:
            made.append(([group["name"] for group in groups], settings.type))
            return torch.optim.NAdam(groups, eps=settings.eps)

    learner = make_learner(Own)
    assert made == [(["world"], "adam"), (["actor"], "sgd"), (["critic", "scale"], "rmsprop")]
    assert {type(o) for o in learner.optimizers.values()} == {torch.optim.NAdam}
    assert list(learner.groups) == ["world", "actor", "critic", "scale"]


def test_a_network_beside_the_module_is_trained_and_stored() -> None:
    def decoded(agent: Agent, batch: Batch, decoder: nn.Module) -> tuple[Tensor, Metrics]:
        loss = (decoder(agent.world(batch["x"])) - batch["x"]).square().mean()
        return loss, {"loss": loss.detach()}

    def make() -> Learner:
        learner = Learner(Agent(), {"type": "adam"}, networks={"decoder": nn.Linear(3, 3)})
        learner.set_lr(0.1)
        return learner

    def step(learner: Learner, seed: int) -> Tensor:
        decoder = learner.networks["decoder"]
        return learner.update_step(rows(seed), lambda m, b: decoded(m, b, decoder))["loss"]

    one, other = make(), make()
    losses = [step(one, 0) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    other.module.load_state_dict(one.module.state_dict())
    assert not torch.equal(step(one, 1), step(other, 1))
    other.module.load_state_dict(one.module.state_dict())
    other.set_state(one.get_state())
    assert torch.equal(step(one, 2), step(other, 2))
    assert "networks" not in Learner(Agent(), {"type": "adam"}).get_state()


def test_groups_without_or_with_two_optimisers_are_refused(golden: Golden) -> None:
    cases = [
        {"actor": OptimizerOptions(["actor", "critic", "scale"])},
        {**OPTIONS, "more": OptimizerOptions(["actor"])},
        {"wrld": OptimizerOptions()},
    ]
    golden(
        "named_optimizers/groups_without_or_with_two_optimisers_are_refused",
        refusals(lambda options: make_learner(optimizers=options), cases),
    )


@pytest.mark.parametrize(("grad_clip", "by"), [(None, "global_norm"), (1e-3, "value")])
def test_gradients_are_clipped_as_the_learners_are_unless_one_says_otherwise(
    grad_clip: float | None, by: str
) -> None:
    def loss(agent: Agent, batch: Batch) -> tuple[Tensor, Metrics]:
        return (agent.actor(batch["x"]) + agent.world(batch["x"]).sum()).sum(), {}

    def learner_by(**options: OptimizerOptions) -> Learner:
        agent = Agent()
        groups = {"actor": agent.actor.parameters(), "world": agent.world.parameters()}
        return Learner(agent, {}, grad_clip, by, groups=groups, optimizers=options or None)

    world = OptimizerOptions(grad_clip=math.inf)
    named, one = learner_by(actor=OptimizerOptions(), world=world), learner_by()
    for learner in (named, one):
        learner.update_step(rows(0), loss)
    torch.testing.assert_close(named.groups["actor"].gradient, one.groups["actor"].gradient)
    assert named.groups["world"].gradient.abs().max() > 1
    if grad_clip is not None:
        assert one.groups["world"].gradient.abs().max() <= grad_clip
    sharp = OptimizerOptions(grad_clip=1e-4, grad_clip_by="norm")
    sharply = learner_by(actor=sharp, world=world)
    sharply.update_step(rows(0), loss)
    norms = [parameter.grad.norm() for parameter in sharply.groups["actor"].parameters]  # type: ignore[union-attr]
    assert [float(norm) for norm in norms] == pytest.approx([1e-4, 1e-4], rel=1e-3)


def test_an_unknown_name_is_told_with_those_that_there_are() -> None:
    learner = make_learner()
    before = state_of(learner)
    with pytest.raises(ValueError, match=r"of \['w'\], but the groups are .*'actor'"):
        learner.set_lr({"w": 0.1})
    with pytest.raises(ValueError, match=r"the loss 'wrld'; there are .*'actor'"):
        learner.update_step(rows(0), {"world": world_loss, "wrld": world_loss})
    torch.testing.assert_close(state_of(learner), before, rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"'actor' has no target network; \['critic'\] have"):
        learner.update_target("actor", 1.0)


def test_two_losses_may_not_report_one_metric() -> None:
    def again(agent: Agent, batch: Batch) -> tuple[Tensor, Metrics]:
        loss, metrics = actor_loss(agent, batch)
        return loss, {"world_loss": metrics["actor_loss"]}

    with pytest.raises(ValueError, match="'actor' reports 'world_loss', and so does one before"):
        make_learner().update_step(rows(0), {**LOSSES, "actor": again})


def test_parameters_that_cannot_be_stepped_are_refused() -> None:
    agent = Agent()
    one, other = list(agent.world.parameters()), list(agent.actor.parameters())
    with pytest.raises(ConfigError, match="in 'one' and 'other'"):
        Learner(agent, {}, groups={"one": one, "other": [*other, one[0]]})
    with pytest.raises(ConfigError, match="group 'one' has no parameters"):
        Learner(agent, {}, groups={"one": [], "other": other})
    with pytest.raises(ConfigError, match="group 'all' has no parameters"):
        Learner(nn.Identity(), {})
    networks = {"decoder": nn.Linear(3, 3)}
    with pytest.raises(ConfigError, match=r"train the network 'decoder': none .*'one', 'other'"):
        Learner(agent, {}, groups={"one": one, "other": other}, networks=networks)
    Learner(agent, {}, groups={"one": one, "other": networks["decoder"].parameters()})


def test_microbatches_go_with_one_loss_only() -> None:
    with pytest.raises(ValueError, match="one loss"):
        make_learner(microbatch_size=2).update_step(rows(0), LOSSES)
