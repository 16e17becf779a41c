#!/usr/bin/python3
"""Checks that the drivers of other libraries link without Hocket's: they have its headers alone.

The roofline's stands for all of them, because it needs no other library."""
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "bench", "peers"))
import build


def main():
    with tempfile.TemporaryDirectory(prefix="hkt-drivers-") as folder:
        build.DRIVERS = folder
        # Nothing is inlined that a driver might not use.
        build.FLAGS = [flag for flag in build.FLAGS if flag != "-O3"]
        build.compile_driver("roofline", "roofline.cpp", ["g++"])
        assert os.path.exists(os.path.join(folder, "roofline"))


if __name__ == "__main__":
    main()
