"""Puts Hocket in Gloo's place in programs that know nothing of it: in each Python process that has this folder in
PYTHONPATH. A group that is asked of "gloo", or of no backend, becomes one of "hocket".

HOCKET_TEST_GROUPS: a file that gets a line for each group that is made, so that who runs a program can tell that the backend
was used.
"""
import functools
import importlib.machinery
import os
import sys

GROUPS = "torch.distributed.distributed_c10d"


def in_gloos_place(backend):
    """torch's name for the backends of a group, with Hocket in Gloo's place. "undefined": the program named none."""
    return "hocket" if backend in ("undefined", "gloo") else backend.replace("cpu:gloo", "cpu:hocket")


def note(backend):
    path = os.environ.get("HOCKET_TEST_GROUPS")
    if path:
        with open(path, "a") as file:
            file.write(f"{os.getpid()} {backend}\n")


def replace(module):
    make = module._new_process_group_helper

    @functools.wraps(make)
    def make_in_its_place(size, rank, members, backend, *arguments, **keywords):
        import hocket.torch  # noqa: F401 (registers the backend, also with a torch that finds none by itself)
        backend = module.Backend(in_gloos_place(str(backend)))
        note(backend)
        return make(size, rank, members, backend, *arguments, **keywords)

    module._new_process_group_helper = make_in_its_place


class Finder:
    """Finds torch's module of groups once, and changes it when it has been imported."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != GROUPS:
            return None
        sys.meta_path.remove(Finder)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            replace(module)

        spec.loader.exec_module = exec_module  # type: ignore[assignment]
        return spec


sys.meta_path.insert(0, Finder)
