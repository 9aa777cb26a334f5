"""Modules on trunks: parameters as they were, memories, previous actions and action masks."""

from itertools import product
from typing import Any

import pytest
import torch
from refusals import Golden, refusals
from torch import Tensor

from trainables.core.data.features import (
    ACTION_MASK,
    PREV_ACTION,
    PREV_REWARD,
    VECTOR,
    Features,
    FeatureSpec,
    ImageSpec,
    map_tensors,
)
from trainables.core.distributions.base import ILLEGAL
from trainables.core.distributions.categorical import Categorical
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy
from trainables.core.distributions.gaussian import DiagGaussian, SquashedGaussian
from trainables.core.errors import ConfigError
from trainables.core.networks.modules import ActorCritic, PolicyModule, with_values
from trainables.core.networks.q_network import QNetwork
from trainables.core.networks.soft_actor_critic import SoftActorCritic
from trainables.dqn import DQNOptions, dqn_loss
from trainables.sac import discrete_sac_loss

MEMORIES: dict[str, dict[str, Any]] = {
    "lstm": {"use_lstm": True, "lstm_cell_size": 8},
    "gru": {"use_gru": True, "lstm_cell_size": 8},
    "attention": {
        "use_attention": True,
        "attention_dim": 8,
        "attention_memory_inference": 3,
        "attention_num_transformer_units": 2,
    },
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# ---------------------------------------------------------------------- without memory


def test_networks_of_vectors_are_what_they_were() -> None:
    """Names and values of a seed, so that saved policies load and scores stay."""
    model, x = {"fcnet_hiddens": [5, 3]}, torch.linspace(-1, 1, 4)
    heads = ("encoder.0", "encoder.2", "policy_head.0", "value_encoder.0", "value_encoder.2")
    actor_critic = ActorCritic(FeatureSpec(4), Categorical(3), model, seeded(7))
    names = [f"{head}.{kind}" for head in (*heads, "value_head.0") for kind in ("weight", "bias")]
    assert list(actor_critic.state_dict()) == names
    sac = SoftActorCritic(FeatureSpec(4), SquashedGaussian((2,)), model, seeded(7))
    assert {"actor.4.weight", "critic.functions.1.4.bias"} <= set(sac.state_dict())
    q_network = QNetwork(
        FeatureSpec(4), EpsilonGreedy(3), model, seeded(7), dueling=True, hiddens=[4], num_atoms=3
    )
    shared = ActorCritic(
        FeatureSpec(4), DiagGaussian((2,)), {**model, "vf_share_layers": True}, seeded(7)
    )
    expected: list[tuple[PolicyModule, list[float]]] = [
        (actor_critic, [0.0038, -0.0082, -0.0051]),
        (shared, [-0.002, 0.0061, 0, 0]),
        (q_network, [-3.0258, -3.2876, -3.6613]),
        (sac, [0.0072, -0.0016, -0.007, -0.0022]),
    ]
    for module, inputs in expected:
        assert module.dist_inputs(x).flatten().tolist() == pytest.approx(inputs, abs=6e-5)
    mode = sac.dist_inputs(x)[:2].tanh()
    values = (actor_critic.value(x), shared.value(x), sac.q_values(x, mode).amin(0))
    assert [v.item() for v in values] == pytest.approx([0.1031, -0.7724, 0.1461], abs=6e-5)


def test_what_acts_is_apart_from_what_is_only_learned_from() -> None:
    model, x = {"fcnet_hiddens": [5]}, torch.randn(2, 4, generator=seeded())
    critic = ActorCritic(FeatureSpec(4), Categorical(3), model, seeded())
    shared = ActorCritic(FeatureSpec(4), DiagGaussian((2,)), {**model, "vf_share_layers": True})
    q_network = QNetwork(FeatureSpec(4), EpsilonGreedy(3), model, seeded(), dueling=True)
    sac = SoftActorCritic(FeatureSpec(4), SquashedGaussian((2,)), model, seeded())
    for module in (critic, shared, q_network, sac):
        acting = set(module.acting_parameters())
        module.zero_grad()
        module.dist_inputs(x).square().sum().backward()
        moved = {p for p in module.parameters() if p.grad is not None and p.grad.any()}
        assert moved and moved <= acting, type(module)
    assert len(list(critic.acting_parameters())) == 4 < len(list(critic.parameters()))
    assert set(shared.parameters()) - set(shared.acting_parameters()) == {
        *shared.value_head.parameters()
    }
    for network in (q_network, sac):
        assert torch.equal(network(x), network.dist_inputs(x))
        with pytest.raises(ConfigError, match=r"learns no state values; its q_values are of act"):
            with_values(network)
        with pytest.raises(AttributeError, match="value"):
            network.value(x)
    assert torch.equal(q_network.q_values(x), q_network.dist_inputs(x))
    assert with_values(critic) is critic


def test_unroll_without_memory_is_forward() -> None:
    module = ActorCritic(FeatureSpec(4), Categorical(3), {}, seeded())
    x, first = torch.randn(5, 2, 4, generator=seeded()), torch.zeros(5, 2, dtype=torch.bool)
    output, state = module.unroll(x, module.initial_state(2), first)
    assert not module.is_recurrent and state == {} == module.initial_state(2)
    for mine, plain in zip(output, module(x), strict=True):
        assert torch.equal(mine, plain)


# ---------------------------------------------------------------------- with memory

SPEC = FeatureSpec(
    5,
    {"a/b": ImageSpec((6, 5, 3), False, 255.0)},
    num_mask=4,
    num_prev_action=4,
    has_prev_reward=True,
)
LENGTH, BATCH = 7, 3


def features() -> dict[str, Tensor]:
    generator = seeded(1)
    shape = (LENGTH, BATCH)
    return {
        VECTOR: torch.randn(*shape, 5, generator=generator),
        "a/b": torch.randint(0, 256, (*shape, 6, 5, 3), dtype=torch.uint8, generator=generator),
        ACTION_MASK: torch.rand(*shape, 4, generator=generator) < 0.6,
        PREV_ACTION: torch.rand(*shape, 4, generator=generator),
        PREV_REWARD: torch.randn(*shape, 1, generator=generator),
    }


def recurrent_modules() -> list[Any]:
    shares, atoms = (False, True), (1, 3)
    made: list[Any] = [
        pytest.param(
            ActorCritic,
            Categorical(4),
            {**model, "vf_share_layers": share},
            {},
            id=f"ac-{n}-{share}",
        )
        for (n, model), share in product(MEMORIES.items(), shares)
    ]
    return made + [
        pytest.param(
            QNetwork, EpsilonGreedy(4), model, {"num_atoms": k, "dueling": True}, id=f"q-{n}-{k}"
        )
        for (n, model), k in product(MEMORIES.items(), atoms)
    ]


@pytest.mark.parametrize(("make", "distribution", "model", "options"), recurrent_modules())
def test_modules_step_by_step_and_in_one_go(
    make: Any, distribution: Any, model: Any, options: Any
) -> None:
    module = make(SPEC, distribution, model, seeded(), **options)
    x, first = features(), torch.rand(LENGTH, BATCH, generator=seeded(2)) < 0.2
    start = module.initial_state(BATCH)
    assert module.is_recurrent and all(len(value) == BATCH for value in start.values())
    unroll = module.unroll if make is ActorCritic else module.unroll_inputs
    outputs, last = unroll(x, start, first)
    expected = outputs if make is ActorCritic else [outputs]
    state, rows = start, []
    for t in range(LENGTH):
        row: Features = map_tensors(lambda tensor, t=t: tensor[t : t + 1], x)  # type: ignore[misc]
        output, state = unroll(row, state, first[t : t + 1])
        rows.append(output if make is ActorCritic else [output])
    for whole, columns in zip(expected, zip(*rows, strict=True), strict=True):
        torch.testing.assert_close(torch.cat(columns), whole, rtol=1e-5, atol=1e-5)
    assert torch.equal(module.unroll_inputs(x, start, first)[0], expected[0])
    for name, value in last.items():
        assert value.shape == start[name].shape
    illegal = expected[0] == ILLEGAL
    assert torch.equal(illegal, ~x[ACTION_MASK] & x[ACTION_MASK].any(-1, keepdim=True))
    with pytest.raises(TypeError, match="call unroll"):
        module(x)


def test_separate_networks_have_separate_memories() -> None:
    module = ActorCritic(SPEC, Categorical(4), MEMORIES["lstm"], seeded())
    assert list(module.initial_state(1)) == ["policy.h", "policy.c", "value.h", "value.c"]
    shared = {**MEMORIES["lstm"], "vf_share_layers": True}
    assert list(ActorCritic(SPEC, Categorical(4), shared).initial_state(1)) == ["h", "c"]
    x, first = features(), torch.zeros(LENGTH, BATCH, dtype=torch.bool)
    state = module.initial_state(BATCH)
    expected, _ = module.unroll(x, state, first)
    output, _ = module.unroll(x, state | {"value.h": state["value.h"] + 1}, first)
    assert torch.equal(output.dist_inputs, expected.dist_inputs)
    assert not torch.equal(output.values, expected.values)


@pytest.mark.parametrize("name", [PREV_ACTION, PREV_REWARD])
def test_memory_sees_the_previous_action_and_reward(name: str) -> None:
    module = ActorCritic(SPEC, Categorical(4), MEMORIES["lstm"], seeded())
    x, first = features(), torch.zeros(LENGTH, BATCH, dtype=torch.bool)
    expected, _ = module.unroll(x, module.initial_state(BATCH), first)
    x[name] = x[name] + 1
    output, _ = module.unroll(x, module.initial_state(BATCH), first)
    assert (output.values != expected.values).all()


# ---------------------------------------------------------------------- masks


def masked(mask: list[list[int]]) -> dict[str, Tensor]:
    rows = torch.tensor(mask, dtype=torch.bool)
    return {VECTOR: torch.randn(len(rows), 4, generator=seeded()), ACTION_MASK: rows}


def masked_spec(num_actions: int) -> FeatureSpec:
    return FeatureSpec(4, num_mask=num_actions)


def test_masked_logits_are_those_of_the_legal_actions() -> None:
    module = ActorCritic(masked_spec(3), Categorical(3), {}, seeded())
    x = masked([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 0]])
    plain = module.policy_head(module.encoder(x))
    inputs = module.dist_inputs(x)
    assert torch.equal(inputs == ILLEGAL, ~x[ACTION_MASK] & x[ACTION_MASK].any(-1, keepdim=True))
    assert torch.equal(inputs[inputs != ILLEGAL], plain[inputs != ILLEGAL])
    plain.retain_grad()
    Categorical(3).logp(
        module._distribution.mask(plain, x[ACTION_MASK]), torch.tensor([0, 1, 2, 0])
    ).sum().backward()
    assert plain.grad is not None and plain.grad[0, 1] == 0 and not plain.grad[1].any()


@pytest.mark.parametrize("num_atoms", [1, 5])
@pytest.mark.parametrize("dueling", [False, True])
def test_q_of_illegal_actions_is_never_the_greatest(num_atoms: int, dueling: bool) -> None:
    """Nor the bootstrap; and what an illegal action's head says moves nothing."""
    network = QNetwork(
        masked_spec(3), EpsilonGreedy(3), {}, seeded(), dueling=dueling, num_atoms=num_atoms
    )
    x = masked([[1, 0, 1], [1, 0, 0], [0, 0, 1], [1, 0, 1]])
    head: Any = network.advantage[-1]
    batch: Any = {
        "features": x,
        "next_features": {name: value.flip(0) for name, value in x.items()},
        "actions": torch.tensor([0, 0, 2, 2]),
        **{name: torch.ones(4) for name in ("rewards", "discounts", "weights")},
    }
    seen = []
    for bias in (-100.0, 100.0):
        with torch.no_grad():  # towards the highest atom, if there are several
            head.bias.view(3, num_atoms)[1] = bias * torch.linspace(-1, 1, num_atoms).abs()
            head.bias.view(3, num_atoms)[1, -1] = bias
        network.zero_grad()
        q_values = network.dist_inputs(x)
        assert torch.equal(q_values == ILLEGAL, ~x[ACTION_MASK])
        assert q_values.argmax(-1).tolist()[1:3] == [0, 2]
        for double_q in (False, True):
            loss, metrics = dqn_loss(network, batch, network, DQNOptions(double_q, "mse"))
            loss.backward()
            assert loss.isfinite() and all(v.isfinite().all() for v in metrics.values())
        assert head.bias.grad.isfinite().all()
        assert not head.bias.grad.view(3, num_atoms)[1].any()
        seen.append((loss.detach(), network.q_values(x).amax(-1)))
    for low, high in zip(*seen, strict=True):
        torch.testing.assert_close(low, high)


def test_discrete_sac_is_over_the_legal_actions() -> None:
    """With action 1 masked, losses are those of the two others alone; nothing is NaN."""
    x = masked([[1, 0, 1]] * 6)
    module = SoftActorCritic(masked_spec(3), Categorical(3), {}, seeded(), initial_alpha=5.0)
    target = SoftActorCritic(masked_spec(3), Categorical(3), {}, seeded(1)).critic
    plain = SoftActorCritic(FeatureSpec(4), Categorical(2), {}, seeded(), initial_alpha=5.0)
    plain_target = SoftActorCritic(FeatureSpec(4), Categorical(2), {}, seeded(1)).critic
    legal = torch.tensor([0, 2])
    pairs = ((plain.actor, module.actor), (plain.critic, module.critic), (plain_target, target))
    with torch.no_grad():
        for small, large in pairs:
            weights = large.state_dict()
            small.load_state_dict({k: w[legal] if len(w) == 3 else w for k, w in weights.items()})
    columns = {name: torch.ones(6) for name in ("rewards", "discounts", "weights")}
    actions = torch.tensor([0, 2, 0, 2, 0, 2])
    batch: Any = {"features": x, "next_features": x, "actions": actions, **columns}
    loss, metrics = discrete_sac_loss(module, batch, target, None)
    vector = x[VECTOR]
    plain_batch: Any = {
        "features": vector,
        "next_features": vector,
        "actions": actions // 2,
        **columns,
    }
    expected, plain_metrics = discrete_sac_loss(
        plain, plain_batch, plain_target, 0.89 * torch.tensor(2.0).log().item()
    )
    torch.testing.assert_close(loss, expected)
    for name, value in metrics.items():
        torch.testing.assert_close(value, plain_metrics[name])
    loss.backward()
    expected.backward()
    for small, large in pairs[:2]:
        for mine, other in zip(large.parameters(), small.parameters(), strict=True):
            assert mine.grad is not None and other.grad is not None
            gradient = mine.grad
            if len(gradient) == 3:
                assert not gradient[1].any()
                gradient = gradient[legal]
            torch.testing.assert_close(gradient, other.grad)
    torch.testing.assert_close(module.q_values(x)[..., legal], plain.q_values(vector))


def test_mask_of_another_width(golden: Golden) -> None:
    def act(make: Any) -> None:
        distribution = EpsilonGreedy(3) if make is QNetwork else Categorical(3)
        make(masked_spec(2), distribution, {})

    cases = [ActorCritic, QNetwork, SoftActorCritic]
    golden("trunk/mask_of_another_width", refusals(act, cases))


def test_mask_of_continuous_actions() -> None:
    with pytest.raises(ConfigError, match="the action mask has 2 entries; allowed: no mask"):
        ActorCritic(masked_spec(2), DiagGaussian((1,)), {})


# ---------------------------------------------------------------------- images


def test_soft_actor_critic_on_images() -> None:
    """Each network has an encoder of its own; actions enter with the vector or alone."""
    image = ImageSpec((6, 5, 3), False, 255.0)
    x = {name: value[0] for name, value in features().items() if name in ("a/b", VECTOR)}
    actions = torch.rand(BATCH, 2, generator=seeded())
    for spec, seen in (
        (FeatureSpec(0, {"a/b": image}), {"a/b": x["a/b"]}),
        (FeatureSpec(5, {"a/b": image}), x),
    ):
        module = SoftActorCritic(spec, SquashedGaussian((2,)), {}, seeded())
        assert module.dist_inputs(seen).shape == (BATCH, 4)
        actions = actions.detach().requires_grad_()
        q_values = module.q_values(seen, actions)
        frozen = module.critic(seen, actions, freeze=True)
        assert torch.equal(q_values, frozen) and q_values.shape == (2, BATCH, 1)
        frozen.sum().backward()
        assert actions.grad is not None and actions.grad.any()
        assert all(parameter.grad is None for parameter in module.parameters())
