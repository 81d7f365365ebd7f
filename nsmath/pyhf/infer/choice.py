"""The calculator that ``calctype`` names, and what a hypothesis test reads off it."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from nsmath._typing import AnyArray
from nsmath.errors import OptionError
from nsmath.pyhf.infer.calculators import AsymptoticCalculator, ToyCalculator
from nsmath.pyhf.problem import PyhfModel

CALCULATORS: dict[str, type[AsymptoticCalculator] | type[ToyCalculator]] = {
    "asymptotics": AsymptoticCalculator,
    "toybased": ToyCalculator,
}


def calculator(
    calctype: str, data: ArrayLike, pdf: PyhfModel, init_pars: ArrayLike | None = None,
    par_bounds: ArrayLike | None = None, fixed_params: ArrayLike | None = None, **kwargs: Any,
) -> AsymptoticCalculator | ToyCalculator:  # fmt: skip
    """Return the calculator of a row of `CALCULATORS`; ``kwargs`` are its own options.

    Raises
    ------
    OptionError
        Unknown ``calctype``.
    """
    if calctype not in CALCULATORS:
        raise OptionError(f"calctype is {calctype!r}; expected one of {', '.join(CALCULATORS)}.")
    return CALCULATORS[calctype](data, pdf, init_pars, par_bounds, fixed_params, **kwargs)


def outcome(
    used: AsymptoticCalculator | ToyCalculator, poi_test: float
) -> tuple[AnyArray, list[AnyArray], list[AnyArray]]:
    """Return the observed p-value, the tail probabilities and the expected set of one value, as `hypotest` has them."""
    distributions: Any = used.distributions(poi_test)
    clsb, clb, cls = used.pvalues(used.teststatistic(poi_test), *distributions)
    expected_clsb, _, expected_cls = used.expected_pvalues(*distributions)
    if used.statistic.tests_null:
        return clsb, [clb], expected_clsb
    return cls, [clsb, clb], expected_cls
