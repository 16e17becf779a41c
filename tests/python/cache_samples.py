"""A function that the process of a shared cache can import."""


def decode(key, encoded):
    if key == 13:
        raise ValueError("the sample is unlucky")
    return bytes(encoded[:8])
