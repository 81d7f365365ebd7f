"""Tuned plans on disk: readable YAML, written whole or not at all, never trusted when anything differs."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import yaml

from nsmath.errors import PlanError
from nsmath.paths import cache_folder
from nsmath.plan.tuned import PlanKey, Tuned, parse_record, record

logger = logging.getLogger("nsmath.plan")


def plan_path(key: PlanKey) -> Path:
    """Return where the tuned plan of this model and backend lives in the user's cache folder."""
    return cache_folder() / "plans" / f"{key.model[:16]}-{key.backend}-{key.dtype}.yaml"


def read_plan(path: Path) -> tuple[PlanKey, Tuned]:
    """Return key and tuned values of a plan file.

    Raises
    ------
    PlanError
        Missing, unreadable, damaged or not a plan; the message names the file.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return parse_record(content)
    except FileNotFoundError:
        raise PlanError(f"plan file {path} does not exist.") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise PlanError(f"plan file {path} cannot be read: {reason}") from error
    except PlanError as error:
        raise PlanError(f"plan file {path}: {error}") from error


def measured_values(path: Path) -> dict[str, Any]:
    """Return what was measured when a plan file was tuned; empty where it does not say."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    measured = content.get("measured")
    return measured if isinstance(measured, dict) else {}


def cached_plan(key: PlanKey) -> Tuned | None:
    """Return the tuned values in the cache that match ``key`` in every field; else None, with one log line."""
    path = plan_path(key)
    if not path.exists():
        logger.info("no tuned plan for this model yet (%s)", path)
        return None
    try:
        found, tuned = read_plan(path)
    except PlanError as error:
        logger.warning("tuned plan skipped: %s", error)
        return None
    difference = key.mismatch(found)
    if difference is not None:
        logger.warning("tuned plan %s skipped: %s", path, difference)
        return None
    logger.info("tuned plan found: %s", path)
    return tuned


def write_plan(path: Path, key: PlanKey, tuned: Tuned, measured: dict[str, Any]) -> None:
    """Write a plan file atomically; a failure is one log line, since a plan only saves time."""
    text = yaml.safe_dump(record(key, tuned, measured), sort_keys=False, allow_unicode=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        logger.warning("tuned plan could not be stored in %s: %s", path, error)
    else:
        logger.info("tuned plan stored: %s", path)
