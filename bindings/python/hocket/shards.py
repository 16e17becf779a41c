"""Samples of shards: of tar archives, as WebDataset packs them, and of MDS, as Mosaic does (docs/cache.md)."""
from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import struct
import tarfile
from typing import Any, Callable, NamedTuple

import numpy as np

from hocket._native import lib
from hocket.cache import size_of
from hocket.decoders import expand
from hocket.errors import error_of, invalid
from hocket.units import Stored, Units


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
            others = [shard["format"] for shard in shards if shard["format"] != "mds"]
        except (ValueError, LookupError, TypeError) as error:
            raise invalid(f"this is no index.json of a dataset in MDS: {type(error).__name__}: {error}") from error
        if len(forms) != 1:
            raise invalid(f"the shards of this index.json have {len(forms)} different forms of samples; they have one")
        if others:
            raise invalid(f"the shards of this index.json are {others[0]!r:.80}, and no MDS: write the dataset by MDSWriter")
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


class _MdsShard(NamedTuple):
    """A shard, as index.json describes it. name: without the ending of what compresses it; file: as it is stored."""

    name: str
    file: str
    samples: int
    bytes: int
    method: str  # "": it is not compressed
    hashes: dict[str, str]  # of the file

    @classmethod
    def of(cls, given: Any) -> _MdsShard:
        """Throws ValueError, LookupError or TypeError for what is no such description."""
        method = (given.get("compression") or "").partition(":")[0]
        raw, stored = given["raw_data"], given["zip_data"] if method else given["raw_data"]
        shard = cls(str(raw["basename"]), str(stored["basename"]), given["samples"], raw["bytes"], method, dict(stored.get("hashes") or {}))
        if not all(isinstance(number, int) and number >= 0 for number in (shard.samples, shard.bytes)):
            raise ValueError(f"{shard.name} has {shard.samples!r:.20} samples in {shard.bytes!r:.20} bytes")
        return shard


_METHODS = ("", "bz2", "gz", "zstd")  # as Mosaic names them; also br and snappy


class CompressedMds(Units):
    """The samples of MDS shards that were compressed as a whole (MDSWriter(compression="zstd")), as a source of a cache:

        shards = hocket.shards.CompressedMds("s3://bucket/train", index=open("train/index.json").read())
        with hocket.Cache(shards, folder="/local/cache") as cache:
            image = shards.columns(cache[7])["image"]

    A sample costs its whole shard, which is fetched, compared with the hashes of index.json, decompressed, and kept for the
    next samples. In a shuffled order write the dataset without compression= instead, or let the cache's folder have all
    samples after a first epoch.

    source: a folder, or a URL where each shard is an object that is one sample (docs/cache.md), with its source_index. index:
    the text of index.json; None: it lies beside the shards. kept: bytes of decompressed shards in memory, and as many again
    for those that come from a URL. zstd needs Python 3.14 or the package zstandard. timeout: in seconds, of each answer."""

    _what = "shard"

    def __init__(self, source: str | os.PathLike[str], index: str | bytes | None = None, *, source_index: str | None = None,
                 kept: int | str = "1GiB", timeout: float = 60) -> None:
        super().__init__({"source": source, "index": index, "source_index": source_index, "kept": kept, "timeout": timeout})
        self._stored = Stored(source, source_index, size_of(kept, "kept"), timeout)
        text = self._index() if index is None else index
        self.columns = Columns(text)
        self._shards = [self._checked(shard) for shard in json.loads(text)["shards"]]
        self._versions = [self._stored.version(shard.file) for shard in self._shards]
        facts = hashlib.sha256(text.encode() if isinstance(text, str) else text)
        facts.update("\n".join(self._versions).encode())
        self.dataset = f"compressed MDS {facts.hexdigest()}"
        self._open([shard.name for shard in self._shards], [shard.samples for shard in self._shards], [shard.bytes for shard in self._shards],
                   kept, timeout)

    def _index(self) -> str:
        try:
            return bytes(self._stored.read("index.json", self._stored.version("index.json"))).decode()
        except (KeyError, UnicodeDecodeError) as error:
            raise invalid(f"the index.json of {self._stored.source} cannot be read: {error}; pass its text as index=") from error

    @staticmethod
    def _checked(given: Any) -> _MdsShard:
        try:
            shard = _MdsShard.of(given)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise invalid(f"this is no index.json of a dataset in MDS: {type(error).__name__}: {error}") from error
        if shard.method not in _METHODS:
            raise invalid(f"{shard.file} is compressed by {shard.method!r:.40}: write the dataset with compression= zstd, gz or bz2, or "
                          "without")
        return shard

    def _load(self, number: int) -> tuple[Any, int]:
        shard = self._shards[number]
        data = self._stored.read(shard.file, self._versions[number])
        _compare(shard, data)
        raw = expand(shard.file, data, shard.bytes) if shard.method else bytes(data)
        return (memoryview(raw), _offsets(shard, raw)), shard.bytes

    def _sample(self, unit: Any, place: int) -> bytes:
        raw, offsets = unit
        return bytes(raw[int(offsets[place]):int(offsets[place + 1])])


def _offsets(shard: _MdsShard, raw: Any) -> Any:
    """Returns where the samples begin, and where the last one ends."""
    header = 4 * (shard.samples + 2)
    if len(raw) == shard.bytes >= header:
        words = np.frombuffer(raw, "<u4", shard.samples + 2)
        offsets = words[1:].astype(np.int64)
        if words[0] == shard.samples and offsets[0] >= header and offsets[-1] == len(raw) and (np.diff(offsets) >= 0).all():
            return offsets
    raise error_of(lib.HKT_ERROR_IO, f"{shard.file} is no shard of MDS with the {shard.samples} samples in {shard.bytes} bytes that index.json says: check "
                   "that both are of one dataset")


def _compare(shard: _MdsShard, data: Any) -> None:
    """Compares a file with one of its hashes, if index.json has one that can be computed here."""
    for name, wanted in shard.hashes.items():
        compute = _hash(name)
        if compute is not None:
            found = compute(data).hexdigest()
            if found != wanted:
                raise error_of(lib.HKT_ERROR_IO, f"the {name} of {shard.file} is {found}, and {wanted} in index.json: it is damaged, or of another "
                               "dataset; bring it anew")
            return


def _hash(name: str) -> Callable[[Any], Any] | None:
    if name in hashlib.algorithms_available and not name.startswith("shake_"):
        return lambda data: hashlib.new(name, data)
    try:
        return getattr(importlib.import_module("xxhash"), name, None) if name.startswith("xxh") else None
    except ModuleNotFoundError:  # Mosaic's writer needs it, and a reader without it does without this check
        return None
