"""The keys of a study file, in one table: what reads them, checks them, documents them and makes their schema."""

from __future__ import annotations

from typing import Any

from nsmath.backends.ops import BACKENDS
from nsmath.errors import StudyError
from nsmath.formulas.interpolation import INTERPOLATION_SETS
from nsmath.infer.hypotest import AUX_CHOICES, EXPECTED_CHOICES, MAX_TOYS
from nsmath.infer.teststats import TEST_STATISTICS
from nsmath.plan.choice import DTYPE_CHOICES, GPU_CHOICES
from nsmath.study.kinds import (
    Choice,
    Either,
    Flag,
    Key,
    Many,
    Names,
    Number,
    Record,
    Share,
    Text,
    Whole,
)
from nsmath.study.tasks import TASKS

FILE = Text("a file")
CODES = Names(Text("an interpolation code"), "a mapping such as {normsys: code1, histosys: code0}")
PATCHSET = Record(
    (
        Key("file", FILE, "the patch set", required=True),
        Key("names", Many(Text("a name, a pattern such as 'm1*', or all"), "names and patterns"),
            "which of its patches", ("all",)),
    ),
    "a mapping with file and names",
)  # fmt: skip

POINT_KEYS = (
    Key("workspace", FILE, "pyhf JSON workspace, or the word `example`"),
    Key("patches", Many(Text("FILE or FILE:NAME"), "patches"), "JSON patches, applied in order"),
    Key("patchset", PATCHSET, "a point for each of these patches, labelled by its values"),
    Key("measurement", Text("a name"), "the first of the workspace if not given"),
    Key("poi", Text("a name"), "parameter of interest, instead of the measurement's"),
    Key("poi_max", Number(), "upper bound of the POI, instead of a narrower one of the measurement"),
    Key("interpolation", Either(CODES, Choice(lambda: tuple(INTERPOLATION_SETS))),
        "set of interpolation codes, or codes by modifier type", "root"),
    Key("mu", Many(Number(), "numbers"), "values of the POI to test"),
    Key("n_toys", Whole(1, MAX_TOYS), "toys of each of the two ensembles; with a stopping rule, at least", 1000),
    Key("seed", Whole(0, 2**64), "toys depend on it, ensemble and index alone", 0),
    Key("test_stat", Choice(lambda: tuple(TEST_STATISTICS)), "test statistic", "qtilde"),
    Key("aux", Choice(lambda: AUX_CHOICES), "auxiliary data fluctuate with the toys, or stay as observed", "random"),
    Key("expected_set", Flag(), "also the band of CLs expected from background alone", False),
    Key("expected", Choice(lambda: EXPECTED_CHOICES), "what that band comes from", "data"),
    Key("cl", Number(0.5, 1.0), "confidence level of limits", 0.95),
    Key("cls_error", Many(Share(), "such errors"), "go on until CLs is known to this error; of several, to all", ()),
    Key("decide", Number(0.0, 1.0), "go on until CLs is on one side of this, such as 0.05"),
    Key("sigmas", Number(0.0, 10.0), "standard errors that `decide` asks for", 3.0),
    Key("max_toys", Whole(1, MAX_TOYS), "toys at which `cls_error` and `decide` give up", 1_000_000),
)  # fmt: skip
"""What holds for every point at the top of a study, and for one point in the list `points`."""

POINT = Record((Key("name", Text("a name"), "what the point is called"), *POINT_KEYS), "a mapping of keys and values")

STUDY_KEYS = (
    Key("task", Choice(lambda: tuple(TASKS)), "what is computed at every point", "hypotest-toys"),
    Key("workspaces", Either(Names(FILE, "a mapping from names to files"), Many(FILE, "files", single=False)),
        "several workspaces, instead of one"),
    Key("points", Many(POINT, "mappings", single=False),
        "points with keys of their own, which go before those of the study"),
    Key("threads", Whole(1), "worker threads; all cores if not given"),
    Key("backend", Choice(lambda: tuple(BACKENDS)), "what computes", "cpu"),
    Key("gpu", Choice(lambda: GPU_CHOICES), "device; auto takes what tuned plans predict to be the fastest", "none"),
    Key("dtype", Choice(lambda: DTYPE_CHOICES), "precision; the device's own if not given, float64 where it has that"),
    Key("store", Text("a folder"), "keep the toys, in a sub-folder for each point"),
    Key("output", FILE, "JSON file of all results"),
    Key("table", FILE, "CSV file with a row for each point and mu"),
)  # fmt: skip
"""What holds for the study as a whole."""

STUDY = Record((*STUDY_KEYS, *POINT_KEYS), "a mapping of keys and values, see docs/studies.md")
DEFAULTS = {key.name: key.default for key in (*STUDY_KEYS, *POINT_KEYS)}


def checked_document(document: object) -> dict[str, Any]:
    """Return the keys that a study gives, with their values as `Kind.read` returns them.

    Raises
    ------
    StudyError
        An unknown key, or a value of the wrong type or out of range; the message begins with the place.
    """
    found = STUDY.read(document, "")
    if ("workspace" in found) and ("workspaces" in found):
        raise StudyError("workspaces: the study gives 'workspace' too; expected one of the two.")
    return found


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of study files, for editors that check YAML as it is written."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "nsmath study",
        "description": "Input of `nsmath run`; made from nsmath/study/keys.py.",
        **STUDY.schema(),
        "not": {"required": ["workspace", "workspaces"]},
    }
