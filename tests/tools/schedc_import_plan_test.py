#!/usr/bin/python3
"""schedc import: execution plans in MSCCL++'s JSON become proved schedules, and wrong ones are refused with their operation.

usage: tests/tools/schedc_import_plan_test.py SCHEDC [HOCKET_RUN HOCKET_BENCH]

With hocket-run and hocket-bench, the schedules also run.
"""
import copy
import json
import os
import random
import re
import sys
import time
import unittest
from collections.abc import Callable

import schedc_import_plans as made
from schedc_import_case import PROGRAMS, Import, rounds, schedc
from schedc_import_plan_model import why_wrong

LONG = os.environ.get("HOCKET_TEST_LONG") == "1"
MUTANTS = 1500 if LONG else 250
# name: the plan, a transfer that the text has, its rounds. Those of `NEW` cannot be said in the first generation of the format.
RIGHT: dict = {
    "ring": (lambda: made.ring_all_reduce(4), "x[r - s] : r +> r + 1", 6),
    "ring of three": (lambda: made.ring_all_reduce(3), "x[r + 1 - s] : r -> r + 1", 4),
    "one phase": (lambda: made.one_phase_all_reduce(3), "x : r +> r + 1  # gpu 0 tb 0 op 0, gpu 1 tb 0 op 2", 1),
    "two phases": (lambda: made.two_phase_all_reduce(4), "x[r + 2] : r +> r + 2", 2),
    "two phases with parts": (lambda: made.two_phase_all_reduce(2, 3), "x[r + 1] : r +> r + 1", 2),
    "direct": (lambda: made.direct_all_gather(4), "x[r] : r -> r + 2", 1),
    "direct of two": (lambda: made.direct_all_gather(2, 2), "x[r] : r -> r + 1", 1),
    "direct out of place": (lambda: made.direct_all_gather(3, 2, False), "x[r] : r -> r - 1", 1),
    "reading": (lambda: made.reading_reduce_scatter(4), "x[r + 2] : r +> r + 2", 1),
    "reading out of place": (lambda: made.reading_reduce_scatter(3, False), "x[r + 1] : r +> r + 1", 1),
    "all pairs": (lambda: made.sending_all_reduce(3), "x[r + 1] : r +> r + 1", 2),
    "all pairs in parts": (lambda: made.sending_all_reduce(2, 4), "x[r] : r -> r + 1", 2),
    "all_to_all": (lambda: made.direct_all_to_all(4), "x[r + 1] : r -> y[r] : r + 1", 1),
    "hierarchical": (made.hierarchical_all_reduce, "x0 : 0 +> 2", 3),
    "ports": (lambda: made.port_all_gather(3), "x[r] : r -> r + 1", 1),
    "stores": (lambda: made.switch_all_gather(4), "x[r] : r -> r + 2", 1),
    "switch": (lambda: made.switch_all_reduce(4), "x[r + 2] : r +> r + 2", 2),
    "loops": (lambda: made.looping_all_reduce(3), "x[r + 1] : r +> r + 1", 2),
    "shared": (lambda: made.shared_all_gather(3), "x[r] : r -> r + 1", 1),
    "shared by three": (lambda: made.shared_all_gather(2, 3), "x[r] : r -> r + 1", 1),
    "copies": (made.copying_packets_all_reduce, "x[r + 1] : r +> r + 1", 2),
    "chain": (lambda: made.chain_broadcast(4, 2), "x : root + 1 -> root + 2", 3),
    "res": (made.reducing_and_sending, "x[r + 1] : r +> r + 1", 2),
    "gets": (lambda: made.getting_all_gather(3), "x[r] : r -> r + 1", 1),
    "ring of packets": (lambda: made.ring_of_packets(4), "x[r - s] : r -> r + 1", 3),
    "send and receive": (lambda: made.send_and_receive(4), "each r in g\n        x : r -> r + 1  # gpu 0 tb 0 op 2, gpu 1 tb 0 op 3", 1),
}
NEW = ("stores", "loops", "shared", "shared by three", "copies")


def changed(plan, path, value):
    """The plan's tree with another value at this path of it; None: without it."""
    tree = plan.tree()
    node = tree
    for one in path[:-1]:
        node = node[one]
    if value is None:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return json.dumps(tree)


def op(gpu, tb, number, *more):
    return ("gpus", gpu, "threadblocks", tb, "ops", number, *more)


def sent_in_parts(sends_by, waits_by):
    """A broadcast whose two ends have pipelines of these units."""
    plan = made.Plan("broadcast", 2, (1, 1, 1))
    sends = plan.loop(0, 0, 1, unit=sends_by)
    sends.op("put", [(0, "o", 0, 1)], [(1, "s", 0, 1)], "memory")
    sends.op("nop")
    sends.op("signal", kind="memory", peers=[1])
    waits = plan.loop(1, 0, 1, unit=waits_by)
    waits.op("wait", kind="memory", peers=[0])
    waits.op("nop")
    waits.op("copy", [(1, "s", 0, 1)], [(1, "o", 0, 1)])
    return plan


def forwarded_packets():
    """A broadcast that one operation sends on to two GPUs."""
    plan = made.Plan("broadcast", 4, (1, 1, 3), protocol="LL")
    plan.op(0, 0, "ppkt", [(0, "i", 0, 1)], [(1, "s", 1, 1)], "memory")
    plan.op(1, 0, "rppkt", [(1, "s", 1, 1)], [(2, "s", 2, 1), (3, "s", 2, 1)], "memory")
    plan.op(1, 0, "upkt", [(1, "s", 1, 1)], [(1, "o", 0, 1)])
    for rank in (2, 3):
        plan.op(rank, 0, "upkt", [(rank, "s", 2, 1)], [(rank, "o", 0, 1)])
    return plan


def short_broadcast():
    plan = made.Plan("broadcast", 2, (1, 1, 0))
    plan.op(0, 0, "put", [(0, "o", 0, 1)], [(1, "o", 0, 1)], "memory")
    plan.nop(0, 0)
    plan.op(0, 0, "signal", kind="memory", peers=[1])
    plan.op(1, 0, "wait", kind="memory", peers=[0])
    return plan


def long_barrier(blocks, times):
    """Two threadblocks take turns, while others wait for them."""
    plan = short_broadcast()
    plan.semaphores[0] = [0, 0]
    tree = plan.tree()
    all_blocks = tree["gpus"][0]["threadblocks"]
    turns = [{"name": "sem_release", "semaphore_ids": [0]}, {"name": "sem_acquire", "semaphore_ids": [1]}]
    answers = [{"name": "sem_acquire", "semaphore_ids": [0]}, {"name": "sem_release", "semaphore_ids": [1]}]
    barrier = {"name": "barrier", "barrier_id": 0, "num_threadblocks": blocks + 2}
    all_blocks[0]["ops"] += turns * times + [barrier]
    all_blocks.append({"id": 1, "channels": [], "remote_buffer_refs": [], "ops": answers * times + [barrier]})
    all_blocks += [{"id": number + 2, "channels": [], "remote_buffer_refs": [], "ops": [barrier]} for number in range(blocks)]
    return tree


def long_reading(times):
    """One chunk is read again and again."""
    tree = short_broadcast().tree()
    tree["gpus"][0]["scratch_chunks"] = times
    tree["gpus"][0]["threadblocks"][0]["ops"][0:0] = [
        {"name": "copy", "src_buff": [{"type": "o", "index": 0, "size": 1}], "dst_buff": [{"type": "s", "index": number, "size": 1}]} for number in range(times)]
    return tree


def long_chain(length):
    """Packets go back and forth."""
    plan = made.Plan("broadcast", 2, (1, 1, length + 1), protocol="LL")
    plan.op(0, 0, "ppkt", [(0, "o", 0, 1)], [(1, "s", 0, 1)], "memory")
    for number in range(length):
        me = 1 - number % 2
        plan.op(me, 0, "rppkt", [(me, "s", number, 1)], [(1 - me, "s", number + 1, 1)], "memory")
    plan.op(1, 1, "upkt", [(1, "s", 0, 1)], [(1, "o", 0, 1)])
    return plan.tree()


def many_groups(count):
    tree = short_broadcast().tree()
    tree["gpus"][0]["channels"].append({"channel_type": "switch", "buffer_type": "i", "rank_groups": [{"size": 1, "ranks": [0]}] * (count - 1) + [{"size": 1, "ranks": [0, 1]}]})
    return tree


class Right(Import):
    def test_plans_are_proved(self):
        for name, (make, expected, count) in RIGHT.items():
            with self.subTest(name):
                plan = make()
                text = self.imported(plan)
                self.assertIn(expected, text)
                self.assertEqual(rounds(text), count)
                self.assertNotIn("does not wait", text)
                self.assertIsNone(why_wrong(plan.text(), 8))
                self.proved(text, plan.ranks, 3 if name == "send and receive" else 2)

    def test_other_numbers_of_ranks(self):
        makers: tuple[Callable[[int], made.Plan], ...] = (
            made.ring_all_reduce, made.one_phase_all_reduce, made.two_phase_all_reduce, made.direct_all_gather, made.reading_reduce_scatter,
            made.sending_all_reduce, made.direct_all_to_all, made.port_all_gather, made.ring_of_packets, made.send_and_receive,
            made.switch_all_reduce, made.looping_all_reduce, made.shared_all_gather, lambda ranks: made.chain_broadcast(ranks, 3))
        for make in makers:
            for ranks in (2, 5, 8):
                plan = make(ranks)
                with self.subTest(f"{plan.head['name']} on {ranks}"):
                    self.imported(plan)
                    self.assertIsNone(why_wrong(plan.text(), 1))
        plan = made.hierarchical_all_reduce(2, 3)
        self.imported(plan)
        self.assertIsNone(why_wrong(plan.text()))

    def test_both_generations_say_the_same(self):
        for name, (make, _, _) in RIGHT.items():
            if name not in NEW:
                with self.subTest(name):
                    self.assertEqual(self.imported(make().text(old=True)), self.imported(make()))

    def test_schedules_run(self):
        if len(PROGRAMS) < 3:
            self.skipTest("neither hocket-run nor hocket-bench was named")
        for name, (make, _, _) in RIGHT.items():
            if name != "send and receive":  # hocket-bench knows no collectives of files
                with self.subTest(name):
                    self.run_on(self.imported(make()), make().ranks)

    def test_the_format_is_found_by_its_content(self):
        source = self.path("plan.xml", "\n  " + made.ring_all_reduce(3).text())
        target = self.path("ring.sched")
        self.assertEqual(schedc("import", source, "-o", target), (0, "", ""))
        with open(target, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith(f"# Imported from {source} (MSCCL++: ring allreduce on 3 GPUs, in place).\n# 4 rounds; comments name the file's ops"))
        self.assertIn("algorithm ring_allreduce all_reduce(x) over g where g.size == 3 {", text)

    def test_what_is_not_carried_over_is_said(self):
        plan = made.ring_all_reduce(3)
        plan.head.update(min_message_size=1024, max_message_size=1 << 20, num_threads_per_block=512, buffer_alignment=16)
        self.assertIn("# The file is for messages of 1024 to 1048576 bytes; the schedule is for all sizes.\n", self.imported(plan))
        plan.head.update(max_message_size=2**64 - 1)
        self.assertIn("# The file is for messages of at least 1024 bytes; the schedule is for all sizes.\n", self.imported(plan))
        plan.head.update(min_message_size=0)
        self.assertNotIn("bytes", self.imported(plan))
        for unfinished in (made.direct_all_gather(3), made.switch_all_reduce(3)):
            for gpu in unfinished.blocks:
                for ops in gpu:
                    del ops[-4:]
            self.assertIn("# In the file gpu 0 does not wait for what gpu 1 tb 0 op ", self.imported(unfinished))

    def test_shared_work_makes_chunks_smaller(self):
        plan = made.Plan("broadcast", 2, (1, 1, 0), name="halves")  # one half is put by one threadblock, the other by another, later
        for tb in range(2):
            plan.op(0, tb, "put", [(0, "o", 0, 1)], [(1, "o", 0, 1)], "memory", tbg_info={"tb_id": tb, "tbg_size": 2})
            plan.nop(0, tb)
            plan.op(0, tb, "signal", kind="memory", peers=[1], tag=tb)
            plan.op(1, tb, "wait", kind="memory", peers=[0], tag=tb)
        self.assertIn("x : root -> root + 1", self.imported(plan))
        del plan.blocks[0][1][0]
        self.refused(plan, "gpu 1: no op writes part 1 of 2 of chunk 0 of 1 of its result")

    def test_sends_and_receives(self):
        plan = made.send_and_receive(3)
        self.assertIn("collective shift(x) over g {\n    before each r in g  x : r\n    after each r in g  x : r = x : r - 1\n}", self.imported(plan))
        wrong = made.send_and_receive(3)
        wrong.blocks[1][0][3]["src"] = [(1, "s", 0, 1)]
        self.refused(wrong, "it gets chunk 0 of gpu 1: all GPUs must get the input of the one equally many numbers before them")

    def test_packets_that_several_threadblocks_write(self):
        plan = made.Plan("allgather", 2, (1, 2, 2), protocol="LL")
        for rank in range(2):
            for tb in range(2):
                plan.op(rank, tb, "cpkt", [(rank, "o", rank, 1)], [(rank, "s", 0, 1)])
            plan.nop(rank, 0)
            plan.op(rank, 0, "ppkt", [(rank, "s", 0, 1)], [(1 - rank, "s", 1, 1)], "port")
            plan.op(rank, 1, "upkt", [(rank, "s", 1, 1)], [(rank, "o", 1 - rank, 1)])
        self.imported(plan)


    def test_data_and_packets_with_one_number(self):
        """They lie apart: packets take twice the room."""
        plan = made.Plan("allgather", 2, (1, 2, 2), protocol="LL")
        for rank in range(2):
            plan.op(rank, 0, "copy", [(rank, "o", rank, 1)], [(rank, "s", 1, 1)])
            plan.op(rank, 0, "ppkt", [(rank, "o", rank, 1)], [(1 - rank, "s", 1, 1)], "memory")
            plan.nop(rank, 0)
            plan.op(rank, 0, "upkt", [(rank, "s", 1, 1)], [(rank, "o", 1 - rank, 1)])
            plan.op(rank, 0, "copy", [(rank, "s", 1, 1)], [(rank, "o", rank, 1)])
        self.assertIn("x[r] : r -> r + 1", self.imported(plan))
        self.assertIsNone(why_wrong(plan.text()))

    def test_two_signals_of_one_channel(self):
        plan = made.Plan("broadcast", 2, (1, 1, 0))
        plan.op(0, 0, "put", [(0, "o", 0, 1)], [(1, "o", 0, 1)], "memory")
        plan.nop(0, 0)
        for _ in range(2):
            plan.op(0, 0, "signal", kind="memory", peers=[1])
            plan.op(1, 0, "wait", kind="memory", peers=[0])
        self.imported(plan)

    def test_packets_that_come_back_to_their_place(self):
        plan = made.Plan("allgather", 2, (1, 2, 2), protocol="LL", use_double_scratch_buffer=True)
        for rank in range(2):
            plan.op(rank, 0, "cpkt", [(rank, "o", rank, 1)], [(rank, "s", rank, 1)])
            plan.op(rank, 0, "gstorepkt", [(rank, "s", rank, 1)], [("all", "s", rank, 1)], "switch")
            plan.op(rank, 1, "upkt", [(rank, "s", 1 - rank, 1)], [(rank, "o", 1 - rank, 1)])
        self.assertIn("x[r] : r -> r + 1", self.imported(plan))
        self.assertIsNone(why_wrong(plan.text(), 8))

    def test_long_plans_take_little_time(self):
        """Each of them took a minute or more when its numbers were counted anew for each operation."""
        start = time.monotonic()
        self.imported(json.dumps(long_barrier(1000, 4000)))
        self.imported(json.dumps(long_reading(40000)))
        self.imported(json.dumps(long_chain(4000)))
        self.refused(json.dumps(many_groups(60000)), "gpu 0: it has a group of ranks for the switch that gpu 1 does not have")
        self.assertLess(time.monotonic() - start, 60)


class Wrong(Import):
    def test_races_of_threadblocks(self):
        plan = made.ring_all_reduce(3)
        del plan.blocks[1][0][4]  # the nop behind the first wait
        self.refused(plan, "<stdin>: gpu 1, threadblock 0, op 4: it uses a scratch chunk that op 0 of threadblock 0 of gpu 0 uses, too, and one of the two writes it",
                     "hint: between operations of a threadblock stands a nop")
        self.assertIsNotNone(why_wrong(plan.text(), 40))
        plan = made.ring_all_reduce(3)
        del plan.blocks[0][0][1]  # the nop between the first put and its signal
        self.refused(plan, "gpu 1, threadblock 0, op 5: it uses a scratch chunk that op 0 of threadblock 0 of gpu 0 uses, too")
        self.assertIsNotNone(why_wrong(plan.text(), 40))
        plan = made.one_phase_all_reduce(3)
        del plan.blocks[0][0][1]
        self.refused(plan, "gpu 0, threadblock 0, op 1: it uses a buffer's chunk that op 0 of threadblock 0 uses, too")
        self.assertIsNotNone(why_wrong(plan.text(), 40))
        plan = made.direct_all_gather(3)
        extra = made.Plan("allgather", 3, (1, 3, 0))
        extra.blocks = plan.blocks
        extra.op(1, 2, "put", [(1, "o", 1, 1)], [(0, "o", 2, 1)], "memory")  # where GPU 2 puts its chunk
        self.refused(extra, "gpu 2, threadblock 0, op 0: it uses a buffer's chunk that op 0 of threadblock 2 of gpu 1 uses, too")

    def test_signals_that_order_nothing(self):
        plan = made.ring_all_reduce(3)
        for gpu in range(3):
            for one in plan.blocks[gpu][0]:
                if one["name"] in ("signal", "wait"):
                    one["name"] = "rlx" + one["name"]
        self.refused(plan, "op 5: it uses a scratch chunk")
        plan = made.sending_all_reduce(2)  # what is only read may be written behind a relaxed signal
        self.imported(plan)
        for gpu in range(2):
            for one in plan.blocks[gpu][0][:4]:
                if one["name"] in ("signal", "wait"):
                    one["name"] = "rlx" + one["name"]
        self.imported(plan)

    def test_port_channels(self):
        plan = made.hierarchical_all_reduce()
        for gpu in range(4):
            plan.blocks[gpu][0][7]["name"] = "pws"
        self.refused(plan, "op 10: it uses a buffer's chunk that op 7 of threadblock 0 uses, too")  # which may be on its way
        self.assertIsNotNone(why_wrong(plan.text(), 40))
        plan = made.Plan("broadcast", 2, (2, 2, 1))
        plan.op(0, 0, "put", [(0, "o", 0, 1)], [(1, "o", 0, 1)], "port")
        plan.op(0, 0, "signal", kind="port", peers=[1], bufs=("o", "o"))
        plan.nop(0, 0)
        plan.op(0, 0, "copy", [(0, "o", 1, 1)], [(0, "o", 0, 1)])
        plan.op(1, 0, "wait", kind="port", peers=[0], bufs=("o", "o"))
        self.refused(plan, "gpu 0, threadblock 0, op 3: it uses a buffer's chunk that op 0 of threadblock 0 uses, too")
        plan.blocks[0][0].insert(2, plan.op(0, 1, "wait", kind="memory", peers=[1]))  # an answer tells that the put is over
        plan.blocks[0].pop()
        plan.nop(1, 0)
        plan.op(1, 0, "signal", kind="memory", peers=[0])
        plan.op(1, 0, "copy", [(1, "o", 0, 1)], [(1, "s", 0, 1)])
        self.refused(plan, "gpu 1: no op writes chunk 1 of 2 of its result")
        plan = made.Plan("broadcast", 2, (1, 1, 1))
        plan.op(0, 0, "put", [(0, "o", 0, 1)], [(1, "o", 0, 1)], "port")
        plan.op(0, 1, "signal", kind="port", peers=[1], bufs=("o", "o"))  # nothing says that the put has begun
        plan.op(1, 0, "wait", kind="port", peers=[0], bufs=("o", "o"))
        plan.nop(1, 0)
        plan.op(1, 0, "copy", [(1, "o", 0, 1)], [(1, "s", 0, 1)])
        self.refused(plan, "gpu 1, threadblock 0, op 2: it uses a buffer's chunk that op 0 of threadblock 0 of gpu 0 uses, too")
        plan = made.send_and_receive(3)
        del plan.blocks[2][0][1]
        self.refused(plan, "gpu 2, threadblock 0, op 1: it puts packets that need not be there yet")

    def test_packets(self):
        plan = made.two_phase_all_reduce(3)
        plan.head["protocol"] = "Simple"
        self.refused(plan, "gpu 0, threadblock 0, op 0: it uses packets, but \"protocol\" is \"Simple\"", "hint: write \"protocol\": \"LL\"")
        plan = made.two_phase_all_reduce(3)
        plan.op(0, 2, "ppkt", [(0, "i", 0, 1)], [(1, "s", 0, 1)], "memory")
        self.refused(plan, "it writes packets to s[0] of gpu 1, where other packets have been written before")
        plan = made.two_phase_all_reduce(3)
        plan.op(0, 2, "copy", [(0, "i", 0, 1)], [(0, "s", 5, 1)])
        self.refused(plan, "s[2] of gpu 0 holds packets, and other operations have data there: packets take twice the room")
        plan = made.two_phase_all_reduce(3)
        plan.op(0, 2, "cpkt", [(0, "i", 0, 1)], [(0, "i", 1, 1)])
        self.refused(plan, "gpu 0, threadblock 2, op 0: 'cpkt' has packets in i[1]: MSCCL++ has them in scratch buffers only")

    def test_matching(self):
        plan = made.direct_all_gather(3)
        del plan.blocks[1][0][-2]
        self.refused(plan, "gpu 0, threadblock 0, op 3: it signals on memory channel 0 to gpu 1, which waits for 0 signals of gpu 0 there, not 1")
        plan = made.direct_all_gather(3)
        del plan.blocks[1][0][-3]
        self.refused(plan, "gpu 0, threadblock 0, op 4: it waits for gpu 1, which signals 0 times on memory channel 0 to gpu 0, not 1")
        plan = made.direct_all_gather(3)
        plan.op(0, 1, "signal", kind="memory", peers=[1])
        plan.op(1, 0, "wait", kind="memory", peers=[0])
        self.refused(plan, "gpu 0, threadblock 1, op 6: threadblock 0 signals on the same channel, too: which of them comes first is not known")
        plan = made.direct_all_gather(3)
        plan.blocks[2][1][1]["fields"]["num_threadblocks"] = 3
        self.refused(plan, "gpu 2, threadblock 1, op 1: barrier 0 is one of 3 threadblocks, but of 2 in gpu 2 tb 0 op 1")
        plan = made.direct_all_gather(3)
        del plan.blocks[2][1][1]
        self.refused(plan, "gpu 2, threadblock 0, op 1: barrier 0 is one of 2 threadblocks, but 1 uses it")
        plan = made.direct_all_gather(3)
        plan.op(2, 1, "barrier", barrier_id=0, num_threadblocks=2)
        self.refused(plan, "threadblock 1 comes to barrier 0 2 times, but threadblock 0 1 times")

    def test_standstill(self):
        plan = made.Plan("allgather", 2, (1, 2, 0))
        for rank in range(2):
            plan.op(rank, 0, "wait", kind="memory", peers=[1 - rank])
            plan.op(rank, 0, "signal", kind="memory", peers=[1 - rank])
        self.refused(plan, "gpu 0, threadblock 0, op 0: nothing goes on here: gpu 0 tb 0 op 0 waits for a signal of gpu 1; gpu 1 tb 0 op 0 waits for a signal of gpu 0")
        plan = made.two_phase_all_reduce(2)
        plan.blocks[0][0][0]["dst"] = [(1, "s", 3, 1)]
        self.refused(plan, "gpu 1 tb 0 op 1 waits for packets in s[0] of gpu 1")
        plan = made.looping_all_reduce(2)
        plan.semaphores[0][2] = 0
        self.refused(plan, "gpu 0 tb 0 op 0.0 waits for semaphore 2")

    def test_loops(self):
        plan = made.looping_all_reduce(2)
        plan.blocks[0][0][0]["chunks"] = 2
        self.refused(plan, "gpu 0, threadblock 0, op 0.2: it has 1 chunk, but its pipeline goes over 2")
        plan = made.looping_all_reduce(2)
        plan.blocks[0][0][0]["ops"][2]["fields"]["tbg_info"] = {"tb_id": 0, "tbg_size": 2}
        self.refused(plan, "gpu 0, threadblock 0, op 0.2: it is in a pipeline, and shared by threadblocks")
        plan = made.looping_all_reduce(2)  # right with one round: with two, the signal comes once
        plan.blocks[0][0][1:] = [plan.blocks[0][0][0]["ops"].pop(5)]
        self.refused(plan, "gpu 1, threadblock 0, op 0.6: it waits for gpu 0, which signals 1 time on memory channel 0 to gpu 1, not 2")

    def test_contents(self):
        plan = made.direct_all_gather(3)
        plan.blocks[0][0][0]["dst"] = [(1, "o", 1, 1)]
        self.refused(plan, "error: <stdin>: gpu ")
        plan = made.direct_all_to_all(3)
        plan.blocks[0][0][0]["src"] = [(0, "s", 0, 1)]
        self.refused(plan, "gpu 0, threadblock 0, op 0: it reads a chunk that holds nothing yet", "hint: put or copy the chunk there")
        plan = made.ring_all_reduce(3)
        del plan.blocks[0][0][5:7]  # the first sum
        self.refused(plan, "error: algorithm ring_allreduce all_reduce on 3 ranks: rank ", "missing the part of rank", "# gpu 0 tb 0 op 12, and on", "<stdin>: not imported",
                     "their comments name its ops")
        plan = made.getting_all_gather(3)
        plan.blocks[0][0][4]["src"] = [(1, "o", 0, 1)]
        self.refused(plan, "'get' brings o[0] to o[1]: MSCCL++'s executor exchanges the two places")
        plan = made.one_phase_all_reduce(3)
        plan.blocks[0][0][0]["src"] = [(0, "i", 0, 1), (0, "o", 0, 1)]
        self.refused(plan, "'ppkt' has sources in several buffers")

    def test_fields(self):
        plan = made.direct_all_gather(3)
        ports = made.port_all_gather(3)
        wrong: tuple = (
            (("collective",), "allgahter", 'collective="allgahter" is no collective that can be imported (did you mean \'allgather\'?)'),
            (("collective",), None, '<stdin>: there is no "collective"'),
            (("inplace",), "yes", '"inplace" is "yes", not true or false'),
            (("protocol",), "LL128", '"protocol" is "LL128", none of Simple and LL'),
            (("gpus",), [], '"gpus" has 0 GPUs, not 1 to 1024'),
            (("gpus", 1), 7, "gpu 1: a GPU is 7, not an object"),
            (("gpus", 1, "id"), 0, 'gpu 1: "id" is 0 where 1 is expected'),
            (("gpus", 1, "output_chunks"), 4, "gpu 1: output_chunks is 4, but 3 of gpu 0"),
            (("gpus", 1, "output_chunks"), 1e3, 'gpu 1: "output_chunks" is 1000.0, not a whole number from 0 to 65536'),
            (("gpus", 1, "input_chunks"), 2**70, 'gpu 1: "input_chunks" is '),
            (("gpus", 1, "input_chunks"), -1, 'gpu 1: "input_chunks" is -1'),
            (("gpus", 1, "channels", 0, "channel_type"), "wire", 'gpu 1: "channel_type" is "wire", which is no kind of channel'),
            (("gpus", 1, "channels", 0, "connected_to", 0), 1, "gpu 1: a channel has its own GPU as a peer"),
            (("gpus", 1, "channels", 0, "connected_to", 0), 3, 'gpu 1: "the peer of a channel" is 3'),
            (("gpus", 1, "threadblocks", 0, "id"), 1, 'gpu 1, threadblock 0: "id" is 1 where 0 is expected'),
            (("gpus", 1, "threadblocks", 0, "channels", 0, "channel_ids", 0), 9, 'gpu 1, threadblock 0: "the number of a channel" is 9'),
            (("gpus", 1, "threadblocks", 0, "remote_buffer_refs", 0, "access_channel_type"), "port", "by a channel that the buffer does not name"),
            (op(1, 0, 0, "name"), "putt", "gpu 1, threadblock 0, op 0: 'putt' is no operation that can be imported"),
            (op(1, 0, 0, "src_buff"), None, "gpu 1, threadblock 0, op 0: 'put' has too few sources"),
            (op(1, 0, 0, "src_buff", 0, "size"), 2, "op 0: 'put' has a range of 2 chunks and one of 1"),
            (op(1, 0, 0, "src_buff", 0, "index"), 1, "op 0: i[1] is outside of the buffer, which has 1 chunk"),
            (op(1, 0, 0, "dst_buff", 0, "index"), 3, "op 0: o[3] is outside of the buffer of gpu 0, which has 3 chunks"),
            (op(1, 0, 0, "dst_buff", 0, "buffer_id"), 4, 'op 0: "buffer_id" is 4'),
            (op(1, 0, 0, "dst_buff", 0, "type"), "o", 'must have one of "type", "buffer_id" and "switch_channel_id"'),
            (op(1, 0, 0, "channel_type"), "none", "op 0: "),
            (op(1, 0, 0, "name"), "pws", "op 0: 'pws' on a memory channel does not signal in MSCCL++"),
            (op(1, 0, 0, "wide"), True, 'op 0: an operation of this kind has the field "wide", which is not known'),
            (op(1, 0, 0, "barrier_id"), 0, 'op 0: an operation of this kind has the field "barrier_id"'),
            (op(1, 0, 0, "reduce_op"), "max", '"reduce_op" is "max"'),
            (op(1, 0, 3, "channel_ids"), [], "op 3: it names no channel"),
            (op(1, 0, 1, "num_threadblocks"), None, 'op 1: there is no "num_threadblocks"'))
        for path, value, expected in wrong:
            with self.subTest(f"{path}={value}"):
                self.refused(changed(plan, path, value), "error: <stdin>: ", expected)
        self.refused(changed(ports, op(0, 0, 0, "channel_ids"), [1, 0]), "target 0 is of gpu 1, but its channel goes to gpu 2")
        self.refused(changed(made.getting_all_gather(3), op(0, 0, 4, "channel_type"), "port"), "gpu 0, threadblock 0, op 4: ")
        switch = changed(made.switch_all_reduce(3), ("gpus", 1, "channels", 2, "rank_groups", 0, "ranks"), [1, 2])
        self.refused(switch, "gpu 0: it has a group of ranks for the switch that gpu 1 does not have")
        old = made.ring_all_reduce(3).tree(old=True)
        old["gpus"][0]["threadblocks"][0]["ops"][1]["deps"] = [{"tb": 1, "step": 0}]
        self.refused(json.dumps(old), 'gpu 0, threadblock 0, op 1: "deps" names threadblock 1, which MSCCL++ does not wait for')

    def test_rounds_of_pipelines(self):
        expected = "their rounds are not equally many", "hint: let both stand in pipelines with the same num_chunks and unit_size"
        plan = sent_in_parts(1024, 4096)
        self.refused(plan, "gpu 0, threadblock 0, op 0.2: it signals in a pipeline of 1 chunk in units of 1024 bytes, and the wait for it stands in a pipeline of "
                     "1 chunk in units of 4096 bytes (gpu 1 tb 0 op 0.0)", *expected)
        self.imported(sent_in_parts(1024, 1024))
        plan = sent_in_parts(1024, 1024)  # with an answer, which is there before the first round
        plan.blocks[1][0].insert(0, plan.op(1, 1, "signal", kind="memory", peers=[0]))
        plan.blocks[1].pop()
        plan.blocks[0][0][0]["ops"][0:0] = [plan.op(0, 1, "wait", kind="memory", peers=[1]), plan.op(0, 1, "nop")]
        plan.blocks[0].pop()
        plan.blocks[1][0][1]["ops"] += [plan.op(1, 1, "nop"), plan.op(1, 1, "signal", kind="memory", peers=[0])]
        plan.blocks[1].pop()
        plan.op(0, 0, "wait", kind="memory", peers=[1])
        self.imported(plan)
        first, second = sent_in_parts(1024, 4096), sent_in_parts(4096, 1024)
        for gpu in range(2):
            first.blocks[gpu][0] += second.blocks[gpu][0]
        self.refused(first, "gpu 0, threadblock 0, op 0.2: it signals in a pipeline of 1 chunk in units of 1024 bytes", *expected)
        plan = made.looping_all_reduce(2)
        plan.blocks[1][1][0]["unit"] = 4096
        self.refused(plan, "gpu 1, threadblock 1, op 0.0: it acquires a semaphore in a pipeline of 1 chunk in units of 4096 bytes, and the release of it stands in "
                     "a pipeline of 1 chunk in units of 1024 bytes (gpu 1 tb 0 op 0.", *expected)
        plan = made.Plan("broadcast", 2, (2, 2, 0))
        for tb in range(2):
            loop = plan.loop(0, tb, tb + 1)
            loop.op("barrier", barrier_id=0, num_threadblocks=2)
        self.refused(plan, "gpu 0, threadblock 1, op 0.0: it comes to a barrier in a pipeline of 2 chunks in units of 1024 bytes, and another threadblock does so in "
                     "a pipeline of 1 chunk", *expected)

    def test_packets_in_pipelines(self):
        plan = made.Plan("allreduce", 2, (1, 0, 2), protocol="LL")
        for rank in range(2):
            plan.op(rank, 0, "ppkt", [(rank, "i", 0, 1)], [(1 - rank, "s", 0, 1)], "memory")
            plan.nop(rank, 0)
            loop = plan.loop(rank, 0, 1)
            loop.op("repkt", [(rank, "i", 0, 1), (rank, "s", 0, 1)], [(rank, "i", 0, 1)])
            loop.op("nop")
        self.refused(plan, "gpu 0, threadblock 0, op 2.0: it has packets, and is in a pipeline: MSCCL++'s executor does all of it in each round",
                     "hint: let it stand outside of the pipeline")

    def test_flushes(self):
        plan = made.Plan("broadcast", 2, (2, 2, 2))
        for chunk in range(2):
            plan.op(0, 0, "copy", [(0, "o", chunk, 1)], [(0, "s", 0, 1)])
            plan.nop(0, 0)
            plan.op(0, 0, "put", [(0, "s", 0, 1)], [(1, "o", chunk, 1)], "port", bufs=("s", "o"))
            plan.op(0, 0, "signal", kind="port", peers=[1], bufs=("s", "o"))
            plan.op(0, 0, "flush", kind="port", peers=[1], bufs=("s", "o"))
            plan.nop(0, 0)
            plan.op(1, 0, "wait", kind="port", peers=[0], bufs=("s", "o"))
        self.imported(plan.text(old=True))
        self.refused(plan, "gpu 0, threadblock 0, op 6: it uses a scratch chunk that op 2 of threadblock 0 uses, too")  # there it does nothing
        self.assertIsNotNone(why_wrong(plan.text(), 40))
        for old, field, kind in ((False, "channel_type", "memory"), (True, "ctype", "sm")):
            tree = plan.tree(old)
            tree["gpus"][0]["threadblocks"][0]["ops"][4][field] = kind
            self.refused(json.dumps(tree), f"gpu 0, threadblock 0, op 4: 'flush' has the {field} \"{kind}\", and needs a port channel")

    def test_kinds_of_channels(self):
        plan = made.direct_all_gather(3)
        for kind in ("none", "switch"):
            self.refused(changed(plan, op(0, 0, 3, "channel_type"), kind),
                         f"gpu 0, threadblock 0, op 3: 'signal' has the channel_type \"{kind}\", and needs a memory or a port channel", "hint: name the kind of its channel")
            self.refused(changed(plan, ("gpus", 1, "threadblocks", 0, "remote_buffer_refs", 0, "access_channel_type"), kind),
                         f"gpu 1, threadblock 0: \"access_channel_type\" is \"{kind}\", by which no remote buffer is reached")

    def test_sources_of_the_first_generation(self):
        tree = made.ring_all_reduce(3).tree(old=True)
        ops = tree["gpus"][0]["threadblocks"][0]["ops"]
        ops[0]["srcs"][0]["buff"] = "s"
        self.refused(json.dumps(tree), "gpu 0, threadblock 0, op 0: 'put' names s[0], but its channel's own buffer is i: MSCCL++'s executor takes the channel's")
        source = ops[0].pop("srcs")[0]
        ops[0].update(srcbuff="i", srcoff=source["off"])
        self.refused(json.dumps(tree), "gpu 0, threadblock 0, op 0: 'put' has \"srcbuff\", which MSCCL++'s executor does not look at", 'hint: write "srcs": [...]')
        tree = made.getting_all_gather(3).tree(old=True)
        tree["gpus"][0]["threadblocks"][0]["ops"][4]["dsts"][0]["buff"] = "i"
        self.refused(json.dumps(tree), "gpu 0, threadblock 0, op 4: 'get' names i[1], but its channel's own buffer is o")
        tree = made.hierarchical_all_reduce(3, 2).tree(old=True)
        tree["gpus"][0]["threadblocks"][0]["ops"][6]["srcs"][1]["buff"] = "i"
        self.refused(json.dumps(tree), "gpu 0, threadblock 0, op 6: \"srcs\" of 're' names several buffers: MSCCL++'s executor takes all of them from the first one's")
        tree = forwarded_packets().tree(old=True)
        forwards = tree["gpus"][1]["threadblocks"][0]["ops"][0]
        self.refused(json.dumps(tree), "gpu 1, threadblock 0, op 0: 'rppkt' has 1 source and 2 channels: MSCCL++'s executor takes the n-th source for the n-th channel",
                     'hint: name the same source in "srcs" once for each channel')
        forwards["srcs"] = forwards["srcs"] * 2
        self.imported(json.dumps(tree))
        forwards["srcs"][1] = {"buff": "s", "off": 0}
        self.refused(json.dumps(tree), "'rppkt' has 2 sources and 2 channels")
        self.imported(forwarded_packets())

    def test_double_scratch(self):
        plan = made.ring_all_reduce(3)
        plan.head["use_double_scratch_buffer"] = True
        self.refused(plan, "gpu 0, threadblock 0, op 0: it has data in s[0] of gpu 1, and \"use_double_scratch_buffer\" is true",
                     'hint: write "use_double_scratch_buffer": false, or use packets')
        plan = made.looping_all_reduce(2)
        plan.head["use_double_scratch_buffer"] = True
        self.refused(plan, "gpu 0, threadblock 1, op 0.2: it has data in s[0] of gpu 1")
        plan = made.Plan("broadcast", 2, (1, 1, 1), use_double_scratch_buffer=True)
        plan.op(0, 0, "copy", [(0, "o", 0, 1)], [(0, "s", 0, 1)])
        plan.nop(0, 0)
        plan.op(0, 0, "put", [(0, "s", 0, 1)], [(1, "o", 0, 1)], "port")
        self.refused(plan, "gpu 0, threadblock 0, op 2: it has data in s[0] of gpu 0")

    def test_semaphores_that_do_not_return(self):
        for value, releases, acquisitions in ((0, 2, 1), (1, 1, 2)):
            plan = made.Plan("broadcast", 2, (1, 1, 1))
            plan.semaphores[1] = [value]
            for _ in range(releases):
                plan.op(1, 0, "sem_release", semaphore_ids=[0])
            for _ in range(acquisitions):
                plan.op(1, 1, "sem_acquire", semaphore_ids=[0])
            self.refused(plan, f"gpu 1, threadblock 0, op 0: semaphore 0 is acquired {acquisitions} time", f"and released {releases} time",
                         "the next launch would find another value than this one", "hint: release it as often as it is acquired")

    def test_threads_that_use_one_channel(self):
        expected = "no nop says which of them comes first", "hint: let a nop stand between two operations"
        for peers in ([[1], [1, 1]], [[1, 1]]):
            plan = made.Plan("broadcast", 2, (1, 1, 1))
            for one in peers:
                plan.op(0, 0, "signal", kind="memory", peers=one)
            for _ in range(sum(map(len, peers))):
                plan.op(1, 0, "wait", kind="memory", peers=[0])
            self.refused(plan, f"gpu 0, threadblock 0, op {len(peers) - 1}: thread 0 signals on the same channel, and thread 1 does so, too", *expected)
        plan = made.Plan("broadcast", 2, (1, 1, 1))
        plan.semaphores[0] = [1, 1]
        for ids in ([0, 1], [1, 0]):
            plan.op(0, 0, "sem_release", semaphore_ids=ids)
        self.refused(plan, "gpu 0, threadblock 0, op 1: thread 1 releases the same semaphore, and thread 0 does so, too", *expected)

    def test_limits_of_the_executor(self):
        plan = made.direct_all_gather(3)
        plan.head["num_threads_per_block"] = 1025
        self.refused(plan, '"num_threads_per_block" is 1025: a threadblock has at most 1024 threads')
        plan = made.reading_reduce_scatter(4)
        plan.head["num_threads_per_block"] = 2
        self.refused(plan, 'gpu 0, threadblock 0, op 1: it needs 3 threads, but "num_threads_per_block" is 2')
        plan = made.port_all_gather(4)
        plan.head["num_threads_per_block"] = 2
        self.refused(plan, 'gpu 0, threadblock 0, op 0: it needs 3 threads, but "num_threads_per_block" is 2')
        plan = made.direct_all_gather(3)
        self.refused(changed(plan, op(0, 0, 1, "barrier_id"), 16), "gpu 0, threadblock 0, op 1: \"barrier_id\" is 16: MSCCL++'s executor has 16 barriers",
                     "hint: number them from 0 to 15")
        wide = made.reading_reduce_scatter(10)
        self.refused(wide, "gpu 0, threadblock 0, op 1: it names 9 channels: an operation of MSCCL++ has room for 8", "hint: use several operations")
        ports = made.port_all_gather(10)
        for old in (False, True):
            self.refused(ports.text(old), "gpu 0, threadblock 0, op 0: it names 9 channels: an operation of MSCCL++ has room for 8")
        tree = plan.tree()
        tree["gpus"][0]["threadblocks"][0]["channels"][0]["channel_ids"] = [0] * 17
        self.refused(json.dumps(tree), "gpu 0, threadblock 0: it has 17 memory channels: a threadblock of MSCCL++ has room for 16")
        plan.semaphores[0] = [0] * 17
        plan.op(0, 0, "sem_release", semaphore_ids=list(range(17)))
        self.refused(plan, "gpu 0, threadblock 0, op 6: it names 17 semaphores: an operation of MSCCL++ has room for 16")

    def test_what_is_no_plan(self):
        self.refused("{", "error: <stdin>:1: this is no JSON", "hint: MSCCL++'s JSON is one object")
        self.refused('{\n"name": 1e999\n}', "error: <stdin>:2: a number is too large")
        self.refused("[]", "<stdin>: the plan is a list, not an object")
        self.refused("{}", '<stdin>: there is no "name"')
        self.refused('{"name": 1}', '"name" is 1, not a text')
        self.refused('{"name": "a",\n"name": "b"\n}', 'error: <stdin>:2: an object has the field "name" twice')
        self.refused("", "<stdin>: the file is empty, and so is neither MSCCL's XML nor MSCCL++'s JSON")
        self.refused("hello", "<stdin>: the file begins with neither '<' nor '{', and so is neither MSCCL's XML nor MSCCL++'s JSON",
                     "hint: an algorithm of MSCCL begins with <algo ...>, a plan of MSCCL++ with {")
        self.refused("[" * 100000, "<stdin>")
        self.refused('{"a": ' * 40 + "1" + "}" * 40, "<stdin>:1: lists and objects are nested more than 16 times")
        self.refused('{"name": "\udcff"}'.encode("utf-8", "surrogateescape").decode("latin-1"), "<stdin>")


class Mutants(Import):
    """Plans that something was done to: an error or a proved schedule, never anything else."""

    def test_mutants(self):
        dice = random.Random(1)
        seen = {0: 0, 1: 0}
        for _ in range(MUTANTS):
            text = mutant(dice, dice.choice(list(RIGHT.values()))[0]().tree())
            status, out, err = schedc("import", "-", "--timeout", "20", text=text)
            self.assertIn(status, seen, f"{err}\n{text}")
            self.assertEqual(status == 0, out != "", text)
            self.assertEqual(status != 0, "error: " in err, f"{err}\n{text}")
            if status == 0:
                self.assertIsNone(why_wrong(text), f"{text}\n{out}")
            seen[status] += 1
        self.assertGreater(min(seen.values()), MUTANTS // 50)

    def test_texts(self):
        """Cut and garbled texts of both generations."""
        dice = random.Random(2)
        for _ in range(MUTANTS // 2):
            name = dice.choice(list(RIGHT))
            plan = RIGHT[name][0]()
            text = plan.text(old=True) if name not in NEW and dice.random() < 0.5 else plan.text()
            at = dice.randrange(len(text))
            kind = dice.randrange(3)
            if kind == 0:
                text = text[:at]
            elif kind == 1:
                text = text[:at] + text[at + dice.randint(1, 20):]
            else:
                text = re.sub(r"\b\d+\b", lambda found: dice.choice((found[0],) * 30 + ("0", "1", "2", "7", "-1", "4294967296", "null", "[]", '"i"')), text)
            status, out, err = schedc("import", "-", "--timeout", "20", text=text)
            self.assertIn(status, (0, 1), f"{err}\n{text}")
            self.assertEqual(status == 0, out != "", text)


def nodes_of(tree):
    found = [tree]
    for one in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        found += nodes_of(one)
    return found


def mutant(dice, tree):
    blocks = [tb for gpu in tree["gpus"] for tb in gpu["threadblocks"]]
    for _ in range(dice.randint(1, 2)):
        ops = dice.choice(blocks)["ops"]
        at = dice.randrange(len(ops)) if ops else 0
        kind = dice.randrange(7)
        if kind == 0 and ops:
            del ops[at]
        elif kind == 1 and ops:
            ops.insert(dice.randrange(len(ops)), copy.deepcopy(ops[at]))
        elif kind == 2 and len(ops) > 1:
            ops[at - 1], ops[at] = ops[at], ops[at - 1]
        elif kind == 3:  # from all threadblocks alike
            for tb in blocks:
                if at < len(tb["ops"]):
                    del tb["ops"][at]
        elif kind == 4 and ops:
            like = dice.choice(dice.choice(blocks)["ops"] or ops)
            key = dice.choice(list(like))
            ops[at][key] = copy.deepcopy(like[key])
        else:
            node = dice.choice([one for one in nodes_of(tree["gpus"]) if one and isinstance(one, (dict, list))])
            key = dice.choice(list(node)) if isinstance(node, dict) else dice.randrange(len(node))
            if isinstance(node[key], int) and not isinstance(node[key], bool):
                node[key] = dice.choice((0, 1, 2, 3, -1))
    return json.dumps(tree)


if __name__ == "__main__":
    PROGRAMS += sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
