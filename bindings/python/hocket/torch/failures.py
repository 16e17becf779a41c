"""Exceptions in the forms and words of torch."""
import re

import torch.distributed

import hocket
from hocket._native import lib

Failure = getattr(torch.distributed, "DistBackendError", RuntimeError)  # torch 1.13 has no class for it

# What C advises, in words of torch: there a group cannot be shrunk, and its timeout is not that of the environment.
_ADVICE = (
    (re.compile(r"this communicator can only be destroyed now, or shrunk to the ranks that are left \(hkt_comm_shrink\)"),
     "this process group can only be destroyed now"),
    (re.compile(r"\braise\s+HOCKET_TIMEOUT_MS"), "give the process group a longer timeout"),
    (re.compile(r"\bHOCKET_TIMEOUT_MS"), "the process group's timeout"),
    (re.compile(r"\bhkt_comm_abort was called"), "its process group was aborted"),
    (re.compile(r" \(hkt_\w+(, hkt_\w+)*\)"), ""),
)
_RANKS = re.compile(r"\branks? (\d+(?:(?:, | and |-)\d+)*)", re.IGNORECASE)
_MOST = 16  # ranks that a text explains


def _named(text):
    """The ranks that the text names, ascending. Of "3-5" also 4."""
    named = set()
    for numbers in _RANKS.findall(text):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", numbers):
            named.update(range(int(first), int(last or first) + 1))
    return sorted(named)


def in_words_of(text, members):
    """Returns a text of the library as a group's. members: its ranks' numbers in the job. If they differ, a second line
    says which ranks of the job the text means."""
    for pattern, words in _ADVICE:
        text = pattern.sub(words, text)
    differing = [rank for rank in _named(text) if rank < len(members) and members[rank] != rank]
    if not differing:
        return text
    pairs = [f"rank {rank} of the group is rank {members[rank]} of the job" for rank in differing[:_MOST]]
    if len(differing) > _MOST:
        pairs.append("...")
    first, newline, rest = text.partition("\n")
    return f"{first}\n  {', '.join(pairs)}{newline}{rest}"


def as_torch(error, members=()):
    """Converts to exceptions that torch's programs catch: ValueError for wrong arguments, which Hocket's class also is;
    RuntimeError for the rest."""
    if not isinstance(error, hocket.Error) or isinstance(error, ValueError):
        return error
    text = in_words_of(str(error), members)
    if error.status == lib.HKT_ERROR_TIMEOUT:
        text = f"hocket: a timeout has passed: {text}"  # Gloo uses these words, which programs look for
    failure = Failure(text)
    failure.__cause__ = error
    return failure
