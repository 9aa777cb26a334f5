"""Memories: a piece in one go is what single steps give, and nothing passes an episode's start."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainables.core.networks.chosen import attention as attention_module
from trainables.core.networks.chosen.attention import GatedTransformer, num_rows_seen, visible
from trainables.core.networks.chosen.recurrent import Memory, RecurrentMemory
from trainables.core.networks.memory import State

NUM_INPUTS, WIDTH = 5, 8


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def lstm() -> Memory:
    return RecurrentMemory(NUM_INPUTS, WIDTH, generator=seeded())


def gru() -> Memory:
    memory = RecurrentMemory(NUM_INPUTS, WIDTH, is_gru=True, generator=seeded())
    with torch.no_grad():  # as after some training: a reset must undo them
        memory.cell.bias_ih_l0.uniform_(-1, 1, generator=seeded(5))  # type: ignore[operator, union-attr]
    return memory


def attention() -> Memory:
    memory = GatedTransformer(
        NUM_INPUTS,
        WIDTH,
        num_layers=2,
        num_heads=2,
        head_dim=4,
        memory_length=4,
        gate_bias=0.0,
        generator=seeded(),
    )
    with torch.no_grad():  # positions that matter
        for layer in memory.layers:
            layer.position.mul_(50)  # type: ignore[operator, union-attr]
    return memory


MEMORIES = pytest.mark.parametrize("make", [lstm, gru, attention])
Maker = Callable[[], Memory]


def sequence(length: int, batch: int, first: float = 0.15) -> tuple[Tensor, Tensor]:
    """Inputs `[L, B, F]`, and where episodes begin."""
    x = torch.randn(length, batch, NUM_INPUTS, generator=seeded(1))
    return x, torch.rand(length, batch, generator=seeded(2)) < first


def warm_state(memory: Memory, batch: int) -> State:
    """A state after some steps."""
    x = torch.randn(3, batch, NUM_INPUTS, generator=seeded(3))
    with torch.no_grad():
        return memory(x, memory.initial_state(batch), torch.zeros(3, batch, dtype=torch.bool))[1]


@MEMORIES
@pytest.mark.parametrize("first", [0.0, 0.15, 1.0])
def test_one_go_equals_single_steps_and_any_cut(make: Maker, first: float) -> None:
    memory = make()
    x, is_first = sequence(13, 3, first)
    state = warm_state(memory, 3)
    expected, last = memory(x, state, is_first)
    assert expected.shape == (13, 3, WIDTH) and expected.std() > 0.01
    for cut in (1, 4):
        pieces, present = [], state
        for part, starts in zip(x.split(cut), is_first.split(cut), strict=True):
            y, present = memory(part, present, starts)
            pieces.append(y)
        torch.testing.assert_close(torch.cat(pieces), expected, rtol=1e-5, atol=1e-5)
        following = torch.randn(2, 3, NUM_INPUTS, generator=seeded(4))
        none = torch.zeros(2, 3, dtype=torch.bool)
        torch.testing.assert_close(
            memory(following, present, none)[0],
            memory(following, last, none)[0],
            rtol=1e-5,
            atol=1e-5,
        )


@MEMORIES
def test_a_reset_begins_a_sequence_of_its_own(make: Maker) -> None:
    memory = make()
    x, _ = sequence(9, 2)
    is_first = torch.zeros(9, 2, dtype=torch.bool)
    is_first[4, 0] = is_first[7, 0] = is_first[0, 1] = True
    y, after = memory(x, warm_state(memory, 2), is_first)
    for start, end in ((4, 7), (7, 9)):
        length = end - start
        alone, ended = memory(
            x[start:end, :1], memory.initial_state(1), torch.zeros(length, 1, dtype=torch.bool)
        )
        torch.testing.assert_close(y[start:end, :1], alone)
    nothing = torch.zeros(1, 1, dtype=torch.bool)
    own = {name: value[:1] for name, value in after.items()}
    torch.testing.assert_close(
        memory(x[:1, :1], own, nothing)[0], memory(x[:1, :1], ended, nothing)[0]
    )
    unbroken, _ = memory(x, memory.initial_state(2), torch.zeros(9, 2, dtype=torch.bool))
    torch.testing.assert_close(y[:, 1], unbroken[:, 1])  # not by the state from before


@MEMORIES
def test_ends_that_nobody_sees_change_nothing_else(make: Maker) -> None:
    """Neither other outputs nor gradients, nor the state."""
    memory = make()
    x, is_first = sequence(13, 3)
    is_first[0, 0] = True
    assert is_first[1:].any()
    ends = torch.cat([is_first[1:], torch.zeros(1, 3, dtype=torch.bool)])
    results = []
    for unseen in (False, True):
        memory.zero_grad()
        y, after = memory(x, warm_state(memory, 3), is_first, ends_unseen=unseen)
        y[~ends].square().sum().backward()
        gradients = [p.grad.clone() for p in memory.parameters() if p.grad is not None]
        results.append([y[~ends], *after.values(), *gradients])
    for expected, faster in zip(*results, strict=True):
        torch.testing.assert_close(faster, expected, rtol=1e-5, atol=1e-5)


@MEMORIES
def test_nothing_before_a_reset_moves_what_is_after_it(make: Maker) -> None:
    """Neither outputs nor gradients; not even if the state were infinite."""
    memory = make()
    x, _ = sequence(8, 2)
    is_first = torch.zeros(8, 2, dtype=torch.bool)
    is_first[3] = True
    results = []
    for garbage in (0.0, 1e6):
        spoilt = x.clone()
        spoilt[:3] += garbage
        spoilt.requires_grad_()
        state = memory.initial_state(2)
        if garbage:
            for value in state.values():
                value.fill_(torch.inf if value.is_floating_point() else 2)
        memory.zero_grad()
        y, _ = memory(spoilt[3:], state, is_first[3:])
        outputs, _ = memory(spoilt, memory.initial_state(2), is_first)
        torch.testing.assert_close(outputs[3:], y)
        outputs[3:].square().sum().backward()
        assert spoilt.grad is not None and not spoilt.grad[:3].any() and spoilt.grad[3:].any()
        results.append([y, *(p.grad.clone() for p in memory.parameters() if p.grad is not None)])
    for clean, dirty in zip(*results, strict=True):
        assert torch.equal(clean, dirty)


@MEMORIES
def test_gradients_reach_back_to_the_episodes_start(make: Maker) -> None:
    memory = make()
    x, _ = sequence(4, 1)
    x.requires_grad_()
    y, _ = memory(x, memory.initial_state(1), torch.zeros(4, 1, dtype=torch.bool))
    y[-1].sum().backward()
    assert x.grad is not None and (x.grad.abs().sum(-1) > 0).all()


@MEMORIES
def test_a_seed_gives_the_weights_and_leaves_the_global_stream_alone(make: Maker) -> None:
    before = torch.get_rng_state()
    one, other = make(), make()
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_lstm_is_the_textbooks() -> None:
    """Hochreiter and Schmidhuber (1997) with forget gates, gate by gate and step by step."""
    memory = lstm()
    cell = memory.cell
    assert isinstance(cell, torch.nn.LSTM)
    assert not cell.bias_ih_l0.any() and not cell.bias_hh_l0.any()
    square = cell.weight_hh_l0.T @ cell.weight_hh_l0
    torch.testing.assert_close(square, torch.eye(WIDTH), rtol=1e-5, atol=1e-5)
    x, is_first = sequence(6, 2)
    h = c = torch.zeros(2, WIDTH)
    y, _ = memory(x, memory.initial_state(2), is_first)
    for t in range(6):
        keep = (~is_first[t]).unsqueeze(1)
        h, c = h * keep, c * keep
        i, f, g, o = (x[t] @ cell.weight_ih_l0.T + h @ cell.weight_hh_l0.T).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        torch.testing.assert_close(y[t], h)


# ---------------------------------------------------------------------- attention


def test_who_sees_whom() -> None:
    """M = 2, of which one row is filled; the sequence resets before its third row."""
    is_first = torch.tensor([False, False, True, False]).unsqueeze(1)
    seen = visible(is_first, torch.tensor([1]), 2)[0].int().tolist()
    assert seen == [
        [0, 1, 1, 0, 0, 0],
        [0, 1, 1, 1, 0, 0],
        [0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1, 1],
    ]
    assert num_rows_seen(is_first, torch.tensor([1])).tolist() == [2]
    assert num_rows_seen(is_first[:2], torch.tensor([1])).tolist() == [3]


def test_attention_looks_no_further_than_its_memory() -> None:
    """One layer sees the last M = 4 rows: a change five rows ago moves nothing, four ago does."""
    memory = GatedTransformer(NUM_INPUTS, WIDTH, memory_length=4, gate_bias=0.0, generator=seeded())
    x, _ = sequence(10, 1)
    none = torch.zeros(10, 1, dtype=torch.bool)
    expected, _ = memory(x, memory.initial_state(1), none)
    x[3] += 1
    moved = (memory(x, memory.initial_state(1), none)[0] - expected).abs().sum((1, 2)) > 1e-6
    assert moved.tolist() == [False] * 3 + [True] * 5 + [False] * 2


def test_no_gradient_into_the_memory_of_attention() -> None:
    memory = attention()
    x, is_first = sequence(3, 2, 0.0)
    x.requires_grad_()
    _, after = memory(x, memory.initial_state(2), is_first)
    assert not after["memory"].requires_grad and after["memory"].any()


def test_a_layer_of_attention_begins_near_the_identity() -> None:
    """Gate bias 2, as in the paper: most of the stream passes."""
    x, is_first = sequence(5, 2, 0.0)
    shares = []
    for bias in (0.0, 2.0, 10.0):
        memory = GatedTransformer(NUM_INPUTS, WIDTH, gate_bias=bias, generator=seeded())
        y, _ = memory(x, memory.initial_state(2), is_first)
        stream = memory.embedding(x)
        shares.append(((y - stream).norm() / stream.norm()).item())
    assert shares[0] > 2 * shares[1] > 0 and shares[2] < 1e-3


def test_attention_without_gradients_goes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = attention()
    x, is_first = sequence(200, 3, 0.02)
    lengths = []

    def seen(is_first: Tensor, *args: object) -> Tensor:
        lengths.append(len(is_first))
        return visible(is_first, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(attention_module, "visible", seen)
    at_once, state = memory(x, warm_state(memory, 3), is_first)
    with torch.no_grad():
        in_pieces, state_after = memory(x, warm_state(memory, 3), is_first)
    torch.testing.assert_close(in_pieces, at_once)
    torch.testing.assert_close(state_after, state)
    assert max(lengths[lengths.index(200) + 1 :]) == 64, "memory is linear in the rows"


@MEMORIES
@pytest.mark.parametrize("scale", [1e4, 1e5, 1e8])
def test_large_inputs_are_learned_from_as_they_were_acted_on(make: Maker, scale: float) -> None:
    """The row that resets does so whatever it holds: nothing of it may hold the gates open.

    In float64: sums of such numbers are rounded in float32, in another order by another kernel.
    """
    memory = make().double()
    x, is_first = sequence(40, 3, 0.2)
    x = x.double() * scale
    ends = torch.cat([is_first[1:], torch.zeros(1, 3, dtype=torch.bool)])
    state = memory.initial_state(3)
    present, acted = state, []
    with torch.no_grad():
        for row, starts in zip(x.split(1), is_first.split(1), strict=True):
            y, present = memory(row, present, starts)
            acted.append(y)
        learned, after = memory(x, state, is_first, ends_unseen=True)
        following = [memory(x[:2], s, torch.zeros_like(is_first[:2]))[0] for s in (present, after)]
    expected = torch.cat(acted)[~ends]
    tolerance = {"rtol": 0.0, "atol": 1e-6 * max(1.0, float(expected.abs().max()))}
    torch.testing.assert_close(learned[~ends], expected, **tolerance)
    torch.testing.assert_close(*following, **tolerance)
