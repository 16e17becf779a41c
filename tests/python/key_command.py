#!/usr/bin/python3
"""A credential_process, as that of a login is: asks a KeyServer. usage: key_command.py URL TOKEN_FILE"""
import datetime
import json
import sys
import urllib.request

with open(sys.argv[2]) as file:
    request = urllib.request.Request(sys.argv[1] + "/v2/container", headers={"Authorization": file.read().strip()})
with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
    keys = json.load(answer)
if "Expiration" in keys:  # as aws configure export-credentials writes it
    keys["Expiration"] = datetime.datetime.fromisoformat(keys["Expiration"].replace("Z", "+00:00")).isoformat()
print(json.dumps({"Version": 1, "SessionToken": keys.pop("Token"), **keys}))
