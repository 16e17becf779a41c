#!/usr/bin/python3
"""Samples by URL: plain HTTP with ranges, S3 with signatures, and tar shards, from servers that fail.

usage: sources_test.py HOCKET_CACHE RELUCTANT_CURL     (PYTHONPATH has the package)
"""
import contextlib
import gzip
import importlib
import io
import itertools
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock
import urllib.parse
import urllib.request

import running

running.need_package()

import hocket
import object_server
from hocket.decoders import decompress
from hocket.shards import Columns, members
from key_server import KeyServer
from object_server import ObjectServer

HOCKET_CACHE = sys.argv[1] if len(sys.argv) > 1 else "hocket-cache"
RELUCTANT = sys.argv[2] if len(sys.argv) > 2 else "reluctant.so"  # tests/support/reluctant_curl.c
SECRET, TOKEN = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "a/session+token=="
KEYS = {"AKIAIOSFODNN7EXAMPLE": (SECRET, "")}
AWKWARD = ("plain", "a b", "a+b", "ü/ß", "q?x=1&y", "hash#", "per%20cent", "..", "a/../b", "tilde~", "x=y", "quote'\"", "<&>", "deep/er/x.bin")


def objects_of(names, seed=0, most=5000):
    chance = random.Random(seed)
    return {name: chance.randbytes(chance.randrange(1, most)) for name in names}


@contextlib.contextmanager
def environment(**values):
    """Variables of the environment; all of AWS's are unset otherwise."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update({"HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true"} | values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def keys_of(server, key_id="AKIAIOSFODNN7EXAMPLE", secret=SECRET, **more):
    return environment(AWS_ENDPOINT_URL=server.url, AWS_ACCESS_KEY_ID=key_id, AWS_SECRET_ACCESS_KEY=secret, **more)


def whole(path):
    with open(path, "rb") as file:
        return file.read()


def contents(keys, token):
    """A page of a list of a server's own."""
    items = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
    return (f"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>{items}"
            "</ListBucketResult>").encode()


def content(cache):
    """All samples, by name. Asked for at once, so that many are on their way."""
    return [bytes(sample) for sample in cache.get_batch(range(len(cache)))]


def tar_of(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


class Case(unittest.TestCase):
    def refused(self, kind, text, call, *, without=()):
        with self.assertRaisesRegex(kind, text) as caught:
            call()
        for secret in without:
            self.assertNotIn(secret, str(caught.exception))
        return str(caught.exception)


class Plain(Case):
    """A packed object on a plain server."""

    def setUp(self):
        chance = random.Random(5)
        self.samples = [chance.randbytes(chance.randrange(0, 9000)) for _ in range(150)]
        self.data = b"".join(self.samples)
        lines, offset = [], 0
        for sample in self.samples:
            lines.append(f"{offset} {len(sample)}\n")
            offset += len(sample)
        self.objects = {"dir/x.bin": self.data, "dir/x.bin.idx": "".join(lines).encode()}

    def test_ranges(self):
        with environment(), ObjectServer(self.objects) as server, hocket.Cache(f"{server.url}/dir/x.bin") as cache:
            self.assertEqual(content(cache), self.samples)
            asked = len(server.requests)
            self.assertEqual(content(cache), self.samples)
            self.assertEqual(len(server.requests), asked, "a second epoch comes from memory")
            self.assertTrue(all("Authorization" not in headers for _, headers in server.requests))

    def test_index_elsewhere(self):
        with environment(), tempfile.TemporaryDirectory() as folder, ObjectServer(self.objects) as server:
            path = os.path.join(folder, "index")
            with open(path, "wb") as file:
                file.write(self.objects.pop("dir/x.bin.idx"))
            with hocket.Cache(f"{server.url}/dir/x.bin", source_index=path) as cache:
                self.assertEqual(content(cache), self.samples)
            server.objects["elsewhere"] = whole(path)
            with hocket.Cache(f"{server.url}/dir/x.bin", source_index=f"{server.url}/elsewhere") as cache:
                self.assertEqual(content(cache), self.samples)

    def test_faults(self):
        """What is delivered equals the object under faults of all kinds."""
        faults = [one for one in object_server.FAULTS if one != "stall"]
        for seed in range(2):
            with environment(), ObjectServer(self.objects, faults=faults, seed=seed) as server:
                with hocket.Cache(f"{server.url}/dir/x.bin", timeout=120) as cache:
                    server.chance = 0.1  # four damaged answers to one request are an error
                    self.assertEqual(content(cache), self.samples)

    def test_faults_while_it_is_opened(self):
        """The index of a packed object has no checksum: if its answer lies about its length, that is an error."""
        opened = 0
        for fault in [one for one in object_server.FAULTS if one != "stall"]:
            for before in range(3):
                with environment(), ObjectServer(self.objects) as server:
                    server.planned = [None] * before + [fault]
                    try:
                        with hocket.Cache(f"{server.url}/dir/x.bin") as cache:
                            self.assertEqual(content(cache), self.samples)
                        opened += 1
                    except hocket.Error as error:
                        self.assertRegex(str(error), "x.bin")
        self.assertGreater(opened, 12)

    def test_stall(self):
        with environment(), ObjectServer(self.objects) as server, hocket.Cache(f"{server.url}/dir/x.bin", timeout=8) as cache:
            server.planned = ["stall"] * 3
            self.assertEqual(content(cache), self.samples)
            self.assertGreaterEqual(len(server.requests), len(self.samples))

    def test_close_while_stalled(self):
        """Samples that nobody waits for do not hold up the end."""
        with environment(), ObjectServer(self.objects) as server, hocket.Cache(f"{server.url}/dir/x.bin", timeout=86400) as cache:
            server.planned = ["stall"] * 1000
            cache.prefetch(range(100))
            deadline = time.monotonic() + 60
            while len(server.planned) > 950:
                self.assertLess(time.monotonic(), deadline, "nothing is asked for")
                time.sleep(0.01)

    def test_asked_to_wait(self):
        """A server that asks for a longer pause than there is time fails the read at once."""
        with environment(), ObjectServer(self.objects) as server, hocket.Cache(f"{server.url}/dir/x.bin") as cache:
            server.with_failures = {"Retry-After": "3000"}
            server.planned = ["503"]
            self.refused(hocket.TimeoutError, "x.bin: the server answered 503 .SlowDown: Reduce your request rate.; no time is left",
                         lambda: cache[3])
            self.assertEqual(bytes(cache[3]), self.samples[3])

    def test_changed(self):
        for takes_conditions in (True, False):
            with environment(), ObjectServer(dict(self.objects)) as server, hocket.Cache(f"{server.url}/dir/x.bin") as cache:
                server.takes_conditions = takes_conditions
                self.assertEqual(bytes(cache[0]), self.samples[0])
                server.objects["dir/x.bin"] = bytes(len(self.data))
                self.refused(hocket.Error, "it has changed since the source was opened", lambda: cache[1])

    def test_changed_in_length(self):
        """Also where the server's ETag does not say so."""
        with environment(), ObjectServer(dict(self.objects)) as server:
            server.etag = lambda data: '"the same"'
            with hocket.Cache(f"{server.url}/dir/x.bin") as cache:
                server.objects["dir/x.bin"] = self.data + b"!"
                self.refused(hocket.Error, "it has changed since the source was opened: the server answers with", lambda: cache[2])

    def test_no_ranges(self):
        with environment(), ObjectServer(self.objects) as server:
            server.has_ranges = False
            self.refused(hocket.Error, "does not send parts of objects", lambda: hocket.Cache(f"{server.url}/dir/x.bin"))

    def test_missing(self):
        with environment(), ObjectServer(self.objects) as server:
            self.refused(hocket.NotFoundError, "nothing.idx: the server answered 404", lambda: hocket.Cache(f"{server.url}/nothing"))
            self.refused(hocket.NotFoundError, "dir/hocket.index: there is none, .* make one with hocket-cache index",
                         lambda: hocket.Cache(f"{server.url}/dir/"))
            server.planned = ["404 with a page"]
            self.refused(hocket.NotFoundError, "x.bin.idx: the server answered 404: check the address",
                         lambda: hocket.Cache(f"{server.url}/dir/x.bin"), without=("Error response",))

    def test_secrets(self):
        with environment(), ObjectServer(self.objects) as server:
            url = f"http://name:password@127.0.0.1:{server.port}/none?sig=secret"
            self.refused(hocket.NotFoundError, "/none.idx", lambda: hocket.Cache(url), without=("password", "secret"))
            server.planned = ["403 with the query"]
            self.refused(hocket.Error, "403 .Denied", lambda: hocket.Cache(url), without=("password", "secret"))
            with tempfile.TemporaryDirectory() as folder:
                command = [HOCKET_CACHE, "serve", folder, "--listen", "127.0.0.1:0", "--disk", "64MiB", "--source",
                           f"http://name:password@127.0.0.1:{server.port}/dir/x.bin?sig=secret"]
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"HOCKET_SECRET": "of peers"}) as process:
                    assert process.stdout is not None
                    said = process.stdout.readline()
                    process.terminate()
                    said += process.stdout.read()
                self.assertIn(f"of http://127.0.0.1:{server.port}/dir/x.bin from ", said)
                self.assertNotRegex(said, "password|secret")
        with environment(http_proxy="odd://name:password@127.0.0.1:1", no_proxy=""):
            self.refused(hocket.Error, "the proxy is that of", lambda: hocket.Cache("http://host.invalid/x"), without=("password",))
        self.refused(hocket.InvalidArgumentError, "none of https, http and s3", lambda: hocket.Cache("ftp://name:password@x/y"),
                     without=("password",))
        self.refused(hocket.InvalidArgumentError, "names no bucket", lambda: hocket.Cache("s3:///x"))

    def test_redirections(self):
        with environment(), ObjectServer(self.objects) as server, ObjectServer(self.objects) as other:
            server.redirections = {"/a/x.bin": f"http://localhost:{other.port}/dir/x.bin", "/a/x.bin.idx": f"{server.url}/dir/x.bin.idx",
                                   "/loop.idx": f"{server.url}/loop.idx"}
            with hocket.Cache(f"http://name:password@127.0.0.1:{server.port}/a/x.bin") as cache:
                self.assertEqual(content(cache), self.samples)
            self.assertTrue(all("Authorization" in headers for _, headers in server.requests))
            self.assertTrue(other.requests and all("Authorization" not in headers for _, headers in other.requests))
            self.refused(hocket.Error, "loop.idx: Maximum .* redirects followed", lambda: hocket.Cache(f"{server.url}/loop"))

    def test_redirection_to_plain_text(self):
        """What was asked for over TLS is not fetched without it."""
        with tempfile.TemporaryDirectory() as folder, ObjectServer(self.objects) as plain, ObjectServer(self.objects) as server:
            pem = os.path.join(folder, "pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-addext",
                            "subjectAltName=DNS:localhost", "-keyout", pem + ".key", "-out", pem], check=True, capture_output=True)
            server.use_tls(pem, pem + ".key")
            server.redirections = {"/a.idx": f"{plain.url}/dir/x.bin.idx"}
            with environment(CURL_CA_BUNDLE=pem):
                with hocket.Cache(f"https://localhost:{server.port}/dir/x.bin") as cache:
                    self.assertEqual(content(cache), self.samples)
                self.refused(hocket.Error, "redirects .*from https to http", lambda: hocket.Cache(f"https://localhost:{server.port}/a"))
            self.assertEqual(plain.requests, [])
            cases: list[tuple[dict[str, str], str]] = [
                ({}, "signed by an authority of your own, set CURL_CA_BUNDLE"),
                ({"CURL_CA_BUNDLE": "/nonexistent"}, "is that of CURL_CA_BUNDLE, or else AWS_CA_BUNDLE")]
            for variables, words in cases:
                with environment(**variables):
                    self.refused(hocket.Error, words, lambda: hocket.Cache(f"https://localhost:{server.port}/dir/x.bin"))

    def test_at_once(self):
        """No more requests are under way than the cache's depth."""
        with environment(), ObjectServer(self.objects) as server, hocket.Cache(f"{server.url}/dir/x.bin", depth=4, timeout=80) as cache:
            server.planned = ["slow"] * 30
            self.assertEqual([bytes(sample) for sample in cache.get_batch(range(40))], self.samples[:40])
            self.assertLessEqual(server.most_slow, 4)
            self.assertGreater(server.most_slow, 1)

    def test_resolver_that_does_not_answer(self):
        """Neither a deadline nor the end of the process waits for it."""
        code = "import hocket; hocket.Cache('http://never.invalid/x', timeout=2)"
        status, said = running.run([sys.executable, "-c", code], limit_s=60, LD_PRELOAD=RELUCTANT)
        self.assertEqual(status, 1, said)
        self.assertRegex(said, "never.invalid/x.idx: .*HOCKET_TIMEOUT_MS")

    def test_without_bytes(self):
        for has_ranges in (True, False):
            with environment(), tempfile.TemporaryDirectory() as folder, ObjectServer({"d/empty": b""}) as server:
                server.has_ranges = has_ranges
                path = os.path.join(folder, "an.index")
                done = subprocess.run([HOCKET_CACHE, "index", path, f"{server.url}/d/empty"], capture_output=True, text=True, timeout=100)
                self.assertEqual(done.returncode, 0, done.stderr)
                with hocket.Cache(f"{server.url}/d/", source_index=path) as cache:
                    self.assertEqual(content(cache), [b""])

    def test_shorter(self):
        with environment(), ObjectServer(dict(self.objects)) as server, hocket.Cache(f"{server.url}/dir/x.bin") as cache:
            server.takes_conditions = False
            server.objects["dir/x.bin"] = b"short"
            self.refused(hocket.Error, "it has changed since the source was opened", lambda: cache[100])

    def test_no_library(self):
        code = "import hocket; hocket.Cache('http://127.0.0.1:1/x')"
        status, said = running.run([sys.executable, "-c", code], HOCKET_CURL="/nonexistent/libcurl.so")
        self.assertNotEqual(status, 0)
        self.assertRegex(said, "samples cannot be fetched by URL: .*nonexistent.*install libcurl")


class S3(Case):
    def test_signed(self):
        names = [f"train/{name}" for name in AWKWARD] + [f"train/{number:03}" for number in range(30)] + ["other/x", "train2/x"]
        objects = objects_of(names)
        objects["train/folder/"] = b""
        with ObjectServer(objects, bucket="the-bucket", keys=KEYS, page=7) as server, keys_of(server):
            with hocket.Cache("s3://the-bucket/train") as cache:
                inside = sorted((name for name in names if name.startswith("train/")), key=str.encode)
                self.assertEqual(content(cache), [objects[name] for name in inside])
                reads = [headers for path, headers in server.requests if "list-type" not in path and not path.endswith("hocket.index")]
                self.assertEqual({headers.get("If-Match") for headers in reads}, {server.etag(objects[name]) for name in inside})
                for number, name in enumerate(inside):
                    self.assertEqual(cache.find(name.removeprefix("train/")), number)
            with hocket.Cache("s3://the-bucket") as cache:
                self.assertEqual(len(cache), len(names))

    def test_keys_that_xml_cannot_have(self):
        objects = objects_of(["a\x01b", "line\nbreak", "plus+ and blank"])
        with ObjectServer(objects, bucket="b", keys=KEYS, page=2) as server, keys_of(server), hocket.Cache("s3://b/") as cache:
            self.assertEqual(content(cache), [objects[name] for name in sorted(objects)])

    def test_lists_without_an_end(self):
        with ObjectServer({}, bucket="b") as server, environment(AWS_ENDPOINT_URL=server.url):
            numbers = iter(range(10 ** 9))
            for keys in ((["a", "b"], ["a", "b"]), (["c"], ["a"]), ([], [])):
                server.invented = lambda query, keys=keys: contents(keys[next(numbers) % 2], next(numbers))
                self.refused(hocket.Error, "s3://b/: the server's list of objects has no end", lambda: hocket.Cache("s3://b/"))

    def test_library_that_cannot_sign(self):
        """The secret must not go out as a password instead."""
        with ObjectServer(objects_of(["x"]), bucket="b", keys=KEYS) as server, keys_of(server):
            code = "import hocket; hocket.Cache('s3://b/')"
            status, said = running.run([sys.executable, "-c", code], limit_s=60, HOCKET_CURL=RELUCTANT)
            self.assertEqual(status, 1, said)
            self.assertRegex(said, "hocket.index: this libcurl cannot sign requests")
            self.assertEqual(server.requests, [])

    def test_anonymous(self):
        objects = objects_of(["a", "b"])
        with ObjectServer(objects, bucket="open") as server, environment(AWS_ENDPOINT_URL=server.url), hocket.Cache("s3://open/") as cache:
            self.assertEqual(content(cache), [objects["a"], objects["b"]])

    def test_faults(self):
        objects = objects_of([f"{number}" for number in range(100)])
        faults = [one for one in object_server.FAULTS if one not in ("stall", "short")] + ["flip"]
        with ObjectServer(objects, bucket="bucket", keys=KEYS, page=40, chance=0.2, faults=faults) as server, keys_of(server):
            server.checksums = object_server.crc32
            server.planned = ["503", "reset", None, "cut"]  # of the index and the first list, whose bytes have no checksum
            with open_without_faults(server) as cache:
                self.assertEqual(content(cache), [objects[name] for name in sorted(objects)])

    def test_profile_and_token(self):
        objects = objects_of(["x"])
        keys = {"TEMPORARY": (SECRET, TOKEN)}
        with tempfile.TemporaryDirectory() as folder, ObjectServer(objects, bucket="b", keys=keys, region="eu-test-1") as server:
            path = os.path.join(folder, "credentials")
            with open(path, "w") as file:
                file.write(f"[default]\naws_access_key_id = WRONG\naws_secret_access_key = x\n\n[mine]\n# a comment\n"
                           f"aws_access_key_id=TEMPORARY\naws_secret_access_key = {SECRET}\naws_session_token={TOKEN}\nregion = eu-test-1\n")
            with environment(AWS_ENDPOINT_URL=server.url, AWS_SHARED_CREDENTIALS_FILE=path, AWS_PROFILE="mine"):
                with hocket.Cache("s3://b/") as cache:
                    self.assertEqual(content(cache), [objects["x"]])
                os.environ["AWS_REGION"] = "us-east-1"
                self.refused(hocket.Error, "301.*not in the region us-east-1; set AWS_REGION to eu-test-1", lambda: hocket.Cache("s3://b/"))
                del os.environ["AWS_REGION"], os.environ["AWS_PROFILE"]
                self.refused(hocket.Error, f"InvalidAccessKeyId.*keys of profile default of {path} were used", lambda: hocket.Cache("s3://b/"))
                os.environ["AWS_PROFILE"] = "missing"
                self.refused(hocket.InvalidArgumentError, "AWS_PROFILE is missing, but", lambda: hocket.Cache("s3://b/"))

    def test_refused(self):
        with ObjectServer(objects_of(["x"]), bucket="b", keys=KEYS) as server:
            secret = "another secret"
            with keys_of(server, secret=secret):
                self.refused(hocket.Error, r"s3://b/hocket.index: the server answered 403 .SignatureDoesNotMatch.*keys of the environment \(...MPLE\) were used",
                             lambda: hocket.Cache("s3://b/"), without=(secret, "never to be shown"))
            with environment(AWS_ENDPOINT_URL=server.url):
                self.refused(hocket.Error, "403 .AccessDenied.*no keys were found", lambda: hocket.Cache("s3://b/"))
            with keys_of(server):
                self.refused(hocket.NotFoundError, "s3://other/: the server answered 404 .NoSuchBucket", lambda: hocket.Cache("s3://other/"))
                self.refused(hocket.NotFoundError, "there are no samples in s3://b/none", lambda: hocket.Cache("s3://b/none"))
            with environment(AWS_ACCESS_KEY_ID="x"):
                self.refused(hocket.InvalidArgumentError, "AWS_SECRET_ACCESS_KEY is not", lambda: hocket.Cache("s3://b/"))

    def test_expired(self):
        """Keys that expire while the cache is open are looked for again."""
        objects = objects_of([f"{number:03}" for number in range(20)])
        keys = {"OLD": (SECRET, TOKEN), "NEW": (SECRET, "new token")}

        def write(path, key_id):
            with open(path + ".new", "w") as file:
                file.write(f"[default]\naws_access_key_id={key_id}\naws_secret_access_key={SECRET}\naws_session_token={keys[key_id][1]}\n")
            os.rename(path + ".new", path)

        with tempfile.TemporaryDirectory() as folder, ObjectServer(objects, bucket="b", keys=keys) as server:
            path = os.path.join(folder, "credentials")
            write(path, "OLD")
            with environment(AWS_ENDPOINT_URL=server.url, AWS_SHARED_CREDENTIALS_FILE=path), hocket.Cache("s3://b/") as cache:
                self.assertEqual(bytes(cache[0]), objects["000"])
                server.expired.add("OLD")
                self.refused(hocket.Error, "ExpiredToken.*which have expired; renew them", lambda: cache[1], without=(TOKEN,))
                write(path, "NEW")
                self.assertEqual(content(cache), [objects[name] for name in sorted(objects)])

    def test_checksums(self):
        objects = objects_of(["x", "y"])
        with ObjectServer(objects, bucket="b") as server, environment(AWS_ENDPOINT_URL=server.url), hocket.Cache("s3://b/") as cache:
            server.checksums = object_server.crc32
            server.planned = ["flip"]
            self.assertEqual(bytes(cache[0]), objects["x"])
            server.planned = ["flip"] * 100
            self.refused(hocket.Error, "x-amz-checksum-crc32 is", lambda: cache[1])

    def test_changed(self):
        objects = objects_of(["x", "y"])
        with ObjectServer(dict(objects), bucket="b") as server, environment(AWS_ENDPOINT_URL=server.url), hocket.Cache("s3://b/") as cache:
            server.objects["x"] = bytes(reversed(objects["x"]))
            self.refused(hocket.Error, "s3://b/x: it has changed", lambda: cache[0])
            del server.objects["y"]
            self.refused(hocket.NotFoundError, "s3://b/y: the server answered 404", lambda: cache[1])


    def test_no_answer(self):
        """The error names the variable that says where the server is."""
        with environment(AWS_ENDPOINT_URL="http://127.0.0.1:1"):
            self.refused(hocket.IOError, "check the network, and the server http://127.0.0.1:1 .AWS_ENDPOINT_URL", lambda: hocket.Cache("s3://b/"))
        with environment(http_proxy="http://127.0.0.1:1", https_proxy="http://127.0.0.1:1"):
            self.refused(hocket.IOError, "the region us-east-1 .AWS_REGION.*set AWS_ENDPOINT_URL", lambda: hocket.Cache("s3://b/"))


class Given(Case):
    """Keys that a service gives for a time."""

    def setUp(self):
        self.objects = objects_of([f"{number:02}" for number in range(12)])
        self.server = self.enterContext(ObjectServer(self.objects, bucket="b", keys={}))
        self.service = self.enterContext(KeyServer(self.server))
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.token = os.path.join(folder, "token")
        with open(self.token, "w") as file:
            file.write(self.service.token + "\n")
        self.config = os.path.join(folder, "config")
        self.set_command(f"{sys.executable} '{os.path.join(running.HERE, 'key_command.py')}' {self.service.url} {self.token}")
        self.ways = {
            "instance": {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.service.url + "/"},
            "container": {"AWS_CONTAINER_CREDENTIALS_FULL_URI": self.service.url + "/v2/container",
                          "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": self.token},
            "identity": {"AWS_WEB_IDENTITY_TOKEN_FILE": self.token, "AWS_ROLE_ARN": "arn:aws:iam::1:role/r", "AWS_ENDPOINT_URL_STS": self.service.url},
            "command": {"AWS_CONFIG_FILE": self.config},
            "role": {"AWS_CONFIG_FILE": self.config, "AWS_PROFILE": "role", "AWS_ENDPOINT_URL_STS": self.service.url},
        }

    def set_command(self, command):
        with open(self.config, "w") as file:
            file.write(f"[default]\ncredential_process = {command}\n[profile ours]\nregion = eu-1\n"
                       "[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = default\n[profile login]\nsso_session = s\n")

    def enterContext(self, context):  # unittest has it from Python 3.11 on
        entered = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return entered

    def open(self, way, **more):
        with environment(**({"AWS_ENDPOINT_URL": self.server.url} | self.ways[way] | more)):
            return hocket.Cache("s3://b/")

    def test_each(self):
        for way in self.ways:
            with self.subTest(way=way), self.open(way) as cache:
                self.assertEqual(content(cache), [self.objects[name] for name in sorted(self.objects)])
        self.assertEqual(self.service.given, len(self.ways) + 1)  # a role is asked for with keys that are given, too

    def test_a_token_of_the_environment(self):
        with self.open("container", AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="", AWS_CONTAINER_AUTHORIZATION_TOKEN=self.service.token) as cache:
            self.assertEqual(bytes(cache[0]), self.objects["00"])

    def test_they_are_renewed_before_they_end(self):
        """While reads go on, of which none meets keys that have ended."""
        self.objects |= objects_of([f"more{number}" for number in range(300)])
        self.service.lifetime_s = 10
        with self.open("instance") as cache:
            self.server.refusals.clear()
            names, until = iter(enumerate(sorted(self.objects))), time.monotonic() + 60
            while not self.server.expired:
                self.assertLess(time.monotonic(), until)
                key, name = next(names)
                self.assertEqual(bytes(cache[key]), self.objects[name])
                time.sleep(0.04)
            for key, name in itertools.islice(names, 20):
                self.assertEqual(bytes(cache[key]), self.objects[name])
        self.assertEqual(self.server.refusals, [])
        self.assertEqual(self.service.given, 2)

    def test_expired(self):
        """Keys that end earlier than was said are asked for again, by all reads once."""
        for way in self.ways:
            with self.subTest(way=way), self.open(way) as cache:
                self.assertEqual(bytes(cache[0]), self.objects["00"])
                before = self.service.given
                self.server.expired.update(self.server.keys)
                self.assertEqual(content(cache), [self.objects[name] for name in sorted(self.objects)])
                self.assertEqual(self.service.given, before + (2 if way == "role" else 1))

    def test_services_that_fail(self):
        for way in ("container", "instance"):
            self.service.planned = [(500, ""), (429, "")]
            self.open(way).close()
        for way, planned, words in (
                ("container", [(500, "broken")] * 3, "answered 500 .broken.*check AWS_CONTAINER_CREDENTIALS_FULL_URI"),
                ("container", [(200, "{}")], "there are no keys in its answer"),
                ("container", [(200, "<html>")], "no object of JSON"),
                ("container", [(200, '{"AccessKeyId": "a\\nb", "SecretAccessKey": "s"}')], "characters that keys do not have"),
                ("container", [(200, '{"AccessKeyId": "a", "SecretAccessKey": "s", "Expiration": "soon"}')], "is no time"),
                ("identity", [(200, "{}")], "no XML.*AWS_ROLE_ARN"),
                ("instance", [(503, "busy")] * 3, "answered 503 .busy.*AWS_EC2_METADATA_DISABLED"),
                ("instance", [(200, "t"), (200, "role"), (403, "not you")], "403 .not you.*AWS_EC2_METADATA_DISABLED")):
            with self.subTest(way=way, words=words):
                self.service.planned = list(planned)
                self.refused(hocket.IOError, words, lambda way=way: self.open(way), without=(SECRET, self.service.token))
        self.service.planned = []
        with open(self.token, "w") as file:
            file.write("another token")
        self.refused(hocket.IOError, "answered 403 .wrong token", lambda: self.open("container"), without=("another token",))
        self.refused(hocket.IOError, "answered 400.*the role trusts the token", lambda: self.open("identity"), without=("another token",))
        os.remove(self.token)
        self.refused(hocket.IOError, "in AWS_WEB_IDENTITY_TOKEN_FILE cannot be read", lambda: self.open("identity"))

    def test_commands_that_fail(self):
        """Errors name the profile, and have neither the command nor what it has written."""
        keys = '{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "' + SECRET + '"}'
        for command, words in (
                (f"echo {SECRET}; exit 3", "profile default: it ended with the exit code 3; run it by hand"),
                ("kill -9 $$", "signal 9 ended it"), ("/there/is/none", "exit code 127"), ("true", "no object of JSON"),
                (f"echo '{keys.replace('1', '2')}'", "another version than 1"), (f"echo '{keys.replace('AccessKeyId', 'Id')}'", "no keys in its answer"),
                ("yes", "writes more than keys are")):
            with self.subTest(command=command):
                self.set_command(command)
                self.refused(hocket.IOError, words, lambda: self.open("command"), without=(SECRET, command))
        for profile, words in (("login", "sso_session.*--profile login"), ("ours", "no profile of this name with")):
            self.refused(hocket.InvalidArgumentError, words, lambda profile=profile: self.open("command", AWS_PROFILE=profile))

    def test_a_command_that_does_not_end(self):
        """While keys are renewed: closing the source ends it, and what it has started."""
        begun = self.config + ".begun"
        first = f"{sys.executable} '{os.path.join(running.HERE, 'key_command.py')}' {self.service.url} {self.token}"
        self.set_command(f"test -e {begun}.1 || {{ touch {begun}.1; exec {first}; }}; sleep 1000 & echo $! >{begun}; wait")
        self.objects |= objects_of([f"more{number}" for number in range(300)])
        self.service.lifetime_s = 20
        with self.open("command") as cache:
            until = time.monotonic() + 60
            keys = itertools.count()
            while not (os.path.exists(begun) and whole(begun).endswith(b"\n")):
                self.assertLess(time.monotonic(), until)
                bytes(cache[next(keys)])
                time.sleep(0.06)
        with open(begun) as file:
            child = int(file.read())
        while running.is_running(child):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)

    def test_no_service(self):
        """An instance without a role, and none at all: requests are not signed."""
        for change in ({"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"}, {}):
            self.service.has_role = False
            self.refused(hocket.Error, "no keys were found", lambda change=change: self.open("instance", **change))
        self.service.has_role = True
        for status in (400, 403, 404, 405):
            self.service.planned = [(status, "")]
            self.refused(hocket.Error, "no keys were found", lambda: self.open("instance"))

    def set_profiles(self, *lines):
        with open(self.config, "w") as file:
            file.write("\n".join(lines))

    def test_roles(self):
        """With keys of a file, of the instance, of a token, and of another role; signed as Amazon's documentation says."""
        self.service.trusted = {"AKIAASKING": ("a secret/+", "a token==")}
        keys = ("aws_access_key_id = AKIAASKING", "aws_secret_access_key = a secret/+", "aws_session_token = a token==")
        role = ("role_arn = arn:aws:iam::1:role/r", "role_session_name = a+b=c", "external_id = e:/&", "duration_seconds = 1000")
        cases: list[tuple[tuple[str, ...], int, dict[str, str]]] = [
            (("[default]", *role, "source_profile = a", "[profile a]", *keys), 1, {}),
            (("[default]", *role, "source_profile = a", "[profile a]", "role_arn = q", "source_profile = b", "[profile b]", *keys), 2, {}),
            (("[default]", *role, "credential_source = Ec2InstanceMetadata"), 1, self.ways["instance"]),
            (("[default]", *role, "credential_source = EcsContainer"), 1, self.ways["container"]),
            (("[default]", *role, "source_profile = a", "[profile a]", "role_arn = arn:aws:iam::1:role/r", f"web_identity_token_file = {self.token}"), 1, {})]
        for lines, forms, more in cases:
            with self.subTest(lines=lines):
                self.set_profiles(*lines)
                self.service.forms.clear()
                with self.open("role", AWS_PROFILE="", **more) as cache:
                    self.assertEqual(content(cache), [self.objects[name] for name in sorted(self.objects)])
                self.assertEqual(len(self.service.forms), forms)
                self.assertEqual(self.service.forms[-1], {"Action": "AssumeRole", "Version": "2011-06-15", "RoleArn": "arn:aws:iam::1:role/r",
                                                          "RoleSessionName": "a+b=c", "ExternalId": "e:/&", "DurationSeconds": "1000"})

    def test_roles_are_renewed(self):
        """While reads go on, with keys of its source that are renewed, too."""
        self.objects |= objects_of([f"more{number}" for number in range(300)])
        self.service.lifetime_s = 10
        with self.open("role") as cache:
            self.server.refusals.clear()
            until = time.monotonic() + 60
            for key, name in enumerate(sorted(self.objects)):
                self.assertLess(time.monotonic(), until)
                self.assertEqual(bytes(cache[key]), self.objects[name])
                if len(self.server.expired) >= 2:
                    break
                time.sleep(0.04)
        self.assertEqual(self.server.refusals, [])
        self.assertEqual(len(self.service.forms), 2)

    def test_roles_that_fail(self):
        """Errors name the profile and the keys that asked, and have nothing secret."""
        secret = ("aws_access_key_id = AKIAUNKNOWNKEYOFNOBODY", f"aws_secret_access_key = {SECRET}")
        self.set_profiles("[default]", "role_arn = r", "source_profile = a", "[profile a]", *secret)
        config = self.config
        cases: list[tuple[list[tuple[int, str]], str]] = [
            ([], f"answered 403 .InvalidClientTokenId.*the keys of profile a of {config} .*BODY. were used; check the role_arn of the profile default"),
            ([(400, "broken")], "answered 400 .broken"), ([(503, "busy")] * 3, "answered 503 .busy"), ([(200, "{}")], "no XML"),
            ([(200, "<AssumeRoleWithWebIdentityResponse/>")], "no keys in its answer"), ([(200, "<AssumeRoleResponse>")], "no XML")]
        for planned, words in cases:
            with self.subTest(words=words):
                self.service.planned = list(planned)
                self.refused(hocket.IOError, words, lambda: self.open("role", AWS_PROFILE=""), without=(SECRET,))
        echo = f"<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code><Message>not that of x-amz-security-token:a session {SECRET}</Message></Error></ErrorResponse>"
        self.service.planned = [(403, echo)]
        self.refused(hocket.IOError, "SignatureDoesNotMatch: not that of", lambda: self.open("role", AWS_PROFILE=""), without=(SECRET,))
        self.refused(hocket.IOError, "keys were asked for at http://127.0.0.1:1: ", lambda: self.open("role", AWS_PROFILE="", AWS_ENDPOINT_URL_STS="http://127.0.0.1:1"))
        self.service.planned = [(503, ""), (429, ""), (200, self.service.of_sts("AssumeRole"))]
        self.open("role", AWS_PROFILE="").close()
        self.set_profiles("[default]", "role_arn = r", "credential_source = Ec2InstanceMetadata")
        self.service.has_role = False
        self.refused(hocket.IOError, "this instance has no role, whose keys the profile's credential_source names; nobody was asked",
                     lambda: self.open("role", AWS_PROFILE="", **self.ways["instance"]))
        self.set_profiles("[default]", "role_arn = r", "source_profile = a", "[profile a]", "credential_process = exit 3")
        self.refused(hocket.IOError, "credential_process of the profile a: it ended with the exit code 3", lambda: self.open("role", AWS_PROFILE=""))

    def test_refused(self):
        self.refused(hocket.InvalidArgumentError, "fetched from this host, or by https",
                     lambda: self.open("container", AWS_CONTAINER_CREDENTIALS_FULL_URI="http://example.com/v2"))
        self.refused(hocket.InvalidArgumentError, "AWS_ROLE_ARN is not", lambda: self.open("identity", AWS_ROLE_ARN=""))

    def test_by_no_proxy(self):
        """A proxy would see the keys of this host, and has others itself."""
        for way in ("instance", "container"):
            self.refused(hocket.Error, "s3://b/hocket.index: .*127.0.0.1 port 1", lambda way=way: self.open(way, http_proxy="http://127.0.0.1:1"))
        self.assertEqual(self.service.given, 2)

    def test_others_come_first(self):
        self.server.keys.update(KEYS)
        with self.open("identity", AWS_ACCESS_KEY_ID="AKIAIOSFODNN7EXAMPLE", AWS_SECRET_ACCESS_KEY=SECRET) as cache:
            self.assertEqual(bytes(cache[0]), self.objects["00"])
        self.assertEqual(self.service.given, 0)


def open_without_faults(server):
    """Faults of which the checksums say nothing would change the list itself."""
    chance, server.chance = server.chance, 0
    cache = hocket.Cache("s3://bucket/", timeout=120)
    server.chance = chance
    return cache


class Compressed(Case):
    """Samples that gzip, zstd or lz4 has made smaller."""

    def ways(self):
        yield "gzip", gzip.compress
        for package, function in (("zstandard", "ZstdCompressor().compress"), ("lz4.frame", "compress")):
            if running.has(package):
                module = importlib.import_module(package)
                yield package, eval(f"module.{function}", {"module": module})

    def test_each(self):
        chance = random.Random(2)
        plain = [bytes(chance.choices(b"abc", k=chance.randrange(5000))) for _ in range(20)]
        for name, compress in self.ways():
            with self.subTest(name=name), tempfile.TemporaryDirectory() as folder:
                for key, data in enumerate(plain):
                    with open(f"{folder}/{key:02}", "wb") as file:
                        file.write(compress(data[:100]) + compress(data[100:]) if key % 3 == 0 else compress(data))
                with hocket.Cache(folder, decode=decompress, decoder="decompress") as cache:
                    self.assertEqual(content(cache), plain)
                with hocket.SharedCache(folder, decode=decompress, decoder="decompress") as shared:
                    self.assertEqual(bytes(shared[7]), plain[7])
                self.check_damage(compress(plain[1]), plain[1])

    def check_damage(self, data, plain):
        chance = random.Random(3)
        for length in range(len(data)):
            if length:
                self.refused(hocket.InvalidArgumentError, "sample 5 ", lambda length=length: decompress(5, data[:length]))
        for _ in range(2000):  # zstd and lz4 need have no checksum: what changes is refused, or other bytes
            wrong = bytearray(data)
            wrong[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            try:
                decompress(5, wrong)
            except hocket.InvalidArgumentError:
                pass

    def test_many_pieces(self):
        """Shorter and longer than what is decompressed at a time. One as long as all of them takes as long."""
        chance = random.Random(4)
        plain = [chance.randbytes(chance.choice([0, 1, 100, 60_000, 65_536, 300_000])) for _ in range(60)]
        for name, compress in self.ways():
            with self.subTest(name=name):
                data = b"".join(map(compress, plain))
                self.assertEqual(decompress(1, data), b"".join(plain))
                self.refused(hocket.InvalidArgumentError, "sample 1 .* is cut off", lambda data=data: decompress(1, data[:-3]))
                self.refused(hocket.InvalidArgumentError, "sample 1 begins with b'xxxx'", lambda data=data: decompress(1, data + b"xxxx"))

    def test_not_compressed(self):
        self.refused(hocket.InvalidArgumentError, "sample 3 begins with b'plai', as nothing does", lambda: decompress(3, b"plain"))
        self.assertEqual(decompress(3, b""), b"")

    def test_a_package_that_is_missing(self):
        with unittest.mock.patch.dict(sys.modules, {"lz4.frame": None, "zstandard": None, "compression.zstd": None}):
            for begin, package in ((b"\x04\x22\x4d\x18", "lz4"), (b"\x28\xb5\x2f\xfd", "zstandard")):
                self.refused(ModuleNotFoundError, f"needs the package {package}: pip install {package}", lambda begin=begin: decompress(1, begin + b"more"))


class Shards(Case):
    """Tar files as WebDataset packs them."""

    def setUp(self):
        chance = random.Random(7)
        self.samples = {}
        self.objects = {}
        long = "d" * 120 + "/" + "e" * 120
        for shard in range(3):
            files = []
            for number in range(20):
                stem = f"{long}/{number:04}" if number % 5 == 0 else f"{number:04}"
                parts = {"jpg": chance.randbytes(chance.randrange(0, 3000)), "cls": str(number).encode(), "seg.png": b"s"}
                files += [(f"{stem}.{name}", data) for name, data in parts.items()]
                self.samples[f"train-{shard}.tar/{stem}"] = parts
            self.objects[f"data/train-{shard}.tar"] = tar_of(files)

    def index(self, folder, *sources):
        path = os.path.join(folder, "an.index")
        done = subprocess.run([HOCKET_CACHE, "index", path, *sources], capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def check(self, cache):
        self.assertEqual(len(cache), len(self.samples))
        for name, parts in self.samples.items():
            got = members(cache[cache.find(name)])
            self.assertEqual({key: bytes(value) for key, value in got.items()}, parts)

    def test_http(self):
        with environment(), tempfile.TemporaryDirectory() as folder, ObjectServer(dict(self.objects), chance=0.1) as server:
            faults = [one for one in object_server.FAULTS if one != "stall"]
            # Nothing shows yet that an answer lies about its length: that is an error.
            server.faults = [one for one in faults if one not in ("short", "long")]
            path = self.index(folder, *(f"{server.url}/{name}" for name in self.objects))
            with hocket.Cache(f"{server.url}/data", source_index=path) as cache:
                server.faults = faults
                self.check(cache)
            server.objects["data/hocket.index"] = whole(path)
            server.faults = ["flip"]  # which the index's checksums show
            server.chance, server.planned = 0.2, [None]
            server.random.seed(1)  # four flips of one answer are an error: the draws must not depend on the requests before
            with hocket.Cache(f"{server.url}/data/", timeout=100) as cache:
                self.check(cache)

    def test_s3(self):
        with tempfile.TemporaryDirectory() as folder, ObjectServer(self.objects, bucket="b", keys=KEYS) as server, keys_of(server):
            server.objects["data/hocket.index"] = whole(self.index(folder, "s3://b/data/"))
            with hocket.Cache("s3://b/data") as cache:
                self.check(cache)

    def test_changed(self):
        with environment(), tempfile.TemporaryDirectory() as folder, ObjectServer(dict(self.objects)) as server:
            path = self.index(folder, *(f"{server.url}/{name}" for name in self.objects))
            with hocket.Cache(f"{server.url}/data", source_index=path) as cache:
                before = server.objects["data/train-0.tar"]
                server.objects["data/train-0.tar"] = before.replace(b"\0\0\0\0", b"\0\0\1\0")
                self.refused(hocket.Error, "train-0.tar: .*checksum of the index", lambda: cache[0])

    def test_local_is_the_same(self):
        """An index of files has the same text as that of the objects."""
        with environment(), tempfile.TemporaryDirectory() as folder, ObjectServer(self.objects) as server:
            for name, data in self.objects.items():
                os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(data)
            text = whole(self.index(folder, os.path.join(folder, "data")))
            self.assertEqual(text, whole(self.index(folder, *(f"{server.url}/{name}" for name in self.objects))))

    def test_mds(self):
        """As Mosaic's writer packs them, by URL: each sample's columns have the bytes that were written."""
        chance = random.Random(7)
        samples = [(chance.randbytes(8), chance.randbytes(chance.randrange(50)), chance.randbytes(chance.randrange(3))) for _ in range(60)]
        objects, shards = {}, []
        for number in range(3):
            packed = [struct.pack("<2I", len(text), len(name)) + label + text + name for label, text, name in samples[20 * number:20 * number + 20]]
            settings = json.dumps({"version": 2, "format": "mds", "column_names": ["label", "text", "name"], "size_limit": 1 << 26}).encode()
            ends = list(itertools.accumulate([4 * 22 + len(settings)] + [len(one) for one in packed]))
            objects[f"data/shard.{number:05}.mds"] = struct.pack("<22I", 20, *ends) + settings + b"".join(packed)
            shards.append({"format": "mds", "column_names": ["label", "text", "name"], "column_encodings": ["int", "str", "str"],
                           "column_sizes": [8, None, None], "compression": None, "raw_data": {"basename": f"shard.{number:05}.mds"}})
        columns = Columns(json.dumps({"version": 2, "shards": shards}))
        self.assertEqual((columns.names, columns.encodings), (("label", "text", "name"), ("int", "str", "str")))
        with environment(), tempfile.TemporaryDirectory() as folder, ObjectServer(objects) as server:
            path = self.index(folder, *(f"{server.url}/{name}" for name in objects))
            with hocket.Cache(f"{server.url}/data", source_index=path) as cache:
                self.assertEqual([tuple(bytes(part) for part in columns(cache[key]).values()) for key in range(len(cache))], samples)
                self.assertEqual(cache.find("shard.00001.mds/3"), 23)
                sample = bytes(cache[0])
            cut = objects["data/shard.00000.mds"][:-1]
            server.objects["data/shard.00000.mds"] = cut
            done = subprocess.run([HOCKET_CACHE, "index", path, f"{server.url}/data/shard.00000.mds"], capture_output=True, text=True)
            self.assertRegex(done.stderr, "shard.00000.mds: it is no shard of MDS: .*check that it is whole, and not compressed")
        for wrong in (sample[:-1], sample + b"x", b""):
            self.refused(hocket.InvalidArgumentError, "not those of the columns", lambda wrong=wrong: columns(wrong))
        for index, words in (("[]", "no index.json"), ("{", "no index.json"), ('{"shards": [{}]}', "no index.json"), ('{"shards": []}', "0 different"),
                             (json.dumps({"shards": [shards[0] | {"format": "json"}]}), "are 'json', and no MDS"),
                             (json.dumps({"shards": [shards[0] | {"column_sizes": [8, -1, None]}]}), "other sizes"),
                             (json.dumps({"shards": [shards[0], shards[0] | {"column_names": ["a", "b", "c"]}]}), "2 different")):
            self.refused(hocket.InvalidArgumentError, words, lambda index=index: Columns(index))
        for _ in range(3000):  # of anything, the columns or an error
            text = bytearray(sample)
            for _ in range(chance.randrange(4)):
                text[chance.randrange(len(text))] = chance.randrange(256)
            try:
                self.assertEqual(sum(len(part) for part in columns(text).values()), len(text) - 8)
            except hocket.InvalidArgumentError:
                pass

    def test_without_parts(self):
        """A server that sends whole objects alone will do for objects that are one sample each."""
        plain = objects_of([f"data/{number}" for number in range(300)])
        with environment(), tempfile.TemporaryDirectory() as folder, ObjectServer(plain | {"data/x.tar": tar_of([("a", b"1")]), "data/empty": b""}) as server:
            server.has_ranges = False
            path = self.index(folder, *(f"{server.url}/{name}" for name in (*plain, "data/empty")))
            with hocket.Cache(f"{server.url}/data", source_index=path) as cache:
                self.assertEqual(content(cache), [*plain.values(), b""])
            done = subprocess.run([HOCKET_CACHE, "index", path, f"{server.url}/data/x.tar"], capture_output=True, text=True)
            self.assertRegex(done.stderr, "x.tar: the server does not send parts of objects")

    def test_many_at_once(self):
        """Neither are objects asked for one after another, nor read so."""
        plain = objects_of([f"data/{number}" for number in range(256)])
        with environment(), tempfile.TemporaryDirectory() as folder, ObjectServer(plain) as server:
            server.planned = ["slow"] * 512
            self.index(folder, *(f"{server.url}/{name}" for name in plain))
            self.assertGreater(server.most_slow, 16)
            server.most_slow, server.planned = 0, [None] * 256 + ["slow"] * 256
            self.index(folder, *(f"{server.url}/{name}" for name in plain))
            self.assertGreater(server.most_slow, 16)

    def test_files(self):
        """Shards in a folder are a source as they are at a URL, and the tool says how to use the index."""
        for name in ("hocket.index", "elsewhere.index"):
            with self.subTest(name=name), tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
                for shard, data in self.objects.items():
                    os.makedirs(os.path.join(folder, os.path.dirname(shard)), exist_ok=True)
                    with open(os.path.join(folder, shard), "wb") as file:
                        file.write(data)
                data = os.path.join(os.path.realpath(folder), "data")
                path = os.path.join(data if name == "hocket.index" else other, name)
                done = subprocess.run([HOCKET_CACHE, "index", path, data], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"; use it with --source {data}/ --index {path}", done.stdout)
                given = None if name == "hocket.index" else path
                with hocket.Cache(data, source_index=given) as cache:
                    self.check(cache)
                with hocket.Cache(data, source_index=given) as cache:
                    with open(os.path.join(data, "train-0.tar"), "r+b", buffering=0) as file:
                        status = os.fstat(file.fileno())
                        file.seek(600)
                        file.write(b"another")
                        os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
                    self.refused(hocket.IOError, "train-0.tar: .*checksum of the index.*make the index anew", lambda: cache[0])
                done = subprocess.run([HOCKET_CACHE, "warm", other, "--source", data, "--index", path, "--depth", "4"], capture_output=True, text=True)
                self.assertRegex(done.stdout + done.stderr, "checksum of the index")

    def test_different_users(self):
        with environment(), tempfile.TemporaryDirectory() as folder, ObjectServer(self.objects) as server:
            sources = [f"http://{user}@127.0.0.1:{server.port}/data/train-{number}.tar" for number, user in enumerate(("a:b", "c:d"))]
            done = subprocess.run([HOCKET_CACHE, "index", os.path.join(folder, "i"), *sources], capture_output=True, text=True)
            self.assertRegex(done.stderr, "not below one URL")
            self.assertEqual(server.requests, [])

    def test_changes_while_it_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "large")
            with open(path, "wb") as file:
                file.truncate(8 << 30)
            process = subprocess.Popen([HOCKET_CACHE, "index", os.path.join(folder, "i"), path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while process.poll() is None:
                os.utime(path)
                time.sleep(0.01)
            said = process.communicate()[1]
            self.assertEqual(process.returncode, 1)
            self.assertRegex(said, f"{path}: it has changed while it was read")

    def test_wrong(self):
        good = self.objects["data/train-0.tar"]
        twice = tar_of([("a.jpg", b"1"), ("a.jpg", b"2")])
        for data, text in ((good[:700], "cut off"), (b"x" * 1024, "not octal: is it a tar file"), (twice, "two members .jpg")):
            with environment(), tempfile.TemporaryDirectory() as folder, ObjectServer({"x.tar": data}) as server:
                done = subprocess.run([HOCKET_CACHE, "index", os.path.join(folder, "i"), f"{server.url}/x.tar"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, f"x.tar: at byte .*{text}")
                self.assertEqual(os.listdir(folder), [])
        self.refused(hocket.InvalidArgumentError, "no piece of a tar shard", lambda: members(b"x" * 600))


def moto():
    """The server of PyPI's moto[server]: HOCKET_TEST_MOTO, or in the path; None if it is not there."""
    return os.environ.get("HOCKET_TEST_MOTO") or shutil.which("moto_server")


@unittest.skipUnless(moto(), "moto is not installed (python3 -m pip install 'moto[server]'; HOCKET_TEST_MOTO is the path of moto_server)")
class Moto(Case):
    """S3 as others have written it."""

    def put(self, url, data=b""):
        # moto waits for more of what might be a form; and it checks who owns an object, but not signatures.
        owner = "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        headers = {"Content-Type": "application/octet-stream", "Authorization": owner}
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method="PUT"), timeout=60):
            pass

    def test_pages_and_names(self):
        port = running.free_port()
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AWS_"))}
        server = subprocess.Popen([moto(), "-H", "127.0.0.1", "-p", port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=outside)
        try:
            url = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + 60
            while True:
                try:
                    self.put(f"{url}/bucket")
                    break
                except OSError:
                    self.assertLess(time.monotonic(), deadline, "moto_server does not answer")
                    time.sleep(0.1)
            names = [f"train/{name}" for name in AWKWARD if ".." not in name] + [f"train/{number:04}" for number in range(1100)]
            objects = objects_of(names, most=200)
            for name, data in objects.items():
                self.put(f"{url}/bucket/{urllib.parse.quote(name)}", data)
            with environment(AWS_ENDPOINT_URL=url, AWS_ACCESS_KEY_ID="testing", AWS_SECRET_ACCESS_KEY="testing"):
                with hocket.Cache("s3://bucket/train") as cache:
                    self.assertEqual(content(cache), [objects[name] for name in sorted(names, key=str.encode)])
                    self.put(f"{url}/bucket/train/plain", b"another")
                with hocket.Cache("s3://bucket/train") as cache:
                    key = cache.find("plain")
                    self.put(f"{url}/bucket/train/plain", b"changed")
                    self.refused(hocket.Error, "s3://bucket/train/plain: it has changed", lambda: cache[key])
                self.refused(hocket.NotFoundError, "NoSuchBucket", lambda: hocket.Cache("s3://other"))
        finally:
            server.kill()
            server.wait()


class Killed(Case):
    def test_warm(self):
        """A process that is killed while it loads loses nothing that a second one does not bring."""
        objects = objects_of([f"{number:04}" for number in range(400)], most=20000)
        with tempfile.TemporaryDirectory() as folder, ObjectServer(objects, bucket="b", keys=KEYS) as server, keys_of(server):
            command = [HOCKET_CACHE, "warm", folder, "--source", "s3://b/", "--disk", "256MiB"]
            for _ in range(3):
                asked = len(server.requests)
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                while process.poll() is None and len(server.requests) < asked + 120:
                    time.sleep(0.002)
                process.send_signal(signal.SIGKILL)
                process.wait()
            done = subprocess.run(command, capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
            with hocket.Cache("s3://b/", folder=folder) as cache:
                asked = len(server.requests)
                self.assertEqual(content(cache), [objects[name] for name in sorted(objects)])
                self.assertEqual(len(server.requests), asked, "everything lies on the disk")


if __name__ == "__main__":
    sys.exit(running.main())
