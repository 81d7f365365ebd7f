"""What is legal and may not be meant is kept as it is, and warned about."""

from collections.abc import Callable

import pytest

from nsmath.spec import Workspace

BKG = "channels[0].samples[1]"
CONFIG = "measurements[0].config"

Change = Callable[[dict], object]


def sample(document: dict, index: int = 1, channel: int = 0) -> dict:
    return document["channels"][channel]["samples"][index]


def mod(document: dict, index: int) -> dict:
    return sample(document)["modifiers"][index]


def add(document: dict, name: str, kind: str, data: object = None, index: int = 1, channel: int = 0) -> None:
    sample(document, index, channel)["modifiers"].append({"name": name, "type": kind, "data": data})


def configure(document: dict, name: str, **entries: object) -> None:
    document["measurements"][0]["config"]["parameters"].append({"name": name, **entries})


def poi(document: dict, name: str) -> None:
    document["measurements"][0]["config"]["poi"] = name


# id, change, kind, path, fragments of the message
WARNINGS: list[tuple[str, Change, str, str, list[str]]] = [
    ("observation of no channel", lambda d: d["observations"].append({"name": "VR", "data": [1.0]}),
     "unused-observation", "observations[2]", ["'VR'", "not used", "'SR', 'CR'"]),
    ("configuration of no parameter (C45)", lambda d: configure(d, "mu_bgk", fixed=True),
     "unused-config", f"{CONFIG}.parameters[1]",
     ["'mu_bgk'", "no modifier", "Did you mean 'mu_bkg'", "measurement 'main'"]),
    ("POI of no modifier", lambda d: poi(d, "mu_SIG"), "missing-poi", f"{CONFIG}.poi",
     ["'mu_SIG'", "measurement 'main'"]),
    ("POI of several values", lambda d: poi(d, "free"), "vector-poi", f"{CONFIG}.poi",
     ["'free'", "2 values"]),
    ("POI with a constraint", lambda d: poi(d, "jes"), "constrained-poi", f"{CONFIG}.poi",
     ["'jes'", "normsys", "constrained"]),
    ("POI fixed", lambda d: configure(d, "mu", fixed=True), "fixed-poi", f"{CONFIG}.poi", ["'mu'", "fixed"]),
    ("normsys without effect", lambda d: mod(d, 0).update(data={"lo": 1.0, "hi": 1}), "no-effect",
     f"{BKG}.modifiers[0]",
     ["channel 'SR', sample 'background', normsys 'jes'", "no effect"]),
    ("histosys without effect", lambda d: mod(d, 1).update(data={"lo_data": [50, 60], "hi_data": [50, 60]}),
     "no-effect",
     f"{BKG}.modifiers[1]", ["histosys 'jes'"]),
    ("normsys with one side", lambda d: mod(d, 0)["data"].update(lo=1.0), "one-sided", f"{BKG}.modifiers[0]",
     ["lower variation"]),
    ("histosys with one side", lambda d: mod(d, 1)["data"].update(hi_data=[50, 60]), "one-sided",
     f"{BKG}.modifiers[1]",
     ["upper variation"]),
    ("shapesys larger than the yield", lambda d: sample(d, 2)["modifiers"][0].update(data=[5.0, 3.0]),
     "large-uncertainty",
     "channels[0].samples[2].modifiers[0]", ["shapesys 'fake_rate'", "bins 0, 1"]),
    ("staterror larger than the yield", lambda d: mod(d, 2).update(data=[51.0, 1.0]), "large-uncertainty",
     f"{BKG}.modifiers[2]", ["staterror 'mc'", "bin 0"]),
    ("shapesys on no yield (C19)", lambda d: sample(d, 2).update(data=[0.0, 2.0]), "uncertainty-on-zero",
     "channels[0].samples[2].modifiers[0]", ["shapesys 'fake_rate'", "bin 0", "fixed at 1"]),
    ("staterror on no yield (C11)", lambda d: sample(d, 1).update(
        data=[0.0, 60.0], modifiers=[{"name": "mc", "type": "staterror", "data": [0.1, 1.0]}]),
     "uncertainty-on-zero", f"{BKG}.modifiers[0]", ["staterror 'mc'", "bin 0", "fixed at 1"]),
    ("staterror on no yield of one of its samples", lambda d: (
        sample(d, 2).update(data=[4.0, 0.0], modifiers=[
            {"name": "mc", "type": "staterror", "data": [0.1, 0.2]},
        ])),
     "uncertainty-on-zero", "channels[0].samples[2].modifiers[0]", ["bin 1", "counts in the joint"]),
    ("staterror in two channels (C15)", lambda d: add(d, "mc", "staterror", [1.0], 0, 1),
     "uncorrelated-staterror",
     "channels[1].samples[0].modifiers[2]", ["staterror 'mc'", "'SR', 'CR'", "not correlate"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "kind", "path", "fragments"), [row[1:] for row in WARNINGS], ids=[row[0] for row in WARNINGS]
)
def test_a_doubtful_entry_gives_exactly_one_warning(
    document: dict, change: Change, kind: str, path: str, fragments: list[str]
) -> None:
    change(document)
    workspace = Workspace.from_dict(document)
    assert [(warning.kind, warning.path) for warning in workspace.warnings] == [(kind, path)]
    for fragment in fragments:
        assert fragment in workspace.warnings[0].message
    assert str(workspace.warnings[0]).startswith(path)


def test_an_all_zero_sample_needs_no_warning_about_its_variations(document: dict) -> None:
    sample(document, 2).update(
        data=[0.0, 0.0],
        modifiers=[
            {"name": "up", "type": "histosys", "data": {"lo_data": [0.0, 0.0], "hi_data": [0.0, 0.0]}},
            {"name": "no_stat", "type": "staterror", "data": [0.0, 0.0]},
        ],
    )
    assert Workspace.from_dict(document).warnings == ()


def test_warnings_of_a_kind_are_summed_up_in_one_line(document: dict) -> None:
    configure(document, "nobody")
    configure(document, "no_one")
    poi(document, "jes")
    lines = Workspace.from_dict(document).warning_summary()
    assert len(lines) == 2
    assert lines[0].startswith("2 x unused-config: measurement 'main' configures 'nobody'")
    assert lines[1].startswith("1 x constrained-poi: ")
