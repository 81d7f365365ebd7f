"""Streams: toys do not depend on how they are batched, and streams do not depend on each other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from nsmath.backends import cpu_sampling, reference_sampling
from nsmath.formulas import random
from nsmath.formulas.poisson_tables import poisson_tables

RATES = np.array([0.3, 3.0, 50.0, 2e4, 1000.0, 1e6, 12.0])
MEAN, SIGMA = np.array([0.0, 1.0, -3.0]), np.array([1.0, 0.1, 7.0])


def _poisson(toys, *, seed=42, hypothesis=0, first_draw=0, rates=RATES, width=None):
    out = np.full((rates.size, width or toys.size), np.nan)
    cpu_sampling.sample_poisson(
        out, poisson_tables(rates), toys, seed=seed, hypothesis=hypothesis, first_draw=first_draw
    )
    return out


def _normal(toys, *, seed=42, hypothesis=0, first_draw=0, mean=MEAN, sigma=SIGMA, backend=cpu_sampling):
    out = np.full((mean.size, toys.size), np.nan)
    backend.sample_normal(out, mean, sigma, toys, seed=seed, hypothesis=hypothesis, first_draw=first_draw)
    return out


def _standard(n, rows=2, **stream):
    return _normal(np.arange(n), mean=np.zeros(rows), sigma=np.ones(rows), **stream)


@pytest.mark.parametrize("sample", [_poisson, _normal])
@pytest.mark.parametrize("piece", [1, 7, 512, 513, 1300])
def test_toys_do_not_depend_on_batch_width(sample, piece):
    toys = np.arange(1300)
    whole = sample(toys)
    pieces = [sample(toys[begin : begin + piece]) for begin in range(0, toys.size, piece)]
    np.testing.assert_array_equal(np.concatenate(pieces, axis=1), whole)


@pytest.mark.parametrize("sample", [_poisson, _normal])
def test_toys_do_not_depend_on_order(sample):
    toys = np.arange(1000)
    shuffled = np.random.default_rng(4).permutation(toys)
    np.testing.assert_array_equal(sample(shuffled), sample(toys)[:, shuffled])


def test_variates_do_not_depend_on_the_rows_drawn_with_them():
    toys = np.arange(600)
    whole = _poisson(toys, first_draw=3)
    for i in range(RATES.size):
        alone = _poisson(toys, first_draw=3 + i, rates=RATES[i : i + 1])
        np.testing.assert_array_equal(alone[0], whole[i])
    rows = _normal(toys, first_draw=5)
    for i in range(MEAN.size):
        alone = _normal(toys, first_draw=5 + i, mean=MEAN[i : i + 1], sigma=SIGMA[i : i + 1])
        np.testing.assert_array_equal(alone[0], rows[i])


def test_columns_beyond_the_toys_are_left_alone():
    out = _poisson(np.arange(10), width=16)
    assert np.isnan(out[:, 10:]).all()
    assert not np.isnan(out[:, :10]).any()


def test_no_toys_and_no_rows_are_fine():
    assert _poisson(np.empty(0, dtype=np.int64)).shape == (RATES.size, 0)
    assert _normal(np.arange(3), mean=np.empty(0), sigma=np.empty(0)).shape == (0, 3)


@pytest.mark.parametrize("first_draw", [0, 9])
def test_cpu_normals_are_the_reference_normals(first_draw):
    toys = np.arange(3000)
    mean, sigma = np.zeros(5), np.ones(5)
    cpu = _normal(toys, mean=mean, sigma=sigma, first_draw=first_draw)
    reference = _normal(toys, mean=mean, sigma=sigma, first_draw=first_draw, backend=reference_sampling)
    # The reference takes the library's logarithm in the tails: 1 ulp.
    np.testing.assert_allclose(cpu, reference, rtol=1e-15, atol=0.0)


def test_scalar_formulas_give_the_kernels_normals_bit_for_bit():
    z = _standard(500, rows=2, hypothesis=1)
    for row in range(2):
        words = [random.toy_words(toy, 1) for toy in range(500)]
        scalar = [random.normal_quantile(random.draw_uniform(row, *word, 42, 0)) for word in words]
        np.testing.assert_array_equal(z[row], scalar)


def test_normals_reach_the_far_tail_piece():
    # A uniform below exp(-25) comes once in 7e10: put the kernel's row function in front of chosen ones.
    u = np.array([2.0**-53, 1e-12, 0.01, 0.5, 0.6, 1.0 - 2.0**-53])
    target, packed = np.empty(6), np.empty((2, 7))
    cpu_sampling._normal_row(target, u, 2.0, 3.0, np.empty(7, dtype=np.int64), packed[0], packed[1])
    np.testing.assert_allclose(target, 2.0 + 3.0 * reference_sampling.normal_quantile(u), rtol=1e-15)


def test_normals_are_normal():
    z = _standard(200_000)
    for row in z:
        assert stats.kstest(row, "norm").pvalue > 1e-4
    n = z.size
    for threshold in (2.0, 3.0, 4.0):
        expected = n * 2.0 * stats.norm.sf(threshold)
        assert abs(np.count_nonzero(np.abs(z) > threshold) - expected) < 4.0 * np.sqrt(expected)


def test_large_indices_and_seeds_are_streams_of_their_own():
    cpu, reference = [], []
    toys = np.array([0, 2**32 - 1, 2**32, 2**48 - 1])
    for seed in (0, 2**32, 2**64 - 1):
        for hypothesis in (0, 2**16 - 1):
            stream = {"seed": seed, "hypothesis": hypothesis, "first_draw": 2**32 - 3}
            cpu.append(_normal(toys, **stream))
            reference.append(_normal(toys, backend=reference_sampling, **stream))
    np.testing.assert_allclose(cpu, reference, rtol=1e-14)
    first_row = np.array(cpu)[:, 0]
    assert np.unique(first_row).size == first_row.size


def test_neighbouring_seeds_share_no_toys():
    # The fault this guards against: toy i of seed 43 being toy i + 1 of seed 42.
    first, second = _standard(20_000, seed=42), _standard(20_000, seed=43)
    assert np.intersect1d(first, second).size == 0
    assert np.unique(first).size == first.size


def test_hypotheses_share_no_toys():
    first, second = _standard(20_000, hypothesis=0), _standard(20_000, hypothesis=1)
    assert np.intersect1d(first, second).size == 0


def _is_uncorrelated(x, y):
    # 4.5 sigma of the correlation of independent normals.
    return abs(np.mean(x * y)) < 4.5 / np.sqrt(x.size)


def test_neighbours_are_uncorrelated():
    n = 100_000
    z = _standard(n, rows=4)
    for i in range(4):
        for j in range(i):
            assert _is_uncorrelated(z[i], z[j])
            assert _is_uncorrelated(z[i] ** 2 - 1.0, (z[j] ** 2 - 1.0) / 2.0)
        for lag in (1, 2, 4, 512):
            assert _is_uncorrelated(z[i, lag:], z[i, :-lag])
    for other in ({"seed": 43}, {"seed": 42 + 2**32}, {"hypothesis": 1}):
        assert _is_uncorrelated(z[0], _standard(n, rows=4, **other)[0])


def test_rejection_and_inversion_of_one_stream_are_uncorrelated():
    n = 100_000
    rates = np.full(2, 2000.0)
    by_table, by_rejection = np.empty((2, n)), np.empty((2, n))
    for out, max_bytes in ((by_table, 10**8), (by_rejection, 0)):
        tables = poisson_tables(rates, max_bytes=max_bytes)
        cpu_sampling.sample_poisson(out, tables, np.arange(n), seed=42, hypothesis=0, first_draw=0)
    z = [(out - 2000.0) / np.sqrt(2000.0) for out in (by_table, by_rejection)]
    for x in z[0]:
        for y in z[1]:
            assert _is_uncorrelated(x, y)
