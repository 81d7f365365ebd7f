"""What a workspace is made of: frozen records, one for each object of the JSON document.

Axis letters as everywhere: B bins. A record holds what the file says, in the order in which it says it.
"""

from dataclasses import dataclass

__all__ = [
    "Channel",
    "LoHi",
    "LoHiData",
    "LoadWarning",
    "Measurement",
    "Modifier",
    "ModifierData",
    "Observation",
    "ParameterConfig",
    "Sample",
]


@dataclass(frozen=True, slots=True)
class LoHi:
    """Factors of a normsys at -1 and +1 sigma, both relative to the nominal."""

    lo: float
    hi: float


@dataclass(frozen=True, slots=True)
class LoHiData:
    """Templates of a histosys at -1 and +1 sigma: events per bin, shape (B,)."""

    lo_data: tuple[float, ...]
    hi_data: tuple[float, ...]


ModifierData = LoHi | LoHiData | tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Modifier:
    """One modifier of one sample.

    Attributes
    ----------
    name : str
        The name of its parameter.
    type : str
        A key of `nsmath.spec.MODIFIERS`.
    data : LoHi, LoHiData, tuple of float or None
        As the type's row says; per-bin data are absolute uncertainties, shape (B,).
    """

    name: str
    type: str
    data: ModifierData


@dataclass(frozen=True, slots=True)
class Sample:
    """One process in one channel: nominal events per bin, shape (B,), and its modifiers."""

    name: str
    data: tuple[float, ...]
    modifiers: tuple[Modifier, ...]


@dataclass(frozen=True, slots=True)
class Channel:
    """One region of the analysis: samples over the same bins."""

    name: str
    samples: tuple[Sample, ...]

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.samples[0].data)


@dataclass(frozen=True, slots=True)
class Observation:
    """Observed events per bin of the channel of that name, shape (B,)."""

    name: str
    data: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ParameterConfig:
    """What a measurement says about one parameter; None where it says nothing.

    Each tuple has one entry per value of the parameter; `bounds` holds (low, high) pairs.
    """

    name: str
    inits: tuple[float, ...] | None = None
    bounds: tuple[tuple[float, float], ...] | None = None
    auxdata: tuple[float, ...] | None = None
    sigmas: tuple[float, ...] | None = None
    fixed: bool | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """A parameter of interest (the empty string: none) and parameter configurations."""

    name: str
    poi: str
    parameters: tuple[ParameterConfig, ...]


@dataclass(frozen=True, slots=True)
class LoadWarning:
    """Something in the file that is legal and may still not be what its author meant.

    Attributes
    ----------
    kind : str
        A short kebab-case name, the same for all warnings of a kind.
    path : str
        Where it is in the JSON document.
    message : str
        What was found, with the names of channel, sample and modifier, and what it leads to.
    """

    kind: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"
