"""Just enough of Hocket's C ABI, by ctypes, to embed it in a Python program as frameworks do.

HOCKET_LIBRARY: the path of libhocket.so.
"""
import ctypes
import os

INVALID_ARGUMENT = -1

library = ctypes.CDLL(os.environ["HOCKET_LIBRARY"])
for function in ("hkt_last_error", "hkt_comm_last_error"):
    getattr(library, function).restype = ctypes.c_char_p


def named(kind, name):
    """A constant of hocket.h by its name, as the library itself knows it."""
    value = ctypes.c_int()
    if getattr(library, f"hkt_{kind}_from_name")(name.encode(), ctypes.byref(value)) != 0:
        raise RuntimeError(library.hkt_last_error().decode())
    return value


FLOAT32, SUM = named("type", "float32"), named("op", "sum")


class Failure(RuntimeError):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


SET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
GET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t,
                       ctypes.POINTER(ctypes.c_size_t), ctypes.c_int64)


class Store(ctypes.Structure):
    """hkt_store, over an object with torch's set(key, value) and get(key)."""

    _fields_ = [("size", ctypes.c_size_t), ("prefix", ctypes.c_char_p), ("set", SET), ("get", GET),
                ("user", ctypes.c_void_p)]

    def __init__(self, store, prefix):
        def put(user, key, value, size):
            store.set(key.decode(), ctypes.string_at(value, size))
            return 0

        def find(user, key, value, room, size, timeout_ms):
            try:
                found = store.get(key.decode())
            except RuntimeError:  # an exception would not reach the caller of a C function
                return 1
            ctypes.memmove(value, found, min(room, len(found)))
            size[0] = len(found)
            return 0

        super().__init__(ctypes.sizeof(Store), prefix.encode(), SET(put), GET(find), None)


class Options(ctypes.Structure):
    """hkt_comm_options."""

    _fields_ = [("size", ctypes.c_size_t), ("rank", ctypes.c_int32), ("world_size", ctypes.c_int32),
                ("master_addr", ctypes.c_char_p), ("master_port", ctypes.c_int32), ("secret", ctypes.c_char_p),
                ("provider", ctypes.c_char_p), ("topology", ctypes.c_char_p), ("schedule", ctypes.c_char_p),
                ("schedule_path", ctypes.c_char_p), ("executor", ctypes.c_int32), ("timeout_ms", ctypes.c_int64),
                ("progress", ctypes.c_int32), ("listen_fd", ctypes.c_int32), ("unique_id", ctypes.c_void_p),
                ("store", ctypes.POINTER(Store))]


class Communicator:
    """Made from the environment. It is destroyed with the object, in a forked child, too, as a framework's would be."""

    def __init__(self, store=None):
        self.handle = ctypes.c_void_p()
        options = Options(size=ctypes.sizeof(Options), rank=-1)
        if store is not None:
            options.store = ctypes.pointer(store)
        status = library.hkt_comm_create(ctypes.byref(options), ctypes.byref(self.handle))
        if status != 0:
            raise Failure(status, library.hkt_last_error().decode())

    def __del__(self):
        library.hkt_comm_destroy(self.handle)

    def must(self, status):
        if status != 0:
            # A child's text is the thread's: a parent's communicator is not touched.
            text = library.hkt_last_error() or library.hkt_comm_last_error(self.handle)
            raise Failure(status, text.decode())

    @property
    def rank(self):
        return library.hkt_comm_rank(self.handle)

    @property
    def size(self):
        return library.hkt_comm_size(self.handle)

    def add_up(self, address, count):
        """Replaces count float32 at an address by their sums over all ranks."""
        self.must(library.hkt_all_reduce(ctypes.c_void_p(address), ctypes.c_void_p(address), ctypes.c_size_t(count),
                                         FLOAT32, SUM, self.handle, None))

    def register(self, address, size):
        self.must(library.hkt_mem_register(self.handle, ctypes.c_void_p(address), ctypes.c_size_t(size)))

    def deregister(self, address):
        self.must(library.hkt_mem_deregister(self.handle, ctypes.c_void_p(address)))
