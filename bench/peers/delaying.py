"""A proxy that delays: what comes on a connection goes on by another one after a time, both ways. For kernels without netem. The
beginning of connections, and TCP's slow start, are not delayed.

usage: delaying.py LISTEN_PORT TO_PORT MILLISECONDS     (of one way; on this host; ends when its input does)
"""

import collections
import heapq
import selectors
import socket
import sys
import time

PIECE = 256 << 10


class Way:
    """One direction of a connection. Bytes that wait for their time are limited only by what is asked for."""

    def __init__(self, source, sink, delay):
        self.source, self.sink, self.delay = source, sink, delay
        self.queue: collections.deque[tuple[float, bytes]] = collections.deque()  # (when, bytes); b"": the end

    def take(self):
        try:
            data = self.source.recv(PIECE)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        when = time.monotonic() + self.delay
        self.queue.append((when, data))
        return when, data

    def give(self):
        """Sends what is due. Returns when to come back; None if there is nothing to do."""
        while self.queue and self.queue[0][0] <= time.monotonic():
            when, data = self.queue[0]
            try:
                sent = self.sink.send(data) if data else self.sink.shutdown(socket.SHUT_WR) or 0
            except BlockingIOError:
                return time.monotonic() + 0.0005
            except OSError:
                self.queue.clear()
                return None
            if sent == len(data):
                self.queue.popleft()
            else:
                self.queue[0] = when, data[sent:]
        return self.queue[0][0] if self.queue else None


def main():
    port, to, delay = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000
    selector = selectors.DefaultSelector()
    listening = socket.create_server(("0.0.0.0", port), backlog=4096)
    selector.register(listening, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    times: list[tuple[float, int, Way]] = []  # a heap: (when, number, way)
    count = 0
    scheduled = set()

    def schedule(way, when):
        nonlocal count
        if when is not None and way not in scheduled:
            scheduled.add(way)
            count += 1
            heapq.heappush(times, (when, count, way))

    while True:
        for key, _ in selector.select(max(0, times[0][0] - time.monotonic()) if times else None):
            if key.fileobj is sys.stdin:
                return
            if key.fileobj is listening:
                near = listening.accept()[0]
                far = socket.create_connection(("127.0.0.1", to))
                for one, other in ((near, far), (far, near)):
                    one.setblocking(False)
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(one, selectors.EVENT_READ, Way(one, other, delay))
                continue
            taken = key.data.take()
            if taken is not None:
                schedule(key.data, taken[0])
                if not taken[1]:
                    selector.unregister(key.fileobj)
        while times and times[0][0] <= time.monotonic():
            way = heapq.heappop(times)[2]
            scheduled.discard(way)
            schedule(way, way.give())


if __name__ == "__main__":
    main()
