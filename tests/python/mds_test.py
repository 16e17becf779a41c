#!/usr/bin/python3
"""MDS shards that are compressed as a whole: in a folder and by URL, damaged in all ways, and under many threads.

usage: mds_test.py HOCKET_CACHE     (PYTHONPATH has the package)

HOCKET_TEST_STREAMING is the folder in which PyPI's mosaicml-streaming is unpacked, with what its writer imports installed: then
its shards are read, too. Those of this test are written by hand, as its documentation says."""
import bz2
import contextlib
import gzip
import hashlib
import importlib
import itertools
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
import unittest
import warnings

import running

running.need_package()

import hocket
from hocket.decoders import expand
from hocket.shards import CompressedMds
from hocket.units import Kept
from object_server import ObjectServer

HOCKET_CACHE = sys.argv[1] if len(sys.argv) > 1 else "hocket-cache"


def raw_shard(samples):
    """A shard as Mosaic writes it, of samples as they are stored."""
    settings = json.dumps({"version": 2, "format": "mds", "size_limit": 1 << 26}).encode()
    ends = list(itertools.accumulate([4 * (len(samples) + 2) + len(settings)] + [len(one) for one in samples]))
    return struct.pack(f"<{len(ends) + 1}I", len(samples), *ends) + settings + b"".join(samples)


def ways():
    yield "gz", gzip.compress
    yield "bz2", bz2.compress
    if running.has("zstandard"):
        yield "zstd", importlib.import_module("zstandard").ZstdCompressor().compress


def without_hashes(shard):
    return shard | {"zip_data": shard["zip_data"] | {"hashes": {}}}


class Made:
    """A dataset: files by name, index.json among them, and what its samples' columns are."""

    def __init__(self, method="gz", compress=gzip.compress, shards=4, each=25):
        chance = random.Random(4)
        self.columns, self.files, described = [], {}, []
        for number in range(shards):
            columns = [{"label": chance.randbytes(8), "text": b"words " * chance.randrange(90), "name": chance.randbytes(chance.randrange(9))}
                       for _ in range(each)]
            raw = raw_shard([struct.pack("<2I", len(one["text"]), len(one["name"])) + one["label"] + one["text"] + one["name"] for one in columns])
            name, data = f"shard.{number:05}.mds", compress(raw)
            self.columns += columns
            self.files[f"{name}.{method}"] = data
            described.append({"format": "mds", "compression": method + ":6", "hashes": ["sha1"], "samples": each, "version": 2,
                              "column_names": ["label", "text", "name"], "column_encodings": ["bytes"] * 3, "column_sizes": [8, None, None],
                              "raw_data": {"basename": name, "bytes": len(raw), "hashes": {}},
                              "zip_data": {"basename": f"{name}.{method}", "bytes": len(data), "hashes": {"sha1": hashlib.sha1(data).hexdigest()}}})
        self.describe(described)

    def describe(self, shards):
        self.shards = shards
        self.index = json.dumps({"version": 2, "shards": shards})
        self.files["index.json"] = self.index.encode()

    def write(self, folder):
        for name, data in self.files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)


@contextlib.contextmanager
def without_settings():
    """Of caches, and of clouds."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith(("AWS_", "HOCKET_CACHE"))]:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Case(unittest.TestCase):
    def check(self, made, cache, shards):
        self.assertEqual(len(cache), len(made.columns))
        order = list(range(len(cache)))
        random.Random(1).shuffle(order)
        for key, sample in zip(order, cache.get_batch(order)):
            self.assertEqual({name: bytes(part) for name, part in shards.columns(sample).items()}, made.columns[key])

    def refused(self, kind, text, call):
        self.assertRaisesRegex(kind, text, call)


class Local(Case):
    def test_each_method(self):
        for method, compress in ways():
            with self.subTest(method=method), tempfile.TemporaryDirectory() as folder:
                made = Made(method, compress)
                made.write(folder)
                shards = CompressedMds(folder)
                with hocket.Cache(shards) as cache:
                    self.check(made, cache, shards)
                    self.assertEqual(cache.find("shard.00002.mds/3"), 53)
                    for name in ("shard.00002.mds/25", "shard.00002.mds", "other/1", "shard.00002.mds/x"):
                        self.refused(hocket.NotFoundError, "names are those of shards", lambda name=name: cache.find(name))
                    self.refused(hocket.NotFoundError, "", lambda: cache[100])
                self.assertEqual(shards.stats()["loads"], 4)

    def test_disk_and_processes(self):
        """What lies on the disk is that of this dataset, and other processes open the source anew."""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as disk:
            made = Made()
            made.write(folder)
            shards = CompressedMds(folder)
            with hocket.Cache(shards, folder=disk, disk="64MiB", store="all") as cache:
                self.check(made, cache, shards)
            again = CompressedMds(folder)
            self.assertEqual(again.dataset, shards.dataset)
            with hocket.Cache(again, folder=disk, disk="64MiB") as cache:
                self.check(made, cache, again)
            self.assertEqual(again.stats()["loads"], 0)
            here = os.getcwd()
            os.chdir(os.path.dirname(folder))
            try:
                relative = CompressedMds(os.path.basename(folder))
                os.chdir("/")
                with hocket.SharedCache(relative, memory="64MiB") as shared:  # opened there, from its path
                    self.assertEqual(bytes(shared[99]), shards(99))
            finally:
                os.chdir(here)
            with hocket.SharedCache(again, memory="64MiB") as shared:
                self.assertEqual(len(shared), 100)
                self.assertEqual(bytes(shared[99]), shards(99))
            os.utime(os.path.join(folder, "shard.00001.mds.gz"))
            self.assertNotEqual(CompressedMds(folder).dataset, shards.dataset)
            with hocket.Cache(again) as cache:
                self.assertEqual(bytes(cache[0]), shards(0))
                self.refused(hocket.IOError, "", lambda: cache[30])
                self.refused(hocket.IOError, "shard.00001.mds.gz has changed since the source was opened", lambda: again(30))

    def test_bounded(self):
        """Of all threads together, and with a message that says what it costs."""
        with tempfile.TemporaryDirectory() as folder:
            made = Made(shards=12)
            made.write(folder)
            largest = max(shard["raw_data"]["bytes"] for shard in made.shards)
            with self.assertWarnsRegex(UserWarning, "12 shards take .* in a shuffled order, a first epoch loads a whole shard, of .* for 8.% of its samples"):
                shards = CompressedMds(folder, kept=2 * largest)
            with hocket.Cache(shards, workers=16) as cache:
                self.check(made, cache, shards)
            self.assertLessEqual(shards.stats()["most_bytes"], 2 * largest)
            self.assertGreater(shards.stats()["loads"], 12)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                CompressedMds(folder)
            self.refused(hocket.LimitError, "shard.000.* takes .* in memory, and at most .* are kept: give a larger kept=", lambda: CompressedMds(folder, kept=largest - 1))

    def test_damage(self):
        """Each length of a shard, and bits of it: an error that names it."""
        made = Made(shards=1, each=5)
        name = "shard.00000.mds.gz"
        whole = made.files[name]
        chance = random.Random(6)
        for with_hashes in (True, False):
            if not with_hashes:
                made.describe([without_hashes(made.shards[0])])
            with tempfile.TemporaryDirectory() as folder:
                for length in range(len(whole)):
                    made.files[name] = whole[:length]
                    made.write(folder)
                    self.refused(hocket.Error, name, lambda: CompressedMds(folder)(0))
                for _ in range(300):
                    wrong = bytearray(whole)
                    wrong[chance.randrange(len(wrong))] ^= 1 << chance.randrange(8)
                    made.files[name] = bytes(wrong)
                    made.write(folder)
                    try:
                        self.assertEqual(CompressedMds(folder)(0)[8:16], made.columns[0]["label"])  # such as the time in gzip's header
                        self.assertFalse(with_hashes)
                    except hocket.Error as error:
                        self.assertIn(name, str(error))

    def test_arbitrary_shards(self):
        """Which are compressed well: samples that lie in them, or an error."""
        made = Made(shards=1, each=5)
        raw = gzip.decompress(made.files["shard.00000.mds.gz"])
        chance = random.Random(8)
        found = 0
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(400):
                wrong = bytearray(raw)
                for _ in range(chance.randrange(1, 4)):
                    wrong[chance.randrange(32)] = chance.choice((0, 1, 5, 6, 255, chance.randrange(256)))
                data = gzip.compress(wrong, 1)
                made.files["shard.00000.mds.gz"] = data
                made.describe([without_hashes(made.shards[0])])
                made.write(folder)
                shards = CompressedMds(folder)
                try:
                    self.assertLessEqual(sum(len(shards(key)) for key in range(5)), len(raw))
                    found += 1
                except hocket.IOError as error:
                    self.assertRegex(str(error), "shard.00000.mds.gz is no shard of MDS with the 5 samples")
        self.assertGreater(found, 10)

    def test_wrong_indexes(self):
        made = Made(shards=1)
        shard = made.shards[0]
        with tempfile.TemporaryDirectory() as folder:
            self.refused(hocket.InvalidArgumentError, "the index.json of .* cannot be read: .*pass its text as index=", lambda: CompressedMds(folder))
            self.refused(hocket.InvalidArgumentError, "source_index is for URLs", lambda: CompressedMds(folder, made.index, source_index="x"))
            made.write(folder)
            for change, words in (({"compression": "br"}, "compressed by 'br'"), ({"samples": -1}, "no index.json"), ({"samples": "7"}, "no index.json"),
                                  ({"zip_data": None}, "no index.json"), ({"raw_data": {}}, "no index.json"), ({"format": "json"}, "no MDS"),
                                  ({"zip_data": {"basename": "../x"}}, "not below"), ({"zip_data": {"basename": "none"}}, "none cannot be read: No such file")):
                index = json.dumps({"shards": [shard | change]})
                self.refused(hocket.Error, words, lambda: CompressedMds(folder, index))
            index = json.dumps({"shards": [shard | {"samples": shard["samples"] + 1}]})
            self.refused(hocket.IOError, "with the 26 samples", lambda: CompressedMds(folder, index)(0))
            for more, words in ((1, "should have"), (-1, "which it should have")):
                index = json.dumps({"shards": [shard | {"raw_data": shard["raw_data"] | {"bytes": shard["raw_data"]["bytes"] + more}}]})
                self.refused(hocket.InvalidArgumentError, words, lambda: CompressedMds(folder, index)(0))
        self.refused(hocket.InvalidArgumentError, "is no source beside read=", lambda: hocket.Cache(lambda key: b""))

    def test_expand(self):
        """Pieces that follow each other, and one that would become too long, of which no more is made."""
        chance = random.Random(2)
        plain = chance.randbytes(300000) + b"x" * 300000
        for _, compress in ways():
            self.assertEqual(expand("x", compress(plain[:9]) + compress(plain[9:]), len(plain)), plain)
            self.refused(hocket.InvalidArgumentError, "x has more than 599999 bytes", lambda: expand("x", compress(plain), len(plain) - 1))
            self.refused(hocket.InvalidArgumentError, "x begins with", lambda: expand("x", compress(plain) + b"more", len(plain)))
            large = compress(bytes(100 << 20))
            tracemalloc.start()
            self.refused(hocket.InvalidArgumentError, "x has more than 1000 bytes", lambda: expand("x", large, 1000))
            self.assertLess(tracemalloc.get_traced_memory()[1], 32 << 20)
            tracemalloc.stop()

    def test_uncompressed_among_them(self):
        made = Made(shards=2)
        first = made.shards[0]
        made.files["shard.00000.mds"] = gzip.decompress(made.files.pop("shard.00000.mds.gz"))
        made.describe([first | {"compression": None, "zip_data": None}, made.shards[1]])
        with tempfile.TemporaryDirectory() as folder:
            made.write(folder)
            shards = CompressedMds(folder)
            with hocket.Cache(shards) as cache:
                self.check(made, cache, shards)


class ByUrl(Case):
    def index(self, folder, server, made):
        path = os.path.join(folder, "an.index")
        done = subprocess.run([HOCKET_CACHE, "index", path, *(f"{server.url}/data/{name}" for name in made.files)], capture_output=True, text=True,
                              timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"4 shards are compressed as a whole, such as shard.00000.mds.gz, .*CompressedMds .*costs its whole shard")
        return path

    def test_each(self):
        made = Made()
        objects = {f"data/{name}": data for name, data in made.files.items()}
        with without_settings(), tempfile.TemporaryDirectory() as folder, ObjectServer(objects) as server:
            path = self.index(folder, server, made)
            shards = CompressedMds(f"{server.url}/data", source_index=path)
            asked = len(server.requests)
            with hocket.Cache(shards) as cache:
                self.check(made, cache, shards)
            self.assertEqual(len(server.requests), asked + 4)
            server.planned = ["flip", "cut", "503", "reset"]
            again = CompressedMds(f"{server.url}/data", made.index, source_index=path)
            with hocket.Cache(again) as cache:
                self.check(made, cache, again)

    def test_s3(self):
        made = Made()
        objects = {f"data/{name}": data for name, data in made.files.items()}
        with without_settings(), ObjectServer(objects, bucket="b", keys={"A": ("secret", "")}) as server:
            os.environ.update(AWS_ENDPOINT_URL=server.url, AWS_ACCESS_KEY_ID="A", AWS_SECRET_ACCESS_KEY="secret", HOCKET_CACHE_SERVERS="127.0.0.1:1")
            shards = CompressedMds("s3://b/data")
            os.environ.pop("HOCKET_CACHE_SERVERS")
            with hocket.Cache(shards) as cache:
                self.check(made, cache, shards)
                server.objects["data/shard.00000.mds.gz"] = b"another"
            other = CompressedMds("s3://b/data")
            self.refused(hocket.IOError, "the sha1 of shard.00000.mds.gz is .*, and .* in index.json", lambda: other(3))
            del server.objects["data/index.json"]
            self.refused(hocket.InvalidArgumentError, "pass its text as index=", lambda: CompressedMds("s3://b/data"))


class Keeping(unittest.TestCase):
    """What bounds the memory, by itself."""

    def test_random_use(self):
        """Threads that lend units of random sizes: what they have is right, and never more than there may be."""
        sizes = [random.Random(number).randrange(1, 50) for number in range(20)]
        inside: list[int] = []
        lock = threading.Lock()
        problems: list[str] = []

        def load(number):
            with lock:
                if number in inside:
                    problems.append(f"{number} is loaded twice at once")
                inside.append(number)
            with lock:
                inside.remove(number)
            if random.random() < 0.1:
                raise LookupError("it is not there")
            return [number], sizes[number]

        kept = Kept(100, load, str, 60)

        def use(seed):
            chance = random.Random(seed)
            for _ in range(500):
                number = chance.randrange(20)
                try:
                    with kept.lend(number, sizes[number]) as unit:
                        if unit != [number]:
                            problems.append(f"{unit} came for {number}")
                except LookupError:
                    pass

        threads = [threading.Thread(target=use, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        self.assertLessEqual(kept.most_bytes, 100)
        self.assertGreater(kept.loads, 20)

    def test_loaded_once(self):
        """Those who wait for a unit get it, though others want its room: each is loaded once."""
        def load(number):
            time.sleep(0.05)
            return [number], 10

        kept = Kept(10, load, str, 60)

        def use(number):
            with kept.lend(number, 10) as unit:
                self.assertEqual(unit, [number])

        threads = [threading.Thread(target=use, args=(number % 2,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(kept.loads, 2)

    def test_patience(self):
        kept = Kept(10, lambda number: ([number], 10), "unit {}".format, 0.05)
        with kept.lend(1, 10):
            with self.assertRaisesRegex(hocket.TimeoutError, "unit 2 was not there within 0.05 s: .*larger kept="):
                with kept.lend(2, 10):
                    pass
        with kept.lend(2, 10) as unit:
            self.assertEqual(unit, [2])
        growing = Kept(10, lambda number: ([number], 11), "unit {}".format, 1)
        with self.assertRaisesRegex(hocket.LimitError, "unit 3 takes 11 bytes in memory, and at most 10 bytes are kept"):
            with growing.lend(3, 5):
                pass


WRITER = '''
import importlib, os, random, sys, types

# Its packages import those of clouds; the writer of files needs none of them.
for name in ("streaming", "streaming.base", "streaming.base.format", "streaming.base.format.mds", "streaming.base.format.base", "streaming.base.storage"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [os.path.join(sys.argv[1], *name.split("."))]
upload = sys.modules["streaming.base.storage.upload"] = types.ModuleType("upload")
upload.CloudUploader = types.SimpleNamespace(
    get=lambda out, *_, **__: os.makedirs(out, exist_ok=True) or types.SimpleNamespace(local=out, remote=None, upload_file=lambda *_: None))
from streaming.base.format.mds.writer import MDSWriter
chance = random.Random(5)
with MDSWriter(columns={"number": "int", "blob": "bytes"}, out=sys.argv[2], compression=sys.argv[3], hashes=sys.argv[4].split(), size_limit=20000) as writer:
    for number in range(200):
        writer.write({"number": number, "blob": chance.randbytes(chance.randrange(900))})
'''


@unittest.skipUnless(os.environ.get("HOCKET_TEST_STREAMING"), "HOCKET_TEST_STREAMING is no folder with PyPI's mosaicml-streaming, unpacked")
class Mosaic(unittest.TestCase):
    """Shards that Mosaic's own writer has made."""

    def test_each(self):
        for method in ("gz", "bz2:9", *(["zstd:7"] if running.has("zstandard") else [])):
            with self.subTest(method=method), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([sys.executable, "-c", WRITER, os.environ["HOCKET_TEST_STREAMING"], folder, method, "xxh64" if method == "gz" else "sha1 xxh64"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                chance = random.Random(5)
                shards = CompressedMds(folder)
                self.assertGreater(len(os.listdir(folder)), 4)
                with hocket.Cache(shards) as cache:
                    self.assertEqual(len(cache), 200)
                    for key, sample in enumerate(cache.get_batch(range(200))):
                        columns = shards.columns(sample)
                        self.assertEqual(int.from_bytes(columns["number"], "little"), key)
                        self.assertEqual(bytes(columns["blob"]), chance.randbytes(chance.randrange(900)))


if __name__ == "__main__":
    sys.exit(running.main())
