"""Checks that all weights that workers pulled were right. It judges when the round is over, since only then it knows
how long each worker was there."""
import collections

from job import Failure, Pull

BLOCKS = 20  # as in worker.c


def judge(job):
    if job.plan.staleness >= 0:
        lives = [Rounds(job, life) for life in range(job.life + 1)]
        for life in lives:
            life.judge()
        for before, after in zip(lives, lives[1:]):
            judge_way_back(job, before, after.life)
    else:
        judge_unbounded(job)
    for worker in job.workers.values():
        if worker.gone_from is None and worker.left is not None and not worker.is_asked_to_leave and \
                any(first < worker.left for first, _ in job.lost.get(worker.number, [])):
            raise Failure("wrong", f"updates of worker {worker.slot} are said to be lost, and it was there until the end")


def wrong(pull, text):
    raise Failure("wrong", f"worker {pull.worker.slot} at clock {pull.clock}, {pull.began:.4f} to {pull.ended:.4f}: {text}")


def pulls_of(job, life):
    pulls = [pull for worker in job.workers.values() if worker.life == life for pull in worker.pulls]
    return sorted(pulls, key=lambda pull: pull.ended)


def is_named_as_lost(job, worker, first, end):
    """Updates of these rounds."""
    return all(any(said[0] <= round and (said[1] is None or round < said[1]) for said in job.lost.get(worker.number, []))
               for round in range(first, end))


def require_units(job, pull):
    """Each worker's updates begin with its first round. Each is there once at most: the worker has seen to that."""
    for slot, (first, ends) in pull.seen.items():
        other = job.workers.get(slot)
        if other is None or other.first is None:
            # It may have been killed before it could log that.
            if other is None or other.may_fail == "":
                wrong(pull, f"there are updates of slot {slot}, which has not come")
        elif first != other.first:
            wrong(pull, f"the updates of worker {slot} begin with round {first}, not {other.first}")


class Rounds:
    """Bounded staleness, between two deaths of all processes. Each block has a clock: it has all updates of the rounds
    before that, of all that took part. Of a worker that is gone it has those before some round, always the same."""

    def __init__(self, job, life):
        self.job, self.life = job, life
        # By worker, block, and the worker that saw it: the round before which.
        self.most_seen: dict[tuple[int, int], dict[int, int]] = collections.defaultdict(dict)
        # By worker, block: (where they end, the pull that shows it).
        self.ends: dict[tuple[int, int], list[tuple[int, Pull]]] = collections.defaultdict(list)

    def judge(self):
        for pull in pulls_of(self.job, self.life):
            require_units(self.job, pull)
            clocks = self.clocks(pull)
            for slot, other in self.job.workers.items():
                if other.first is not None and other.life <= self.life:
                    self.look(pull, clocks, other)
        self.require_one_end()

    def clocks(self, pull):
        """Of each block."""
        clocks = [max(ends) for ends in zip(*(ends for _, ends in pull.seen.values()))] or [0] * BLOCKS
        own = pull.seen.get(pull.worker.slot, (0, [0] * len(clocks)))[1]
        least = max(0, pull.clock - pull.staleness)
        first = pull.worker.first
        others = [worker for worker in self.job.workers.values() if worker.first is not None
                  and worker.life == self.life and worker.first < least and self.was_there(worker, pull)]
        for block, clock in enumerate(clocks):
            if clock > max(pull.clock, first):
                wrong(pull, f"block {block} has updates of round {clock - 1}")
            if clock > first and own[block] != clock:
                wrong(pull, f"block {block} has own updates before round {own[block]}, and of others before {clock}")
            if clock < least and (first < least or others):
                wrong(pull, f"block {block} has updates of the rounds before {clock}, and {least} was asked for")
        return clocks

    def was_there(self, other, pull):
        return (other.gone_from is None and (other.left is None or other.left >= pull.clock)) or \
            (other.gone_from is not None and other.gone_from > pull.ended)

    def look(self, pull, clocks, other):
        ends = pull.seen.get(other.slot, (0, [0] * len(clocks)))[1]
        was_there = other.life == self.life and self.was_there(other, pull)
        for block, (seen_end, clock) in enumerate(zip(ends, clocks)):
            if clock <= other.first:
                if seen_end:
                    wrong(pull, f"block {block}, of clock {clock}, has updates of worker {other.slot}, who begins "
                                f"with round {other.first}")
                continue
            end = seen_end or other.first
            if end == clock:
                seen = self.most_seen[other.slot, block]
                seen[pull.worker.slot] = max(seen.get(pull.worker.slot, 0), end)
            elif was_there:
                wrong(pull, f"block {block}, of clock {clock}, has updates of worker {other.slot}, which is there, "
                            f"before round {end}")
            elif other.life == self.life and other.left is not None and end < min(other.left, clock) and \
                    not is_named_as_lost(self.job, other, end, other.left):
                wrong(pull, f"block {block} has updates of worker {other.slot} before round {end}; it left in order "
                            f"after {other.left}")
            else:
                seen = self.most_seen[other.slot, block]
                seen[pull.worker.slot] = max(seen.get(pull.worker.slot, 0), end)
                self.ends[other.slot, block].append((end, pull))

    def require_one_end(self):
        for (slot, block), shown in self.ends.items():
            worker, seen = self.job.workers[slot], self.most_seen[slot, block]
            checked = set()
            for end, pull in shown:
                most = max((most for by, most in seen.items() if self.is_still_there(by, pull)), default=0)
                if most <= end or (end, most) in checked:
                    continue
                checked.add((end, most))
                if not is_named_as_lost(self.job, worker, end, most):
                    wrong(pull, f"block {block} has updates of worker {slot} before round {end}; somebody who is "
                                f"still there has pulled those before {most}, and nothing says that they are lost: "
                                f"{self.job.lost.get(worker.number)}")

    def is_still_there(self, slot, pull):
        worker = self.job.workers[slot]
        return worker.gone_from is None or worker.gone_from > pull.ended

    def end_of(self, slot):
        """By block, what was seen last, of one that is gone."""
        return {block: shown[-1][0] for (other, block), shown in self.ends.items() if other == slot and shown}


def judge_way_back(job, before, life):
    """After all processes have died, weights are of whole rounds, those before the one that servers went back to."""
    pulls = pulls_of(job, life)
    if not pulls:
        return
    pull, way = pulls[0], job.ways_back[life - 1]
    whole: set[int] = set()  # the rounds before which workers that died then have all updates
    for slot, worker in job.workers.items():
        if worker.first is None or worker.life >= life:
            continue
        ends = [end or worker.first for end in pull.seen.get(slot, (0, [0] * BLOCKS))[1]]
        if worker.died_with_all and worker.life == life - 1:
            if way != "torn":
                require_whole(pull, way, worker, ends)
                whole.update(end for end in ends if end > worker.first)
            continue
        has_left = worker.left is not None and worker.life == life - 1
        known = dict.fromkeys(range(BLOCKS), worker.left) if has_left else before.end_of(slot)
        for block, end in enumerate(ends):
            require_kept(job, pull, way, worker, has_left, block, end, known.get(block))
    if len(whole) > 1:
        wrong(pull, f"the job went on from different rounds: {sorted(whole)}")


def require_whole(pull, way, worker, ends):
    if isinstance(way, int) and any(end != max(worker.first, way) for end in ends):
        wrong(pull, f"the job went back to round {way}, and has updates of worker {worker.slot} before {ends}")
    if len(set(ends)) > 1:
        wrong(pull, f"the job went on as it was, with updates of worker {worker.slot} before {ends}")


def require_kept(job, pull, way, worker, has_left, block, end, known):
    """Checks a worker that was gone before. known: the round before which all its updates were seen; None: nobody has seen
    where they end."""
    most = min(known, way) if isinstance(way, int) and known is not None else way if isinstance(way, int) else known
    if most is None:
        return
    if end > max(worker.first, most):
        wrong(pull, f"the job went on ({way}); block {block} has updates of worker {worker.slot} before {end}, not {most}")
    # Updates that only dead workers have seen may be lost with them, unless they were of whole rounds or
    # their worker left in order.
    is_kept = (isinstance(way, int) and known is not None) or (has_left and way != "torn")
    if is_kept and end < most and not is_named_as_lost(job, worker, end, most):
        wrong(pull, f"the job went on ({way}); block {block} has updates of worker {worker.slot} before {end}, not {most}")


# ---- Unbounded staleness -----------------------------------------------------------------------------------------

def judge_unbounded(job):
    """Each worker finds its own updates. Updates that one has pulled the others find later, while no server is replaced;
    at the end all find them, or they are named as lost."""
    for life in range(job.life + 1):
        pulls = pulls_of(job, life)
        for pull in pulls:
            require_units(job, pull)
            first, ends = pull.seen.get(pull.worker.slot, (pull.worker.first, [pull.worker.first] * BLOCKS))
            if any((end or first) != pull.clock for end in ends):
                wrong(pull, f"it has own updates before {ends}")
            for slot, (_, ends) in pull.seen.items():
                if job.workers[slot].pulls and max(ends) > job.workers[slot].pulls[-1].clock + 1:
                    wrong(pull, f"there are updates of worker {slot} before {ends}, and it has pushed none of these")
        require_growth(job, pulls)
        require_all_at_the_end(job, life, pulls)


def require_growth(job, pulls):
    for pulls_between in between_replacements(job, pulls):
        for slot in {slot for pull in pulls_between for slot in pull.seen}:
            for block in range(BLOCKS):
                require_growth_of(job, pulls_between, slot, block)


def require_growth_of(job, pulls, slot, block):
    """pulls: in the order in which they end. A pull has every update that any worker had seen before it began."""
    by_end, known = iter(pulls), 0
    ended = next(by_end, None)
    for pull in sorted(pulls, key=lambda pull: pull.began):
        while ended is not None and ended.ended < pull.began:
            known = max(known, ended.seen.get(slot, (0, [0] * BLOCKS))[1][block])
            ended = next(by_end, None)
        end = pull.seen.get(slot, (0, [0] * BLOCKS))[1][block]
        worker = job.workers[slot]
        if end < known and not is_named_as_lost(job, worker, end or worker.first, known):
            wrong(pull, f"block {block} has updates of worker {slot} before {end}; others have pulled those before {known}")


def between_replacements(job, pulls):
    times = sorted((down[0], down[1] or float("inf")) for down in job.servers_down)
    edges = [0.0] + [edge for pair in times for edge in pair] + [float("inf")]
    for begin, end in zip(edges, edges[1:]):
        inside = [pull for pull in pulls if begin < pull.began and pull.ended < end]
        if inside and not any(down[0] < inside[-1].ended and inside[0].began < down[1] for down in times):
            yield inside


def require_all_at_the_end(job, life, pulls):
    if life < job.life:
        return
    last = [pull for pull in pulls if pull.worker.left is not None and pull.worker.gone_from is None
            and not pull.worker.is_asked_to_leave and pull is pull.worker.pulls[-1]]
    survivors = {pull.worker.slot for pull in last}
    most: dict[tuple[int, int], int] = collections.defaultdict(int)  # by worker, block
    for pull in pulls:
        if pull.worker.slot in survivors:
            for slot, (_, ends) in pull.seen.items():
                for block, end in enumerate(ends):
                    most[slot, block] = max(most[slot, block], end)
    for pull in last:
        for slot, other in job.workers.items():
            if other.first is None:
                continue
            for block, end in enumerate(pull.seen.get(slot, (0, [0] * BLOCKS))[1]):
                expected = other.left if other.left is not None and other.life == life else most[slot, block]
                if end < expected and expected > other.first and not is_named_as_lost(job, other, end or other.first, expected):
                    wrong(pull, f"block {block} has updates of worker {slot} before {end} at the end, not {expected}")
