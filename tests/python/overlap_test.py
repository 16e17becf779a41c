#!/usr/bin/python3
"""hocket.overlap: profiles, plans, sizes of buckets, and the line of what communications cost.

usage: overlap_test.py HOCKET_RUN     (PYTHONPATH has the package; hocket-overlap lies beside the program)
"""
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

import running

running.need_package()

import hocket
from hocket.overlap import Layer, Profile, bucket_sizes, fit_cost, plan

EXAMPLES = os.path.join(running.HERE, "..", "..", "examples", "overlap")


def seconds_of(profile, batches):
    """The forward time of a plan, by the formula in docs/overlap.md."""
    come = done = 0.0
    for batch in batches:
        come += profile.startup + sum(profile.layers[i].transfer for i in batch)
        done = max(done, come) + sum(profile.layers[i].compute for i in batch)
    return done


def all_plans(layers):
    for cuts in itertools.product((False, True), repeat=layers - 1):
        edges = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), layers]
        yield [range(a, b) for a, b in zip(edges, edges[1:])]


def random_profile(rng, layers):
    return Profile(rng.choice([0, 1, 3]), [Layer(f"l{i}", rng.randint(0, 5), rng.randint(0, 5), rng.randint(1, 9)) for i in range(layers)])


class Case(unittest.TestCase):
    def refused(self, words, function, *arguments, **named):
        with self.assertRaises(hocket.InvalidArgumentError) as caught:
            function(*arguments, **named)
        for word in words:
            self.assertIn(word, str(caught.exception))


class ReadTwice(Case):
    """Python reads profiles by itself, and the tool by C++: they take the same ones."""

    WHOLE = ('{"startup": 0.5, "before": 1, "latency": 2e-3, "contention": 0.25, "pull": {"latency": 0.75, "startup": 0.625, "per_byte": 3e-8}, "layers": '
             '[{"name": "conv1", "transfer": 1, "compute": 2e-3, "bytes": 12, "forward": 0.375}, {"transfer": 0, "compute": 0.25, "forward": 4}]}')
    EDGES = (("0.5", "-0.0"), ("0.5", "1e9"), ("0.5", "1.0000001e9"), ("0.5", "true"), ("0.5", '"1"'), ("0.5", "null"), ("0.5", "NaN"),
             ("0.5", "1e999"), ("0.25,", "1000,"), ("0.25,", "1000.5,"), ("0.25,", "-1,"), ("0.25,", "false,"), ("12", "281474976710656"),
             ("12", "281474976710657"), ("12", "-1"), ("12", "12.0"), ("12", "null"), ("12", "true"), ("conv1", ""), ("conv1", "a\\nb"),
             ("conv1", "\u00e4" * 128), ("conv1", "\u00e4" * 129), ("conv1", "\\ud800"), ("conv1", "\\u007f"), ('"conv1"', "7"), ('"conv1"', "null"),
             ("2e-3, \"cont", "2e-3, \"other"), (', "before": 1', ', "before": []'), ("0.75", "-1"),
             ("0.75", "null"), ('"per_byte"', '"other"'), ('{"latency": 0.75, "startup": 0.625, "per_byte": 3e-8}', "null"), ("0.375", "null"), ("0.375", "1e10"),
             (', "forward": 0.375', ""), (', "forward": 4', ""), ('"pull"', '"other"'), ('"compute": 0.25', '"other": 0.25'), ("{\"transfer\"", "[{\"transfer\""))

    def texts(self):
        yield self.WHOLE
        for old, new in self.EDGES:
            self.assertIn(old, self.WHOLE)
            yield self.WHOLE.replace(old, new, 1)
        rng = random.Random(3)
        for _ in range(150):
            text = self.WHOLE
            for _ in range(rng.randint(1, 3)):
                at = rng.randrange(len(text))
                text = text[:at] + rng.choice(["", rng.choice('{}[]",:0123456789.e-+ nul'), text[at:at + 9] * 2]) + text[at + 1:]
            yield text

    def test_the_same_profiles_are_taken(self):
        tool = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "hocket-overlap")
        taken = {True: 0, False: 0}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "profile.json")
            for text in self.texts():
                with open(path, "wb") as file:
                    file.write(text.encode("utf-8"))
                by_tool = subprocess.run([tool, "plan", path, "--json", "--backward"], capture_output=True, text=True, timeout=60)
                self.assertGreaterEqual(by_tool.returncode, 0, text)  # no signal has ended it
                try:
                    profile = Profile.load(path)
                except hocket.InvalidArgumentError as error:
                    self.assertNotEqual(by_tool.returncode, 0, f"only Python refuses {text}: {error}")
                    taken[False] += 1
                    continue
                self.assertEqual(by_tool.returncode, 0, f"only the tool refuses {text}: {by_tool.stderr}")
                taken[True] += 1
                found = json.loads(by_tool.stdout)
                self.assertEqual([profile.before, profile.latency, profile.contention], [found[name] for name in ("before", "latency", "contention")])
                self.assertEqual(plan(profile, backward=True).seconds, found["methods"]["optimum"]["seconds"])
                self.assertEqual(Profile.from_json(profile.to_json()), profile)
        self.assertGreater(min(taken.values()), 20, taken)


class Plans(Case):
    def test_the_optimum_is_the_best_of_all_plans_both_ways(self):
        rng = random.Random(7)
        for _ in range(60):
            profile = random_profile(rng, rng.randint(1, 8))
            best = min(seconds_of(profile, batches) for batches in all_plans(len(profile.layers)))
            for backward in (False, True):
                found = plan(profile, backward=backward)
                self.assertEqual(found.seconds, best)
                self.assertEqual(seconds_of(profile, found.batches), best)

    def test_what_a_plan_says(self):
        profile = Profile(1, [Layer("a", 2, 3, 10), Layer("b", 4, 5, 10)])
        found = plan(profile, "layers")
        self.assertEqual((found.method, found.backward, found.ends, found.names), ("layers", False, (1, 2), ("a", "b")))
        self.assertEqual((found.seconds, found.communication, found.computation, found.overlap), (13, 8, 8, 3))
        self.assertEqual(found.batches, [range(0, 1), range(1, 2)])
        self.assertEqual(found.in_time, found.batches)
        self.assertEqual(plan(profile, "layers", backward=True).in_time, [range(1, 2), range(0, 1)])

    def test_every_method(self):
        profile = Profile.load(os.path.join(EXAMPLES, "resnet-50.json"))
        best = plan(profile, backward=True)
        for method in ("sequential", "layers", "algorithm1", "algorithm2", "ibatch", "mg_wfbp", "buckets"):
            found = plan(profile, method, backward=True)
            self.assertEqual(found.ends[-1], len(profile.layers))
            self.assertGreaterEqual(found.seconds, best.seconds)

    def test_limits_and_buckets(self):
        profile = Profile(1, [Layer(f"l{i}", 1, 1, 10) for i in range(6)])
        self.assertEqual(plan(profile, "sequential", limit_bytes=30).ends, (3, 6))
        self.assertEqual(plan(profile, "buckets", bucket_bytes=20).ends, (2, 4, 6))
        self.assertEqual(plan(profile, "buckets").ends, (6,))
        without = Profile(1, [Layer("a", 1, 1, 10), Layer("b", 1, 1)])
        self.refused(["buckets needs the bytes of all layers", "layers[1] (b) has none"], plan, without, "buckets")
        self.refused(["limit_bytes needs the bytes", "layers[1]"], plan, without, limit_bytes=5)
        self.assertEqual(plan(without).ends[-1], 2)

    def test_refused(self):
        profile = Profile(0, [Layer("a", 1, 1, 1)])
        self.refused(["'best' is not one of", "optimum"], plan, profile, "best")
        self.refused(["mg_wfbp is a rule for the backward direction"], plan, profile, "mg_wfbp")
        self.refused(["limit_bytes is -1", "whole number"], plan, profile, limit_bytes=-1)
        self.refused(["bucket_bytes is 1.5"], plan, profile, "buckets", bucket_bytes=1.5)


class Profiles(Case):
    def test_round_trip(self):
        profile = Profile(0.5, [Layer("a", 1, 2, 3), Layer("ü", 0.1, 0.2)])
        self.assertEqual(Profile.from_json(profile.to_json()), profile)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.json")
            profile.save(path)
            self.assertEqual(Profile.load(path), profile)
            with open(path, "w") as file:
                file.write(json.dumps({"startup": 1, "layers": [{"transfer": 1, "compute": -1}]}))
            self.refused(["p.json: layers[0].compute is -1; it must be seconds, from 0 to 1e+09"], Profile.load, path)
            with open(path, "wb") as file:
                file.write(b"\xff\xfe")
            self.refused(["p.json: it is no text"], Profile.load, path)
            with self.assertRaises(hocket.NotFoundError):
                Profile.load(path + "x")
            os.mkfifo(path + ".fifo")
            self.refused(["p.json.fifo: it is no regular file"], Profile.load, path + ".fifo")

    def test_what_was_measured_of_an_iteration_is_kept(self):
        text = ("""{"startup": 1, "before": 0.25, "latency": 0.001, "contention": 0.125, "pull": {"latency": 0.002, "startup": 0.001, "per_byte": 1e-08}, """
                """"layers": [{"name": "a", "transfer": 1, "compute": 2, "bytes": 3, "forward": 4}]}""")
        profile = Profile.from_json(text)
        self.assertEqual((profile.before, profile.latency, profile.contention), (0.25, 0.001, 0.125))
        self.assertEqual(Profile.from_json(profile.to_json()), profile)
        self.assertEqual(json.loads(profile.to_json()), json.loads(text))
        self.assertIn("before=0.25, latency=0.001, contention=0.125", repr(profile))
        self.assertEqual((profile.pull, profile.layers[0].forward), (hocket.overlap.Pull(0.002, 0.001, 1e-8), 4))
        others = Profile(1, profile.layers)
        self.assertNotEqual(profile, others)
        self.assertEqual((others.before, others.latency, others.contention), (0, 0, 0))
        self.assertEqual(plan(profile, backward=True), plan(others, backward=True))

    def test_names_and_bytes_may_be_left_out_and_other_members_are_passed_over(self):
        profile = Profile.from_json('{"startup": 0, "more": 1, "layers": [{"transfer": 1, "compute": 2, "kind": "x"}]}')
        self.assertEqual(profile.layers, (Layer("layer 1", 1, 2, None),))

    def test_refused_with_its_path(self):
        good = {"name": "a", "transfer": 1, "compute": 1, "bytes": 1}
        changes: tuple[tuple[dict[str, object], str], ...] = (
            ({"transfer": -1}, "layers[1].transfer is -1; it must be seconds"), ({"transfer": "1"}, 'transfer is "1"'),
            ({"compute": True}, "layers[1].compute is true"), ({"compute": 1e10}, "compute is 10000000000.0"),
            ({"compute": 10 ** 400}, "layers[1].compute is 1000"), ({"compute": None}, "compute is null"),
            ({"bytes": -1}, "layers[1].bytes is -1"), ({"bytes": 1.5}, "bytes is 1.5"), ({"bytes": None}, "bytes is null"),
            ({"bytes": 2 ** 49}, "bytes is 562949953421312"), ({"name": ""}, 'layers[1].name is ""'), ({"name": "a\nb"}, "one line"),
            ({"name": 7}, "name is 7"), ({"name": "x" * 257}, "up to 256 bytes"), ({"transfer": []}, "transfer is a list"))
        for change, words in changes:
            with self.subTest(change=change):
                self.refused([words], Profile.from_json, json.dumps({"startup": 1, "layers": [good, {**good, **change}]}))
        for text, words in (("", "it is no JSON"), ("[]", "it is a list; a profile is {"), ('{"layers": []}', "startup is missing"), ('{"startup": 1}', "layers is missing"),
                            ('{"startup": 1, "layers": {}}', "layers is an object"), ('{"startup": 1, "layers": []}', "a list of 0"),
                            ('{"startup": 1, "layers": [1]}', "layers[0] is 1; it must be an object"), ('{"startup": NaN, "layers": [1]}', "layers[0] is 1"),
                            ('{"startup": 1, "layers": [{"compute": 1}]}', "layers[0].transfer is missing"),
                            ('{"startup": 1, "before": -1, "layers": [{"transfer": 1, "compute": 1}]}', "before is -1; it must be seconds"),
                            ('{"startup": 1, "latency": null, "layers": [{"transfer": 1, "compute": 1}]}', "latency is null; it must be seconds"),
                            ('{"startup": 1, "contention": 1001, "layers": [{"transfer": 1, "compute": 1}]}', "contention is 1001; it must be a share from 0 to 1000"),
                            ('{"startup": 1, "contention": true, "layers": [{"transfer": 1, "compute": 1}]}', "contention is true"),
                            ('{"startup": Infinity, "layers": [{"transfer": 1, "compute": 1}]}', "startup is inf")):
            with self.subTest(text=text):
                self.refused([words], Profile.from_json, text)
        self.refused(["a list of 20001"], Profile, 0, [Layer("a", 1, 1)] * 20001)
        self.refused(["layers[0] is 3; it must be a hocket.overlap.Layer"], Profile, 0, [3])


class BucketSizes(Case):
    def test_last_layers_first(self):
        self.assertEqual(bucket_sizes([range(0, 2), range(2, 5)], [1, 2, 4, 8, 16]), [28, 3])
        self.assertEqual(bucket_sizes([(2, 3, 4), [0, 1]], [1, 2, 4, 8, 16]), [28, 3])
        self.assertEqual(bucket_sizes([range(0, 1)], [7]), [7])
        profile = Profile(1, [Layer(f"l{i}", 1, 1, 10) for i in range(6)])
        for backward in (False, True):
            self.assertEqual(bucket_sizes(plan(profile, "buckets", backward=backward, bucket_bytes=40), [1, 2, 3, 4, 5, 6]), [11, 10] if not backward else [18, 3])

    def test_closing_at_these_sizes_gives_the_batches(self):
        rng = random.Random(3)
        for _ in range(100):
            profile = random_profile(rng, rng.randint(1, 12))
            found, sizes = plan(profile, backward=True), [layer.bytes for layer in profile.layers]
            buckets: list[list[int]] = [[]]
            limits, have = bucket_sizes(found, sizes), 0
            for layer in reversed(range(len(sizes))):
                if buckets[-1] and have >= limits[min(len(buckets), len(limits)) - 1]:
                    buckets.append([])
                    have = 0
                buckets[-1].append(layer)
                have += sizes[layer]
            self.assertEqual(buckets, [list(reversed(batch)) for batch in found.in_time])

    def test_batches_without_bytes_are_left_out(self):
        self.assertEqual(bucket_sizes([range(0, 1), range(1, 2), range(2, 3)], [1, 0, 4]), [4, 1])

    def test_refused(self):
        for batches in ([range(0, 2)], [range(0, 2), range(1, 3)], [range(0, 2), range(2, 4)], [], [[0, 2], [1]]):
            with self.subTest(batches=batches):
                self.refused(["each of the 3 layers"], bucket_sizes, batches, [1, 2, 3])
        self.refused(["layer_bytes[1] is -2"], bucket_sizes, [range(0, 2)], [1, -2])


class Cost(Case):
    def test_a_line_and_one_with_outliers(self):
        sizes = [1 << i for i in range(12, 26, 2)]
        line = [1e-4 + 2e-9 * size for size in sizes]
        for wrong in (None, 0, 3, 6):
            seconds = list(line)
            if wrong is not None:
                seconds[wrong] *= 30
            startup, per_byte = fit_cost(sizes, seconds)
            with self.subTest(wrong=wrong):
                self.assertAlmostEqual(startup, 1e-4, delta=2e-6)
                self.assertAlmostEqual(per_byte, 2e-9, delta=2e-11)

    def test_nothing_is_below_0(self):
        self.assertEqual(fit_cost([1000, 2000], [2e-3, 1e-3])[1], 0)
        self.assertEqual(fit_cost([1000, 2000], [1e-9, 1e-3])[0], 0)

    def test_refused(self):
        for sizes, seconds in (([], []), ([5], [1]), ([5, 5], [1, 2]), ([1, 2, 3], [1, 2]), ([1, 2], [1, 0])):
            with self.subTest(sizes=sizes):
                self.refused(["two different sizes"], fit_cost, sizes, seconds)


if __name__ == "__main__":
    sys.exit(running.main())
