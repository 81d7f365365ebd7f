"""nsmath: likelihood fits and toy-based CLs of HistFactory models, as batched matmuls.

Public names load on first use, so that ``import nsmath`` and ``nsmath --help`` cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nsmath.errors import NsmathError
    from nsmath.fitting.evaluate import nll, nll_and_gradient
    from nsmath.fitting.fit import FitResult, fit
    from nsmath.infer.asymptotic_api import hypotest, significance, upper_limit
    from nsmath.infer.asymptotic_limit import AsymptoticLimitResult
    from nsmath.infer.asymptotics import AsymptoticTestResult
    from nsmath.infer.engine import Workers
    from nsmath.infer.goodness import GoodnessOfFit, goodness_of_fit
    from nsmath.infer.hypotest import hypotest_toys, toy_upper_limit
    from nsmath.infer.intervals import IntervalsResult, intervals
    from nsmath.infer.ranking import RankingResult, ranking
    from nsmath.infer.result import ToyTestResult
    from nsmath.infer.scan import ScanResult, scan
    from nsmath.infer.stopping import StoppingRule
    from nsmath.infer.toy_limit import ToyLimitResult
    from nsmath.model.model import Model
    from nsmath.plan.plan import Plan
    from nsmath.spec.workspace import Workspace
    from nsmath.study.grid import GridResult, signal_grid
    from nsmath.study.result import StudyResult
    from nsmath.study.run import run_study

__version__ = "0.1.0"

_HOMES = {
    "NsmathError": "nsmath.errors",
    "nll": "nsmath.fitting.evaluate",
    "nll_and_gradient": "nsmath.fitting.evaluate",
    "FitResult": "nsmath.fitting.fit",
    "fit": "nsmath.fitting.fit",
    "ToyTestResult": "nsmath.infer.result",
    "StoppingRule": "nsmath.infer.stopping",
    "Workers": "nsmath.infer.engine",
    "AsymptoticLimitResult": "nsmath.infer.asymptotic_limit",
    "AsymptoticTestResult": "nsmath.infer.asymptotics",
    "hypotest": "nsmath.infer.asymptotic_api",
    "significance": "nsmath.infer.asymptotic_api",
    "upper_limit": "nsmath.infer.asymptotic_api",
    "ToyLimitResult": "nsmath.infer.toy_limit",
    "toy_upper_limit": "nsmath.infer.hypotest",
    "hypotest_toys": "nsmath.infer.hypotest",
    "GoodnessOfFit": "nsmath.infer.goodness",
    "goodness_of_fit": "nsmath.infer.goodness",
    "IntervalsResult": "nsmath.infer.intervals",
    "intervals": "nsmath.infer.intervals",
    "RankingResult": "nsmath.infer.ranking",
    "ranking": "nsmath.infer.ranking",
    "ScanResult": "nsmath.infer.scan",
    "scan": "nsmath.infer.scan",
    "Model": "nsmath.model.model",
    "Plan": "nsmath.plan.plan",
    "Workspace": "nsmath.spec.workspace",
    "GridResult": "nsmath.study.grid",
    "signal_grid": "nsmath.study.grid",
    "StudyResult": "nsmath.study.result",
    "run_study": "nsmath.study.run",
}

__all__ = [
    "AsymptoticLimitResult",
    "AsymptoticTestResult",
    "FitResult",
    "GoodnessOfFit",
    "GridResult",
    "IntervalsResult",
    "Model",
    "NsmathError",
    "Plan",
    "RankingResult",
    "ScanResult",
    "StoppingRule",
    "StudyResult",
    "ToyLimitResult",
    "ToyTestResult",
    "Workers",
    "Workspace",
    "__version__",
    "fit",
    "goodness_of_fit",
    "hypotest",
    "hypotest_toys",
    "intervals",
    "nll",
    "nll_and_gradient",
    "ranking",
    "run_study",
    "scan",
    "signal_grid",
    "significance",
    "toy_upper_limit",
    "upper_limit",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nsmath' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
