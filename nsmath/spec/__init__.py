"""What a workspace file says: pyhf JSON read, checked and frozen. No array library is seen here."""

from nsmath.spec.combine import JOINS, combined
from nsmath.spec.edit import Edited, ordered, pruned, renamed, with_configs, with_observations
from nsmath.spec.lint import Finding, LintReport, lint
from nsmath.spec.modifiers import MODIFIERS, ModifierType
from nsmath.spec.patch import PatchSet, apply_patches
from nsmath.spec.patchset import digest
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
    "JOINS",
    "MODIFIERS",
    "Channel",
    "Edited",
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
    "combined",
    "digest",
    "lint",
    "ordered",
    "parameter_uses",
    "pruned",
    "renamed",
    "with_configs",
    "with_observations",
]
