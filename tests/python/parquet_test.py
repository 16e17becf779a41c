#!/usr/bin/python3
"""Rows of Parquet files as samples: of all types, in a folder and by URL, with workers, and damaged in all ways.

usage: parquet_test.py HOCKET_CACHE     (PYTHONPATH has the package)
"""
import contextlib
import io
import os
import random
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from typing import Any, Callable

import running

running.need_package()

import numpy as np

import hocket
from object_server import ObjectServer

try:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from hocket.parquet import RowReader, Rows
except ImportError as error:
    print(f"skipped: {error}; Debian has no python3-pyarrow")
    running.write_counts(0, 0, 1)
    sys.exit(77)

HOCKET_CACHE = sys.argv[1] if len(sys.argv) > 1 else "hocket-cache"
TYPES = {
    "number": pa.int64(), "half": pa.float32(), "text": pa.string(), "blob": pa.binary(), "flag": pa.bool_(), "tokens": pa.list_(pa.int32()),
    "deep": pa.list_(pa.list_(pa.string())), "record": pa.struct([("a", pa.int8()), ("b", pa.list_(pa.float64()))]),
    "map": pa.map_(pa.string(), pa.int32()), "day": pa.date32(), "pixels": pa.list_(pa.uint8(), 12),
}


def rows_of(count, seed=0):
    """Rows with all types, and nulls in all places where they may be."""
    chance = random.Random(seed)

    def maybe(make):
        return None if chance.random() < 0.2 else make()

    def text():
        return "".join(chance.choices("aäß€", k=chance.randrange(9)))

    return [{
        "number": number, "half": maybe(lambda: chance.randrange(100) / 4), "text": maybe(text), "blob": maybe(lambda: chance.randbytes(chance.randrange(50))),
        "flag": maybe(lambda: chance.random() < 0.5), "tokens": [chance.randrange(1000) for _ in range(chance.randrange(20))],
        "deep": maybe(lambda: [maybe(lambda: [maybe(text) for _ in range(chance.randrange(3))]) for _ in range(chance.randrange(3))]),
        "record": maybe(lambda: {"a": maybe(lambda: chance.randrange(99)), "b": maybe(lambda: [1.5] * chance.randrange(3))}),
        "map": maybe(lambda: [(text() + str(i), i) for i in range(chance.randrange(3))]),
        "day": maybe(lambda: __import__("datetime").date(2026, 1, chance.randrange(1, 30))), "pixels": [number % 256] * 12,
    } for number in range(count)]


def table_of(rows):
    return pa.Table.from_pylist(rows, schema=pa.schema(list(TYPES.items())))


def bytes_of(rows, group=40, **options):
    buffer = io.BytesIO()
    pq.write_table(table_of(rows) if isinstance(rows, list) else rows, buffer, row_group_size=group, **options)
    return buffer.getvalue()


def files_of(rows, each=100, **options):
    """Files by name, with `each` rows in each of them."""
    return {f"part-{begin // each}.parquet": bytes_of(rows[begin:begin + each], **options) for begin in range(0, len(rows), each)}


def write(folder, files):
    for name, data in files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


@contextlib.contextmanager
def without_settings(**values):
    """Of caches, and of clouds."""
    with unittest.mock.patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith(("AWS_", "HOCKET_CACHE"))]:
            del os.environ[name]
        os.environ.update(values)
        yield


class Case(unittest.TestCase):
    maxDiff = 2000

    def check(self, rows, source, cache):
        self.assertEqual(len(cache), len(rows))
        order = list(range(len(rows)))
        random.Random(1).shuffle(order)
        for key, sample in zip(order, cache.get_batch(order)):
            self.assertEqual(source.reader(sample), rows[key])

    def refused(self, kind, text, call):
        self.assertRaisesRegex(kind, text, call)


class Local(Case):
    def test_each_type(self):
        rows = rows_of(250)
        ways: list[dict[str, Any]] = [{}, {"compression": "zstd", "data_page_version": "2.0"}, {"use_dictionary": False, "compression": "none", "version": "1.0"}]
        for options in ways:
            with self.subTest(options=options), tempfile.TemporaryDirectory() as folder:
                write(folder, files_of(rows, **options) | {"deeper/x.txt": b"no Parquet"})
                source = Rows(folder)
                with hocket.Cache(source) as cache:
                    self.check(rows, source, cache)
                    self.assertEqual(cache.find("part-1.parquet/3"), 103)
                    self.assertEqual(source.reader.table(cache.get_batch([3, 200])), table_of([rows[3], rows[200]]))
                    for name in ("part-2.parquet/50", "part-1.parquet", "part-9.parquet/1", "part-1.parquet/-1"):
                        self.refused(hocket.NotFoundError, "number of a row: part-0.parquet/0", lambda name=name: cache.find(name))
                    self.refused(hocket.NotFoundError, "", lambda: cache[250])
                self.assertEqual(source.stats()["loads"], 8)

    def test_columns(self):
        rows = rows_of(90)
        with tempfile.TemporaryDirectory() as folder:
            write(folder, files_of(rows, each=45) | {"a/b/c.parquet": bytes_of(rows[:10])})
            source = Rows(folder, columns=["text", "record", "number"], files=["part-1.parquet", "part-0.parquet"])
            with hocket.Cache(source) as cache:
                self.check([{name: row[name] for name in ("text", "record", "number")} for row in rows[45:] + rows[:45]], source, cache)
            one = Rows(os.path.join(folder, "part-1.parquet"), columns=["number"])
            self.assertEqual([one.reader(one(key))["number"] for key in range(45)], list(range(45, 90)))
            self.assertEqual(len(Rows(folder)), 100)
            self.assertNotEqual(Rows(folder, columns=["text"]).dataset, Rows(folder, columns=["blob"]).dataset)
            for options, words in (({"columns": ["none"]}, "0 columns 'none'; it has number, half"), ({"columns": []}, "not empty"), ({"columns": "text"}, "a list of names"),
                                   ({"columns": ["text", "text"]}, "different names"), ({"columns": ["a"], "values": "b"}, "one column in its place"),
                                   ({"values": "record"}, "values= takes texts"), ({"files": []}, "one at least"), ({"files": ["../x"]}, "not below"),
                                   ({"files": ["part-0.parquet"] * 2}, "each file once"), ({"files": ["none.parquet"]}, "none.parquet cannot be read"),
                                   ({"source_index": "x"}, "is for URLs")):
                with self.subTest(options=options):
                    self.refused(hocket.Error, words, lambda options=options: Rows(folder, **options))

    def test_values(self):
        """The bytes of one column's values, for tensors."""
        rows = rows_of(60)
        with tempfile.TemporaryDirectory() as folder:
            write(folder, files_of(rows, each=30))
            ways: list[tuple[str, Callable[[Any], bytes]]] = [
                ("tokens", lambda value: np.array(value, np.int32).tobytes()), ("pixels", bytes), ("number", lambda value: value.to_bytes(8, "little")),
                               ("text", str.encode), ("blob", bytes), ("half", lambda value: np.float32(value).tobytes()), ("flag", lambda value: bytes([value]))]
            for name, make in ways:
                source = Rows(folder, values=name)
                with hocket.Cache(source) as cache:
                    for key, row in enumerate(rows):
                        if row[name] is None:
                            self.refused(hocket.InvalidArgumentError, f"the column {name} has a null in this row", lambda key=key: source(key))
                        else:
                            self.assertEqual(bytes(cache[key]), make(row[name]))
            nested = pa.table({"x": pa.array([[[1, 2], [3]], [], [[], [4]]], pa.list_(pa.list_(pa.int16())))})
            pq.write_table(nested, os.path.join(folder, "nested"))
            self.assertEqual([bytes(Rows(os.path.join(folder, "nested"), values="x")(key)) for key in range(3)],
                             [np.array(value, np.int16).tobytes() for value in ([1, 2, 3], [], [4])])

    def test_dictionaries(self):
        """A row has a value, and not a dictionary with all values of the file."""
        values = [f"a long value {number}" for number in range(50)]
        table = pa.table({"x": pa.array([values[number % 50] for number in range(200)] + [None]).dictionary_encode()})
        with tempfile.TemporaryDirectory() as folder:
            pq.write_table(table, os.path.join(folder, "x.parquet"))
            source = Rows(folder)
            self.assertEqual([source.reader(source(key))["x"] for key in (0, 51, 200)], [values[0], values[1], None])
            self.assertLess(len(bytes(source(3))), 400)
            pq.write_table(pa.table({"y": pa.array([["a"]], pa.list_(pa.dictionary(pa.int32(), pa.string())))}), os.path.join(folder, "y.parquet"))
            found = pq.read_schema(os.path.join(folder, "y.parquet")).field("y").type
            if pa.types.is_dictionary(found.value_type):
                self.refused(hocket.InvalidArgumentError, "dictionary.* inside: choose others", lambda: Rows(folder, files=["y.parquet"]))

    def test_disk_and_changes(self):
        rows = rows_of(120)
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as disk:
            write(folder, files_of(rows, each=60))
            for expected in (4, 0):
                source = Rows(folder)
                with hocket.Cache(source, folder=disk, disk="64MiB", store="all") as cache:
                    self.check(rows, source, cache)
                self.assertEqual(source.stats()["loads"], expected)
            write(folder, {"part-1.parquet": bytes_of(rows[60:119])})
            self.refused(hocket.IOError, "part-1.parquet has changed since the source was opened", lambda: source(70))
            self.assertNotEqual(Rows(folder).dataset, source.dataset)

    def test_hidden_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a/part.parquet", "_log/part.parquet", "a/.copies/part.parquet", "a/_part.parquet"):
                os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
                write(folder, {name: bytes_of(rows_of(7))})
            source = Rows(folder)
            self.assertEqual((len(source), source.find("a/part.parquet/6")), (7, 6))
            self.assertEqual(len(Rows(folder, files=["_log/part.parquet", "a/part.parquet"])), 14)

    def test_views(self):
        """A row of a view would carry the values of all rows."""
        if not hasattr(pa, "string_view"):
            self.skipTest("this pyarrow has no views")
        texts = [f"a text that is too long to lie in a view by itself, {number}" for number in range(1000)]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.parquet")
            try:
                pq.write_table(pa.table({"text": pa.array(texts).cast(pa.string_view())}), path)
            except pa.ArrowNotImplementedError:
                self.skipTest("this pyarrow writes no views")
            source = Rows(path)
            self.assertEqual(source.reader(source(7)), {"text": texts[7]})
            self.assertLess(len(memoryview(source(7))), 1000)

    def test_bounded(self):
        rows = rows_of(600)
        with tempfile.TemporaryDirectory() as folder:
            write(folder, files_of(rows, each=300, group=30, use_dictionary=False))
            with self.assertWarnsRegex(UserWarning, "20 row groups take .* a first epoch loads a whole row group, of .* of its samples. Give a larger kept="):
                source = Rows(folder, kept="64KiB")
            with hocket.Cache(source, workers=16, timeout=100) as cache:
                self.check(rows, source, cache)
            self.assertGreater(source.stats()["loads"], 20)
            self.refused(hocket.LimitError, "row group 0 of part-0.parquet takes .*: give a larger kept=, or write smaller ones", lambda: Rows(folder, kept=1000))

    def test_wrong_files(self):
        """Each of some lengths, and bits of the pages: an error that names the file, or rows."""
        rows = rows_of(20)
        whole = bytes_of(rows)
        chance = random.Random(3)
        with tempfile.TemporaryDirectory() as folder:
            self.refused(hocket.NotFoundError, "there are no files ..parquet in", lambda: Rows(folder))
            for length in (*range(20), *range(20, len(whole), 97), len(whole) - 1):
                write(folder, {"x.parquet": whole[:length]})
                self.refused(hocket.IOError, "x.parquet cannot be read as Parquet: it does not end as a Parquet file does", lambda: Rows(folder))
            for data in (b"PAR1" * 4, b"PAR1" + bytes(100) + b"\x40\0\0\0PAR1", b"x" * 5000):
                write(folder, {"x.parquet": data})
                self.refused(hocket.IOError, "x.parquet cannot be read as Parquet", lambda: Rows(folder))
            write(folder, {"x.parquet": whole, "y.parquet": bytes_of(table_of(rows).select(["text"]))})
            self.refused(hocket.InvalidArgumentError, "y.parquet has the columns text string, and x.parquet has number int64, .*: the files of a source have the same",
                         lambda: Rows(folder))
            self.assertEqual(len(Rows(folder, columns=["text"])), 40)
            self.check_flips(folder, bytes_of(rows, write_page_checksum=True), chance)

    def check_flips(self, folder, whole, chance):
        """But not of the end's description of the columns: some of these end the process within pyarrow 26."""
        right = wrong = 0
        end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
        for _ in range(300):
            data = bytearray(whole)
            data[chance.choice((chance.randrange(end), -1 - chance.randrange(4)))] ^= 1 << chance.randrange(8)
            write(folder, {"z.parquet": bytes(data)})
            try:
                source = Rows(folder, columns=["number", "text"], files=["z.parquet"])
                for key in range(len(source)):
                    source.reader(source(key))
                right += 1
            except hocket.Error as error:
                self.assertIn("z.parquet", str(error))
                wrong += 1
        self.assertGreater(right, 20)
        self.assertGreater(wrong, 20)

    def test_arbitrary_samples(self):
        """A reader takes a row apart, or says why not."""
        with tempfile.TemporaryDirectory() as folder:
            write(folder, {"x.parquet": bytes_of(rows_of(3))})
            source = Rows(folder)
            sample, reader, chance = bytes(source(1)), source.reader, random.Random(4)
            for length in range(0, len(sample), 7):
                self.refused(hocket.InvalidArgumentError, "is no row of the columns number, half", lambda length=length: reader(sample[:length]))
            for wrong in (b"", b"x" * 300):
                self.refused(hocket.InvalidArgumentError, "is no row of the columns", lambda wrong=wrong: reader(wrong))
            self.refused(hocket.InvalidArgumentError, "is no row of the columns", lambda: reader(Rows(folder, columns=["text"])(0)))
            for _ in range(500):
                data = bytearray(sample)
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                try:
                    self.assertEqual(list(reader(data)), list(TYPES))
                except (hocket.InvalidArgumentError, ValueError, OverflowError):
                    pass

    def test_without_pyarrow(self):
        code = ("import sys; sys.modules['pyarrow'] = None\ntry:\n    import hocket.parquet\nexcept ModuleNotFoundError as error:\n    print(error.name, error)\n"
                "import hocket.shards")
        status, said = running.run([sys.executable, "-c", code])
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"pyarrow hocket.parquet needs the package pyarrow .*: pip install pyarrow, or hocket\[parquet\]")


class ByUrl(Case):
    """From a server that fails, with an index, and without one."""

    def setUp(self):
        self.rows = rows_of(300)
        for row in self.rows:
            row["blob"] = random.Random(row["number"]).randbytes(20000)
        self.files = files_of(self.rows, each=150)
        self.assertGreater(len(self.files["part-0.parquet"]), 2 << 20)

    def index(self, folder, *sources):
        path = os.path.join(folder, "an.index")
        done = subprocess.run([HOCKET_CACHE, "index", path, *sources], capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def test_http(self):
        objects = {f"data/{name}": data for name, data in self.files.items()}
        with without_settings(), tempfile.TemporaryDirectory() as folder, ObjectServer(objects) as server:
            path = self.index(folder, *(f"{server.url}/{name}" for name in objects))
            source = Rows(f"{server.url}/data", source_index=path)
            server.planned = ["flip", "cut", "503", "reset", "short"]
            with hocket.Cache(source) as cache:
                self.check(self.rows, source, cache)
            self.assertNotEqual(server.planned, ["flip", "cut", "503", "reset", "short"])
            asked = len(server.requests)
            few = Rows(f"{server.url}/data", columns=["number"], source_index=path)
            self.assertEqual([few.reader(few(key))["number"] for key in (0, 299)], [0, 299])
            self.assertLess(len(server.requests) - asked, 8, "the pieces with other columns are not fetched")
            other = self.index(os.path.join(folder, ".."), f"{server.url}/data/part-0.parquet")
            self.assertNotEqual(Rows(f"{server.url}/data", files=["part-0.parquet"], source_index=other).dataset,
                                Rows(f"{server.url}/data", files=["part-0.parquet"], source_index=path).dataset)
            os.remove(other)
            server.objects = {name: data[:len(data) // 2] + b"!" + data[len(data) // 2 + 1:] for name, data in objects.items()}
            changed = Rows(f"{server.url}/data", columns=["blob"], source_index=path)
            self.refused(hocket.Error, "part-0.parquet", lambda: [changed(key) for key in range(150)])
            self.refused(hocket.NotFoundError, "there is no file 'x.parquet' in .* which has 2", lambda: Rows(f"{server.url}/data", files=["x.parquet"], source_index=path))
            for data, words in ((objects["data/part-0.parquet"][:-1], "does not end with PAR1"), (b"PAR1PAR1", "too short"), (b"x" * 50, "does not begin with PAR1")):
                server.objects["data/cut.parquet"] = data
                done = subprocess.run([HOCKET_CACHE, "index", path, f"{server.url}/data/cut.parquet"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, f"cut.parquet: it is no Parquet file: it .*{words.split(' ', 1)[1]}; check that it is whole")

    def test_s3(self):
        objects = {f"data/{name}": data for name, data in self.files.items()} | {"data/other.txt": b"x"}
        with tempfile.TemporaryDirectory() as folder, ObjectServer(objects, bucket="b", keys={"A": ("secret", "")}) as server:
            with without_settings(AWS_ENDPOINT_URL=server.url, AWS_ACCESS_KEY_ID="A", AWS_SECRET_ACCESS_KEY="secret"):
                listed = Rows("s3://b/data", columns=["number", "deep"])
                with hocket.Cache(listed) as cache:
                    self.check([{name: row[name] for name in ("number", "deep")} for row in self.rows], listed, cache)
                with open(self.index(folder, "s3://b/data/"), "rb") as file:
                    server.objects["data/hocket.index"] = file.read()
                source = Rows("s3://b/data")
                with hocket.Cache(source) as cache:
                    self.check(self.rows, source, cache)

    def test_names(self):
        """By which the rows' source finds the pieces."""
        with tempfile.TemporaryDirectory() as folder:
            write(folder, self.files)
            with hocket.Cache(folder, source_index=self.index(folder, folder)) as cache:
                names = [cache.name(key) for key in range(len(cache))]
                self.assertEqual(names[:2], ["part-0.parquet/0", "part-0.parquet/1"])
                self.assertEqual([cache.find(name) for name in names], list(range(len(names))))
                self.refused(hocket.NotFoundError, "there is no sample 99: the source has", lambda: cache.name(99))
                self.assertEqual(b"".join(bytes(cache[key]) for key, name in enumerate(names) if "part-0" in name), self.files["part-0.parquet"])


def numbers_of(batch, keys):
    """A transform of a Dataset: importable, and with a reader that lies in each sample's process."""
    return [READER(sample)["number"] for sample in batch], list(keys)


READER = RowReader(pa.schema([("number", pa.int64()), ("text", pa.string())]))


@unittest.skipUnless(running.has("torch"), "torch is not installed")
class Training(Case):
    def test_dataset(self):
        """Shuffled, with workers, and resumed, as with other sources."""
        import torch

        from hocket.data import Dataset, Sampler

        rows = rows_of(200)
        with tempfile.TemporaryDirectory() as folder:
            write(folder, files_of(rows, each=100))
            with hocket.SharedCache(Rows(folder, columns=["number", "text"]), memory="64MiB") as cache:
                dataset = Dataset(cache, ragged=True, transform=numbers_of)
                self.assertEqual(len(dataset), 200)
                sampler = Sampler(dataset, batch_size=16, seed=7)
                loader = torch.utils.data.DataLoader(dataset, batch_size=None, sampler=sampler, num_workers=2)
                batches = list(loader)
                self.assertTrue(all(numbers == keys for numbers, keys in batches))
                self.assertEqual(sorted(key for _, keys in batches for key in keys), list(range(200)))
                later = Sampler(dataset, batch_size=16, seed=7)
                later.load_state_dict(sampler.state_dict(batches=4))
                rest = list(torch.utils.data.DataLoader(dataset, batch_size=None, sampler=later, num_workers=2))
                self.assertEqual(rest, batches[4:])
                self.refused(IndexError, "there is no sample 200", lambda: dataset[200])
            with hocket.Cache(Rows(folder, values="pixels")) as cache:
                batch = Dataset(cache, dtype=torch.uint8, shape=(3, 4))[[5, 199]]
                self.assertEqual(batch.tolist(), [[[5] * 4] * 3, [[199] * 4] * 3])
            with hocket.Cache(Rows(folder, values="tokens")) as cache:
                ragged = Dataset(cache, dtype=torch.int32, ragged=True)[0:200]
                self.assertEqual([one.tolist() for one in ragged], [row["tokens"] for row in rows])


if __name__ == "__main__":
    sys.exit(running.main())
