"""What is read is written again: the workspace goes through to_dict unchanged."""

import json
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from nsmath.errors import WorkspaceError
from nsmath.spec import MODIFIERS, Workspace, parameter_uses

DATA = Path(__file__).parents[3] / "shared" / "data"
FILES = [path for path in sorted(DATA.rglob("*.json")) if path.name != "reference.json"]

if not FILES:
    FILES = [pytest.param(DATA, marks=pytest.mark.skip(reason="the shared data folder is absent"))]

yields = st.floats(0.5, 1e6)
shifts = st.floats(-1e6, 1e6)
factors = st.floats(0.1, 10.0)


def _data(draw: st.DrawFn, kind: str, n_bins: int) -> object:
    def per_bin(numbers: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(numbers, min_size=n_bins, max_size=n_bins))

    match MODIFIERS[kind].data:
        case "none":
            return None
        case "lo_hi":
            return {"lo": draw(factors), "hi": draw(factors)}
        case "lo_hi_data":
            return {"lo_data": per_bin(shifts), "hi_data": per_bin(shifts)}
        case _:
            return per_bin(yields)


@st.composite
def documents(draw: st.DrawFn) -> dict:
    """Valid workspaces of up to three channels, with any mix of modifier types on each sample."""
    channels, observations = [], []
    for c in range(draw(st.integers(1, 3))):
        n_bins = draw(st.integers(1, 4))
        per_bin = st.lists(yields, min_size=n_bins, max_size=n_bins)
        samples = []
        for s in range(draw(st.integers(1, 3))):
            kinds = draw(st.lists(st.sampled_from(list(MODIFIERS)), unique=True))
            modifiers = []
            for kind in kinds:
                # A shapesys belongs to one sample; lumi has one name; the others are shared by all samples.
                name = {"shapesys": f"shapesys_{c}_{s}", "lumi": "lumi"}.get(kind, f"p_{kind}")
                modifiers.append({"name": name, "type": kind, "data": _data(draw, kind, n_bins)})
            samples.append({"name": f"sample {s}", "data": draw(per_bin), "modifiers": modifiers})
        channels.append({"name": f"channel/{c} µ", "samples": samples})
        observations.append({"name": f"channel/{c} µ", "data": draw(per_bin)})
    lumi = {
        "name": "lumi",
        "auxdata": [1.0],
        "sigmas": [draw(factors)],
        "inits": [1.0],
        "fixed": draw(st.booleans()),
    }
    alpha = {"name": "p_normsys", "bounds": [[-draw(yields), draw(yields)]], "sigmas": [draw(yields)]}
    return {
        "channels": channels,
        "observations": draw(st.permutations(observations)),
        "measurements": [{"name": "m", "config": {"poi": "p_normfactor", "parameters": [lumi, alpha]}}],
        "version": "1.0.0",
    }


@settings(max_examples=60, deadline=None)
@given(documents())
def test_any_valid_document_comes_back_from_the_workspace(document: dict) -> None:
    workspace = Workspace.from_dict(document)
    assert workspace.to_dict() == document
    assert Workspace.from_json(json.dumps(document)) == workspace


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_shared_workspace_loads_and_comes_back(path: Path) -> None:
    workspace = Workspace.from_file(path)
    assert workspace.to_dict() == json.loads(path.read_bytes())
    measurement = workspace.measurement()
    assert measurement.poi in parameter_uses(workspace.channels)
    for channel in workspace.channels:
        assert len(workspace.observed(channel.name)) == channel.n_bins


def test_parameter_configurations_survive_a_rebuild(document: dict) -> None:
    document["measurements"][0]["config"]["parameters"].append(
        {
            "name": "jes",
            "inits": [0.5],
            "bounds": [[-3.0, 3.0]],
            "auxdata": [0.1],
            "sigmas": [0.7],
            "fixed": True,
        }
    )  # C35
    rebuilt = Workspace.from_dict(Workspace.from_dict(document).to_dict())
    lumi, jes = rebuilt.measurement().parameters
    assert (lumi.auxdata, lumi.sigmas, lumi.bounds, lumi.inits, lumi.fixed) == (
        (1.0,),
        (0.02,),
        ((0.5, 1.5),),
        (1.0,),
        None,
    )
    assert (jes.inits, jes.bounds, jes.auxdata, jes.sigmas, jes.fixed) == (
        (0.5,),
        ((-3.0, 3.0),),
        (0.1,),
        (0.7,),
        True,
    )


# pyhf 0.7.6 uses a part of jsonschema that is deprecated.
@pytest.mark.filterwarnings("ignore:jsonschema.RefResolver:DeprecationWarning")
def test_a_pyhf_workspace_is_accepted_and_its_defaults_are_ours(document: dict) -> None:
    pyhf = pytest.importorskip("pyhf")
    theirs = pyhf.Workspace(document)
    ours = Workspace.from_dict(theirs)
    assert ours == Workspace.from_dict(document)
    config = theirs.model().config
    uses = parameter_uses(ours.channels)
    assert set(config.par_order) == set(uses)
    for name, use in uses.items():
        parameter = config.param_set(name)
        assert parameter.n_parameters == use.n_values
        if not use.row.requires:  # lumi: the file says it
            init, bounds = use.row.start()
            assert parameter.suggested_init == [init] * use.n_values
            assert parameter.suggested_bounds == [bounds] * use.n_values
        assert parameter.constrained == (use.row.constraint != "none")


def test_numpy_scalars_are_numbers_and_arrays_are_refused_with_a_cure(document: dict) -> None:
    np = pytest.importorskip("numpy")
    data = document["channels"][0]["samples"][2]
    data["data"] = [np.float32(4.0), np.int64(2)]
    assert Workspace.from_dict(document).channels[0].samples[2].data == (4.0, 2.0)
    data["data"] = np.array([4.0, 2.0])
    with pytest.raises(WorkspaceError, match=r"channels\[0\].samples\[2\].data .*\.tolist\(\)"):
        Workspace.from_dict(document)
