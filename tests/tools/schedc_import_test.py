#!/usr/bin/python3
"""schedc import: algorithms in MSCCL's XML become proved schedules, and wrong ones are refused with their step.

usage: tests/tools/schedc_import_test.py SCHEDC [HOCKET_RUN HOCKET_BENCH]

With hocket-run and hocket-bench, the schedules also run.
"""
import copy
import os
import random
import sys
import unittest

import schedc_import_algorithms as made
from schedc_import_case import PROGRAMS, Import, rounds, schedc
from schedc_import_model import why_wrong

MUTANTS = 600 if os.environ.get("HOCKET_TEST_LONG") == "1" else 200
# (name, algorithm, transfers that the text has)
RIGHT = {
    "ring all_gather": (lambda: made.ring_all_gather(4), "for s in 0 ..< 3\n        each r in g\n            x[r - s] : r -> r + 1  # gpu 0 tb 0 step 0, gpu 1 tb 0 step 1"),
    "out of place": (lambda: made.ring_all_gather(3, in_place=False), "x[r - s] : r -> r + 1"),
    "two parts of a piece at once": (lambda: made.ring_all_gather(3, 2), "x[r - s] : r -> r + 1"),
    "a channel for each part": (lambda: made.ring_all_gather(4, 2, channels=2), "x[r - s] : r -> r + 1"),
    "ring all_reduce": (lambda: made.ring_all_reduce(4), "x[r - s] : r +> r + 1"),
    "ring all_reduce out of place": (lambda: made.ring_all_reduce(5, 2, False), "x[r - s] : r +> r + 1"),
    "ring reduce_scatter": (lambda: made.ring_reduce_scatter(4), "x[r - 1 - s] : r +> r + 1"),
    "reduce_scatter out of place": (lambda: made.ring_reduce_scatter(4, False), "x[r - 1 - s] : r +> r + 1"),
    "all pairs through scratch": (lambda: made.all_pairs_all_reduce(4), "x[r + 2] : r +> r + 2"),
    "all pairs with counts": (lambda: made.all_pairs_all_reduce(3, 2), "x[r + 1] : r +> r + 1"),
    "all pairs with a sum in scratch": (lambda: made.all_pairs_all_reduce(4, 1, True), "x[r + 2] : r +> r + 2"),
    "all_to_all": (lambda: made.all_to_all(4), "x[r + 1] : r -> y[r] : r + 1"),
    "all_to_all with counts": (lambda: made.all_to_all(3, 2), "x[r] : r -> y[r] : r"),
    "all_to_all in two steps": (lambda: made.two_step_all_to_all(2, 2), "-> y[2 ..< 4] : 0"),
    "all_to_all in two larger steps": (lambda: made.two_step_all_to_all(2, 4), "-> y[2 ..< 4] : 0"),
    "hierarchical": (lambda: made.hierarchical_all_reduce(4, 2), "let x3 = x.part(3 of 4)"),
    "a chain from a root": (lambda: made.chain_broadcast(4, 3, 2), "x0 : root + 1 -> root + 2"),
    "a star that gathers": (lambda: made.star("gather", 4, 0), "x[root + 1] : root + 1 -> root"),
    "a star that scatters": (lambda: made.star("scatter", 4, 1), "x[root + 3] : root -> root + 3"),
    "a star that reduces": (lambda: made.star("reduce", 3, 2), "x : root + 1 +> root"),
    "all_to_all in place": (lambda: made.all_to_all_in_place(4), "x[r + 1] : r -> x[r] : r + 1"),
    "a chain of halves of chunks": (lambda: made.chain_broadcast(4, 8), "x1[3] : root + 2 -> root + 3"),
}


class Right(Import):
    def test_algorithms_are_proved(self):
        for name, (make, expected) in RIGHT.items():
            with self.subTest(name):
                algorithm = make()
                text = self.imported(algorithm)
                self.assertIn(expected, text)
                self.assertIsNone(why_wrong(algorithm.text()))
                self.proved(text, algorithm.ranks)

    def test_rounds_are_as_few_as_the_dependencies_allow(self):
        for algorithm, expected in ((made.ring_all_gather(5), 4), (made.ring_all_reduce(4), 6), (made.ring_all_reduce(4, 1, False), 6),
                                    (made.all_pairs_all_reduce(5), 2), (made.all_to_all(5), 1), (made.two_step_all_to_all(2, 3), 2),
                                    (made.hierarchical_all_reduce(4, 2), 3), (made.chain_broadcast(4, 3), 5)):
            self.assertEqual(rounds(self.imported(algorithm)), expected)

    def test_a_file_is_written(self):
        source = self.path("ring.xml", made.ring_all_gather(3).text())
        target = self.path("ring.sched")
        self.assertEqual(schedc("import", source, "-o", target), (0, "", ""))
        with open(target, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith(f"# Imported from {source} (MSCCL: ring allgather on 3 GPUs, in place).\n"))
        self.assertIn("algorithm ring_allgather all_gather(x) over g where g.size == 3 {", text)
        self.assertIn("schedule ring_allgather all_gather(x) where ranks == 3 {", text)

    def test_contributions_that_are_added_twice(self):
        twice = made.Algorithm("allreduce", 2, (1, 1, 0))  # x1 + 2 * x0
        for _ in range(2):
            twice.step(0, twice.tb(0, 1, 1), "s", ("i", 0))
            twice.step(1, twice.tb(1, 0, 0), "rrc", ("i", 0), ("i", 0))
        twice.step(0, twice.tb(0, 1, 1), "r", dst=("i", 0))
        twice.step(1, twice.tb(1, 0, 0), "s", ("i", 0))
        one_way = made.Algorithm("reduce_scatter", 2, (2, 1, 0))  # GPU 1 sends nothing
        for _ in range(2):
            one_way.step(0, one_way.tb(0, 1), "s", ("i", 1))
            one_way.step(1, one_way.tb(1, -1, 0), "rrc", ("i", 1), ("i", 1))
        by_scratch = made.Algorithm("allreduce", 2, (1, 1, 2))
        for gpu in range(2):
            tb = by_scratch.tb(gpu, 1 - gpu, 1 - gpu)
            for k in range(2):
                by_scratch.step(gpu, tb, "s", ("i", 0))
                by_scratch.step(gpu, tb, "r", dst=("s", k))
            for k in range(2):
                by_scratch.step(gpu, tb, "re", ("s", k), ("i", 0))
        half = made.Algorithm("reduce_scatter", 2, (4, 2, 0))  # the first half of a piece twice, the other never
        for chunk in (2, 2):
            half.step(0, half.tb(0, 1, 1), "s", ("i", chunk))
            half.step(1, half.tb(1, 0, 0), "rrc", ("i", chunk), ("i", chunk))
        for chunk in (0, 1):
            half.step(1, half.tb(1, 0, 0), "s", ("i", chunk))
            half.step(0, half.tb(0, 1, 1), "rrc", ("i", chunk), ("i", chunk))
        for algorithm in (twice, one_way, by_scratch, half):
            self.assertIsNotNone(why_wrong(algorithm.text()))
            code, out, said = schedc("import", "-", text=algorithm.text())
            self.assertEqual((code, out), (1, ""))
            self.assertRegex(said, "combines there already|a second time")

    def test_a_file_does_not_replace_itself(self):
        source = self.path("ring.xml", made.ring_all_gather(3).text())
        code, _, said = schedc("import", source, "-o", os.path.join(os.path.dirname(source), ".", "ring.xml"))
        self.assertEqual(code, 1)
        self.assertIn("would be replaced by its schedule", said)
        with open(source, encoding="utf-8") as file:
            self.assertTrue(file.read().startswith("<algo"))

    def test_names(self):
        for given, expected in (("8-ring (best)", "ring_best"), ("", "imported_"), ("each", "imported_each"), ("all_gather", "imported_all_gather"),
                                ("x", "imported_x"), ("é\n#", "imported_"), ("a" * 100, "a" * 60)):
            algorithm = made.ring_all_gather(3)
            algorithm.root.set("name", given)
            self.assertIn(f"\nalgorithm {expected} all_gather", self.imported(algorithm))

    def test_large_files(self):
        """Schedule files have at most 1 MiB."""
        self.assertIn("# 2506 rounds; too many for comments that name steps.\n", self.imported(made.chain_broadcast(8, 2500)))
        self.refused(made.chain_broadcast(8, 4000), "<stdin>: its schedule of 4006 rounds would be larger than 1 MiB")

    def test_schedules_run(self):
        if len(PROGRAMS) < 3:
            self.skipTest("neither hocket-run nor hocket-bench was named")
        for name, (make, _) in RIGHT.items():
            with self.subTest(name):
                algorithm = make()
                self.run_on(self.imported(algorithm), algorithm.ranks)


class Wrong(Import):
    def test_connections(self):
        algorithm = made.ring_all_gather(3)
        tb = algorithm.gpus[1][0]
        tb.remove(tb[2])
        self.refused(algorithm, "<stdin>: gpu 0, threadblock 0, step 1: it sends to gpu 1 on channel 0, which receives 1 message of gpu 0 there, not 2",
                     'hint: gpu 1 needs a step that receives it, in a <tb> with recv="0" and chan="0"')
        algorithm = made.ring_all_gather(3)
        algorithm.at(2, 0, 0).set("type", "nop")
        self.refused(algorithm, "gpu 0, threadblock 0, step 2: it receives from gpu 2 on channel 0, which sends 1 message to gpu 0 there, not 2")
        algorithm = made.ring_all_gather(3, 2)
        algorithm.at(1, 0, 1).set("cnt", "1")
        self.refused(algorithm, "gpu 1, threadblock 0, step 1: it receives 1 chunk, but its sender, gpu 0 tb 0 step 0, sends 2")
        algorithm = made.ring_all_gather(3)
        second = algorithm.tb(0, 1, -1)
        algorithm.step(0, second, "s", ("o", 0))
        self.refused(algorithm, "gpu 0, threadblock 1, step 0: threadblock 0 sends on the same connection")

    def test_circles(self):
        algorithm = made.Algorithm("allgather", 2, (1, 2, 0))
        for rank in range(2):
            tb = algorithm.tb(rank, 1 - rank, 1 - rank)
            algorithm.step(rank, tb, "r", made.NOWHERE, ("o", 1 - rank))
            algorithm.step(rank, tb, "s", ("o", rank))
        self.refused(algorithm, "gpu 0, threadblock 0, step 0: it waits for itself: gpu 0 tb 0 step 0 waits for a message of gpu 1; "
                     "gpu 1 tb 0 step 0 waits for a message of gpu 0")
        algorithm = made.ring_all_gather(3)
        algorithm.step(0, 0, "nop", after=(0, 2))
        algorithm.at(0, 0, 1).set("depid", "0")
        algorithm.at(0, 0, 1).set("deps", "2")
        self.refused(algorithm, "gpu 0, threadblock 0, step 1: it waits for itself: gpu 0 tb 0 step 1 waits for gpu 0 tb 0 step 2")

    def test_dependencies(self):
        for depid, deps in (("1", "0"), ("0", "9"), ("0", "-1"), ("-1", "0")):
            algorithm = made.ring_all_gather(3)
            algorithm.at(0, 0, 1).set("depid", depid)
            algorithm.at(0, 0, 1).set("deps", deps)
            self.refused(algorithm, f"gpu 0, threadblock 0, step 1: it waits for step {deps} of threadblock {depid} (depid, deps), which does not exist")
        algorithm = made.all_pairs_all_reduce(3)
        algorithm.at(0, 0, 1).set("hasdep", "0")
        self.refused(algorithm, 'it waits for step 1 of threadblock 0, which has hasdep="0"', 'hint: write hasdep="1" there')

    def test_races(self):
        algorithm = made.all_pairs_all_reduce(3)
        adder = algorithm.gpus[0][2]
        for step in adder:
            step.set("depid", "-1")
            step.set("deps", "-1")
        self.refused(algorithm, "gpu 0, threadblock 2, step 0: it reads a chunk that holds nothing yet")
        adder[0].set("depid", "0")
        adder[0].set("deps", "1")
        self.refused(algorithm, "gpu 0, threadblock 2, step 1: it uses a scratch chunk that step 1 of threadblock 1 uses, too",
                     'hint: make it wait: depid="1" deps="1"')

    def test_contents(self):
        algorithm = made.ring_all_gather(3)
        algorithm.at(1, 0, 1).set("dstoff", "2")  # it belongs to chunk 0
        self.refused(algorithm, "no step writes chunk 0 of 3 of its result")
        algorithm = made.ring_all_gather(3)
        algorithm.at(0, 0, 0).set("srcoff", "1")
        self.refused(algorithm, "gpu 0, threadblock 0, step 0: it reads a chunk that holds nothing yet")
        algorithm = made.ring_all_gather(3, in_place=False)
        algorithm.gpus[1].remove(algorithm.gpus[1][0])
        algorithm.gpus[1][0].set("id", "0")
        self.refused(algorithm, "gpu 1: no step writes chunk 1 of 3 of its result", 'with inplace="0" they are two buffers')

    def test_what_the_proof_refuses(self):
        algorithm = made.ring_all_reduce(3)
        algorithm.at(0, 0, 0).set("srcoff", "1")
        self.refused(algorithm, "gpu 1, threadblock 0, step 1: it brings chunk 1, from gpu 0 tb 0 step 0, to the place of chunk 0")
        algorithm = made.all_pairs_all_reduce(3)
        algorithm.at(0, 2, 1).set("type", "nop")
        self.refused(algorithm, "error: algorithm allpairs all_reduce on 3 ranks: rank 0 ends with chunk 0 of 3 missing the part of rank 2",
                     "# gpu 1 tb 0 step 0, gpu 0 tb 2 step 0", "<stdin>: not imported")
        # Twice the same contribution.
        algorithm = made.ring_reduce_scatter(3)
        algorithm.step(0, 0, "s", ("i", 0))
        algorithm.step(1, 0, "rrc", ("i", 1), ("i", 1))
        self.refused(algorithm, "<stdin>: not imported", "gpu 1 tb 0 step")

    def test_what_has_no_place(self):
        """All of one buffer waits in scratch while the other is still read."""
        algorithm = made.Algorithm("allreduce", 2, (1, 0, 1))
        for rank in range(2):
            tb = algorithm.tb(rank, 1 - rank, 1 - rank)
            algorithm.step(rank, tb, "s", ("i", 0))
            algorithm.step(rank, tb, "r", made.NOWHERE, ("s", 0))
            algorithm.step(rank, tb, "s", ("s", 0))
            algorithm.step(rank, tb, "rrc", ("i", 0), ("i", 0))
        self.refused(algorithm, "gpu 0, threadblock 0, step 1: its scratch chunk has no place")
        self.refused(made.both_ways_all_reduce(), "gpu 1", "has no place")

    def test_attributes(self):
        def changed(path, name, value):
            algorithm = made.ring_all_gather(3)
            node = algorithm.root
            for i in path:
                node = node[i]
            if value is None:
                del node.attrib[name]
            else:
                node.set(name, value)
            return algorithm

        for path, name, value, expected in (
                ((), "coll", "allgahter", 'coll="allgahter" is no collective that can be imported (did you mean \'allgather\'?)'),
                ((), "coll", None, "<algo> has no attribute 'coll'"),
                ((), "ngpus", "1000000", 'ngpus="1000000" of <algo> is not a whole number from 1 to 1024'),
                ((), "ngpus", "4", 'there is no <gpu id="3">, but ngpus is 4'),
                ((), "inplace", "yes", 'inplace="yes" of <algo> is not a whole number from 0 to 1'),
                ((), "proto", "Fast", 'proto="Fast" is none of Simple, LL and LL128'),
                ((1,), "id", "0", "gpu 0: there are two elements <gpu> with this id"),
                ((1,), "o_chunks", "4", "gpu 1: o_chunks is 4, but 3 of gpu 0"),
                ((1,), "i_chunks", "99999999999", 'gpu 1: i_chunks="99999999999" of <gpu> is not a whole number'),
                ((1, 0), "id", "3", "gpu 1: threadblock 3 stands where 0 is expected"),
                ((1, 0), "send", "3", 'gpu 1, threadblock 0: send="3" of <tb> is not a whole number from -1 to 2'),
                ((1, 0), "send", "1", "gpu 1, threadblock 0: it has its own GPU as a peer"),
                ((1, 0), "send", "-1", "gpu 1, threadblock 0, step 0: 's' sends, but its threadblock has send=\"-1\""),
                ((1, 0), "recv", "-1", "gpu 1, threadblock 0, step 1: 'rcs' receives, but its threadblock has recv=\"-1\""),
                ((1, 0), "chan", "9", 'chan="9" of <tb> is not a whole number from 0 to 7'),
                ((1, 0, 1), "type", "rsc", "gpu 1, threadblock 0, step 1: type=\"rsc\" is no type of a step"),
                ((1, 0, 1), "s", "2", "gpu 1, threadblock 0: step 2 stands where 1 is expected"),
                ((1, 0, 1), "dstbuf", "q", 'gpu 1, threadblock 0, step 1: dstbuf="q" is no buffer'),
                ((1, 0, 1), "dstoff", "3", "gpu 1, threadblock 0, step 1: o[3] is outside of the buffer, which has 3 chunks"),
                ((1, 0, 1), "cnt", "0", 'cnt="0" of <step> is not a whole number from 1 to 65536'),
                ((1, 0, 1), "hasdep", None, "gpu 1, threadblock 0, step 1: <step> has no attribute 'hasdep'")):
            with self.subTest(f"{name}={value}"):
                self.refused(changed(path, name, value), "error: <stdin>: ", expected)

    def test_what_is_no_algorithm(self):
        self.refused("", "error: <stdin>: the file is empty, and so is neither MSCCL's XML nor MSCCL++'s JSON")
        self.refused("<algo>\n<gpu\n", "error: <stdin>:", "this is no XML")
        self.refused("<program/>", "the root element is <program>, not <algo>")
        self.refused("\0\0", "<stdin>: the file begins with neither '<' nor '{'")
        self.refused(made.ring_all_gather(3).text() + "\nChecked.\n", "there is more than the element <algo>:  Checked.")
        status, _, err = schedc("import", self.path("none.xml"))
        self.assertEqual((status, "none.xml" in err), (1, True))
        status, _, err = schedc("import", "-", "-o", self.path("none/a.sched"), text=made.ring_all_gather(3).text())
        self.assertEqual(status, 1)
        self.assertEqual(schedc("import")[0], 2)

    def test_subcommands(self):
        said = ("error: there is no subcommand 'impord' (did you mean 'import'?)\n"
                "  hint: these are the subcommands: check, explain, predict, simulate, fmt, synthesize, import, lsp\n")
        self.assertEqual(schedc("impord", "x"), (2, "", said))


class Mutants(Import):
    """Files that something was done to: an error or a proved schedule, never anything else."""

    def test_mutants(self):
        dice = random.Random(1)
        seen = {0: 0, 1: 0}
        for _ in range(MUTANTS):
            algorithm = dice.choice(list(RIGHT.values()))[0]()
            text = repeated(dice, algorithm) if dice.random() < 0.3 else mutant(dice, algorithm)
            status, out, err = schedc("import", "-", "--timeout", "20", text=text)
            self.assertIn(status, seen, f"{err}\n{text}")
            self.assertEqual(status == 0, out != "", text)
            if status == 0:
                self.assertIsNone(why_wrong(text), f"{text}\n{out}")
            self.assertEqual(status != 0, "error: " in err, f"{err}\n{text}")
            seen[status] += 1
        self.assertGreater(min(seen.values()), MUTANTS // 50)


RECEIVES = ("r", "rrc", "rrs", "rcs", "rrcs")
SENDS = ("s", "rcs", "rrs", "rrcs")


def repeat_step(gpu, block, index):
    """Does a step twice. What waited for it waits for the second."""
    block.insert(index, copy.deepcopy(block[index]))
    for number, step in enumerate(block):
        step.set("s", str(number))
    for step in gpu.iter("step"):
        if step.get("depid") == block.get("id") and int(step.get("deps")) >= index:
            step.set("deps", str(int(step.get("deps")) + 1))
    block[index].set("hasdep", "1")
    block[index + 1].set("hasdep", "1")


def repeated(dice, algorithm):
    """Sends a message, or adds a chunk, twice."""
    gpus = list(algorithm.root)
    gpu = dice.choice(gpus)
    block = dice.choice([one for one in gpu if len(one) > 0])
    index = dice.randrange(len(block))
    if block[index].get("type") in ("re", "cpy"):
        repeat_step(gpu, block, index)
    elif block[index].get("type") == "s":
        number = sum(step.get("type") in SENDS for step in block[:index])
        receiver = gpus[int(block.get("send"))]
        for other in receiver:
            if other.get("recv") == gpu.get("id") and other.get("chan") == block.get("chan"):
                at = [i for i, step in enumerate(other) if step.get("type") in RECEIVES][number]
                if other[at].get("type") in ("r", "rrc"):
                    repeat_step(gpu, block, index)
                    repeat_step(receiver, other, at)
    return algorithm.text()


def mutant(dice, algorithm):
    nodes = list(algorithm.root.iter())
    for _ in range(dice.randint(1, 3)):
        node = dice.choice(nodes)
        kind = dice.randrange(6)
        if kind == 0 and len(node) > 0:
            node.remove(dice.choice(list(node)))
        elif kind == 1 and len(node) > 1:
            node.insert(0, node[-1])
        elif kind == 2 and node.attrib:
            del node.attrib[dice.choice(list(node.attrib))]
        elif node.attrib:
            name = dice.choice(list(node.attrib))
            like = dice.choice([other for other in nodes if other.tag == node.tag])
            value = dice.choice(("-1", "0", "1", "2", "s", "o", "99999", "r", "re", "cpy", like.get(name, "")))
            node.set(name, like.get(name, "") if dice.random() < 0.5 else value)
    text = algorithm.text()
    if dice.random() < 0.1:
        at = dice.randrange(len(text))
        text = text[:at] + text[at + dice.randint(1, 20):]
    return text


if __name__ == "__main__":
    PROGRAMS += sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
