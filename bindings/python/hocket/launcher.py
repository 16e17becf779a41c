"""The command hocket-run of a wheel: the program that lies in the package."""
from __future__ import annotations

import os
import sys


def main() -> None:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "hocket-run")
    os.execv(program, [program, *sys.argv[1:]])
