"""Counts: identical on CPU and reference, and Poisson distributed."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from scipy import stats

from nsmath.backends import cpu_sampling, reference_sampling
from nsmath.formulas import random
from nsmath.formulas.poisson_tables import poisson_tables

RATES = np.array([0.0, 1e-9, 0.3, 3.0, 50.0, 1000.0, 9999.5, 2e4, 1e6, 2e11, 1e15])
SMALL_RATES = [0.3, 3.0, 50.0, 1000.0]
LARGE_RATES = [2e4, 1e6, 2e11, 1e15]


def _counts(sample, rates, n, first_draw=0, **tables):
    out = np.full((len(rates), n), np.nan)
    built = poisson_tables(np.asarray(rates), **tables)
    sample(out, built, np.arange(n), seed=42, hypothesis=1, first_draw=first_draw)
    return out


@pytest.mark.parametrize("first_draw", [0, 7])
def test_cpu_counts_are_the_reference_counts(first_draw):
    cpu = _counts(cpu_sampling.sample_poisson, RATES, 4000, first_draw)
    reference = _counts(reference_sampling.sample_poisson, RATES, 4000, first_draw)
    np.testing.assert_array_equal(cpu, reference)


def test_scalar_formulas_give_the_kernels_counts():
    cpu = _counts(cpu_sampling.sample_poisson, [2e4, 1e15], 100)
    for row, rate in enumerate((2e4, 1e15)):
        constants = random.ptrs_constants(rate)
        for toy in range(100):
            words = random.toy_words(toy, 1)
            assert random.ptrs_count(rate, *constants, row, 1, *words, 42, 0) == cpu[row, toy]


def test_rate_zero_gives_zero():
    assert not _counts(cpu_sampling.sample_poisson, np.zeros(3), 1000).any()


def _chi2_p_value(counts, rate):
    """Return the p value of counts in about 40 bins of equal probability."""
    inner = np.unique(stats.poisson.ppf(np.linspace(0.0, 1.0, 41)[1:-1], rate))
    edges = np.concatenate([[-1.0], inner, [np.inf]])
    expected = np.diff(stats.poisson.cdf(edges, rate)) * counts.size
    observed = np.histogram(counts, edges + 0.5)[0]
    kept = expected > 5.0
    chi2 = np.sum((observed[kept] - expected[kept]) ** 2 / expected[kept])
    return stats.chi2.sf(chi2, np.count_nonzero(kept) - 1)


@pytest.mark.parametrize("rate", [*SMALL_RATES, 1e4])
def test_table_counts_are_poisson(rate):
    counts = _counts(cpu_sampling.sample_poisson, [rate], 400_000)[0]
    assert _chi2_p_value(counts, rate) > 1e-4


@pytest.mark.parametrize("rate", [1000.0, 2e4, 1e6])
def test_rejection_counts_are_poisson(rate):
    counts = _counts(cpu_sampling.sample_poisson, [rate], 400_000, max_bytes=0)[0]
    assert _chi2_p_value(counts, rate) > 1e-4


def test_every_single_count_has_its_probability():
    # Bins of one count each, at the smallest rate of the rejection method, where it is least smooth.
    n, rate = 1_000_000, 1000.0
    values = np.arange(900, 1101)
    expected = stats.poisson.pmf(values, rate) * n
    for max_bytes in (0, 10**8):
        counts = _counts(cpu_sampling.sample_poisson, [rate], n, max_bytes=max_bytes)[0]
        observed = np.bincount(counts.astype(np.int64), minlength=1101)[900:1101]
        chi2 = np.sum((observed - expected) ** 2 / expected)
        assert 1e-4 < stats.chi2.sf(chi2, values.size) < 1.0 - 1e-4


@pytest.mark.parametrize("rate", LARGE_RATES)
def test_large_counts_are_whole_and_normal_in_the_limit(rate):
    n = 200_000
    counts = _counts(cpu_sampling.sample_poisson, [rate], n)[0]
    assert np.all(counts == np.floor(counts))
    z = (counts - rate) / np.sqrt(rate)
    assert abs(z.mean()) < 4.0 / np.sqrt(n)
    assert abs(z.var() - 1.0) < 4.0 * np.sqrt(2.0 / n)
    # Continuity and skewness, both 1 / sqrt(rate), stay below what 200k counts can see from 1e6 on.
    if rate >= 1e6:
        assert stats.kstest(z, "norm").pvalue > 1e-4


def test_deviance_keeps_its_digits_where_the_direct_form_has_none():
    rate = 1e15
    for shift in (-1e8, -3e7, 5.0, 3e7, 2e8):
        # d^2 / 2 rate - d^3 / 6 rate^2 + ...; the next term is smaller by 1e-14.
        expected = shift**2 / (2.0 * rate) - shift**3 / (6.0 * rate**2)
        assert random.poisson_deviance_half(rate + shift, rate) == pytest.approx(expected, rel=1e-13)
    exact = 1500.0 * np.log(1.5) - 500.0
    assert random.poisson_deviance_half(1500.0, 1000.0) == pytest.approx(exact, rel=1e-14)


def test_fused_multiply_add_moves_no_count():
    # What a device that contracts a * b + c does (CUDA by default), tried on a CPU that has the instruction.
    fused = random.compile_formulas(njit(error_model="numpy", fastmath={"contract"}))
    plain = _counts(cpu_sampling.sample_poisson, [2e4, 1e15], 3000)
    for row, rate in enumerate((2e4, 1e15)):
        constants = fused.ptrs_constants(rate)
        counts = [fused.ptrs_count(rate, *constants, row, 1, toy, 1 << 16, 42, 0) for toy in range(3000)]
        np.testing.assert_array_equal(plain[row], counts)
