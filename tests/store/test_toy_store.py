"""A store gives back what was put in, goes on where it stopped, and tells when anything is wrong with it."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from studies import MODEL, SPEC, run, same_toys

from nsmath.errors import OptionError, StoreError, StoreWriteError
from nsmath.infer.stored import stored_results
from nsmath.infer.toys import run_toys
from nsmath.model.model import Model
from nsmath.store import toystore
from nsmath.store.ensemble import COLUMNS, Ensemble
from nsmath.store.merge import merge_stores
from nsmath.store.parts import read_part
from nsmath.store.toystore import ToyStore


def parts(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("mu_*/*.parquet") if not p.name.startswith("_"))


def test_toys_of_a_store_are_those_of_a_run_without_one(tmp_path: Path) -> None:
    same_toys(run(store=tmp_path / "s"), run())


def test_a_finished_study_is_not_computed_again(tmp_path: Path) -> None:
    first = run(store=tmp_path)
    again = run(store=tmp_path)
    same_toys(first, again)
    assert all(work["fits"] == 0 for work in again.fits.values())


def test_more_toys_later_compute_the_missing_ones_only(tmp_path: Path) -> None:
    run(128, store=tmp_path)
    more = run(300, store=tmp_path)
    # Whole tiles were there, so the run is the uninterrupted one to the last bit.
    same_toys(more, run(300))
    assert 172 <= more.fits["b"]["fits"] <= 2 * 172


def test_an_interrupted_run_goes_on_and_ends_with_the_same_bits(tmp_path: Path) -> None:
    def stop(done: int, total: int, phase: str) -> None:
        if done >= 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(store=tmp_path, progress=stop)
    kept = sum(len(read_part(path)[1]) for path in parts(tmp_path))
    assert 200 <= kept < 600
    same_toys(run(store=tmp_path), run())


def test_every_part_tells_what_it_is_and_pandas_reads_the_folder(tmp_path: Path) -> None:
    result = run(store=tmp_path, seed=5)
    frame = pd.read_parquet(tmp_path)
    assert set(frame.columns) == {*COLUMNS, "mu", "hypothesis"}
    for name in ("b", "sb"):
        chosen = frame[(frame.hypothesis == name) & (frame.mu == 1.0)].sort_values("index")
        np.testing.assert_array_equal(chosen.q, result.ensembles[name].q)
    for path in parts(tmp_path):
        header, toys = read_part(path)
        assert (header.model_digest, header.seed, header.mu) == (MODEL.digest, 5, 1.0)
        assert (toys.index[0], toys.index[-1] + 1) == (header.first, header.last)


def test_the_format_is_what_the_documentation_says() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "stores.md").read_text(encoding="utf-8")
    for name, kind in COLUMNS.items():
        assert f"| `{name}` | {np.dtype(kind).name} |" in text


@pytest.mark.parametrize("damage", ["cut", "flip_data", "flip_footer", "empty", "other_name"])
def test_a_damaged_part_is_named_set_aside_and_computed_again(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = run(store=tmp_path)
    victim = parts(tmp_path)[0]
    content = bytearray(victim.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "empty":
        content = bytearray()
    elif damage.startswith("flip"):
        content[500 if damage == "flip_data" else -6] ^= 16
    victim.write_bytes(content)
    if damage == "other_name":
        victim.rename(victim.with_name("b-000000000000000-000000000000777.parquet"))
    again = run(store=tmp_path)
    same_toys(first, again)
    assert again.fits["b"]["fits"] > 0
    assert "b-000000000000000" in caplog.text
    assert len(list(tmp_path.rglob("_damaged-*"))) == 1


def test_every_single_bit_of_a_part_is_guarded(tmp_path: Path) -> None:
    run(40, store=tmp_path)
    victim = parts(tmp_path)[0]
    good = victim.read_bytes()
    expected = read_part(victim)[1]
    rng = np.random.default_rng(3)
    for position in rng.integers(0, len(good), 150):
        content = bytearray(good)
        content[position] ^= 1 << int(rng.integers(8))
        victim.write_bytes(content)
        with suppress(StoreError):
            # Refused, or a bit that no reader looks at.
            toys = read_part(victim)[1]
            for name in COLUMNS:
                np.testing.assert_array_equal(getattr(toys, name), getattr(expected, name))


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        ({"seed": 1}, ["seed", "0 there", "1 here"]),
        ({"aux": "fixed"}, ["aux", "'random' there", "'fixed' here"]),
        ({"test_stat": "q"}, ["test_stat", "'qtilde' there", "'q' here"]),
    ],
)
def test_toys_of_other_options_are_refused(tmp_path: Path, options: dict[str, Any], fragments: list[str]) -> None:
    run(64, store=tmp_path)
    with pytest.raises(StoreError) as caught:
        run(64, store=tmp_path, **options)
    for fragment in [str(tmp_path), *fragments]:
        assert fragment in str(caught.value)


def test_toys_of_another_model_are_refused(tmp_path: Path) -> None:
    run(64, store=tmp_path)
    other = json.loads(json.dumps(SPEC))
    other["observations"][0]["data"] = [53.0, 24.0]
    with pytest.raises(StoreError, match="model_digest"):
        run(64, store=tmp_path, model=Model.from_workspace(other))


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    run(64, store=tmp_path)
    with ToyStore.create(tmp_path, ToyStore.read(tmp_path).identity):
        with pytest.raises(StoreError, match=r"in use by another process.*merge-toys"):
            run(64, store=tmp_path)
        assert ToyStore.read(tmp_path).there((1.0, "b")) == [(0, 64)]
    run(64, store=tmp_path)


def test_a_folder_of_other_things_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(StoreError, match="not empty and not a store"):
        run(64, store=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(StoreError, match="is a file"):
        run(64, store=tmp_path / "thesis.tex")


def test_a_full_disk_is_one_clear_error_and_the_store_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toystore, "FLUSH_SECONDS", 0.0)
    written: list[str] = []
    fsync = os.fsync

    def full(handle: int) -> None:
        written.append("x")
        if len(written) > 9:
            raise OSError(28, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreWriteError, match=r"part .*No space left on device.*run the same command again"):
        run(store=tmp_path)
    monkeypatch.setattr(os, "fsync", fsync)
    assert not list(tmp_path.rglob("*.tmp"))
    assert all(len(read_part(path)[1]) for path in parts(tmp_path))
    same_toys(run(store=tmp_path), run())


def test_a_folder_that_takes_no_files_is_one_clear_error(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        # Permissions do not hold root back; a file in the folder's place does.
        (tmp_path / "f").write_text("")
        with pytest.raises(StoreError, match=r"cannot be made|is a file"):
            run(64, store=tmp_path / "f" / "store")
        return
    (tmp_path / "d").mkdir(mode=0o500)
    with pytest.raises(StoreWriteError, match="cannot be made"):
        run(64, store=tmp_path / "d" / "store")


def test_merged_shards_are_the_single_run(tmp_path: Path) -> None:
    for i in (1, 2, 3):
        run(300, store=tmp_path / str(i), shard=(i, 3))
    with merge_stores([tmp_path / "1", tmp_path / "3", tmp_path / "2"], tmp_path / "all") as store:
        (merged,) = stored_results(store, expected=True)
    single = run(300, expected_set=True)
    # A shard's first tile is a partial one, so its toys differ in rounding; the test's numbers do not.
    for name in ("clsb", "clb", "cls", "cls_error", "expected_set", "n_toys", "q_obs", "mu_hat"):
        assert getattr(merged, name) == getattr(single, name)
    for name in ("b", "sb"):
        np.testing.assert_allclose(merged.ensembles[name].q, single.ensembles[name].q, rtol=0.0, atol=2e-8)


def test_merging_refuses_what_would_count_toys_twice_or_mix_models(tmp_path: Path) -> None:
    run(100, store=tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    run(100, store=tmp_path / "seed", seed=1)
    for sources, message in (
        (("a", "copy"), r"toys 0 to 99 of b at 1 stand in more than one store .*each toy may be counted once"),
        (("a", "seed"), r"different studies: seed: 1 there, 0 here|different studies: seed: 0 there, 1 here"),
        (("a", "nowhere"), "not a store"),
    ):
        with pytest.raises(StoreError, match=message):
            merge_stores([tmp_path / name for name in sources], tmp_path / "out")
        assert not list((tmp_path / "out").glob("mu_*"))


@pytest.mark.parametrize("shard", [(0, 3), (4, 3), (-1, 2)])
def test_a_shard_out_of_range_is_refused(tmp_path: Path, shard: tuple[int, int]) -> None:
    with pytest.raises(OptionError, match=r"expected i/N with i from 1 to N"):
        run(store=tmp_path, shard=shard)


def test_a_shard_without_a_store_is_refused() -> None:
    with pytest.raises(OptionError, match="its toys would be lost"):
        run(shard=(1, 2))


def test_a_toy_cannot_stand_twice_in_an_ensemble() -> None:
    toys = Ensemble(**{name: np.zeros(1, dtype=kind) for name, kind in COLUMNS.items()})
    with pytest.raises(StoreError, match="toy 0 is there twice"):
        Ensemble.joined([toys, toys])


def test_run_toys_gives_the_types_that_parts_hold() -> None:
    assert run_toys.__annotations__["return"] == "tuple[Ensemble, Work]"
    result = run(64)
    for name, kind in COLUMNS.items():
        assert getattr(result.ensembles["b"], name).dtype == np.dtype(kind)
