"""Patches and patch sets: applied in order and completely, or refused with the reason."""

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nsmath.errors import PatchError, WorkspaceError
from nsmath.spec import PatchSet, Workspace, apply_patches
from nsmath.spec.patch import split_name
from nsmath.spec.patchset import digest

SIGNAL = {"name": "s", "data": [5.0], "modifiers": [{"name": "mu_SIG", "type": "normfactor", "data": None}]}


@pytest.fixture
def background() -> dict:
    """The background-only workspace of C67."""
    modifiers = [{"name": "n", "type": "normsys", "data": {"lo": 0.9, "hi": 1.1}}]
    return {
        "channels": [{"name": "SR", "samples": [{"name": "b", "data": [50.0], "modifiers": modifiers}]}],
        "observations": [{"name": "SR", "data": [52.0]}],
        "measurements": [{"name": "m", "config": {"poi": "mu_SIG", "parameters": []}}],
        "version": "1.0.0",
    }


def entry(name: str, values: list[object], path: str = "/channels/0/samples/0") -> dict:
    return {
        "metadata": {"name": name, "values": values},
        "patch": [{"op": "add", "path": path, "value": SIGNAL}],
    }


@pytest.fixture
def patch_set(background: dict) -> dict:
    """A patch set of two patches for it."""
    return {
        "metadata": {
            "references": {"hepdata": "ins1234567"},
            "description": "two signal points",
            "digests": {"sha256": digest(background), "md5": digest(background, "md5")},
            "labels": ["m1", "m2"],
        },
        "patches": [entry("sig_100_50", [100, 50]), entry("sig_200_50", [200, 50])],
        "version": "1.0.0",
    }


def write(path: Path, document: object) -> str:
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def test_a_named_patch_brings_the_signal_and_its_poi(background: dict, patch_set: dict, tmp_path: Path) -> None:
    workspace_file = write(tmp_path / "bkg.json", background)
    set_file = write(tmp_path / "set.json", patch_set)
    workspace = Workspace.from_file(workspace_file, patches=[f"{set_file}:sig_200_50"])
    assert [sample.name for sample in workspace.channels[0].samples] == ["s", "b"]
    assert workspace.measurement().poi == "mu_SIG"
    assert workspace.warnings == ()


# pyhf 0.7.6 uses a part of jsonschema that is deprecated.
@pytest.mark.filterwarnings("ignore:jsonschema.RefResolver:DeprecationWarning")
def test_the_same_digests_and_documents_as_pyhf(background: dict, patch_set: dict) -> None:
    pyhf = pytest.importorskip("pyhf")
    background["channels"][0]["name"] = background["observations"][0]["name"] = "SR µ"
    for algorithm in ("sha256", "md5"):
        assert digest(background, algorithm) == pyhf.utils.digest(background, algorithm)
        patch_set["metadata"]["digests"][algorithm] = digest(background, algorithm)
    theirs = pyhf.PatchSet(patch_set).apply(pyhf.Workspace(background), "sig_100_50")
    ours = PatchSet.from_dict(patch_set).apply(background, "sig_100_50")
    assert ours == dict(theirs)


def test_a_patch_set_knows_names_values_and_labels(patch_set: dict) -> None:
    found = PatchSet.from_dict(patch_set)
    assert found.names == ("sig_100_50", "sig_200_50")
    assert found.values == ((100, 50), (200, 50))
    assert found.labels == ("m1", "m2")


def test_patches_apply_in_order_and_leave_workspace_and_patch_alone(background: dict) -> None:
    first = [{"op": "add", "path": "/channels/0/samples/-", "value": SIGNAL}]
    second = [{"op": "replace", "path": "/channels/0/samples/1/data", "value": [6.0]}]
    before = copy.deepcopy((background, first, second))
    workspace = Workspace.from_dict(background, patches=[first, second])
    assert workspace.channels[0].samples[1].data == (6.0,)
    assert (background, first, second) == before


def test_later_operations_do_not_reach_into_the_patch(background: dict) -> None:
    value = copy.deepcopy(SIGNAL)
    patch = [
        {"op": "add", "path": "/channels/0/samples/0", "value": value},
        {"op": "replace", "path": "/channels/0/samples/0/data/0", "value": 9.0},
    ]
    for _ in range(2):
        assert Workspace.from_dict(background, patches=[patch]).channels[0].samples[0].data == (9.0,)
    assert value == SIGNAL


def test_a_set_may_follow_another_patch(background: dict, patch_set: dict) -> None:
    local = [{"op": "replace", "path": "/observations/0/data", "value": [51.0]}]
    patch_set["patches"].pop()
    assert Workspace.from_dict(background, patches=[local, patch_set]).observed("SR") == (51.0,)
    # ... and may have been made for what that patch leaves.
    patch_set["metadata"]["digests"] = {"sha256": digest(apply_patches(background, [local]))}
    assert Workspace.from_dict(background, patches=[local, patch_set]).observed("SR") == (51.0,)


def test_a_single_patch_needs_no_name_in_every_form(background: dict, patch_set: dict, tmp_path: Path) -> None:
    patch_set["patches"].pop()
    only = patch_set["patches"][0]
    file = write(tmp_path / "patch.json", only["patch"])
    forms = [patch_set, PatchSet.from_dict(patch_set), only, only["patch"], file, Path(file)]
    forms.append(write(tmp_path / "set.json", patch_set))
    forms.append(f"{forms[-1]}:sig_100_50")
    results = [Workspace.from_dict(background, patches=[form]) for form in forms]
    assert all(result == results[0] for result in results)


BAD_SETS: list[tuple[str, Callable[[dict], object], list[str]]] = [
    ("version", lambda p: p.update(version="2.0.0"), ["'2.0.0'", "'1.0.0'"]),
    ("version missing", lambda p: p.pop("version"), ["'version' is missing"]),
    ("extra key", lambda p: p.update(comment=""), ["unknown key 'comment'"]),
    ("no patches", lambda p: p.update(patches=[]), ["patches", "empty"]),
    ("no digest", lambda p: p["metadata"].update(digests={}), ["digests", "empty"]),
    ("digest by another algorithm", lambda p: p["metadata"].update(digests={"sha1": "a"}),
     ["'sha1'", "'md5', 'sha256'"]),
    ("no labels", lambda p: p["metadata"].pop("labels"), ["'labels' is missing"]),
    ("repeated name", lambda p: p["patches"].append(entry("sig_100_50", [300, 50])),
     ["patches[2]", "second patch 'sig_100_50'", "patches[0]"]),
    ("repeated values", lambda p: p["patches"].append(entry("new", [200.0, 50])),
     ["patches[2]", "'new'", "[200.0, 50]", "'sig_200_50'"]),
    ("too few values", lambda p: p["patches"].append(entry("new", [300])),
     ["'new' has 1 value", "expected 2", "'m1', 'm2'"]),
    ("value of no kind", lambda p: p["patches"].append(entry("new", [300, None])), ["values[1]", "null"]),
    ("patch not a list", lambda p: p["patches"][0].update(patch={}),
     ["patches[0]", "array of JSON patch operations"]),
    ("unknown operation", lambda p: p["patches"][0]["patch"][0].update(op="append"),
     ["operation 0", "'append'", "'add'"]),
    ("operation without value", lambda p: p["patches"][0]["patch"][0].pop("value"),
     ["operation 0", "'add' needs 'value'"]),
    ("path without slash", lambda p: p["patches"][0]["patch"][0].update(path="channels/0"),
     ["operation 0", "'channels/0'", "JSON pointer"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "fragments"), [row[1:] for row in BAD_SETS], ids=[row[0] for row in BAD_SETS])
def test_a_malformed_patch_set_is_refused(
    patch_set: dict, change: Callable[[dict], object], fragments: list[str]
) -> None:
    change(patch_set)
    with pytest.raises(PatchError) as caught:
        PatchSet.from_dict(patch_set)
    for fragment in fragments:
        assert fragment in str(caught.value)


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_a_set_for_another_workspace_is_refused_with_both_digests(
    background: dict, patch_set: dict, algorithm: str
) -> None:
    patch_set["metadata"]["digests"] = {algorithm: patch_set["metadata"]["digests"][algorithm]}
    background["observations"][0]["data"] = [53.0]
    expected, got = patch_set["metadata"]["digests"][algorithm], digest(background, algorithm)
    with pytest.raises(
        PatchError,
        match=f"another workspace: the {algorithm} digest of this one is {got}, expected {expected}",
    ):
        PatchSet.from_dict(patch_set).apply(background, "sig_100_50")


def test_an_unknown_patch_name_lists_the_names(background: dict, patch_set: dict) -> None:
    with pytest.raises(
        PatchError,
        match=r"no patch 'sig_100_5'; it has 'sig_100_50', 'sig_200_50'\. Did you mean 'sig_100_50'",
    ):
        PatchSet.from_dict(patch_set).apply(background, "sig_100_5")


@pytest.mark.parametrize(
    ("operation", "fragments"),
    [
        ({"op": "add", "path": "/channels/0/samples/7", "value": SIGNAL},
         ["add '/channels/0/samples/7'", "check the index"]),
        ({"op": "add", "path": "/channels/3/samples/0", "value": SIGNAL},
         ["add '/channels/3/samples/0'", "check the index"]),
        ({"op": "remove", "path": "/channels/0/samples/1"}, ["remove '/channels/0/samples/1'"]),
        ({"op": "remove", "path": "/channels/0/sample"}, ["remove '/channels/0/sample'"]),
        ({"op": "replace", "path": "/channels/x", "value": 1}, ["replace '/channels/x'"]),
        ({"op": "replace", "path": "/version/0/1", "value": 1}, ["replace '/version/0/1'"]),
        ({"op": "move", "from": "/channels/9", "path": "/channels/0"},
         ["move '/channels/0' from '/channels/9'"]),
        ({"op": "copy", "from": "/none", "path": "/channels/0"}, ["copy '/channels/0' from '/none'"]),
        ({"op": "test", "path": "/channels/0/name", "value": "CR"},
         ["test '/channels/0/name' failed", "not the one"]),
        ({"op": "test", "path": "/channels/9", "value": "CR"}, ["test '/channels/9' failed", "not the one"]),
        ({"op": "remove", "path": "/channels/0/samples/0~5"}, ["remove"]),
    ],
)  # fmt: skip
def test_an_operation_that_cannot_be_applied_is_refused_with_its_number(
    background: dict, operation: dict, fragments: list[str]
) -> None:
    before = copy.deepcopy(background)
    good = {"op": "add", "path": "/channels/0/samples/0", "value": SIGNAL}
    remove = {"op": "remove", "path": "/channels/0/samples/0"}
    with pytest.raises(PatchError) as caught:
        Workspace.from_dict(background, patches=[[good, remove, operation]])
    for fragment in ["patches[0], operation 2", "Nothing was applied", *fragments]:
        assert fragment in str(caught.value)
    assert background == before


def test_a_workspace_broken_by_a_patch_says_so(background: dict) -> None:
    patch = [{"op": "replace", "path": "/channels/0/samples/0/data", "value": [1.0, 2.0]}]
    with pytest.raises(WorkspaceError, match=r"1 bin.*after the patch"):
        Workspace.from_dict(background, patches=[patch])
    with pytest.raises(PatchError, match="in the place of the workspace"):
        Workspace.from_dict(background, patches=[[{"op": "replace", "path": "", "value": []}]])


def test_a_set_of_several_needs_a_name_and_a_plain_patch_takes_none(
    background: dict, patch_set: dict, tmp_path: Path
) -> None:
    set_file = write(tmp_path / "set.json", patch_set)
    plain = write(tmp_path / "plain.json", patch_set["patches"][0]["patch"])
    spec = write(tmp_path / "bkg.json", background)
    broken = tmp_path / "broken.json"
    broken.write_text('[{"op": "add", "op": "remove"}]')
    for patch, fragments in [
        (set_file, ["a set of 2 patches", "FILE:NAME", "'sig_100_50', 'sig_200_50'"]),
        (f"{set_file}:sig_100", ["no patch 'sig_100'", "Did you mean 'sig_100_50'"]),
        (f"{set_file}:", ["name of the patch is missing"]),
        (f"{plain}:sig_100_50", ["plain JSON patch", "Leave ':sig_100_50' away"]),
        (spec, ["is a workspace, no patch"]),
        (str(broken), ["'op' occurs twice"]),
        (str(tmp_path / "none.json"), ["there is no file"]),
        (f"{tmp_path / 'none.json'}:a", ["there is no file", "none.json'"]),
    ]:  # fmt: skip
        with pytest.raises(PatchError) as caught:
            Workspace.from_file(spec, patches=[patch])
        for fragment in fragments:
            assert fragment in str(caught.value)
    with pytest.raises(PatchError, match=r"expected a list of patches. Write \[patch\]"):
        Workspace.from_file(spec, patches=plain)


def test_the_last_colon_splits_unless_it_belongs_to_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("set.json", "a:b.json", "a:b"):
        Path(name).touch()
    assert split_name("set.json") == ("set.json", None)
    assert split_name("set.json:sig") == ("set.json", "sig")
    assert split_name("a:b.json") == ("a:b.json", None)
    assert split_name("a:b.json:sig") == ("a:b.json", "sig")
    assert split_name("a:b") == ("a:b", None)
    assert split_name("C:\\data\\set.json") == ("C:\\data\\set.json", None)
    assert split_name("C:set.json") == ("C:set.json", None)
    assert split_name("some:where/set.json") == ("some:where/set.json", None)
    with pytest.raises(PatchError, match=r"no file 'none\.json'"):
        split_name("none.json:sig")
    Path("C:\\set.json").touch()  # stands for a drive: on other systems it is a plain name
    assert split_name("C:\\set.json:sig") == ("C:\\set.json", "sig")
