"""A server of objects for tests: plain HTTP with ranges, and S3 with signatures, which it verifies itself. It fails in all ways
that servers do.

usage: object_server.py FOLDER     (serves the files in it at /; prints its port, and ends when its input does)
"""
from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.server
import os
import random
import re
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.parse
import xml.sax.saxutils
import zlib
from collections.abc import Callable

FAULTS = ("500", "503", "429", "cut", "reset", "short", "long", "stall")


def digest(data):
    return hashlib.sha256(data).hexdigest()


def expected_signature(method, path, query, headers, authorization, secret):
    """As Amazon's documentation of version 4 has it: nothing here is taken from libcurl."""
    scope, signed = found(r"Credential=[^/]+/([^,]+),\s*SignedHeaders=([^,]+)", authorization)
    day, region, service, end = scope.split("/")
    pairs = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
    canonical_query = "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}" for k, v in pairs)
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in signed.split(";"))
    canonical_path = urllib.parse.quote(urllib.parse.unquote(path), safe="/-_.~")
    request = "\n".join((method, canonical_path, canonical_query, lines, signed, headers["x-amz-content-sha256"]))
    text = "\n".join(("AWS4-HMAC-SHA256", headers["x-amz-date"], scope, digest(request.encode())))
    key = ("AWS4" + secret).encode()
    for part in (day, region, service, end):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Refused(Exception):
    def __init__(self, status, code, message, **headers):
        super().__init__(code)
        self.status, self.code, self.message, self.headers = status, code, message, headers


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 1024

    def __init__(self, served):
        super().__init__(("127.0.0.1", 0), Handler)
        self.served = served

    def handle_error(self, request, client_address):
        pass


def found(pattern, text):
    match = re.search(pattern, text)
    assert match is not None, (pattern, text)
    return match.groups()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Listener
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        pass

    def do_GET(self):
        served = self.server.served
        with served.lock:
            served.requests.append((self.path, dict(self.headers.items())))
            fault = served.fault(self.path)
        try:
            self.answer(served, fault)
        except Refused as refusal:
            served.refusals.append(refusal.code)
            self.refuse(refusal)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def refuse(self, refusal):
        body = (f"<?xml version='1.0'?><Error><Code>{refusal.code}</Code><Message>{refusal.message}</Message>"
                "<AWSAccessKeyId>never to be shown</AWSAccessKeyId></Error>").encode()
        self.send_response(refusal.status)
        for name, value in refusal.headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self, served, fault):
        if fault in ("500", "503", "429"):
            raise Refused(int(fault), "SlowDown", "Reduce your request rate", **served.with_failures)
        if fault == "slow":
            served.pause()
        if fault == "403 with the query":
            raise Refused(403, "Denied", f"{self.path.partition('?')[2]} is wrong")
        if fault == "404 with a page":
            self.send_error(404)
            return
        if fault == "stall":
            served.ending.wait(60)
            self.close_connection = True
            return
        path, _, query = self.path.partition("?")
        if path in served.redirections:
            raise Refused(302, "Found", "It is elsewhere", Location=served.redirections[path])
        if served.bucket is not None:
            self.check_signature(served, path, query)
            path = self.path_in_bucket(served, path)
            if path == "":
                self.send_body(served.page(dict(urllib.parse.parse_qsl(query))), {"Content-Type": "application/xml"}, fault)
                return
        self.send_object(served, urllib.parse.unquote(path).removeprefix("/"), fault)

    def path_in_bucket(self, served, path):
        _, bucket, key = path.split("/", 2)
        if bucket != served.bucket:
            raise Refused(404, "NoSuchBucket", "The specified bucket does not exist")
        return key

    def check_signature(self, served, path, query):
        headers = {name.lower(): value for name, value in self.headers.items()}
        authorization = headers.get("authorization")
        if served.keys is None:
            if authorization is not None:
                raise Refused(400, "InvalidRequest", "signed, and nobody asked for it")
            return
        if authorization is None:
            raise Refused(403, "AccessDenied", "Access Denied")
        key_id, = found(r"Credential=([^/]+)/", authorization)
        if key_id not in served.keys:
            raise Refused(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
        secret, token = served.keys[key_id]
        if headers.get("x-amz-security-token", "") != token:
            raise Refused(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
        if served.region not in authorization:
            raise Refused(301, "PermanentRedirect", "Please use another endpoint", x_amz_bucket_region=served.region)
        signature, = found(r"Signature=([0-9a-f]+)", authorization)
        if signature != expected_signature(self.command, path, query, headers, authorization, secret):
            raise Refused(403, "SignatureDoesNotMatch", "The request signature we calculated does not match")
        if key_id in served.expired:
            raise Refused(400, "ExpiredToken", "The provided token has expired.")

    def send_object(self, served, name, fault):
        if name not in served.objects:
            raise Refused(404, "NoSuchKey", "The specified key does not exist.")
        data = served.objects[name]
        etag = served.etag(data)
        if served.takes_conditions and self.headers.get("If-Match", etag) != etag:
            raise Refused(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
        headers = {"ETag": etag} | served.checksums(data)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")) if served.has_ranges else None
        if wanted is None:
            return self.send_body(data, headers, fault)
        first, last = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
        if first >= len(data):
            raise Refused(416, "InvalidRange", "The requested range is not satisfiable", Content_Range=f"bytes */{len(data)}")
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        return self.send_body(data[first:last + 1], headers, fault, 206)

    def send_body(self, data, headers, fault, status=200):
        if fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        length = len(data)
        if fault == "short":
            data, length = data[:length // 2], length // 2
        if fault == "long":
            data, length = data + b"more", length + 4
        if fault == "flip" and data:
            at = len(data) // 2
            data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if fault == "cut":
            data = data[:length // 2]
            self.close_connection = True
        self.wfile.write(data)


class ObjectServer(contextlib.AbstractContextManager):
    """objects: bytes by name; those of a test, which may change them. bucket: S3, with the objects in it; keys: the secret and
    the token by the id of a key (none: unsigned requests alone). chance: of a fault, for each request."""

    def __init__(self, objects, *, bucket=None, keys=None, region="us-east-1", page=1000, chance=0.0, faults=FAULTS, seed=1):
        self.objects, self.bucket, self.keys, self.region, self.page_size = objects, bucket, keys, region, page
        self.chance, self.faults, self.random = chance, faults, random.Random(seed)
        self.expired: set[str] = set()
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.planned: list[str | None] = []
        self.refusals: list[str] = []
        self.has_ranges = self.takes_conditions = True
        self.slow = self.most_slow = 0  # requests at once
        self.with_failures: dict[str, str] = {}
        self.redirections: dict[str, str] = {}  # URLs by path
        self.checksums: Callable[[bytes], dict[str, str]] = lambda data: {}
        self.etag = lambda data: f'"{hashlib.md5(data).hexdigest()}"'
        self.invented: Callable[[dict[str, str]], bytes] | None = None  # pages of a list that are not the objects'
        self.lock, self.ending = threading.Lock(), threading.Event()
        self.http = Listener(self)
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def __exit__(self, *_):
        self.ending.set()
        self.http.shutdown()
        self.http.server_close()

    def pause(self):
        """Ends before the answer begins, so that what follows that is not counted with it."""
        with self.lock:
            self.slow += 1
            self.most_slow = max(self.most_slow, self.slow)
        time.sleep(0.1)
        with self.lock:
            self.slow -= 1

    def use_tls(self, certificate, key):
        """Of connections from now on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.http.socket = context.wrap_socket(self.http.socket, server_side=True)

    def fault(self, path):
        """The planned faults come first, one for each request."""
        if self.planned:
            return self.planned.pop(0)
        return self.random.choice(self.faults) if self.random.random() < self.chance else None

    def page(self, query):
        if query.get("list-type") != "2":
            raise Refused(400, "InvalidArgument", "list-type")
        if self.invented is not None:
            return self.invented(query)
        names = sorted((name for name in self.objects if name.startswith(query.get("prefix", ""))), key=str.encode)
        after = query.get("continuation-token")
        if after is not None:
            after = base64.b64decode(after).decode()
            names = [name for name in names if name.encode() > after.encode()]
        rest, names = names[self.page_size:], names[:self.page_size]
        escape = xml.sax.saxutils.escape
        is_encoded = query.get("encoding-type") == "url"
        items = "".join(f"<Contents><Key>{urllib.parse.quote_plus(name) if is_encoded else escape(name)}</Key><ETag>{escape(self.etag(self.objects[name]), {chr(34): '&quot;'})}</ETag>"
                        f"<Size>{len(self.objects[name])}</Size></Contents>" for name in names)
        token = f"<NextContinuationToken>{base64.b64encode(names[-1].encode()).decode()}</NextContinuationToken>" if rest else ""
        return ("<?xml version='1.0' encoding='UTF-8'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
                f"<IsTruncated>{'true' if rest else 'false'}</IsTruncated>{token}"
                f"{'<EncodingType>url</EncodingType>' if is_encoded else ''}{items}</ListBucketResult>").encode()


def crc32(data):
    return {"x-amz-checksum-crc32": base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()}


class Files(dict):
    """The files of a folder as objects, read when they are asked for."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def __contains__(self, name):
        return os.path.isfile(os.path.join(self.folder, name))

    def __getitem__(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()


if __name__ == "__main__":
    with ObjectServer(Files(sys.argv[1])) as server:
        print(server.port, flush=True)
        sys.stdin.read()
