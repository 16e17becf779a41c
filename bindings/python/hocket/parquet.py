"""Rows of Parquet files as samples, by pyarrow (docs/cache.md)."""
from __future__ import annotations

import hashlib
import io
import os
import threading
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from hocket._native import lib
from hocket.cache import Cache, size_of
from hocket.errors import Error, error_of, invalid
from hocket.units import Stored, Units

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as missing:
    raise ModuleNotFoundError(f"hocket.parquet needs the package pyarrow ({missing}): pip install pyarrow, or hocket[parquet]",
                              name="pyarrow") from missing

_LARGEST_PIECE = 1 << 20  # of those that hocket-cache index makes
_PIECES_AT_ONCE = 32  # of an object: so many requests are in flight for one reader
_FILES_AT_ONCE = 16
_MARK = b"PAR1"
# What pyarrow raises for what is damaged, at different places.
_FAILURES = (pa.ArrowException, OSError, EOFError, ValueError, LookupError, OverflowError)
_LEAST_MEMORY = 128 << 20  # for pieces of objects on their way


class _Pieces(io.RawIOBase):
    """An object that an index cuts into pieces of one size, as a file. turns: of those who read pieces at once. Not thread-safe."""

    def __init__(self, cache: Cache, keys: Sequence[int], turns: threading.BoundedSemaphore) -> None:
        super().__init__()
        self._cache, self._keys, self._turns, self._place = cache, keys, turns, 0
        self._piece = len(cache[keys[0]])
        self._size = (len(keys) - 1) * self._piece + len(cache[keys[-1]])

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        return self._place

    def readinto(self, into: Any) -> int:
        to = memoryview(into).cast("B")
        begin, end = self._place, min(self._place + len(to), self._size)
        first = begin // self._piece
        last = -(-end // self._piece)  # the first piece behind
        for number in range(first, last, _PIECES_AT_ONCE):
            with self._turns:
                self._copy(to, number, self._cache.get_batch(self._keys[number:min(number + _PIECES_AT_ONCE, last)]), begin, end)
        self._place = max(end, begin)
        return max(end - begin, 0)

    def _copy(self, to: memoryview, first: int, pieces: Sequence[Any], begin: int, end: int) -> None:
        """Copies what lies in pieces from the first on. They are lent, and given back when this ends."""
        for place, piece in enumerate(pieces, first):
            begins = place * self._piece
            part = piece[max(begin - begins, 0):end - begins]
            at = max(begin, begins) - begin
            to[at:at + len(part)] = memoryview(part)


class _File(NamedTuple):
    name: str
    version: str
    metadata: Any  # pyarrow's, of the file
    schema: Any  # of the columns that were asked for, as rows have them
    digest: str  # of what the file says of its columns


class RowReader:
    """Takes rows apart, which are samples of Rows. It can be pickled, and used in a worker."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema

    def __call__(self, sample: Any) -> dict[str, Any]:
        """Returns the row's values by the names of its columns, as Python has them: None for a null, lists, dicts."""
        return self._batch(sample).to_pylist()[0]

    def table(self, samples: Sequence[Any]) -> Any:
        """Returns a pyarrow.Table of several rows."""
        return pa.Table.from_batches([self._batch(sample) for sample in samples], self.schema)

    def _batch(self, sample: Any) -> Any:
        data = sample if isinstance(sample, (bytes, bytearray, memoryview, pa.Buffer)) else np.ascontiguousarray(sample)
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(data), self.schema)
            batch.validate(full=True)
        except _FAILURES as error:
            raise invalid(f"the sample is no row of the columns {', '.join(self.schema.names)}: {error}; is it of this dataset, and read "
                          "without values=?") from error
        if batch.num_rows != 1:
            raise invalid(f"the sample has {batch.num_rows} rows, and one of Rows has one")
        return batch


class Rows(Units):
    """The rows of Parquet files, as a source of a cache:

        rows = hocket.parquet.Rows("s3://bucket/train", columns=["image", "label"])
        with hocket.Cache(rows, folder="/local/cache") as cache:
            label = rows.reader(cache[7])["label"]

    A row costs its row group: the chosen columns of it are fetched, decompressed, and kept for the next rows. So write row
    groups of some megabytes, not of gigabytes.

    source: a file, a folder (its *.parquet, in the order of their paths), or a URL, with its source_index: an index that
    hocket-cache index made of the files (docs/cache.md), without which each file is fetched whole. columns: of the rows, in
    this order; None: all. files: names of files below the source, in the order of their rows; None: all. values: a column
    whose values are the samples by themselves, for tensors: the bytes of a text, or of numbers in lists of any depth. kept:
    bytes of row groups in memory, and at least 128 MiB beside them for what comes from a URL. timeout: in seconds, of each
    answer.

    reader: takes samples apart (without values=)."""

    _what = "row group"

    def __init__(self, source: str | os.PathLike[str], columns: Sequence[str] | None = None, *, files: Sequence[str] | None = None,
                 source_index: str | None = None, values: str | None = None, kept: int | str = "1GiB", timeout: float = 60) -> None:
        super().__init__({"source": source, "columns": columns, "files": files, "source_index": source_index, "values": values, "kept": kept,
                          "timeout": timeout})
        if isinstance(columns, str) or (columns is not None and len(columns) == 0) or (values and columns is not None):
            raise invalid(f"columns is {columns!r:.80}, values is {values!r:.80}: columns is a list of names, not empty, and values= is one column "
                          "in its place")
        folder = os.fspath(source)
        if os.path.isfile(folder) and files is None:
            folder, name = os.path.split(folder)
            files = [name]
        self._stored = Stored(folder or ".", source_index, max(size_of(kept, "kept"), _LEAST_MEMORY), timeout)
        # Several batches of pieces must fit beside each other: each waits for all of its pieces, and holds those it has.
        self._turns = threading.BoundedSemaphore(max(self._stored.memory // (2 * _PIECES_AT_ONCE * _LARGEST_PIECE), 1))
        self._pieces: dict[str, list[int]] = {}  # by name: the keys of an object's pieces
        self._columns, self._value = [values] if values else columns, values
        self._files = self._opened(self._listed() if files is None else self._found(files))
        self.schema = self._files[0].schema
        self.reader = RowReader(self.schema)
        self._ends_of_files = list(accumulate(file.metadata.num_rows for file in self._files))
        self._groups: list[tuple[int, int]] = []  # the file's number, and the group's in it
        names, counts, sizes = self._take_groups()
        self._open(names, counts, sizes, kept, timeout)

    def _take_groups(self) -> tuple[list[str], list[int], list[int]]:
        facts = hashlib.sha256(f"{self._columns} {self._value} {self.schema}".encode())
        names, counts, sizes = [], [], []
        for number, file in enumerate(self._files):
            facts.update(f"{file.name}\n{file.version}\n{file.digest}\n".encode())
            for group in range(file.metadata.num_row_groups):
                facts_of_group = file.metadata.row_group(group)
                self._groups.append((number, group))
                names.append(f"row group {group} of {file.name}")
                counts.append(facts_of_group.num_rows)
                sizes.append(_size(facts_of_group, self.schema.names))
        self.dataset = f"Parquet {facts.hexdigest()}"
        return names, counts, sizes

    # ---- Files -----------------------------------------------------------------------------------------------------

    def _listed(self) -> list[str]:
        """Returns the names of all files of the source."""
        if self._stored.cache is None:
            names = [os.path.relpath(os.path.join(folder, name), self._stored.source)
                     for folder, _, inside in os.walk(self._stored.source, onerror=_not_listed) for name in inside]
            names = [name for name in names if name.endswith(".parquet") and not _is_hidden(name)]
        else:
            self._list_objects(self._stored.cache)
            names = [name for name in self._pieces if not _is_hidden(name)]
        if not names:
            raise error_of(lib.HKT_ERROR_NOT_FOUND, f"there are no files *.parquet in {self._stored.source}; check the name, or pass files=")
        return sorted(names, key=os.fsencode)

    def _list_objects(self, cache: Cache) -> None:
        for key in range(len(cache)):
            name = cache.name(key)
            file, _, piece = name.rpartition("/")
            if name.endswith(".parquet"):
                self._pieces[name] = [key]
            elif file.endswith(".parquet") and piece.isdigit():
                self._pieces.setdefault(file, []).append(key)

    def _found(self, files: Sequence[str]) -> list[str]:
        if self._stored.cache is not None:
            self._list_objects(self._stored.cache)
            for name in files:
                if name not in self._pieces:
                    raise error_of(lib.HKT_ERROR_NOT_FOUND, f"there is no file {name!r:.80} in {self._stored.source}, which has {len(self._pieces)} "
                                   "*.parquet; make the index of them all with hocket-cache index")
        if len(set(files)) != len(files) or not files:
            raise invalid(f"files has {len(files)} names, of which {len(set(files))} are different: name each file once, and one at least")
        return list(files)

    def _opened(self, names: list[str]) -> list[_File]:
        with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
            files = list(pool.map(self._look, names))
        for file in files:
            if not file.schema.equals(files[0].schema):
                raise invalid(f"{file.name} has the columns {_in_words(file.schema)}, and {files[0].name} has {_in_words(files[0].schema)}: the files of a "
                              "source have the same; choose some by columns=, or files by files=")
        return files

    def _look(self, name: str) -> _File:
        version = self._stored.version(name)
        try:
            with self._file(name) as file:
                digest = _digest(file)
                found = pq.ParquetFile(file)
                metadata, schema = found.metadata, found.schema_arrow
                _check_rows(metadata)
        except Error:  # of the cache that reads objects
            raise
        except _FAILURES as error:
            raise _not_readable(name, error) from error
        return _File(name, version, metadata, self._chosen(name, schema), digest)

    def _file(self, name: str) -> Any:
        """Returns a file of Python's, or of pyarrow's."""
        if self._stored.cache is None:
            return open(self._stored.path(name), "rb")
        keys = self._pieces[name]
        if len(keys) == 1:
            return pa.BufferReader(pa.py_buffer(self._stored.cache[keys[0]]))
        return io.BufferedReader(_Pieces(self._stored.cache, keys, self._turns), 1 << 16)

    def _chosen(self, name: str, schema: Any) -> Any:
        """Returns the columns that were asked for, of plain types."""
        wanted = schema.names if self._columns is None else self._columns
        fields = []
        for column in wanted:
            if schema.names.count(column) != 1:
                raise invalid(f"{name} has {schema.names.count(column)} columns {column!r:.80}; it has {', '.join(schema.names)}: name one of them, once")
            fields.append(pa.field(column, _plain(schema.field(column).type, name, column)))
        if len({*wanted}) != len(fields) or not fields:
            raise invalid(f"the columns {', '.join(wanted)} are no list of different names, with one at least")
        if self._value and _number_of(fields[0].type) is None and not _is_bytes(fields[0].type):
            raise invalid(f"the column {self._value} of {name} is {fields[0].type}: values= takes texts, bytes, numbers, and lists of numbers; use "
                          "columns=, and reader")
        return pa.schema(fields)

    # ---- Rows ------------------------------------------------------------------------------------------------------

    def _load(self, number: int) -> tuple[Any, int]:
        of_file, group = self._groups[number]
        file = self._files[of_file]
        try:
            with self._file(file.name) as opened:
                found = pq.ParquetFile(opened, metadata=file.metadata, pre_buffer=True, page_checksum_verification=True)
                table = found.read_row_group(group, columns=self.schema.names).select(self.schema.names)
            batches = table.cast(self.schema).combine_chunks().to_batches()
            for batch in batches:
                batch.validate(full=True)
        except Error:
            raise
        except _FAILURES as error:
            raise _not_readable(self._names[number], error) from error
        if self._stored.cache is None:
            self._stored.check_version(file.name, file.version)
        if table.num_rows != file.metadata.row_group(group).num_rows:
            raise _not_readable(self._names[number], f"it has {table.num_rows} rows, and {file.metadata.row_group(group).num_rows} are said")
        ends = list(accumulate(batch.num_rows for batch in batches))
        return (batches, ends), sum(batch.get_total_buffer_size() for batch in batches)

    def _sample(self, unit: Any, place: int) -> Any:
        batches, ends = unit
        of = bisect_right(ends, place)
        row = batches[of].slice(place - (ends[of - 1] if of else 0), 1)
        return row.serialize() if self._value is None else _bytes_of(row.column(0), self._value)

    def find(self, name: str) -> int:
        """Returns the key of a row, given the name of its file and its number there: "part-0.parquet/7"."""
        wanted, _, row = name.rpartition("/")
        for number, file in enumerate(self._files):
            if file.name == wanted and row.isascii() and row.isdigit() and int(row) < file.metadata.num_rows:
                return self._ends_of_files[number] - file.metadata.num_rows + int(row)
        raise error_of(lib.HKT_ERROR_NOT_FOUND, f"there is no row {name!r:.80}; names are those of files, with the number of a row: {self._files[0].name}/0")


def _not_listed(error: OSError) -> None:
    raise error_of(lib.HKT_ERROR_IO, f"the folder {error.filename} cannot be read: {error.strerror}; check that it may be read")


def _is_hidden(name: str) -> bool:
    """Returns True for files that are no data to other readers, either: their name, or a folder's, begins with "_" or "."."""
    return any(part.startswith(("_", ".")) for part in name.split("/"))


def _digest(file: Any) -> str:
    """Returns a digest of what the end of a file says of its columns. Raises OSError for what is no Parquet file."""
    size = file.seek(0, os.SEEK_END)
    size = file.tell() if size is None else size
    file.seek(max(size - 8, 0))
    end = bytes(file.read(8))
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _MARK or length + 12 > size:
        raise OSError("it does not end as a Parquet file does; check that it is whole, and not encrypted")
    file.seek(size - 8 - length)
    digest = hashlib.sha256(file.read(length)).hexdigest()
    file.seek(0)
    return digest


def _check_rows(metadata: Any) -> None:
    """Raises OSError if the numbers of a file's rows and bytes cannot be: it is damaged where no checksum shows it."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    sizes = [group.column(place).total_uncompressed_size for group in groups for place in range(group.num_columns)]
    rows = [group.num_rows for group in groups]
    if min(rows, default=0) < 0 or min(sizes, default=0) < 0 or sum(rows) != metadata.num_rows:
        raise OSError(f"its row groups have {sum(rows)} rows, and it has {metadata.num_rows}, or their sizes are below 0; it is damaged")


def _not_readable(name: str, error: Any) -> Exception:
    return error_of(lib.HKT_ERROR_IO, f"{name} cannot be read as Parquet: {error}")


def _size(group: Any, names: list[str]) -> int:
    """Returns the bytes of the columns of a row group, as they are before they are compressed."""
    chosen = set(names)
    columns = (group.column(place) for place in range(group.num_columns))
    return sum(column.total_uncompressed_size for column in columns
               if column.path_in_schema in chosen or column.path_in_schema.partition(".")[0] in chosen)


def _in_words(schema: Any) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _plain(kind: Any, name: str, column: str) -> Any:
    """Returns the type whose values a row can have by itself: a dictionary would go with every row."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    for is_view, plain in _VIEWS:
        if is_view(kind):
            return plain()
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type, name, column)
    for inner in _within(kind):
        if not _plain(inner, name, column).equals(inner):
            raise invalid(f"the column {column} of {name} is {kind}, with {inner} inside: choose others by columns=, or write it of plain types")
    return kind


# A row of a view would carry the values of all rows. By name, as pyarrow 15 has no tests for them.
_VIEWS = [(getattr(pa.types, test), plain) for test, plain in (("is_string_view", pa.string), ("is_binary_view", pa.binary))
          if hasattr(pa.types, test)]


def _is_list(kind: Any) -> bool:
    return any(is_kind(kind) for is_kind in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def _within(kind: Any) -> list[Any]:
    """Returns the types inside of a nested type."""
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    if pa.types.is_struct(kind):
        return [kind[place].type for place in range(kind.num_fields)]
    return [kind.value_type] if _is_list(kind) else []


def _is_bytes(kind: Any) -> bool:
    return any(is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary,
                                             pa.types.is_fixed_size_binary))


def _number_of(kind: Any) -> Any:
    """Returns the type of NumPy's for a number, or for those in lists; None for others."""
    while _is_list(kind):
        kind = kind.value_type
    if pa.types.is_floating(kind):
        return np.dtype(f"float{kind.bit_width}")
    if pa.types.is_boolean(kind):
        return np.dtype(bool)
    return np.dtype(str(kind)) if pa.types.is_integer(kind) else None


def _bytes_of(column: Any, name: str) -> Any:
    """Returns the bytes of the one value of a column."""
    while column.null_count == 0 and _is_list(column.type):
        column = column.flatten()
    if column.null_count > 0:
        raise invalid(f"the column {name} has a null in this row, which has no bytes: fill it, or use columns=, and reader")
    if _number_of(column.type) is not None:
        return column.to_numpy(zero_copy_only=False).astype(_number_of(column.type), copy=False)
    value = column[0].as_py()
    return value.encode() if isinstance(value, str) else value
