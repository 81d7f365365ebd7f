"""Draw the images of docs/plots.md: ``python scripts/make_plots.py`` after a change of looks."""

from __future__ import annotations

import json
from pathlib import Path

from make_study_grid import patch_set

from nsmath import Model, Workspace, hypotest_toys, ranking, signal_grid
from nsmath.cli.inputs import EXAMPLE
from nsmath.fitting.fit import fit
from nsmath.fitting.inspection import inspection
from nsmath.spec.patchset import PatchSet
from nsmath.viz import convergence_figure, data_and_model, grid_figure, q_distributions, ranking_figure, save

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    workspace = Workspace.from_file(EXAMPLE)
    model = Model.from_workspace(workspace)
    toys = hypotest_toys(model, 1.0, n_toys=2000)
    save(q_distributions(toys), IMAGES / "q.svg")
    save(convergence_figure(toys), IMAGES / "convergence.svg")
    grids = {
        "limit": [(parent, 100) for parent in range(300, 1250, 50)],
        "plane": [(parent, child) for parent in range(300, 1100, 100) for child in range(50, parent - 50, 100)],
    }
    document = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    for name, pairs in grids.items():
        patches = PatchSet.from_dict(patch_set(pairs))
        save(grid_figure(signal_grid(document, patches)), IMAGES / f"{name}.svg")
    save(ranking_figure(ranking(model), top=12), IMAGES / "ranking.svg")
    found = inspection(workspace, model, fit(model))
    assert found.postfit is not None
    channel = [state.name for state in found.nominal].index("SR_low")
    save(data_and_model(found.nominal[channel], found.postfit[channel]), IMAGES / "channel.svg")


if __name__ == "__main__":
    main()
