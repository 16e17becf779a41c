"""A test case with a communicator of one rank."""
import unittest

import hocket


class Alone(unittest.TestCase):
    """With a communicator of one rank."""

    def setUp(self):
        self.comm = hocket.init()
        self.addCleanup(self.comm.close)

    def refused(self, words, function, *arguments, **named):
        with self.assertRaises(hocket.InvalidArgumentError) as caught:
            function(*arguments, **named)
        for word in words:
            self.assertIn(word, str(caught.exception))
