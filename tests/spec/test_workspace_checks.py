"""What cannot be right is refused at load, naming place, what was found, what was expected, and the cure."""

from collections.abc import Callable

import pytest

from nsmath.errors import ModelError, WorkspaceError
from nsmath.spec import MODIFIERS, Workspace

BKG = "channels[0].samples[1]"
CONFIG = "measurements[0].config.parameters"

Change = Callable[[dict], object]


def sample(document: dict, index: int = 1, channel: int = 0) -> dict:
    return document["channels"][channel]["samples"][index]


def mod(document: dict, index: int) -> dict:
    return sample(document)["modifiers"][index]


def add(document: dict, name: str, kind: str, data: object = None, index: int = 1, channel: int = 0) -> None:
    sample(document, index, channel)["modifiers"].append({"name": name, "type": kind, "data": data})


def configure(document: dict, name: str, **entries: object) -> None:
    document["measurements"][0]["config"]["parameters"].append({"name": name, **entries})


def lumi(document: dict) -> dict:
    return document["measurements"][0]["config"]["parameters"][0]


PAIR = {"lo": 0.9, "hi": 1.1}

# id, change, path, fragments of the message
CONTRADICTIONS: list[tuple[str, Change, str, list[str]]] = [
    # shapes
    ("sample of another length (C63)", lambda d: sample(d).update(data=[50.0]), f"{BKG}.data",
     ["has 1 bin", "'signal' has 2", "channel 'SR'", "sample 'background'"]),
    ("observation of another length (C63)", lambda d: d["observations"][1].update(data=[60.0, 66.0, 1.0]),
     "observations[1].data", ["has 3 bins", "channel 'SR' has 2", "one number of events per bin"]),
    ("histosys lo of another length", lambda d: mod(d, 1)["data"].update(lo_data=[45.0]),
     f"{BKG}.modifiers[1].data.lo_data",
     ["histosys 'jes' has 1 value", "'background' has 2 bins"]),
    ("histosys hi of another length", lambda d: mod(d, 1)["data"].update(hi_data=[1.0, 2.0, 3.0]),
     f"{BKG}.modifiers[1].data.hi_data",
     ["histosys 'jes' has 3 values", "has 2 bins"]),
    ("staterror of another length", lambda d: mod(d, 2).update(data=[1.0]), f"{BKG}.modifiers[2].data",
     ["staterror 'mc' has 1 value", "has 2 bins"]),
    ("shapesys of another length", lambda d: sample(d, 2)["modifiers"][0].update(data=[1.0] * 3),
     "channels[0].samples[2].modifiers[0].data",
     ["shapesys 'fake_rate' has 3 values", "has 2 bins", "sample 'fakes'"]),
    # observations
    ("channel without observation", lambda d: d["observations"].pop(0), "channels[1]",
     ["'CR' has no observation", "'SR'", "Add one of 1 bin"]),
    ("observation of nearly the name", lambda d: d["observations"][0].update(name="CR_"), "channels[1]",
     ["'CR' has no observation", "Did you mean 'CR_'"]),
    ("negative observation (C09)", lambda d: d["observations"][1].update(data=[60.0, -3.0]),
     "observations[1].data[1]",
     ["-3 events", "bin 1", "at least 0", "observation 'SR'"]),
    # names
    ("channel twice", lambda d: d["channels"][1].update(name="SR"), "channels[1]",
     ["second channel 'SR'", "channels[0]"]),
    ("sample twice in a channel", lambda d: sample(d, 2).update(name="signal"), "channels[0].samples[2]",
     ["second sample 'signal'", "channels[0].samples[0]", "Rename or remove"]),
    ("observation twice", lambda d: d["observations"].append({"name": "SR", "data": [1.0, 1.0]}),
     "observations[2]",
     ["second observation 'SR'", "observations[1]"]),
    ("measurement twice", lambda d: d["measurements"].append(d["measurements"][0]), "measurements[1]",
     ["second measurement 'main'"]),
    ("configuration twice", lambda d: configure(d, "lumi"), f"{CONFIG}[1]",
     ["second configuration of the parameter 'lumi'", f"{CONFIG}[0]", "measurement 'main'"]),
    # modifiers
    ("normfactor twice on a sample (C55)", lambda d: add(d, "mu", "normfactor", index=0),
     "channels[0].samples[0].modifiers[2]",
     ["second normfactor 'mu'", "same sample", "combine"]),
    ("normsys twice on a sample (C55)", lambda d: add(d, "jes", "normsys", PAIR), f"{BKG}.modifiers[4]",
     ["second normsys 'jes'", "channel 'SR'", "sample 'background'"]),
    ("staterror twice on a sample (C17)", lambda d: add(d, "mc", "staterror", [1.0, 1.0]),
     f"{BKG}.modifiers[4]",
     ["second staterror 'mc'"]),
    ("shapesys on two samples (C21)", lambda d: add(d, "fake_rate", "shapesys", [1.0, 1.0], index=0),
     "channels[0].samples[2].modifiers[0]",
     ["'fake_rate' is used before", "channels[0].samples[0].modifiers[2] (channel 'SR', sample 'signal')",
      "staterror"]),
    ("shapesys in two channels (C21)", lambda d: add(d, "fake_rate", "shapesys", [1.0], 0, 1),
     "channels[1].samples[0].modifiers[2]",
     ["channels[0].samples[2].modifiers[0] (channel 'SR', sample 'fakes')", "channel 'CR'"]),
    ("normsys lo negative (C25)", lambda d: mod(d, 0).update(data={"lo": -0.5, "hi": 1.5}),
     f"{BKG}.modifiers[0].data.lo",
     ["normsys 'jes' has lo = -0.5", "lo > 0 and hi > 0", "Use histosys",
      "channel 'SR', sample 'background', modifier 'jes'"]),
    ("normsys hi zero (C25)", lambda d: mod(d, 0).update(data={"lo": 0.5, "hi": 0}),
     f"{BKG}.modifiers[0].data.hi",
     ["hi = 0", "Use histosys"]),
    ("negative staterror", lambda d: mod(d, 2).update(data=[2.0, -3.0]), f"{BKG}.modifiers[2].data[1]",
     ["staterror 'mc'", "-3", "bin 1", "at least 0"]),
    ("negative shapesys", lambda d: sample(d, 2)["modifiers"][0].update(data=[-1.0, 0.5]),
     "channels[0].samples[2].modifiers[0].data[0]", ["shapesys 'fake_rate'", "-1", "bin 0"]),
    # configurations
    ("lumi without configuration (C33)", lambda d: d["measurements"][0]["config"].update(parameters=[]),
     CONFIG,
     ["lumi 'lumi' needs", "auxdata and sigmas", '"sigmas": [0.02]', "measurement 'main'"]),
    ("lumi without sigmas (C33)", lambda d: lumi(d).pop("sigmas"), f"{CONFIG}[0]", ["sigmas missing", "Add"]),
    ("lumi without auxdata (C33)", lambda d: lumi(d).pop("auxdata"), f"{CONFIG}[0]",
     ["auxdata missing", "Add"]),
    ("too many inits", lambda d: configure(d, "mu", inits=[1.0, 1.0]), f"{CONFIG}[1].inits",
     ["'inits' has 2 entries", "normfactor 'mu' has 1 value", "parameter 'mu'"]),
    ("too few inits", lambda d: configure(d, "free", inits=[1.0]), f"{CONFIG}[1].inits",
     ["'inits' has 1 entry", "shapefactor 'free' has 2 values"]),
    ("too many bounds", lambda d: configure(d, "jes", bounds=[[-1, 1], [-1, 1]]), f"{CONFIG}[1].bounds",
     ["2 entries", "1 value"]),
    ("too many auxdata", lambda d: configure(d, "jes", auxdata=[0.0, 0.0]), f"{CONFIG}[1].auxdata",
     ["2 entries", "1 value"]),
    ("too few sigmas", lambda d: configure(d, "mc", sigmas=[0.1]), f"{CONFIG}[1].sigmas",
     ["1 entry", "2 values"]),
    ("bounds reversed", lambda d: configure(d, "mu", bounds=[[10, 0]]), f"{CONFIG}[1].bounds[0]",
     ["[10, 0]", "Swap"]),
    ("init above its bounds", lambda d: configure(d, "mu", inits=[11], bounds=[[0, 10]]),
     f"{CONFIG}[1].inits[0]",
     ["starts at 11", "[0, 10]", "Change"]),
    ("init outside the default bounds", lambda d: configure(d, "mu", inits=[-1]), f"{CONFIG}[1].inits[0]",
     ["starts at -1", "[0, 10] (the default)"]),
    ("default init outside the bounds", lambda d: configure(d, "mu", bounds=[[2, 5]]),
     f"{CONFIG}[1].bounds[0]",
     ["starts at 1 (the default)", "[2, 5]"]),
    ("sigma zero", lambda d: lumi(d).update(sigmas=[0.0]), f"{CONFIG}[0].sigmas[0]", ["sigma is 0", "fixed"]),
    ("sigma negative on an unused parameter", lambda d: configure(d, "nobody", sigmas=[-1]),
     f"{CONFIG}[1].sigmas[0]", ["-1"]),
    ("sigmas on a normfactor", lambda d: configure(d, "mu", sigmas=[0.1]), f"{CONFIG}[1].sigmas",
     ["no constraint", "Remove"]),
    ("auxdata on a shapefactor", lambda d: configure(d, "free", auxdata=[1, 1]), f"{CONFIG}[1].auxdata",
     ["no constraint"]),
    ("sigmas on a shapesys", lambda d: configure(d, "fake_rate", sigmas=[0.1, 0.1]), f"{CONFIG}[1].sigmas",
     ["Poisson"]),
    ("negative auxdata on a shapesys", lambda d: configure(d, "fake_rate", auxdata=[16, -1]),
     f"{CONFIG}[1].auxdata[1]",
     ["-1", "value 1", "at least 0"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "path", "fragments"),
    [row[1:] for row in CONTRADICTIONS],
    ids=[row[0] for row in CONTRADICTIONS],
)
def test_contradictions_are_refused(document: dict, change: Change, path: str, fragments: list[str]) -> None:
    change(document)
    with pytest.raises(WorkspaceError) as caught:
        Workspace.from_dict(document)
    assert caught.value.path == path
    for fragment in [path, *fragments]:
        assert fragment in str(caught.value)


def _data(kind: str) -> object:
    return {
        "none": None,
        "lo_hi": PAIR,
        "lo_hi_data": {"lo_data": [4.0, 6.0], "hi_data": [6.0, 8.0]},
        "per_bin": [1.0, 1.0],
    }[MODIFIERS[kind].data]


PAIRS = [(one, two) for one in MODIFIERS for two in MODIFIERS if one != two and "lumi" not in (one, two)]


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_a_name_shared_by_two_types_is_refused_unless_they_mean_one_parameter(
    document: dict, one: str, two: str
) -> None:
    add(document, "x", one, _data(one), index=0)
    add(document, "x", two, _data(two))
    if {one, two} == {"normsys", "histosys"}:
        assert Workspace.from_dict(document).channels[0].samples[1].modifiers[-1].type == two
        return
    with pytest.raises(WorkspaceError) as caught:
        Workspace.from_dict(document)
    for fragment in (
        f"{two} 'x'",
        f"a {one}",
        "channels[0].samples[0].modifiers[2]",
        "channel 'SR'",
        "rename",
    ):
        assert fragment in str(caught.value)


def test_lumi_shares_its_name_with_no_other_type(document: dict) -> None:
    add(document, "lumi", "normsys", PAIR)
    with pytest.raises(WorkspaceError, match="normsys 'lumi' has the name of a lumi"):
        Workspace.from_dict(document)


# id, change
LEGAL: list[tuple[str, Change]] = [
    ("fractional observation (C09)", lambda d: d["observations"][1].update(data=[52.5, 0.1])),
    ("negative sample (C05)", lambda d: sample(d, 2).update(data=[-4.0, -1.0], modifiers=[])),
    ("empty bins (C01)", lambda d: d["observations"][1].update(data=[0, 0])),
    ("all-zero staterror (C13)", lambda d: mod(d, 2).update(data=[0.0, 0.0])),
    ("two staterrors of different names (C17)", lambda d: add(d, "mc2", "staterror", [1.0, 1.0])),
    ("staterror shared by samples of a channel", lambda d: add(d, "mc", "staterror", [1.0, 1.0], index=0)),
    ("sigmas on a normsys (C37)", lambda d: configure(d, "jes", auxdata=[0.2], sigmas=[0.5], inits=[0.1])),
    ("sigmas on a staterror", lambda d: configure(d, "mc", sigmas=[0.1, 0.2], auxdata=[1.0, 1.1])),
    ("auxdata on a shapesys", lambda d: configure(d, "fake_rate", auxdata=[15.0, 17.0])),
    ("equal bounds", lambda d: configure(d, "mu", bounds=[[1.0, 1.0]])),
    ("wide bounds", lambda d: configure(d, "mu", bounds=[[-1e10, 1e10]])),
    ("sample without modifiers", lambda d: sample(d, 2).update(modifiers=[])),
    ("integers", lambda d: sample(d, 2).update(data=[4, 2])),
    ("tuples for arrays", lambda d: sample(d, 2).update(data=(4.0, 2.0))),
    ("lumi starting at its auxdata",
     lambda d: lumi(d).update(auxdata=[140.0], bounds=[[100.0, 180.0]], inits=[140.0])),
]  # fmt: skip


@pytest.mark.parametrize("change", [row[1] for row in LEGAL], ids=[row[0] for row in LEGAL])
def test_unusual_but_legal_workspaces_load_without_warning(document: dict, change: Change) -> None:
    change(document)
    assert Workspace.from_dict(document).warnings == ()


@pytest.mark.parametrize("order", [1, -1])
def test_a_shapefactor_over_channels_of_unequal_length_has_the_longest_number_of_values(
    document: dict, order: int
) -> None:
    add(document, "free", "shapefactor", None, 0, 1)
    document["channels"] = document["channels"][::order]
    configure(document, "free", inits=[1.0, 1.0])
    assert Workspace.from_dict(document).measurement().parameters[1].inits == (1.0, 1.0)


def test_observations_are_matched_by_name_not_by_order(document: dict) -> None:
    workspace = Workspace.from_dict(document)  # C61: the file has CR before SR
    assert workspace.observed("SR") == (60.0, 66.0)
    assert workspace.observed("CR") == (110.0,)
    with pytest.raises(ModelError, match=r"no observation of channel 'sr'.*Did you mean 'SR'"):
        workspace.observed("sr")


def test_no_parameters_at_all_is_legal(document: dict) -> None:
    document["channels"] = [{"name": "SR", "samples": [{"name": "b", "data": [5.0, 6.0], "modifiers": []}]}]
    document["observations"].pop(0)
    document["measurements"][0]["config"] = {"poi": "", "parameters": []}
    assert Workspace.from_dict(document).measurement().poi == ""


@pytest.mark.parametrize(
    ("poi", "fragments"),
    [
        (
            "mu_sig",
            ["measurement 'main'", "no modifier", "'mu_sig'", "Did you mean 'mu", "use '' for no POI"],
        ),
        ("MU", ["Did you mean 'mu'"]),
        ("free", ["shapefactor of 2 values", "scalar"]),
        ("mc", ["staterror of 2 values", "scalar"]),
    ],
)
def test_a_poi_that_is_no_scalar_parameter_warns_at_load_and_is_refused_in_use(
    document: dict, poi: str, fragments: list[str]
) -> None:
    document["measurements"][0]["config"]["poi"] = poi
    workspace = Workspace.from_dict(document)
    assert [warning.kind for warning in workspace.warnings] in (["missing-poi"], ["vector-poi"])
    with pytest.raises(ModelError) as caught:
        workspace.measurement()
    for fragment in fragments:
        assert fragment in str(caught.value)
    assert workspace.measurement(poi="mu").poi == "mu"


def test_a_measurement_is_found_by_name_and_the_first_by_default(document: dict) -> None:
    other = {"name": "other", "config": {**document["measurements"][0]["config"], "poi": ""}}
    document["measurements"].append(other)
    workspace = Workspace.from_dict(document)
    assert workspace.measurement().name == "main"
    assert workspace.measurement("other").poi == ""
    assert workspace.measurement("other", poi="mu_bkg").poi == "mu_bkg"
    with pytest.raises(ModelError, match=r"no measurement 'othr'; the file has 'main', 'other'. Did you mean 'other'"):
        workspace.measurement("othr")


def test_an_error_survives_pickling() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(WorkspaceError("is wrong", "channels[0]", "channel 'SR'")))
    assert str(error) == "channels[0] (channel 'SR'): is wrong"
    assert error.path == "channels[0]"
