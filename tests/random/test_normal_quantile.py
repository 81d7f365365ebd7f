"""The normal quantile and its logarithm against scipy and NumPy."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from nsmath.backends import reference_sampling
from nsmath.formulas import random


def _uniforms() -> np.ndarray:
    """Return evenly spread uniforms, uniforms of every binary order in both tails, and the extremes."""
    rng = np.random.default_rng(1)
    even = rng.integers(0, 2**52, 4000)
    small = (2.0 ** rng.uniform(0.0, 51.0, 4000)).astype(np.int64)
    number = np.concatenate([even, small, 2**52 - 1 - small, [0, 2**52 - 1]])
    return (number + 0.5) * 2.0**-52


def test_normal_quantile_is_scipys_to_the_last_bits():
    u = _uniforms()
    z = np.array([random.normal_quantile(float(x)) for x in u])
    # Both sides err by some 5e-16; AS 241 promises about 1e-16 before rounding.
    np.testing.assert_allclose(z, ndtri(u), rtol=2e-15, atol=0.0)


def test_reference_quantile_is_the_scalar_one():
    u = _uniforms()
    z = np.array([random.normal_quantile(float(x)) for x in u])
    np.testing.assert_allclose(reference_sampling.normal_quantile(u), z, rtol=1e-15, atol=0.0)


def test_normal_quantile_is_odd():
    u = _uniforms()
    for x in u[::50]:
        assert random.normal_quantile(float(x)) == -random.normal_quantile(1.0 - float(x))


def test_quantile_does_not_jump_between_its_three_pieces():
    for edge in (0.075, np.exp(-25.0)):
        below = random.normal_quantile(edge * (1.0 - 1e-14))
        above = random.normal_quantile(edge * (1.0 + 1e-14))
        assert abs(above / below - 1.0) < 5e-14


def test_logarithm_is_good_to_two_ulp_over_its_range():
    rng = np.random.default_rng(2)
    x = np.concatenate([2.0 ** rng.uniform(-126.9, 0.49, 8000), 1.0 + rng.uniform(-1e-6, 1e-6, 200), [1.0]])
    ours = np.array([random.unit_log(float(v)) for v in x])
    exact = np.log(x)
    assert np.all(np.abs(ours - exact) <= 2.0 * np.spacing(np.abs(exact)))
