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


def decode_slowly(key, encoded):
    time.sleep(0.5)
    return bytes(encoded)
