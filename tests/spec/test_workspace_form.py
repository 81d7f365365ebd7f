"""The form of the document: every deviation is refused, with the JSON path of the culprit."""

import copy
import math
from collections.abc import Callable

import pytest

from nsmath.errors import WorkspaceError
from nsmath.spec import Workspace

SR = "channels[0]"
BKG = "channels[0].samples[1]"
LUMI = "measurements[0].config.parameters[0]"

Change = Callable[[dict], object]


def bkg(document: dict) -> dict:
    return document["channels"][0]["samples"][1]


def mod(document: dict, index: int) -> dict:
    return bkg(document)["modifiers"][index]


def lumi(document: dict) -> dict:
    return document["measurements"][0]["config"]["parameters"][0]


# id, change, path, fragments of the message
BAD_FORM: list[tuple[str, Change, str, list[str]]] = [
    ("version missing", lambda d: d.pop("version"), "", ["'version' is missing", "Add"]),
    ("version of another kind", lambda d: d.update(version="2.0.0"), "version", ["'2.0.0'", "'1.0.0'"]),
    ("version as a number", lambda d: d.update(version=1.0), "version",
     ["the number 1.0", "the string '1.0.0'"]),
    ("extra key on top", lambda d: d.update(comment="x"), "", ["unknown key 'comment'", "remove"]),
    ("misspelt key on top", lambda d: d.update(mesurements=1), "", ["unknown key 'mesurements'"]),
    ("channels not an array", lambda d: d.update(channels={}), "channels",
     ["an object", "expected an array"]),
    ("no channel", lambda d: d.update(channels=[]), "channels", ["empty", "at least one"]),
    ("no measurement", lambda d: d.update(measurements=[]), "measurements", ["empty"]),
    ("no observation", lambda d: d.update(observations=[]), "observations", ["empty"]),
    ("channel not an object", lambda d: d["channels"].__setitem__(0, 3), "channels[0]",
     ["the number 3", "'name', 'samples'"]),
    ("no sample", lambda d: d["channels"][0].update(samples=[]), f"{SR}.samples", ["empty"]),
    ("extra key in a sample", lambda d: bkg(d).update(weight=2), BKG,
     ["unknown key 'weight'", "sample 'background'"]),
    ("misspelt key in a sample", lambda d: bkg(d).update(modifier=bkg(d).pop("modifiers")), BKG,
     ["'modifiers' is missing"]),
    ("name not a string", lambda d: bkg(d).update(name=7), f"{BKG}.name",
     ["the number 7", "a string", "channel 'SR'"]),
    ("sample data null", lambda d: bkg(d).update(data=None), f"{BKG}.data", ["null", "array of numbers"]),
    ("sample data empty", lambda d: bkg(d).update(data=[]), f"{BKG}.data", ["empty"]),
    ("number as a string", lambda d: bkg(d).update(data=[50.0, "60"]), f"{BKG}.data[1]",
     ["'60'", "without quotes"]),
    ("number as a boolean", lambda d: bkg(d).update(data=[True, 60]), f"{BKG}.data[0]",
     ["true", "expected a number"]),
    ("nested numbers", lambda d: bkg(d).update(data=[[50.0, 60.0]]), f"{BKG}.data[0]",
     ["an array of 2", "a number"]),
    ("NaN", lambda d: bkg(d).update(data=[50.0, math.nan]), f"{BKG}.data[1]",
     ["nan", "finite", "sample 'background'"]),
    ("infinity", lambda d: bkg(d).update(data=[math.inf, 60.0]), f"{BKG}.data[0]", ["inf", "finite"]),
    ("integer beyond float", lambda d: bkg(d).update(data=[10**400, 60.0]), f"{BKG}.data[0]",
     ["inf", "finite"]),
    ("name of too many digits", lambda d: bkg(d).update(name=10**5000), f"{BKG}.name", ["too many digits"]),
    ("number too large", lambda d: bkg(d).update(data=[1e200, 60.0]), f"{BKG}.data[0]",
     ["1e+200", "at most 1e+100"]),
    ("NaN observed", lambda d: d["observations"][0].update(data=[math.nan]), "observations[0].data[0]",
     ["nan", "observation 'CR'"]),
    ("modifiers missing", lambda d: bkg(d).pop("modifiers"), BKG,
     ["'modifiers' is missing", "'name', 'data'"]),
    ("unknown modifier type", lambda d: mod(d, 0).update(type="norm_sys"), f"{BKG}.modifiers[0].type",
     ["'norm_sys'", "Did you mean 'normsys'", "modifier 'jes'"]),
    ("modifier data missing", lambda d: mod(d, 3).pop("data"), f"{BKG}.modifiers[3]", ["'data' is missing"]),
    ("modifier without a name", lambda d: mod(d, 3).update(name=""), f"{BKG}.modifiers[3].name",
     ["name is empty", "no POI"]),
    ("normsys data an array", lambda d: mod(d, 0).update(data=[0.9, 1.1]), f"{BKG}.modifiers[0].data",
     ["an array of 2", "'hi', 'lo'"]),
    ("normsys lacks hi", lambda d: mod(d, 0)["data"].pop("hi"), f"{BKG}.modifiers[0].data",
     ["'hi' is missing"]),
    ("normsys factor NaN", lambda d: mod(d, 0)["data"].update(hi=math.nan), f"{BKG}.modifiers[0].data.hi",
     ["nan"]),
    ("histosys misspelt", lambda d: mod(d, 1)["data"].update(hi=mod(d, 1)["data"].pop("hi_data")),
     f"{BKG}.modifiers[1].data", ["'hi_data' is missing"]),
    ("histosys extra key", lambda d: mod(d, 1)["data"].update(hi_dat=[]), f"{BKG}.modifiers[1].data",
     ["unknown key 'hi_dat'"]),
    ("shapefactor with data", lambda d: mod(d, 3).update(data=[1.0, 1.0]), f"{BKG}.modifiers[3].data",
     ["an array of 2", "expected null"]),
    ("lumi of another name", lambda d: d["channels"][0]["samples"][0]["modifiers"][1].update(name="lumi18"),
     "channels[0].samples[0].modifiers[1].name", ["'lumi18'", "expected 'lumi'"]),
    ("POI null", lambda d: d["measurements"][0]["config"].update(poi=None), "measurements[0].config.poi",
     ["null", "a string"]),
    ("config lacks parameters", lambda d: d["measurements"][0]["config"].pop("parameters"),
     "measurements[0].config", ["'parameters' is missing"]),
    ("init misspelt", lambda d: lumi(d).update(init=[1.0]), LUMI, ["unknown key 'init'", "parameter 'lumi'"]),
    ("inits a bare number", lambda d: lumi(d).update(inits=1.0), f"{LUMI}.inits",
     ["the number 1.0", "an array"]),
    ("bounds not pairs", lambda d: lumi(d).update(bounds=[0.5, 1.5]), f"{LUMI}.bounds[0]",
     ["the number 0.5", "array of numbers"]),
    ("bounds of three", lambda d: lumi(d).update(bounds=[[0.5, 1.0, 1.5]]), f"{LUMI}.bounds[0]",
     ["3 numbers", "[low, high]"]),
    ("fixed a number", lambda d: lumi(d).update(fixed=1), f"{LUMI}.fixed", ["the number 1", "true or false"]),
    ("factors", lambda d: lumi(d).update(factors=[1.0]), LUMI, ["'factors' cannot be set", "remove"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "path", "fragments"), [row[1:] for row in BAD_FORM], ids=[row[0] for row in BAD_FORM]
)
def test_bad_form_is_refused_with_its_path(document: dict, change: Change, path: str, fragments: list[str]) -> None:
    change(document)
    with pytest.raises(WorkspaceError) as caught:
        Workspace.from_dict(document)
    assert caught.value.path == path
    for fragment in [path, *fragments]:
        assert fragment in str(caught.value)


def test_the_example_itself_is_fine_and_is_not_changed(document: dict) -> None:
    before = copy.deepcopy(document)
    workspace = Workspace.from_dict(document)
    assert document == before
    assert [channel.name for channel in workspace.channels] == ["SR", "CR"]
    assert workspace.warnings == ()


# id, document, fragments
BAD_JSON = [
    ("empty file", b"", ["not valid JSON", "empty"]),
    ("cut off", b'{"channels": [', ["not valid JSON", "line 1, column 15"]),
    ("NaN literal", b'{"version": NaN}', ["NaN", "finite"]),
    ("Infinity literal", b'{"version": -Infinity}', ["-Infinity"]),
    ("number beyond float", b'{"version": 1e999}', ["channels"]),
    ("huge integer", b'{"version": ' + b"9" * 5000 + b"}", ["number that cannot be read"]),
    ("repeated key", b'{"name": "SR", "data": [1], "data": [2]}', ["'data' occurs twice", "'SR'", "remove"]),
    ("binary", b"\xff\xfe\x00\x01\x02", ["JSON"]),
    ("ROOT file", b"root\x00\x00\xf0\x11", ["ROOT"]),
    ("XML", b"<!DOCTYPE Combination>", ["XML", "xml2json"]),
    ("gzip", b"\x1f\x8b\x08\x00", ["gzip"]),
    ("deep nesting", b"[" * 100_000, ["nested too deeply"]),
    ("an array", b"[]", ["array", "pass it as a patch"]),
    ("a patch set", b'{"patches": []}', ["patch set", "Pass it as a patch"]),
    ("a string", b'"channels"', ["the string 'channels'", "expected an object"]),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "fragments"), [row[1:] for row in BAD_JSON], ids=[row[0] for row in BAD_JSON])
def test_what_is_no_workspace_is_refused_in_words(raw: bytes, fragments: list[str]) -> None:
    with pytest.raises(WorkspaceError) as caught:
        Workspace.from_json(raw)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path) -> None:
    with pytest.raises(WorkspaceError, match="there is no file"):
        Workspace.from_file(tmp_path / "none.json")
    with pytest.raises(WorkspaceError, match="is a folder"):
        Workspace.from_file(tmp_path)
