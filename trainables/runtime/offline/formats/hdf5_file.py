"""What an HDF5 file may hold: data that lie in it, and of a size that a file of its size may have.

HDF5 follows links into other files and reads data from any path that a file names. Such data would
change without the digest, and may be anything that this user can read.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trainables.runtime.offline.bounds import check_declared
from trainables.runtime.offline.episode import DataError


def check_hdf5(path: Path) -> int:
    """Check a file without reading any of its data.

    Returns:
        How many groups and datasets lie at its top.

    Raises:
        DataError: naming the dataset that lies in another file or is linked to from several
            places, or whose parent, an episode, is larger than a file of this size may hold.
        OSError: if it is no whole HDF5 file.
    """
    import h5py

    size = path.stat().st_size
    with h5py.File(path, "r") as file:
        seen: set[int] = {_address(file)}
        for name in file:
            nbytes = 0
            for dataset in _datasets(file, name, path, seen):
                nbytes += math.prod(dataset.shape or ()) * dataset.dtype.itemsize
                # Of a chunk, all is read, also beyond the end of the data.
                nbytes += math.prod(dataset.chunks or (0,)) * dataset.dtype.itemsize
                check_declared(nbytes, size, f"{path}, {dataset.name}")
                nbytes += _bytes_of_pictures(dataset)
                check_declared(nbytes, size, f"{path}, {dataset.name}")
        return len(file)


def _datasets(group: Any, name: str, path: Path, seen: set[int]) -> Iterator[Any]:
    """Yield what a name of a group leads to: a dataset, or all those below it."""
    import h5py

    where = f"{path}, {group.name.rstrip('/')}/{name}"
    link = group.get(name, getlink=True)
    if isinstance(link, h5py.ExternalLink):
        raise _elsewhere(where, f"a link into the file {link.filename!r}")
    if not isinstance(link, h5py.HardLink):
        raise _elsewhere(where, f"a link to {getattr(link, 'path', '?')!r}")
    found = group[name]
    address = _address(found)
    if address in seen:
        raise _elsewhere(where, "a second link to something that has another name")
    seen.add(address)
    if isinstance(found, h5py.Group):
        for inner in found:
            yield from _datasets(found, inner, path, seen)
    elif isinstance(found, h5py.Dataset):
        if found.external:
            raise _elsewhere(
                where, f"a dataset whose data lie in the file {found.external[0][0]!r}"
            )
        if found.is_virtual:
            raise _elsewhere(where, "a virtual dataset, whose data lie in others")
        yield found


def _bytes_of_pictures(dataset: Any) -> int:
    """Return the bytes of a dataset's pictures, all as large as the first; 0: it has none."""
    import h5py
    from PIL import Image

    is_bytes = h5py.check_vlen_dtype(dataset.dtype) == np.uint8 or (
        dataset.dtype == np.uint8 and dataset.ndim == 2
    )
    if not is_bytes or not dataset.size:
        return 0
    try:
        with Image.open(io.BytesIO(dataset[0])) as first:  # reads what stands before the pixels
            return len(dataset) * math.prod(first.size) * len(first.getbands())
    except OSError:  # numbers
        return 0


def _address(found: Any) -> int:
    import h5py

    return int(h5py.h5o.get_info(found.id).addr)


def _elsewhere(where: str, what: str) -> DataError:
    return DataError(f"{where}: it is {what}; allowed: datasets whose data lie in this file")
