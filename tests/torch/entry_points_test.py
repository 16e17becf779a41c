#!/usr/bin/python3
"""torch finds the backend by the entry points of the wheel, in programs that do not import hocket.torch."""
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

import ranks  # first: it skips without torch

# isort: split
import torch

PYPROJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "pyproject.toml")
HAS_2 = not torch.__version__.startswith("1.")

ALONE = """
import sys
import torch
import torch.distributed as dist
{before}
assert "hocket" not in sys.modules, "torch's import has imported Hocket"
assert dist.is_backend_available("hocket") if hasattr(dist, "is_backend_available") else True
dist.init_process_group("hocket", store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(3)
dist.all_reduce(x)
assert dist.group.WORLD.name() == "hocket", type(dist.group.WORLD)
dist.destroy_process_group()
"""


def install(folder):
    """What pip writes beside the package."""
    import tomllib
    with open(PYPROJECT, "rb") as file:
        groups = tomllib.load(file)["project"]["entry-points"]
    place = os.path.join(folder, "hocket-1.dist-info")
    os.mkdir(place)
    with open(os.path.join(place, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\nName: hocket\nVersion: 1\n")
    with open(os.path.join(place, "entry_points.txt"), "w") as file:
        for group, entries in groups.items():
            file.write(f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items()))


@unittest.skipUnless(HAS_2, "torch 1.13 looks at no entry points")
class EntryPoints(ranks.TestCase):
    def run_alone(self, before):
        with tempfile.TemporaryDirectory() as folder:
            install(folder)
            path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
            done = subprocess.run([sys.executable, "-W", "ignore", "-c", ALONE.format(before=before)], capture_output=True, text=True,
                                  env=dict(os.environ, PYTHONPATH=path), timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_installed(self):
        self.run_alone("")

    @unittest.skipUnless(hasattr(torch.distributed.Backend, "_ensure_backend_registered"), "this torch is such a one itself")
    def test_registered_late(self):
        """As torch has it that knows only backends which were registered at its import; 2.5 and 2.6 refuse a second time."""
        self.run_alone(textwrap.dedent("""
            import hocket_autoload
            taken = dist.Backend.register_backend.__func__
            def register(cls, name, *args, **keywords):
                assert not hasattr(cls, name.upper()), "c10d backend already exists"
                assert name.upper() not in cls._plugins, "c10d backend already registered"
                taken(cls, name, *args, **keywords)
            dist.Backend.register_backend = classmethod(register)
            dist.Backend.register_backend("hocket", hocket_autoload._create, extended_api=True, devices=["cpu"])
        """))

    def test_which_entry_point(self):
        import hocket_autoload
        for looks_itself in (False, True):
            backend = mock.Mock(spec=["register_backend"] + ["_ensure_backend_registered"] * looks_itself)
            with mock.patch.object(torch.distributed, "Backend", backend):
                hocket_autoload.register()
            self.assertEqual(backend.register_backend.called, not looks_itself)


if __name__ == "__main__":
    ranks.main()
