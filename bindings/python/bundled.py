#!/usr/bin/python3
"""Prints the soname and the file of a shared library, for a wheel that has it inside. usage: bundled.py COMPILER NAME"""
import os
import re
import subprocess
import sys

compiler, name = sys.argv[1:]
path = subprocess.run([compiler, f"-print-file-name=lib{name}.so"], check=True, capture_output=True, text=True).stdout.strip()
path = os.path.realpath(path)
dynamic = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
soname = re.search(r"SONAME.*\[(.*)\]", dynamic)
if soname is None:
    sys.exit(f"{path} has no soname")
print(soname[1], path)
