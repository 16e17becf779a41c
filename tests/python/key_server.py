"""The services that give keys for a time, as instances, containers and STS have them, in one server. Each answer has other
keys, which an ObjectServer takes until they end."""
import contextlib
import datetime
import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse

from object_server import expected_signature

SECRET = "aSecretOfAService/+"


class Handler(http.server.BaseHTTPRequestHandler):
    server: "Listener"
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        service = self.server.service
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        with service.lock:
            service.requests.append((self.command, self.path))
            status, text = service.planned.pop(0) if service.planned else service.answer(self.command, self.path, self.headers, body)
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = answer


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, service):
        super().__init__(("127.0.0.1", 0), Handler)
        self.service = service


class KeyServer(contextlib.AbstractContextManager):
    """objects: an ObjectServer. lifetime_s: of keys. planned: statuses and texts of the next answers."""

    def __init__(self, objects, lifetime_s=3600.0):
        self.objects, self.lifetime_s = objects, lifetime_s
        self.token = "token of an identity =&+"
        self.has_role = True
        self.given = 0
        self.trusted: dict[str, tuple[str, str]] = {}  # keys that may ask for a role, and for nothing else: as those of an ObjectServer
        self.forms: list[dict[str, str]] = []  # of questions for a role that were answered
        self.lock = threading.Lock()
        self.requests: list[tuple[str, str]] = []
        self.planned: list[tuple[int, str]] = []
        self.http = Listener(self)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    def keys(self):
        self.given += 1
        key_id, token = f"ASIAGIVEN{self.given:012}", f"session {self.given}".replace(" ", "/")
        end = int(time.time() + self.lifetime_s)  # of whole seconds, as services say it
        self.objects.keys[key_id] = (SECRET, token)
        expiry = threading.Timer(end - time.time(), self.objects.expired.add, [key_id])
        expiry.daemon = True  # no test waits at its end for keys to expire
        expiry.start()
        until = datetime.datetime.fromtimestamp(end, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"Code": "Success", "AccessKeyId": key_id, "SecretAccessKey": SECRET, "Token": token, "Expiration": until}

    def answer(self, method, path, headers, body):
        roles = "/latest/meta-data/iam/security-credentials/"
        if path == "/latest/api/token":
            is_right = method == "PUT" and int(headers["X-aws-ec2-metadata-token-ttl-seconds"]) > 0
            return (200, "session-token\n") if is_right else (405, "")
        if path.startswith(roles):
            if method != "GET" or headers.get("X-aws-ec2-metadata-token") != "session-token":
                return 401, ""
            if not self.has_role:
                return 404, ""
            return (200, "the-role") if path == roles else (200, json.dumps(self.keys())) if path == roles + "the-role" else (404, "")
        if path == "/v2/container":
            return (200, json.dumps(self.keys())) if headers.get("Authorization") == self.token else (403, "wrong token")
        if (method, path) == ("POST", "/"):
            form = dict(urllib.parse.parse_qsl(body))
            if form.get("Action") == "AssumeRole":
                return self.assume_role(form, headers, body)
            if form.pop("WebIdentityToken") != self.token:
                return 400, "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>no</Message></Error></ErrorResponse>"
            assert form == {"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": "arn:aws:iam::1:role/r",
                            "RoleSessionName": "hocket"}, form
            return 200, self.of_sts("AssumeRoleWithWebIdentity")
        return 404, ""

    def of_sts(self, action):
        keys = self.keys()
        return (f"<{action}Response xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><{action}Result>"
                f"<Credentials><AccessKeyId>{keys['AccessKeyId']}</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey>"
                f"<SessionToken>{keys['Token']}</SessionToken><Expiration>{keys['Expiration']}</Expiration></Credentials>"
                f"</{action}Result></{action}Response>")

    def assume_role(self, form, headers, body):
        """Gives keys to whoever signs with keys that the ObjectServer takes, and have not ended; or, for asking alone, to those of
        trusted. Keeps the forms."""
        refusal = "<ErrorResponse><Error><Code>{}</Code><Message>no</Message></Error></ErrorResponse>".format
        authorization = headers.get("Authorization", "")
        signer = re.search(r"Credential=([^/]+)/\d+/([^/]+)/sts/", authorization)
        known = self.objects.keys | self.trusted
        if signer is None or signer[1] not in known or signer[2] != self.objects.region:
            return 403, refusal("InvalidClientTokenId")
        secret, token = known[signer[1]]
        lower = {name.lower(): value for name, value in headers.items()} | {"x-amz-content-sha256": hashlib.sha256(body.encode()).hexdigest()}
        if headers.get("x-amz-security-token", "") != token:
            return 403, refusal("InvalidClientTokenId")
        if not authorization.endswith("Signature=" + expected_signature("POST", "/", "", lower, authorization, secret)):
            return 403, refusal("SignatureDoesNotMatch")
        if signer[1] in self.objects.expired:
            return 403, refusal("ExpiredToken")
        self.forms.append(form)
        return 200, self.of_sts("AssumeRole")
