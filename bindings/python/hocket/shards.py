"""Samples of shards: of tar archives, as WebDataset packs them, and of MDS, as Mosaic does (docs/cache.md)."""
from __future__ import annotations

import io
import json
import struct
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


class Columns:
    """Takes samples of MDS shards apart, into the columns that the dataset's index.json names.

        columns = hocket.shards.Columns(open("train/index.json").read())
        image = columns(cache[7])["image"]

    names, encodings: of the columns, as there: "jpeg", "int", "str" ..."""

    def __init__(self, index: str | bytes) -> None:
        try:
            shards = json.loads(index)["shards"]
            forms = {(tuple(shard["column_names"]), tuple(shard["column_encodings"]), tuple(shard["column_sizes"])) for shard in shards}
            compressed = [shard["raw_data"]["basename"] for shard in shards if shard.get("compression") or shard["format"] != "mds"]
        except (ValueError, LookupError, TypeError) as error:
            raise invalid(f"this is no index.json of a dataset in MDS: {type(error).__name__}: {error}") from error
        if len(forms) != 1:
            raise invalid(f"the shards of this index.json have {len(forms)} different forms of samples; they have one")
        if compressed:
            raise invalid(f"shards such as {compressed[0]} are compressed, and cannot be read in parts: write the dataset without "
                          "compression=")
        (self.names, self.encodings, self._sizes), = forms
        counted = sum(size is None for size in self._sizes)
        if len(self.names) != len(self._sizes) or any(not isinstance(size, (int, type(None))) or (size or 0) < 0 for size in self._sizes):
            raise invalid("the columns of this index.json have other sizes than numbers of bytes and null, or not one each")
        self._counts = struct.Struct(f"<{counted}I")  # the sizes of the others stand in front of a sample

    def __call__(self, sample: Any) -> dict[str, memoryview]:
        """Returns the columns by name. They are read-only, lie in the sample's memory, and are valid as long as it is."""
        data = memoryview(sample).cast("B").toreadonly()
        begin = self._counts.size
        if len(data) >= begin:
            counts = iter(self._counts.unpack_from(data))
            found = {}
            for name, size in zip(self.names, self._sizes):
                end = begin + (next(counts) if size is None else size)
                found[name] = data[begin:end]
                begin = end
            if begin == len(data):
                return found
        raise invalid(f"the sample has {len(data)} bytes, which are not those of the columns {', '.join(self.names)}; is it of this dataset?")
