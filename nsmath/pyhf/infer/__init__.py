"""``hypotest`` with pyhf's signature, and the modules beside it: ``mle``, ``calculators``, ``intervals``."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from nsmath.pyhf.infer import calculators as calculators
from nsmath.pyhf.infer import intervals as intervals
from nsmath.pyhf.infer import mle as mle
from nsmath.pyhf.infer.choice import calculator, outcome
from nsmath.pyhf.problem import PyhfModel

__all__ = ["calculators", "hypotest", "intervals", "mle"]


def hypotest(
    poi_test: float,
    data: ArrayLike,
    pdf: PyhfModel,
    init_pars: ArrayLike | None = None,
    par_bounds: ArrayLike | None = None,
    fixed_params: ArrayLike | None = None,
    calctype: str = "asymptotics",
    return_tail_probs: bool = False,
    return_expected: bool = False,
    return_expected_set: bool = False,
    return_calculator: bool = False,
    **kwargs: Any,
) -> Any:
    """Return CLs of one value of the parameter of interest as ``pyhf.infer.hypotest`` does; p0 for ``q0``.

    Parameters
    ----------
    data, pdf, init_pars, par_bounds, fixed_params : as for `nsmath.pyhf.infer.mle.fit`.
    calctype : ``asymptotics`` or ``toybased``.
    return_tail_probs : append [CLs+b, CLb]; [CLb] for ``q0``.
    return_expected : append the median CLs that background alone would give; p0 for a signal of 1 for ``q0``.
    return_expected_set : append the list of five, for background that fluctuates by -2 to 2 standard deviations.
    return_calculator : append the calculator.
    kwargs : further options of `AsymptoticCalculator` or `ToyCalculator`, such as ``test_stat`` or ``ntoys``.

    Returns
    -------
    CLs, an array without dimensions, or a tuple that begins with it.

    Raises
    ------
    NsmathError
        See the calculators.
    """
    used = calculator(calctype, data, pdf, init_pars, par_bounds, fixed_params, **kwargs)
    observed, tail_probs, expected = outcome(used, poi_test)
    returns: list[Any] = [observed]
    if return_tail_probs:
        returns.append(tail_probs)
    if return_expected:
        returns.append(expected[2])
    if return_expected_set:
        returns.append(expected)
    if return_calculator:
        returns.append(used)
    return tuple(returns) if len(returns) > 1 else returns[0]
