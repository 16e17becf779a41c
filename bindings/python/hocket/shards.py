"""Samples of tar shards, as WebDataset packs them (docs/cache.md)."""
from __future__ import annotations

import io
import tarfile
from typing import Any

from hocket.errors import invalid


def members(sample: Any) -> dict[str, memoryview]:
    """Returns the parts of a sample of a tar shard, by what follows the first dot of their names, in lower case: of 000.jpg
    and 000.cls, those are "jpg" and "cls". They are read-only, lie in the sample's memory, and are valid as long as it is.

    sample: bytes, or an array, as a cache lends it, or as decode is given it."""
    data = memoryview(sample).cast("B").toreadonly()
    found: dict[str, memoryview] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                key, dot, extension = name.partition(".")
                if member.isfile() and key and dot:
                    found[extension.lower()] = data[member.offset_data:member.offset_data + member.size]
    except tarfile.TarError as error:
        raise invalid(f"the sample is no piece of a tar shard ({error}); members() is for samples of an index of shards") from error
    return found
