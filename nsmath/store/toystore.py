"""`ToyStore`: a folder of toys that survives kill -9, a full disk and a power cut, and continues where it stopped.

    DIR/_store.json                          what the toys belong to: model, options, tuned values; never changes
    DIR/_lock                                held by the one process that writes
    DIR/mu_1.0/_point.json                   what the observed data give at this mu
    DIR/mu_1.0/b-<first>-<last>.parquet      toys first <= index < last of hypothesis b

Readers of Parquet folders pass over names that begin with an underscore.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from nsmath.errors import StoreError, StoreWriteError
from nsmath.plan.tuned import Tuned
from nsmath.store.ensemble import Ensemble
from nsmath.store.memory import Key
from nsmath.store.parts import TEMPORARY, PartHeader, read_header, read_part, write_part, write_whole
from nsmath.store.ranges import Range, first_overlap, merged

if TYPE_CHECKING:
    from filelock import FileLock

logger = logging.getLogger("nsmath.store")

FORMAT = "nsmath-store-1"
FLUSH_SECONDS = 10.0
"""Toys wait this long for others to share a part with; a process that is killed loses them, and no more."""
FLUSH_TOYS = 1_000_000


@dataclass(frozen=True, slots=True)
class Identity:
    """What all toys of a store have in common; nothing of it may differ.

    ``model_digest`` covers names, tensors and observed data, so also workspace, measurement, patches, POI.
    """

    model_digest: str
    measurement: str
    poi: str
    interpolation: dict[str, str]
    test_stat: str
    aux: str
    seed: int
    poi_max: float | None = None

    @property
    def options_digest(self) -> str:
        """sha256 over all but the model."""
        options = {name: value for name, value in asdict(self).items() if name != "model_digest"}
        if self.poi_max is None:
            del options["poi_max"]  # stores from before it was an option
        return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()

    def difference(self, other: Identity) -> str | None:
        """Return what differs first, as ``name: theirs there, ours here``; None when nothing does."""
        theirs, ours = asdict(other), asdict(self)
        # The names come first: they say more than a digest.
        for name in sorted(ours, key=lambda name: name == "model_digest"):
            if ours[name] != theirs[name]:
                return f"{name}: {theirs[name]!r} there, {ours[name]!r} here"
        return None


class ToyStore:
    """A store opened by `ToyStore.create`, for the one process that writes, or `ToyStore.read`, for any.

    A context manager; leaving it writes what waits and gives up the lock.
    """

    def __init__(self, folder: Path, identity: Identity, tuned: Tuned | None, lock: FileLock | None) -> None:
        self.folder, self.identity, self.tuned = folder, identity, tuned
        self._lock = lock
        self._waiting: dict[Key, list[Ensemble]] = {}
        self._n_waiting = 0
        self._flushed = time.monotonic()
        self._parts: dict[Key, list[tuple[Range, Path]]] = {}
        self._fresh: dict[Path, Ensemble] = {}
        self.made_with: dict[str, str] = {}
        self.damaged: list[Path] = []
        """Parts that were set aside when the store was opened."""

    # -- opening -------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, folder: str | Path, identity: Identity) -> ToyStore:
        """Return the store in ``folder``, made if it is not there, for writing.

        Damaged parts are named in a warning and set aside (``_damaged-...``): their toys count as missing.

        Raises
        ------
        StoreError
            Another process writes to it; it holds toys of another model or other options; the folder holds
            something else.
        """
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"store {folder} is a file; expected a folder, or a name that is free.")
        described = folder / "_store.json"
        if not described.exists() and folder.exists() and any(not p.name.startswith("_") for p in folder.iterdir()):
            raise StoreError(f"folder {folder} is not empty and not a store; name another one, or an empty one.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = _locked(folder)
        except OSError as error:
            raise StoreWriteError(f"store {folder} cannot be made: {error.strerror or error}.") from error
        try:
            tuned: Tuned | None = None
            made_with: dict[str, str] = {}
            if described.exists():
                known, tuned, made_with = _described(folder)
                difference = identity.difference(known)
                if difference is not None:
                    raise StoreError(
                        f"store {folder} belongs to other toys ({difference}). Name another store, or repeat the "
                        "command that made this one."
                    )
            store = cls(folder, identity, tuned, lock)
            store.made_with = made_with
            store._scan(set_aside=True)
        except BaseException:
            lock.release()
            raise
        return store

    @classmethod
    def read(cls, folder: str | Path) -> ToyStore:
        """Return the store in ``folder`` for reading.

        Raises
        ------
        StoreError
            It is not a store, or a part is damaged.
        """
        identity, tuned, made_with = _described(Path(folder))
        store = cls(Path(folder), identity, tuned, None)
        store.made_with = made_with
        store._scan(set_aside=False)
        return store

    def begin(self, tuned: Tuned, made_with: dict[str, str]) -> None:
        """Write the store's description, the first time: what its toys are computed with.

        Raises
        ------
        StoreError
            Its toys were computed in another precision.
        """
        theirs, ours = (made.get("dtype", "float64") for made in (self.made_with, made_with))
        if self.tuned is not None and theirs != ours:
            raise StoreError(
                f"store {self.folder} holds toys computed in {theirs}, this run in {ours}: q differs in the last "
                f"digits. Use dtype {theirs}, or another store."
            )
        if self.tuned is None:
            self.tuned, self.made_with = tuned, made_with
            _write_json(
                self.folder / "_store.json",
                {"format": FORMAT, **asdict(self.identity), "options_digest": self.identity.options_digest,
                 "tuned": asdict(tuned), "made_with": made_with},
            )  # fmt: skip

    def _scan(self, *, set_aside: bool) -> None:
        """Check every part, and remember which toys are where."""
        for path in self.folder.rglob(f"_*{TEMPORARY}") if set_aside else ():
            path.unlink(missing_ok=True)  # of a writer that was killed
        for path in sorted(self.folder.glob("mu_*/*.parquet")):
            if path.name.startswith("_"):
                continue
            try:
                header = self._checked(path, read_part(path)[0])
            except StoreError as error:
                if not set_aside:
                    raise
                aside = path.with_name(f"_damaged-{path.name}")
                os.replace(path, aside)
                self.damaged.append(aside)
                logger.warning("%s Its toys are computed again; it now is %s", error, aside.name)
                continue
            self._parts.setdefault((header.mu, header.hypothesis), []).append(((header.first, header.last), path))
        for key, parts in self._parts.items():
            double = first_overlap(r for r, _ in parts)
            if double is not None:
                raise StoreError(
                    f"store {self.folder} holds toys {double[0]} to {double[1] - 1} of {key[1]} at {key[0]:g} twice. "
                    "Remove one of the parts that overlap."
                )

    def _checked(self, path: Path, header: PartHeader) -> PartHeader:
        ours = (self.identity.model_digest, self.identity.options_digest, self.identity.seed)
        if (header.model_digest, header.options_digest, header.seed) != ours:
            raise StoreError(f"part {path} belongs to another model or other options than its store.")
        if path.name != header.name or path.parent.name != point_name(header.mu):
            raise StoreError(f"part {path} has another name than its content asks for, {header.name}.")
        return header

    # -- toys ----------------------------------------------------------------------------------------------

    def there(self, key: Key) -> list[Range]:
        """Return the ranges of toys on record."""
        waiting = [(int(toys.index[0]), int(toys.index[-1]) + 1) for toys in self._waiting.get(key, [])]
        return merged([r for r, _ in self._parts.get(key, [])] + waiting)

    def held(self) -> list[Key]:
        """Return every (mu, hypothesis) that has toys."""
        return sorted(self._parts.keys() | self._waiting.keys())

    def add(self, key: Key, toys: Ensemble) -> None:
        """Take in toys, contiguous in index; they are written within `FLUSH_SECONDS`, as soon as more come."""
        if len(toys):
            self._waiting.setdefault(key, []).append(toys)
            self._n_waiting += len(toys)
        if self._n_waiting >= FLUSH_TOYS or time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write all toys that wait: neighbours share a part."""
        for key, parts in list(self._waiting.items()):
            for run in _contiguous(parts):
                toys = Ensemble.joined(run)
                first, last = int(toys.index[0]), int(toys.index[-1]) + 1
                header = PartHeader(
                    self.identity.model_digest, self.identity.options_digest, key[0], key[1], self.identity.seed,
                    first, last,
                )  # fmt: skip
                path = write_part(self.folder / point_name(key[0]), header, toys)
                self._parts.setdefault(key, []).append(((first, last), path))
                self._fresh[path] = toys
                for part in run:
                    parts.remove(part)
            del self._waiting[key]
        self._n_waiting = 0
        self._flushed = time.monotonic()

    def toys(self, key: Key, wanted: Range) -> Ensemble:
        """Return the toys on record within ``wanted``, by index."""
        # What this process has just written is asked for once, at the end of a test: then it need not be read back.
        parts = [
            self._fresh.pop(path) if path in self._fresh else read_part(path)[1]
            for (first, last), path in self._parts.get(key, [])
            if first < wanted[1] and last > wanted[0]
        ]
        return Ensemble.joined(parts + self._waiting.get(key, [])).between(*wanted)

    def part_paths(self) -> Iterator[tuple[PartHeader, Path]]:
        """Yield header and path of every part."""
        for parts in self._parts.values():
            for _, path in parts:
                yield read_header(path), path

    def note_observed(self, mu: float, observed: dict[str, Any]) -> None:
        """Keep what the observed data give at ``mu``, once."""
        path = self.folder / point_name(mu) / "_point.json"
        if not path.exists():
            _write_json(path, observed)

    def observed(self, mu: float) -> dict[str, Any]:
        """Return what the observed data give at ``mu``.

        Raises
        ------
        StoreError
            No such point, or its file is damaged.
        """
        path = self.folder / point_name(mu) / "_point.json"
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} is missing or damaged ({error}); repeat the command that made it.") from error
        return found

    # -- closing -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what waits, and give up the lock."""
        try:
            if self._lock is not None:
                self.flush()
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def __enter__(self) -> ToyStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, StoreWriteError):
            # The disk has just refused; a second refusal would hide the first.
            with suppress(StoreWriteError):
                self.close()
        else:
            self.close()


def point_name(mu: float) -> str:
    """Return the folder of a tested mu; it tells floats apart to the last bit."""
    return f"mu_{mu!r}"


def _write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=2) + "\n"
    try:
        path.parent.mkdir(exist_ok=True)
        write_whole(path, lambda file: file.write(text.encode()))
    except OSError as error:
        raise StoreWriteError(f"{path} could not be written: {error.strerror or error}.") from error


def _described(folder: Path) -> tuple[Identity, Tuned, dict[str, str]]:
    path = folder / "_store.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise StoreError(f"{path} has format {content['format']!r}; this version reads {FORMAT!r}.")
        identity = Identity(
            **{name: content[name] for name in Identity.__slots__ if name != "poi_max"}, poi_max=content.get("poi_max")
        )
        return identity, Tuned(**content["tuned"]), dict(content["made_with"])
    except FileNotFoundError:
        raise StoreError(f"{folder} is not a store of toys: it has no _store.json.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{path} is damaged ({type(error).__name__}: {error}); the store cannot be trusted."
        ) from error


def _locked(folder: Path) -> FileLock:
    from filelock import FileLock, Timeout

    lock = FileLock(folder / "_lock")
    try:
        # The system frees it when its process ends, however that happens.
        lock.acquire(timeout=0)
    except Timeout:
        raise StoreError(
            f"store {folder} is in use by another process. Wait for it, or give each its own store and combine them "
            "with `nsmath merge-toys`."
        ) from None
    return lock


def _contiguous(parts: list[Ensemble]) -> list[list[Ensemble]]:
    """Return ensembles grouped into runs without gaps, by index."""
    runs: list[list[Ensemble]] = []
    for part in sorted(parts, key=lambda part: int(part.index[0])):
        if runs and int(runs[-1][-1].index[-1]) + 1 == int(part.index[0]):
            runs[-1].append(part)
        else:
            runs.append([part])
    return runs
