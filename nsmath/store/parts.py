"""One part of a store: toys as a Parquet file, written whole or not at all, and able to tell when it is damaged."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from nsmath.errors import StoreError, StoreWriteError
from nsmath.store.ensemble import COLUMNS, Ensemble

if TYPE_CHECKING:
    import pyarrow

METADATA_KEY = b"nsmath"
FORMAT = "nsmath-toys-1"
TEMPORARY = ".tmp"


@dataclass(frozen=True, slots=True)
class PartHeader:
    """What a part says about itself: enough to use it without its store.

    Attributes
    ----------
    model_digest, options_digest : of the model, and of all options that change a toy or its q.
    mu, hypothesis, seed : what was tested; ``b`` or ``sb``; the generator's seed.
    first, last : toys first <= index < last.
    """

    model_digest: str
    options_digest: str
    mu: float
    hypothesis: str
    seed: int
    first: int
    last: int

    @property
    def name(self) -> str:
        """File name, which sorts by hypothesis and index."""
        return f"{self.hypothesis}-{self.first:015d}-{self.last:015d}.parquet"


def checksum(header: PartHeader, toys: Ensemble) -> str:
    """Return the sha256 over the header and every number of a part."""
    sha = hashlib.sha256(json.dumps(asdict(header), sort_keys=True).encode())
    for name, array in toys.columns().items():
        # Little-endian bytes on every machine.
        sha.update(name.encode())
        sha.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data)
    return sha.hexdigest()


def write_part(folder: Path, header: PartHeader, toys: Ensemble) -> Path:
    """Write a part and return its path: afterwards it is on the disk, or nothing is.

    Raises
    ------
    StoreWriteError
        The disk is full, the folder cannot be written to.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = {"format": FORMAT, **asdict(header), "sha256": checksum(header, toys)}
    columns: dict[str, Any] = {name: pa.array(array) for name, array in toys.columns().items()}
    n = len(toys)
    # For readers of several parts; as runs of one value they take next to nothing.
    columns |= {"mu": pa.repeat(header.mu, n), "hypothesis": pa.repeat(header.hypothesis, n)}
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(content).encode()})
    path = folder / header.name

    def write(file: IO[bytes]) -> None:
        pq.write_table(table, file, compression="none", use_dictionary=["mu", "hypothesis"], write_statistics=False)

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, write)
    except OSError as error:
        raise StoreWriteError(
            f"part {path} could not be written: {error.strerror or error}. The parts written before are whole and "
            "kept. Make room (or make the folder writable) and run the same command again."
        ) from error
    return path


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Have ``write`` fill a file that is there afterwards, power cut or not, or is not there at all.

    The temporary name is free: one process at a time writes to a store. Raises OSError.
    """
    temporary = path.with_name(f"_{path.name}{TEMPORARY}")
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder safe against a power cut, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_header(path: Path) -> PartHeader:
    """Return a part's header.

    Raises
    ------
    StoreError
        Not a part, or damaged.
    """
    return _header(path, _opened(path).schema_arrow.metadata or {})[0]


def read_part(path: Path) -> tuple[PartHeader, Ensemble]:
    """Return a part's header and its toys.

    Raises
    ------
    StoreError
        Not a part, or damaged: cut short, or any bit of it flipped.
    """
    import pyarrow as pa

    file = _opened(path)
    header, expected = _header(path, file.schema_arrow.metadata or {})
    try:
        table = file.read(columns=list(COLUMNS))
        toys = Ensemble(**{name: table[name].to_numpy() for name in COLUMNS})
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise StoreError(f"part {path} is damaged: {_first_line(error)}.") from error
    if len(toys) != header.last - header.first or checksum(header, toys) != expected:
        raise StoreError(f"part {path} is damaged: its checksum is not that of its content.")
    return header, toys


def _opened(path: Path) -> pyarrow.parquet.ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Read at once: a file that another process replaces meanwhile stays what it was.
        return pq.ParquetFile(pa.BufferReader(path.read_bytes()))
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"part {path} is damaged or not a part: {_first_line(error)}.") from error


def _header(path: Path, metadata: dict[bytes, bytes]) -> tuple[PartHeader, str]:
    try:
        content = json.loads(metadata[METADATA_KEY])
        form, sha = content.pop("format"), content.pop("sha256")
        header = PartHeader(**content)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"part {path} is damaged or not a part of nsmath: {_first_line(error)}.") from error
    if form != FORMAT:
        raise StoreError(f"part {path} has format {form!r}; this version reads {FORMAT!r}.")
    return header, sha


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
