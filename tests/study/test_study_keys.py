"""Study files are read as the published schema says, and refused with the place of what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from nsmath.errors import StudyError
from nsmath.study.document import parsed_study
from nsmath.study.keys import POINT_KEYS, STUDY, STUDY_KEYS, checked_document, json_schema
from nsmath.study.kinds import Key
from nsmath.study.points import study_of

ROOT = Path(__file__).resolve().parents[2]
KEYS = {key.name: key for key in (*STUDY_KEYS, *POINT_KEYS)}
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 3, 0.5, 1.5, 2000.0, 2**48, 2**64, "", "  ", "a", "all", "0.5", "5%", "abc", "root",
    "qtilde", "fixed", "cpu", "auto", "float32", "hypotest-toys", "data", 0.9, [], [1],
    [1, 1.0], [0.5, 2], ["a"], ["a", "a"], ["a", ""], [None],
    ["5%", 0.1], {}, {"a": "b"}, {"a": 1}, {"file": "f"}, {"file": "f", "names": "all"}, {"file": "f", "name": "all"},
    {"names": ["a"]}, {"normsys": "code1"}, [{}], [{"mu": 1}], [{"name": "a", "n_toys": 0}], [{"workspaces": ["a"]}],
]  # fmt: skip


def accepted_by_schema(document: object) -> bool:
    return not list(jsonschema.Draft202012Validator(json_schema()).iter_errors(document))


def accepted(document: object) -> bool:
    try:
        checked_document(document)
    except StudyError:
        return False
    return True


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_every_value_is_taken_or_refused_as_the_schema_says(key: Key) -> None:
    taken = [value for value in VALUES if accepted({key.name: value})]
    assert taken == [value for value in VALUES if accepted_by_schema({key.name: value})]
    assert 0 < len(taken) < len(VALUES)
    for value in VALUES:
        if not accepted({key.name: value}):
            with pytest.raises(StudyError, match=rf"^{key.name}\b.*(got|expected|empty|already|mean)"):
                checked_document({key.name: value})


def test_the_published_schema_is_that_of_the_code() -> None:
    published = json.loads((ROOT / "docs" / "study.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(published)
    # Made again by scripts/make_study_schema.py.
    assert published == json_schema()


def test_the_description_has_every_key_with_its_values_and_default() -> None:
    text = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    rows = {cells[1].strip(" `"): [c.strip() for c in cells[2:5]] for line in text.splitlines()
            if line.startswith("| `") and len(cells := line.split("|")) == 6}  # fmt: skip
    assert list(rows) == [key.name for key in (*POINT_KEYS, *STUDY_KEYS)]
    for name, (words, default, about) in rows.items():
        key = KEYS[name]
        assert words == key.kind.words
        assert default == ("-" if key.default in (None, ()) else f"`{str(key.default).lower()}`"), name
        assert about.startswith(key.about)


@pytest.mark.parametrize("place", ["docs/studies.md", "plans/study-scan.yaml", "plans/study-grid.yaml"])
def test_shipped_and_documented_studies_are_valid(place: str) -> None:
    text = (ROOT / place).read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE) if place[-2:] == "md" else [text]
    assert blocks
    for block in blocks:
        document = yaml.safe_load(block)
        assert accepted(document)
        assert accepted_by_schema(document)


WORDING = {
    "nearest key": ({"workspace": "a", "points": [{}, {}, {"n_toy": 3}]},
                    r"^points\[2\]\.n_toy: unknown key; did you mean 'n_toys'\?$"),
    "no near key": ({"xyz": 3}, r"^xyz: unknown key; expected 'task', 'workspaces'"),
    "key of the study in a point": ({"points": [{"store": "a"}]}, r"^points\[0\]\.store: unknown key"),
    "wrong type": ({"n_toys": "many"}, r"^n_toys: got the string 'many', expected a whole number from 1 to 2\^48 - 1"),
    "exponent": ({"decide": "5e-2"}, r"^decide: got the string '5e-2'.* Write 0\.05 without quotes or exponent\."),
    "whole exponent": ({"n_toys": "1e4"}, r"^n_toys: got the string '1e4'.* Write 10000 without quotes or exponent\."),
    "nearest word": ({"test_stat": "qtild"}, r"^test_stat: got the string 'qtild'.* Did you mean 'qtilde'\?"),
    "entry": ({"mu": [1, "two"]}, r"^mu\[1\]: got the string 'two', expected a number"),
    "twice": ({"mu": [1, 1.0]}, r"^mu\[1\]: 1\.0 stands in the list already"),
    "not finite": ({"mu": [float("inf")]}, r"^mu\[0\]: got the number inf, expected a number"),
    "mapping": (["a"], r"^the study: got an array of 1, expected a mapping"),
    "patch set": ({"patchset": {"name": "a"}}, r"^patchset\.name: unknown key; did you mean 'names'\?$"),
    "file of a patch set": ({"patchset": {"names": "a"}}, r"^patchset\.file: missing; expected a file"),
    "share": ({"cls_error": ["5%", "120%"]}, r"^cls_error\[1\]: got the string '120%'"),
    "file name": ({"workspaces": {"a": 3}}, r"^workspaces\.a: got the number 3, expected a file"),
    "number as a name": ({"workspaces": {1: "a"}}, r"^workspaces: the key 1 is no name"),
}  # fmt: skip


@pytest.mark.parametrize("case", WORDING)
def test_an_error_says_where_and_what_was_expected(case: str) -> None:
    document, pattern = WORDING[case]
    with pytest.raises(StudyError, match=pattern):
        checked_document(document)


BASE = {"workspace": "example", "mu": 1}
CONTRADICTIONS = {
    "no workspace": ({"mu": 1}, r"^workspace: missing; expected a file"),
    "no workspace in a point": ({"mu": 1, "points": [{"workspace": "a"}, {"name": "b"}]}, r"^points\[1\]\.workspace"),
    "two kinds of workspaces": ({**BASE, "workspaces": ["a"]}, r"^workspaces: the study gives 'workspace' too"),
    "two workspaces of one name": ({"mu": 1, "workspaces": ["a/x.json", "b/x.json"]},
                                   r"^workspaces\[1\]: a second 'x'"),
    "no mu": ({"workspace": "example"}, r"^mu: missing; hypotest-toys needs it"),
    "no mu in a point": ({"workspace": "example", "points": [{"mu": 1}, {"name": "b"}]},
                         r"^points\[1\]\.mu: missing.*at the top"),
    "a name twice": ({**BASE, "points": [{"name": "a"}, {"name": "a", "mu": 2}]},
                     r"^points\[1\]: a second point 'a'; .*points\[0\]"),
    "no name twice": ({**BASE, "points": [{}, {"mu": 2}]}, r"^points\[1\]: a second point 'example'"),
    "codes": ({**BASE, "interpolation": {"normsys": "code0"}}, r"^interpolation: .*code0.*code1"),
    "code types": ({**BASE, "points": [{"interpolation": {"normsis": "code1"}}]},
                   r"^points\[0\]\.interpolation: .*normsis"),
    "first round": ({**BASE, "decide": 0.05, "n_toys": 200, "max_toys": 100}, r"^max_toys 100 is below n_toys 200"),
    "no rule": ({**BASE, "max_toys": 5000}, r"^max_toys: no stopping rule is here; add cls_error or decide"),
    "no rule in a point": ({**BASE, "points": [{"name": "a", "decide": 0.05}, {"name": "b", "sigmas": 2}]},
                           r"^points\[1\]\.sigmas: no stopping rule"),
    "no such patch": ({**BASE, "patchset": {"file": "plans/study-grid-patches.json", "names": ["signal_500_10"]}},
                      r"^patchset\.names: 'signal_500_10' is no patch of .*Did you mean 'signal_500_100'\?"),
    "no such patches": ({**BASE, "points": [{"patchset": {"file": "plans/study-grid-patches.json", "names": "s?x*"}}]},
                        r"^points\[0\]\.patchset\.names: 's\?x\*' is no patch"),
}  # fmt: skip


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_contradiction_is_refused_before_anything_is_loaded(case: str) -> None:
    document, pattern = CONTRADICTIONS[case]
    with pytest.raises(StudyError, match=pattern):
        study_of(document, folder=ROOT)


FILES = {
    "a key twice": ("mu: 1\nworkspace: a\nmu: 2\n", r"line 3: the key 'mu' stands in line 1 already"),
    "a key twice in a point": ("points:\n- mu: 1\n  mu: 2\n", r"line 3: the key 'mu'"),
    "not YAML": ("mu: [1, 2\nworkspace: a\n", r"not valid YAML: .* line 2, column"),
    "a reference": ("names: *a\n", r"alias.*line 1, column 8.*in quotes"),
    "empty": ("# nothing\n", r"is empty"),
    "two documents": ("mu: 1\n---\nmu: 2\n", r"not valid YAML"),
    "no text": (b"\xff\xfe\xff", r"no text file in UTF-8"),
    "control characters": ("mu: \x01\n", r"not valid YAML"),
    "an object of Python": ("mu: !!python/object/apply:os.getcwd []\n", r"not valid YAML: could not determine"),
    "no such date": ("mu: 2025-02-30\n", r"holds a value that cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_no_clean_yaml_is_refused(case: str, tmp_path: Path) -> None:
    content, pattern = FILES[case]
    path = tmp_path / "study.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(StudyError, match=pattern) as caught:
        parsed_study(path)
    assert "study.yaml" in str(caught.value)


def test_anchors_and_merges_are_as_in_any_yaml(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("workspace: example\npoints:\n- &a {name: a, mu: 1, seed: 3}\n- {<<: *a, name: b}\n")
    points = study_of(path).points
    assert [(p.name, p.settings["mu"], p.settings["seed"]) for p in points] == [("a", (1.0,), 3), ("b", (1.0,), 3)]


def test_no_key_has_two_meanings() -> None:
    assert len(KEYS) == len(STUDY_KEYS) + len(POINT_KEYS) == len(STUDY.keys)
