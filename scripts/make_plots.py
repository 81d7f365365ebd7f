"""Draw the images of docs/plots.md: ``python scripts/make_plots.py`` after a change of looks."""

from __future__ import annotations

from pathlib import Path

from nsmath import Model, Workspace, hypotest_toys, ranking
from nsmath.cli.inputs import EXAMPLE
from nsmath.fitting.fit import fit
from nsmath.fitting.inspection import inspection
from nsmath.viz import data_and_model, q_distributions, ranking_figure, save

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    workspace = Workspace.from_file(EXAMPLE)
    model = Model.from_workspace(workspace)
    save(q_distributions(hypotest_toys(model, 1.0, n_toys=2000)), IMAGES / "q.svg")
    save(ranking_figure(ranking(model), top=12), IMAGES / "ranking.svg")
    found = inspection(workspace, model, fit(model))
    assert found.postfit is not None
    channel = [state.name for state in found.nominal].index("SR_low")
    save(data_and_model(found.nominal[channel], found.postfit[channel]), IMAGES / "channel.svg")


if __name__ == "__main__":
    main()
