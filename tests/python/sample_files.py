"""Files with one sample each, of random bytes that their keys decide."""
import tempfile
import unittest

import numpy as np

COUNT, BYTES = 200, 1000


def sample(key, size=BYTES):
    return np.random.default_rng(key).integers(0, 256, size).astype(np.uint8)


class WithFiles(unittest.TestCase):
    folder: tempfile.TemporaryDirectory[str]
    source: str

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.source = cls.folder.name
        for key in range(COUNT):
            sample(key).tofile(f"{cls.source}/{key:05}")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
