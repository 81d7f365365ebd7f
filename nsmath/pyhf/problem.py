"""`Problem`: a pyhf model, data and fit settings as a `Model`, and back: parameters and auxiliary data by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from nsmath._typing import Array, IntArray
from nsmath.errors import ModelError, OptionError
from nsmath.formulas.interpolation import Interpolation, interpolation
from nsmath.model.model import Model
from nsmath.spec.workspace import Workspace

MEASUREMENT = "pyhf"
"""A pyhf model does not know which measurement it was made of."""
DEFAULT_CODES = {"normsys": "code1", "histosys": "code0"}
"""What pyhf takes for a type that ``modifier_settings`` does not name; without any settings it is code4 and code4p."""


class PyhfConfig(Protocol):
    """What is used of ``pyhf.Model.config``."""

    @property
    def par_names(self) -> list[str]:
        """Names of all parameters, in pyhf's order."""

    @property
    def poi_name(self) -> str | None:
        """Name of the parameter of interest."""

    @property
    def nmaindata(self) -> int:
        """Number of bins."""

    auxdata_order: list[str]
    channel_nbins: dict[str, int]
    modifier_settings: dict[str, dict[str, str]]

    def par_slice(self, name: str) -> slice:
        """Where the parameters of a name are."""

    def suggested_init(self) -> list[float]:
        """Start values."""

    def suggested_bounds(self) -> Sequence[Sequence[float]]:
        """Bounds."""

    def suggested_fixed(self) -> list[bool]:
        """Which parameters are held."""


class PyhfModel(Protocol):
    """What is used of a ``pyhf.Model``."""

    spec: Any

    @property
    def config(self) -> PyhfConfig:
        """Parameters and channels."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A model with the data, start values, bounds and fixed parameters of one call.

    Attributes
    ----------
    model : the same likelihood as a `Model`.
    order : (P,) position in ``model.names`` of each of pyhf's parameters.
    aux_order : (A,) position in ``model.auxdata`` of each of pyhf's auxiliary data.
    """

    model: Model
    order: IntArray
    aux_order: IntArray

    def parameters(self, theta: Array) -> Array:
        """Return parameters (..., P) of the model in pyhf's order."""
        return np.ascontiguousarray(theta[..., self.order])

    def matrix(self, values: Array) -> Array:
        """Return a matrix (P, P) over the model's parameters in pyhf's order."""
        return np.ascontiguousarray(values[np.ix_(self.order, self.order)])

    def own_parameters(self, pars: ArrayLike) -> Array:
        """Return parameters (P,) in pyhf's order as the model has them."""
        theta = np.empty(len(self.order))
        theta[self.order] = numbers("pars", pars, len(self.order))
        return theta


_translated: WeakKeyDictionary[Any, tuple[str, Interpolation, Model]] = WeakKeyDictionary()
"""Models of pyhf models that are still in use, without data and settings: a scan asks for the same one again."""


def problem(
    data: ArrayLike, pdf: PyhfModel, init_pars: ArrayLike | None = None, par_bounds: ArrayLike | None = None,
    fixed_params: ArrayLike | None = None,
) -> Problem:  # fmt: skip
    """Return a pyhf model with data and fit settings as a `Problem`.

    Parameters
    ----------
    data : main and auxiliary data one after the other, as in pyhf.
    init_pars, par_bounds, fixed_params : (P,), (P, 2), (P,) in pyhf's order; those that ``pdf`` suggests when None.

    Raises
    ------
    OptionError, ModelError, WorkspaceError
        ``pdf`` is no pyhf model, or one that computes something else than this package; shapes that do not fit; a
        start value outside its bounds.
    """
    base = translated(pdf)
    config = pdf.config
    order = np.array([base.index_of(name) for name in config.par_names])
    n_parameters, n_main = len(order), config.nmaindata
    constrained = [parameter.name for parameter in base.parameters if parameter.constraint != "none"]
    aux_names = [name for block in config.auxdata_order for name in config.par_names[config.par_slice(block)]]
    aux_order = np.array([constrained.index(name) for name in aux_names], dtype=np.int64)
    everything = numbers("data", data, n_main + len(aux_order), f"{n_main} of main, {len(aux_order)} of auxiliary data")

    starts = _given("init_pars", init_pars, config.suggested_init, n_parameters)
    bounds = _given("par_bounds", par_bounds, config.suggested_bounds, n_parameters, pairs=True)
    fixed = _given("fixed_params", fixed_params, config.suggested_fixed, n_parameters)
    auxdata, back = np.empty(len(aux_order)), np.argsort(order)
    auxdata[aux_order] = everything[n_main:]
    model = base.with_starts(starts[back], bounds[back, 0], bounds[back, 1], fixed[back] != 0.0)
    return Problem(model.with_data(everything[:n_main], auxdata), order, aux_order)


def numbers(name: str, values: ArrayLike, n: int, what: str = "", *, pairs: bool = False) -> Array:
    """Return an argument as an array of ``n`` numbers, or of ``n`` pairs.

    Raises
    ------
    OptionError
        Another shape, or no numbers.
    """
    shape = (n, 2) if pairs else (n,)
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{name} holds something that is no number: {error}. Expected shape {shape}.") from None
    if array.shape != shape:
        raise OptionError(f"{name} has shape {array.shape}; expected {shape}" + (f": {what}." if what else "."))
    return array


def _given(
    name: str, values: ArrayLike | None, suggested: Callable[[], ArrayLike], n: int, *, pairs: bool = False
) -> Array:
    """Return what was given, or what the model suggests: for None, and for an empty list, as in pyhf."""
    is_given = values is not None and np.size(np.asarray(values)) > 0
    return numbers(name, values if is_given and values is not None else suggested(), n, pairs=pairs)


def translated(pdf: PyhfModel) -> Model:
    """Return the model of ``pdf``, with its suggested settings, auxiliary data as configured and no events.

    Raises
    ------
    OptionError, ModelError, WorkspaceError
        See `problem`.
    """
    checked_pdf(pdf)
    config = pdf.config
    poi, codes = config.poi_name or "", _codes(config)
    known = _translated.get(pdf)
    if known is not None and known[:2] == (poi, codes):
        return known[2]
    document = {
        "channels": pdf.spec["channels"],
        "observations": [{"name": name, "data": [0.0] * n} for name, n in config.channel_nbins.items()],
        "measurements": [
            {"name": MEASUREMENT, "config": {"poi": poi, "parameters": pdf.spec.get("parameters", [])}}
        ],
        "version": "1.0.0",
    }  # fmt: skip
    model = Model.from_workspace(Workspace.from_dict(document), interp=codes)
    if sorted(model.names) != sorted(config.par_names):
        raise ModelError(
            f"pdf has {len(config.par_names)} parameters that its spec does not describe in full: "
            f"{', '.join(sorted(set(config.par_names) ^ set(model.names)))[:200]}. Make it with workspace.model()."
        )
    _translated[pdf] = (poi, codes, model)
    return model


def checked_pdf(pdf: Any) -> None:
    """Check that ``pdf`` is a pyhf model whose likelihood is the one that this package computes.

    Raises
    ------
    OptionError
        It is not.
    """
    if not (hasattr(pdf, "config") and hasattr(pdf, "spec")):
        raise OptionError(
            f"pdf is a {type(pdf).__name__}; expected a pyhf.Model, such as workspace.model(). A Model of this package "
            "goes to nsmath.fit, nsmath.hypotest and nsmath.upper_limit."
        )
    main = getattr(pdf, "main_model", None)
    for name, owner in (("batch_size", pdf), ("clip_sample_data", main), ("clip_bin_data", main)):
        value = getattr(owner, name, None)
        if value is not None:
            raise OptionError(f"pdf was made with {name}={value!r}, which nsmath does not do. Make it without {name}.")


def _codes(config: PyhfConfig) -> Interpolation:
    """Return the interpolation codes of a pyhf model.

    Raises
    ------
    OptionError
        A code that pyhf computes differently.
    """
    codes = {
        kind: (config.modifier_settings.get(kind) or {}).get("interpcode", default)
        for kind, default in DEFAULT_CODES.items()
    }
    if codes["histosys"] == "code2":
        raise OptionError(
            "pdf interpolates histosys with code2, which pyhf continues with a jump at |alpha| = 1, so fits would "
            "differ (docs/maths.md). Choose code0 or code4p in modifier_settings."
        )
    return interpolation(codes)


def checked_poi(pdf: PyhfModel) -> int:
    """Return the position of the parameter of interest in pyhf's order.

    Raises
    ------
    OptionError
        There is none.
    """
    checked_pdf(pdf)
    name = pdf.config.poi_name
    if name is None:
        raise OptionError("pdf has no parameter of interest. Set one: pdf.config.set_poi(NAME).")
    return int(pdf.config.par_slice(name).start)
