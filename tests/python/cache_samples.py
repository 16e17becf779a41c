"""Functions that the process of a shared cache can import. Their module prints, as modules of users do."""
import os
import time

print("cache_samples: loaded", flush=True)


def decode(key, encoded):
    if key == 13:
        raise ValueError("the sample is unlucky")
    return bytes(encoded[:8])


def decode_and_print(key, encoded):
    print("cache_samples:", "x" * 2000, flush=True)
    return bytes(encoded)


def decode_never(key, encoded):
    open(os.environ["HOCKET_TEST_BEGUN"], "w").close()
    time.sleep(1000)
    return b""


def decode_later(key, encoded):
    """Once a file exists, at most half a minute later."""
    until = time.monotonic() + 30
    while not os.path.exists(os.environ["HOCKET_TEST_MAY_GO_ON"]) and time.monotonic() < until:
        time.sleep(0.001)
    return bytes(encoded)
