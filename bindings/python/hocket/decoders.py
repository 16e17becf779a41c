"""Functions for decode= of a cache (docs/cache.md). They can be imported, so a SharedCache takes them, too."""
from __future__ import annotations

import bz2
import importlib
import zlib
from typing import Any

from hocket.errors import invalid


def decompress(key: int, encoded: Any) -> bytes:
    """Returns what a sample was before gzip, bzip2, zstd or lz4 (its frame format) made it smaller. The disk keeps it as it
    came, and memory has the result:

        cache = hocket.Cache(source, decode=hocket.decoders.decompress, decoder="decompress")

    zstd needs Python 3.14 or the package zstandard, lz4 the package lz4. Other threads run while it works."""
    rest, found = memoryview(encoded).cast("B"), []
    while len(rest) > 0:  # a sample may be several compressed pieces
        name, one = _decompressor(f"sample {key}", rest)
        while not one.eof:
            if len(rest) == 0:
                raise invalid(f"sample {key} cannot be decompressed by {name}: it is cut off")
            part = rest[:_PIECE]  # what follows the piece is copied, so it is not to be all of the sample
            try:
                found.append(one.decompress(part))
            except Exception as error:  # each library has one of its own
                raise invalid(f"sample {key} cannot be decompressed by {name}: {error}") from error
            rest = rest[len(part) - len(one.unused_data or b""):]
    return found[0] if len(found) == 1 else b"".join(found)


_ZLIB = type(zlib.decompressobj())
_PIECE = 1 << 16  # of compressed bytes
_SMALL_PIECE = 512  # for a library that cannot be told how much to make: at most some 16 MiB come of it


def expand(what: str, data: Any, size: int) -> bytearray:
    """Returns what data was before it was compressed, which has `size` bytes. What makes more is refused before it is made, but for
    what a small piece becomes. what: names it in errors."""
    rest, made, filled = memoryview(data).cast("B"), bytearray(size), 0
    while len(rest) > 0:
        name, one = _decompressor(what, rest)
        while not one.eof:
            try:
                more, rest = _next(one, rest, size - filled + 1)
            except EOFError:
                raise invalid(f"{what} cannot be decompressed by {name}: it is cut off") from None
            except Exception as error:  # each library has one of its own
                raise invalid(f"{what} cannot be decompressed by {name}: {error}") from error
            if filled + len(more) > size:
                raise invalid(f"{what} has more than {size} bytes when it is decompressed, which it should have")
            made[filled:filled + len(more)] = more
            filled += len(more)
        # Another piece may follow, compressed by itself.
        left = len(one.unused_data or b"")
        rest = memoryview(data).cast("B")[len(data) - len(rest) - left:]
    if filled < size:
        raise invalid(f"{what} has {filled} bytes when it is decompressed, and should have {size}")
    return made


def _next(one: Any, rest: memoryview, most: int) -> tuple[bytes, memoryview]:
    """Returns the next bytes, at most `most` of them where the library can, and the rest of what is compressed. Raises EOFError at
    the end of that."""
    waiting = one.unconsumed_tail if isinstance(one, _ZLIB) else b""  # the others keep what waits
    if waiting or not getattr(one, "needs_input", True):
        return one.decompress(waiting, most), rest
    if len(rest) == 0:
        raise EOFError
    is_bounded = isinstance(one, _ZLIB) or hasattr(one, "needs_input")
    piece = _PIECE if is_bounded else _SMALL_PIECE
    return one.decompress(rest[:piece], *([most] if is_bounded else [])), rest[piece:]


def _decompressor(what: str, data: memoryview) -> tuple[str, Any]:
    """Returns the method that the data's first bytes name, and an object that has decompress(), eof and unused_data."""
    begin = bytes(data[:4])
    if begin[:2] == b"\x1f\x8b":
        return "gzip", zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    if begin[:3] == b"BZh":
        return "bzip2", bz2.BZ2Decompressor()
    if begin == b"\x28\xb5\x2f\xfd":
        try:
            return "zstd", importlib.import_module("compression.zstd").ZstdDecompressor()
        except ModuleNotFoundError:  # before Python 3.14
            return "zstd", _package("zstandard", "zstd", what).ZstdDecompressor().decompressobj()
    if begin == b"\x04\x22\x4d\x18":
        return "lz4", _package("lz4.frame", "lz4", what).LZ4FrameDecompressor()
    raise invalid(f"{what} begins with {begin!r}, as nothing does that gzip, bzip2, zstd or lz4 has compressed: read it without "
                  "decode=hocket.decoders.decompress")


def _package(name: str, method: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        raise ModuleNotFoundError(f"{what} is compressed by {method}, which needs the package {package}: pip install {package}",
                                  name=package) from error
