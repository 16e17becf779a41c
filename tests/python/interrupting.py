"""Waits that Ctrl-C ends. usage: interrupting.py ranks | shrinking | init | grow | cache | awaiting"""
import asyncio
import os
import signal
import sys
import threading
import time

import numpy as np

import hocket


def interrupt_when(condition):
    """Ctrl-C, from a thread, once the condition holds."""
    def run():
        while not condition():
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=run, daemon=True).start()


def interrupted(condition, call):
    """The call ends with KeyboardInterrupt, and with nothing else."""
    begun = threading.Event()  # the condition may hold before that, because of calls that were left
    interrupt_when(lambda: begun.is_set() and condition())
    try:
        begun.set()
        call()
    except KeyboardInterrupt:
        return
    raise AssertionError("the call was not interrupted")


def ranks():
    """Rank 0 is interrupted in each call, which rank 1 begins only then. So the calls go on, and have to end well."""
    comm = hocket.init(timeout=600)
    word = np.zeros(1)
    calls = {"split": lambda: comm.split(0), "group": lambda: comm.group([1, 0]), "barrier": lambda: comm.barrier_monitored(500),
             "cache": lambda: hocket.Cache(read=lambda key: b"sample", dataset="d", comm=comm)}
    for name, call in calls.items():
        if comm.rank == 0:
            interrupted(lambda: comm._state.inside, call)
            comm.send(word, 1)
        else:
            comm.recv(word, 0)
            call()
        while comm._state.inside:  # the call that was left
            time.sleep(0.001)
        comm.all_reduce(word)
        print(f"right: {name}", flush=True)


def shrinking():
    """As above. shrink() ends whatever the other rank is in, so files say that rank 1 is ready and rank 0 was interrupted."""
    comm = hocket.init(timeout=600)

    def tell(what):
        open(os.path.join(os.environ["HOCKET_TEST_FOLDER"], what), "w").close()

    def wait_until(what):
        while not os.path.exists(os.path.join(os.environ["HOCKET_TEST_FOLDER"], what)):
            time.sleep(0.001)

    if comm.rank == 0:
        wait_until("ready")
        interrupted(lambda: comm._state.inside, comm.shrink)
        tell("interrupted")
    else:
        tell("ready")
        wait_until("interrupted")
        comm.shrink()
    while comm._state.inside:
        time.sleep(0.001)
    print("right: shrink", flush=True)


def init():
    interrupt_when(lambda: any(frame.f_code.co_name == "join" for frame in sys._current_frames().values()))
    hocket.init(rank=0, world_size=2, master_port=int(os.environ["HOCKET_TEST_PORT"]), secret="x", timeout=600)


def grow():
    """The signal comes to another thread, which must not matter."""
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    comm = hocket.init(timeout=600)
    interrupt_when(lambda: comm._state.inside)
    comm.grow(1, hocket.unique_id())


def hanging():
    """A cache whose source never answers, and whether it was asked."""
    begun = threading.Event()

    def read(key):
        begun.set()
        time.sleep(600)

    return hocket.Cache(read=read, dataset="d", timeout=600), begun.is_set


def cache():
    made, is_asked = hanging()
    interrupt_when(is_asked)
    made[1]


def awaiting():
    made, is_asked = hanging()

    async def run():
        await made.get_batch([1], wait=False)

    interrupt_when(is_asked)
    asyncio.run(run())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
