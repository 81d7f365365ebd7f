"""What a workspace file says: pyhf JSON read, checked and frozen. No array library is seen here."""

from nsmath.spec.lint import Finding, LintReport, lint
from nsmath.spec.modifiers import MODIFIERS, ModifierType
from nsmath.spec.patch import PatchSet, apply_patches
from nsmath.spec.uses import ParameterUse, parameter_uses
from nsmath.spec.workspace import (
    Channel,
    LoadWarning,
    LoHi,
    LoHiData,
    Measurement,
    Modifier,
    Observation,
    ParameterConfig,
    Sample,
    Workspace,
)

__all__ = [
    "MODIFIERS",
    "Channel",
    "Finding",
    "LintReport",
    "LoHi",
    "LoHiData",
    "LoadWarning",
    "Measurement",
    "Modifier",
    "ModifierType",
    "Observation",
    "ParameterConfig",
    "ParameterUse",
    "PatchSet",
    "Sample",
    "Workspace",
    "apply_patches",
    "lint",
    "parameter_uses",
]
