#!/usr/bin/python3
"""Writes the C source of hocket._native, which makes the C ABI callable from Python.

usage: build_native.py HOCKET_H GLUE_C OUTPUT_C

Constants, structs and functions are read from hocket.h itself, so there is no second list of them. glue.c has
what Python needs beside them. cffi writes the source; it is compiled against Python's limited API, so that
one module serves CPython 3.9 and later.
"""
import re
import sys

import cffi


def without_comments(text):
    """hocket.h has no string with /* or // in it, and no // comments."""
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


def logical_lines(text):
    return re.sub(r"\\\n", " ", text).splitlines()


def declarations_of(header):
    """Returns the header as cffi's parser takes it: without directives of the preprocessor and without C++."""
    text = without_comments(header)
    text = re.sub(r'#ifdef __cplusplus\n.*?#endif', "", text, flags=re.DOTALL)  # extern "C"
    kept = [line for line in logical_lines(text) if not line.lstrip().startswith("#")]
    return "\n".join(kept).replace("HKT_API ", "")


def numbers_of(header):
    """Constants that are macros: HKT_NO_COLOR, HKT_VERSION_MAJOR."""
    lines = logical_lines(without_comments(header))
    return [match[1] for line in lines if (match := re.match(r"#define (HKT_\w+)\s+\(?-?\d+\)?\s*$", line))]


def initial_values_of(header):
    """Returns the structs that a program initializes with a macro: hkt_comm_options from HKT_COMM_OPTIONS_INIT."""
    return [name.lower() for name in re.findall(r"#define (HKT_\w+)_INIT\b", header)]


def constant_lines(names):
    return "".join(f"#define {name} ...\n" for name in names)


def between(begin, end, glue, glue_path):
    """What stands between two marker lines."""
    found = re.search(re.escape(begin + "\n") + "(.*?)" + re.escape(end), glue, re.DOTALL)
    if found is None:
        sys.exit(f"{glue_path} has no lines from {begin} to {end}")
    return found[1]


def main(header_path, glue_path, output_path):
    with open(header_path, encoding="utf-8") as file:
        header = file.read()
    with open(glue_path, encoding="utf-8") as file:
        glue = file.read()
    glue_declarations = between("/* for Python */", "/* end */", glue, glue_path)
    callbacks = between("/* from Python", "*/", glue, glue_path)

    ffi = cffi.FFI()
    ffi.cdef(constant_lines(numbers_of(header)) + declarations_of(header))
    structs = initial_values_of(header)
    ffi.cdef("".join(f"void init_{name}({name}* it);\n" for name in structs))
    ffi.cdef(glue_declarations.replace("static ", ""))
    ffi.cdef(callbacks)

    makers = "".join(f"static void init_{name}({name}* it) {{ *it = ({name}){name.upper()}_INIT; }}\n"
                     for name in structs)
    ffi.set_source("hocket._native", f'#include "hocket.h"\n{makers}\n{glue}', py_limited_api=True)
    ffi.emit_c_code(output_path)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
