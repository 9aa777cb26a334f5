"""The circular buffer: what is drawn, what leaves and when, and that nobody waits for ever."""

from itertools import product

import numpy as np
import pytest

from trainables.runtime.sampling.fragment_queue import CircularBuffer

SIZES = list(product((1, 2, 3, 4, 8), (1, 2, 3, 5)))


def drawn(buffer: CircularBuffer[int]) -> list[int]:
    """All that may be drawn now."""
    batches = []
    while buffer.has_next:
        batches.append(buffer.draw())
    return batches


def test_by_hand() -> None:
    """N = 2, K = 3: of each batch two draws at once, the third beside its successor."""
    buffer = CircularBuffer[int](2, 3)
    rounds = []
    for batch in range(4):
        buffer.add(batch)
        rounds.append(drawn(buffer))
    # The least used first: the new one's first, then its second and the old one's third.
    assert rounds == [[0, 0], [1, 1, 0], [2, 2, 1], [3, 3, 2]]
    assert list(buffer) == [3] and buffer.num_dropped == 0


def test_one_by_one_is_no_buffer() -> None:
    buffer = CircularBuffer[int](1, 1)
    for batch in range(3):
        buffer.add(batch)
        assert drawn(buffer) == [batch]
        assert len(buffer) == 0


def test_draws_are_spread_over_all_batches() -> None:
    """N = K = 4: each new batch makes room for one more draw of each of the last four."""
    buffer = CircularBuffer[int](4, 4)
    rounds = []
    for batch in range(6):
        buffer.add(batch)
        rounds.append(sorted(drawn(buffer)))
    assert rounds == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]


def test_a_fast_learner_draws_every_batch_k_times() -> None:
    for size, uses in SIZES:
        buffer = CircularBuffer[int](size, uses)
        counts = np.zeros(20 + size, int)
        for batch in range(len(counts)):
            buffer.add(batch)
            for chosen in drawn(buffer):
                assert batch - chosen < size
                counts[chosen] += 1
        assert (counts[:20] == uses).all()
        assert buffer.num_dropped == 0


def test_after_every_new_batch_there_is_one_to_draw() -> None:
    """Whatever was drawn before, so nobody waits for ever, from the first batch on."""
    for size, uses in SIZES:
        buffer, random = CircularBuffer[int](size, uses), np.random.default_rng(size * uses)
        for batch in range(200):
            buffer.add(batch)
            assert buffer.has_next
            for _ in range(random.integers(1, 2 * uses + 2)):
                if buffer.has_next:
                    buffer.draw()


def test_a_slow_learner_draws_the_newest_and_every_draw_is_accounted_for() -> None:
    for size, uses in SIZES:
        buffer = CircularBuffer[int](size, uses)
        num_drawn = 0
        for batch in range(40):
            buffer.add(batch)
            if batch % 2:  # one draw for two batches
                assert buffer.draw() == batch
                num_drawn += 1
            assert len(buffer) <= size
        left = sum(uses - entry[1] for entry in buffer.get_state() if entry is not None)
        assert num_drawn + buffer.num_dropped + left == 40 * uses


def test_after_a_pause_the_least_used_come_first() -> None:
    buffer = CircularBuffer[int](3, 2)
    buffer.add(0)
    assert drawn(buffer) == [0]
    buffer.add(1)
    buffer.add(2)
    assert drawn(buffer) == [2, 1, 1, 0]  # of 2 the second is not due yet


def test_drawing_nothing_is_an_error() -> None:
    buffer = CircularBuffer[int](2, 2)
    with pytest.raises(IndexError):
        buffer.draw()
    buffer.add(0)
    buffer.draw()
    with pytest.raises(IndexError):
        buffer.draw()


def test_a_state_goes_on_exactly_also_in_a_buffer_of_another_size() -> None:
    one, other = CircularBuffer[int](4, 3), CircularBuffer[int](4, 3)
    for batch in range(6):
        one.add(batch)
        one.draw()
    other.set_state(one.get_state())
    for batch in range(6, 9):
        for buffer in (one, other):
            buffer.add(batch)
        assert drawn(one) == drawn(other)
    smaller = CircularBuffer[int](2, 1)
    smaller.set_state(one.get_state())
    assert len(smaller) <= 2
    smaller.add(9)
    assert drawn(smaller)[0] == 9
