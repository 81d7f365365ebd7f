"""`Model`: what a workspace means for one measurement: named parameters, data, auxiliary data, tensors."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nsmath._typing import Array, BoolArray
from nsmath.errors import ModelError
from nsmath.formulas.interpolation import Interpolation, interpolation
from nsmath.model.data import checked_data
from nsmath.model.lowering import lower
from nsmath.model.parameters import Parameter, ParameterBlock, model_parameters, poi_index, widened
from nsmath.model.tensors import ModelTensors
from nsmath.spec.workspace import Channel, Workspace


@dataclass(frozen=True, slots=True)
class _Source:
    """What the tensors were lowered from, to lower them again with other choices."""

    channels: tuple[Channel, ...]
    blocks: dict[str, ParameterBlock]


@dataclass(frozen=True)
class Model:
    """A statistical model: parameters, observed data and frozen tensors.

    Build one with `Model.from_workspace`. Arrays over parameters have shape (P,), over bins (B,), over auxiliary
    measurements (A,). Bins run over ``channels``, which are sorted by name as in pyhf.

    Attributes
    ----------
    measurement, poi : names; ``poi`` is empty where the measurement has none.
    parameters : one `Parameter` for each element of the parameter vector.
    channels : channel name -> number of bins, in data order.
    interp : interpolation codes by modifier type.
    tensors : what backends need.
    poi_max : upper bound of the POI that was given in the place of the measurement's; None for that one.
    """

    measurement: str
    poi: str
    parameters: tuple[Parameter, ...]
    channels: dict[str, int]
    interp: Interpolation
    tensors: ModelTensors = field(repr=False)
    source: _Source = field(repr=False)
    poi_max: float | None = None

    @classmethod
    def from_workspace(
        cls,
        workspace: Workspace | Mapping[str, Any],
        *,
        measurement: str | None = None,
        poi: str | None = None,
        interp: str | Interpolation | dict[str, str] = "root",
        poi_max: float | None = None,
    ) -> Model:
        """Return the model of one measurement of a workspace.

        Parameters
        ----------
        workspace : a `Workspace`, or the pyhf JSON as a mapping.
        measurement : its name; the first one when None.
        poi : parameter of interest, instead of the measurement's; ``""`` for none.
        interp : ``root`` (code4 + code4p), ``pyhf`` (code1 + code0), or codes by modifier type.
        poi_max : upper bound of the parameter of interest, at or above that of the measurement: for limits beyond it.

        Raises
        ------
        WorkspaceError, ModelError, OptionError
            See their messages; each says where.
        """
        if not isinstance(workspace, Workspace):
            workspace = Workspace.from_dict(workspace)
        codes = interpolation(interp)
        chosen = workspace.measurement(measurement, poi=poi)
        channels = tuple(sorted(workspace.channels, key=lambda channel: channel.name))
        parameters, blocks = model_parameters(workspace, channels, chosen)
        index = poi_index(chosen.poi, parameters, blocks)
        if poi_max is not None:
            parameters = widened(parameters, index, poi_max, chosen.name)
        observed = [value for channel in channels for value in workspace.observed(channel.name)]
        tensors = lower(channels, parameters, blocks, poi=index, interp=codes, observed=observed)
        # Nothing of the tensors knows the names, so equal digests need them too (`digest`).
        return cls(
            measurement=chosen.name,
            poi="" if index is None else parameters[index].name,
            parameters=tuple(parameters),
            channels={channel.name: len(channel.samples[0].data) for channel in channels},
            interp=codes,
            tensors=tensors,
            source=_Source(channels, blocks),
            poi_max=None if poi_max is None else float(poi_max),
        )

    def _relowered(
        self, parameters: tuple[Parameter, ...], *, observed: Array | None = None, profile: bool = True
    ) -> Model:
        """Return this model with other parameters or observed events, or without profiled and inert ones."""
        tensors = lower(
            self.source.channels, parameters, self.source.blocks, poi=self.poi_index, interp=self.interp,
            observed=list(self.data if observed is None else observed), profile=profile,
        )  # fmt: skip
        return replace(self, parameters=parameters, tensors=tensors)

    def with_fixed(self, values: Mapping[str, float]) -> Model:
        """Return this model with parameters fixed at values, by name.

        Raises
        ------
        ModelError
            Unknown name, or a value outside the parameter's bounds.
        """
        parameters = list(self.parameters)
        for name, value in values.items():
            index = self.index_of(name)
            known = parameters[index]
            if not known.lower <= value <= known.upper:
                raise ModelError(
                    f"parameter {name!r} is to be fixed at {value:g}, outside its bounds [{known.lower:g}, "
                    f"{known.upper:g}]. Widen them in the measurement's parameter configuration."
                )
            parameters[index] = replace(known, init=float(value), is_fixed=True)
        return self._relowered(tuple(parameters))

    def with_data(self, data: ArrayLike | None = None, auxdata: ArrayLike | None = None) -> Model:
        """Return this model with other observed data, main (B,) and auxiliary (A,); None leaves them.

        Raises
        ------
        ModelError
            Wrong shape, negative or non-finite counts.
        """
        main, aux = checked_data(self, data, auxdata)
        values = iter(aux.tolist())
        parameters = tuple(
            known if known.constraint == "none" else replace(known, auxdata=next(values)) for known in self.parameters
        )
        return self._relowered(parameters, observed=main)

    def with_starts(self, init: ArrayLike, lower: ArrayLike, upper: ArrayLike, is_fixed: ArrayLike) -> Model:
        """Return this model with other start values, bounds and fixed parameters, each of shape (P,).

        Raises
        ------
        ModelError
            Wrong shape, bounds that are no interval, or a start value outside.
        """
        n = len(self.names)
        starts, low, high = (np.asarray(x, dtype=float) for x in (init, lower, upper))
        held = np.asarray(is_fixed, dtype=bool)
        for what, array in (("init", starts), ("lower", low), ("upper", high), ("is_fixed", held)):
            if array.shape != (n,):
                raise ModelError(f"{what} has shape {array.shape}; the model has {n} parameters, so expected ({n},).")
        for p, name in enumerate(self.names):
            if not low[p] < high[p]:
                raise ModelError(
                    f"parameter {name!r} has the bounds [{low[p]:g}, {high[p]:g}]; expected lower < upper."
                )
            if not low[p] <= starts[p] <= high[p]:
                raise ModelError(
                    f"parameter {name!r} is to start at {starts[p]:g}, outside its bounds [{low[p]:g}, {high[p]:g}]. "
                    "Change one of them."
                )
        columns = zip(self.parameters, starts.tolist(), low.tolist(), high.tolist(), held.tolist(), strict=True)
        return self._relowered(
            tuple(replace(known, init=x, lower=a, upper=b, is_fixed=f) for known, x, a, b, f in columns)
        )

    @cached_property
    def unprofiled(self) -> Model:
        """This model with every parameter among the minimised ones, in vector order: for gradients by all P."""
        return self._relowered(self.parameters, profile=False)

    def index_of(self, name: str) -> int:
        """Return the position of a parameter.

        Raises
        ------
        ModelError
            Unknown name; the message offers the nearest one.
        """
        if name not in self._index:
            near = difflib.get_close_matches(name, self.names, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            some = ", ".join(self.names[:20]) + (f", ... ({len(self.names)} in all)" if len(self.names) > 20 else "")
            raise ModelError(f"the model has no parameter {name!r}.{hint} Parameters: {some}.")
        return self._index[name]

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def with_poi_above(self, lower: float) -> Model:
        """Return this model with the lower bound of the parameter of interest raised to ``lower``."""
        index = self.require_poi()
        parameters = list(self.parameters)
        parameters[index] = replace(parameters[index], lower=lower, init=max(parameters[index].init, lower))
        return self._relowered(tuple(parameters))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Parameter names, in vector order."""
        return tuple(parameter.name for parameter in self.parameters)

    @cached_property
    def poi_index(self) -> int | None:
        """Position of the parameter of interest; None without one."""
        return self.names.index(self.poi) if self.poi else None

    def require_poi(self) -> int:
        """Return the position of the parameter of interest.

        Raises
        ------
        ModelError
            The measurement has none.
        """
        if self.poi_index is None:
            raise ModelError(
                f"measurement {self.measurement!r} has no parameter of interest (its poi is ''), and a hypothesis "
                "test needs one. Choose a measurement that names one, or pass poi=NAME (--poi NAME)."
            )
        return self.poi_index

    @cached_property
    def digest(self) -> str:
        """sha256 over names and tensors: equal digests mean the same likelihood and the same toys."""
        names = "\n".join((self.measurement, self.poi, *self.names, *map(str, self.channels.items())))
        return hashlib.sha256((names + self.tensors.digest()).encode()).hexdigest()

    @property
    def init(self) -> Array:
        """Start values, shape (P,)."""
        return self.tensors.init

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds, each of shape (P,)."""
        return self.tensors.lower, self.tensors.upper

    @property
    def is_fixed(self) -> BoolArray:
        """Parameters that are never fitted, shape (P,)."""
        return self.tensors.is_fixed.astype(bool)

    @property
    def data(self) -> Array:
        """Observed main data, shape (B,)."""
        return self.tensors.observed

    @property
    def auxdata(self) -> Array:
        """Observed auxiliary data, shape (A,): one value for each constrained parameter, in their order."""
        return self.tensors.aux_observed

    def parameter_vector(self, values: Mapping[str, float] | Sequence[float] | Array) -> Array:
        """Return parameters as an array (P,) or (N, P); a mapping by name is completed with the start values.

        Raises
        ------
        ModelError
            Unknown name or wrong length.
        """
        if isinstance(values, Mapping):
            theta = self.init.copy()
            for name, value in values.items():
                theta[self.index_of(name)] = value
            return theta
        array = np.asarray(values, dtype=float)
        if array.shape[-1:] != (len(self.names),) or array.ndim > 2:
            raise ModelError(
                f"parameters have shape {array.shape}; expected ({len(self.names)},) or (N, {len(self.names)})."
            )
        return array

    def __repr__(self) -> str:
        t = self.tensors
        return (
            f"Model({self.measurement!r}, poi={self.poi!r}, {len(self.channels)} channels, {t.n_bins} bins, "
            f"{t.n_parameters} parameters, {t.n_aux} auxiliary measurements, digest {self.digest[:12]})"
        )
