"""What `nsmath.pyhf` cannot do as pyhf does it is an error that says so."""

from __future__ import annotations

from typing import Any

import pytest
from peers import peer

from nsmath.errors import FitError, ModelError, NsmathError, OptionError
from nsmath.pyhf import infer
from nsmath.pyhf.infer import mle
from nsmath.pyhf.infer.intervals import upper_limits

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "data too long": ({"data": [1.0] * 99}, r"data has shape \(99,\); expected \(14,\): 6 of main, 8 of aux"),
    "negative counts": ({"data": [-1.0] * 14}, "a count cannot be negative"),
    "no numbers": ({"data": ["x"] * 14}, "no number"),
    "a model of nsmath": ({"pdf": object()}, "expected a pyhf.Model"),
    "too few starts": ({"init_pars": [1.0]}, r"init_pars has shape \(1,\)"),
    "bounds of another shape": ({"par_bounds": [0.0, 1.0]}, r"par_bounds has shape \(2,\)"),
    "a calculator": ({"calctype": "toys"}, "asymptotics, toybased"),
    "a statistic": ({"test_stat": "qmu"}, "qtilde, q, q0"),
    "a base distribution": ({"calc_base_dist": "poisson"}, "clipped_normal"),
    "a discovery elsewhere": ({"test_stat": "q0"}, "Pass 0"),
    "mu beyond its bounds": ({"poi_test": 11.0}, r"outside the bounds \[0, 10\]"),
    "no toys": ({"calctype": "toybased", "ntoys": 0}, "n_toys"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_an_error(case: str) -> None:
    pdf, data = peer("everything")
    changes, message = REFUSED[case]
    arguments = {"poi_test": 1.0, "data": data, "pdf": pdf, **changes}
    with pytest.raises(NsmathError, match=message):
        infer.hypotest(**arguments)


def test_models_that_compute_something_else_are_refused() -> None:
    for options, message in (
        ({"clip_bin_data": 0.0}, "clip_bin_data"), ({"clip_sample_data": 0.0}, "clip_sample_data"),
        ({"batch_size": 2}, "batch_size"),
        ({"modifier_settings": {"histosys": {"interpcode": "code2"}}}, "code2"),
    ):  # fmt: skip
        pdf, data = peer("everything", **options)
        with pytest.raises(OptionError, match=message):
            mle.fit(data, pdf)


def test_settings_that_contradict_each_other_are_refused() -> None:
    pdf, data = peer("F2")
    n = pdf.config.npars
    with pytest.raises(ModelError, match="outside its bounds"):
        mle.fit(data, pdf, init_pars=[20.0, 1.0])
    with pytest.raises(ModelError, match="expected lower < upper"):
        mle.fit(data, pdf, par_bounds=[[5.0, 0.0], [0.5, 1.5]])
    with pytest.raises(OptionError, match="is fixed at"):
        infer.hypotest(1.0, data, pdf, fixed_params=[True] * n)
    with pytest.raises(TypeError, match="tolerance"):
        mle.fit(data, pdf, tolerance=1e-3)
    pdf.config.set_poi(None)
    with pytest.raises(OptionError, match=r"pdf\.config\.set_poi"):
        mle.fixed_poi_fit(1.0, data, pdf)


def test_limits_that_are_not_there_are_errors() -> None:
    pdf, data = peer("F2")
    with pytest.raises(OptionError, match=r"crosses 0\.05 0 times"):
        upper_limits.upper_limit(data, pdf, [0.1, 0.2])
    with pytest.raises(FitError, match=r"beyond mu = 0\.5"):
        upper_limits.upper_limit(data, pdf, par_bounds=[[0.0, 0.5], [0.1, 5.0]], init_pars=[0.3, 1.0])
    with pytest.raises(OptionError, match="sets no limit"):
        upper_limits.upper_limit(data, pdf, test_stat="q0")
    with pytest.raises(OptionError, match=r"between 0 and 0\.5"):
        upper_limits.upper_limit(data, pdf, level=0.6)
