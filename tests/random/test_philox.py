"""The generator: known answers, and uniforms as exact fractions."""

from __future__ import annotations

import numpy as np
import pytest

from nsmath.backends import reference_sampling
from nsmath.formulas import random

# Random123 1.14, tests/kat_vectors, "philox4x32 10": counter, key, expected words.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_known_answers(counter, key, expected):
    assert random.philox4x32_10(*counter, *key) == expected


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_reference_philox_gives_the_known_answers(counter, key, expected):
    words = reference_sampling.philox(tuple(np.array([w], dtype=np.uint64) for w in counter), key)
    assert tuple(int(word[0]) for word in words) == expected


def test_uniform_stays_strictly_inside_the_unit_interval_and_is_symmetric():
    smallest = random.unit_uniform(0, 0)
    largest = random.unit_uniform(0xFFFFFFFF, 0xFFFFFFFF)
    assert smallest == 2.0**-53
    assert largest == 1.0 - 2.0**-53


def test_neighbouring_draws_share_a_block_and_no_uniform():
    words = random.toy_words(5, 1)
    pair = random.uniform_pair(3, 0, *words, 42, 0)
    assert pair == (random.draw_uniform(6, *words, 42, 0), random.draw_uniform(7, *words, 42, 0))
    assert pair[0] != pair[1]


def test_every_bit_of_the_address_reaches_the_uniform():
    # One uniform per single-bit change of seed, hypothesis, toy and draw; a repeat means a lost bit.
    addresses = {(0, 0, 0, 0)}
    addresses |= {(1 << bit, 0, 0, 0) for bit in range(64)}
    addresses |= {(0, 1 << bit, 0, 0) for bit in range(16)}
    addresses |= {(0, 0, 1 << bit, 0) for bit in range(48)}
    addresses |= {(0, 0, 0, 1 << bit) for bit in range(32)}
    values = set()
    for seed, hypothesis, toy, draw in addresses:
        words = random.toy_words(toy, hypothesis)
        values.add(random.draw_uniform(draw, *words, seed & 0xFFFFFFFF, seed >> 32))
    assert len(values) == len(addresses)
