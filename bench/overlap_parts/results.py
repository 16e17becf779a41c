"""Prints the measurements as tables, and checks that all runs ended with the same weights."""

import statistics

from jobs import JobError
from measuring import FLAT

HEADERS = 1514 / 1448  # the ratio of bytes on a link to TCP's payload


def spread(values, factor=1.0, digits=3):
    """Returns the median, and the smallest and the largest value."""
    middle, low, high = (factor * value for value in (statistics.median(values), min(values), max(values)))
    return f"{middle:.{digits}f}" + (f" ({low:.{digits}f} to {high:.{digits}f})" if len(values) > 1 else "")


def middle(reports, key):
    return statistics.median(report[key] for report in reports)


def computation_of(profile):
    return profile["before"] + sum(layer["compute"] for layer in profile["layers"])


def require_same_weights(kind, figures, alone):
    for plan in figures["plans"]:
        expected = alone if kind.has_bits_of_one_process else plan["runs"][0]
        for report in plan["runs"]:
            if report["checksum"] != expected["checksum"]:
                raise JobError(
                    f"{plan['methods'][0]}: the weights' checksum is {report['checksum']}, and "
                    f"{expected['checksum']} if one process does the work of all, or in another run"
                )


def pulls_text(profile, model):
    if "pull" not in profile:
        return ""
    pull, forward = profile["pull"], sum(layer["forward"] for layer in profile["layers"])
    return (
        f". Layers compute forward for {1e3 * forward:.0f} ms; pulls by themselves take {1e3 * model * pull['per_byte']:.0f} "
        f"ms in all, each {1e3 * pull['startup']:.1f} ms, the first one {1e3 * (pull['latency'] - pull['startup']):.1f} ms more"
    )


def cost_text(kind, figures):
    profile, rate = figures["profile"], figures["rate"] * 1e6
    model = sum(layer["bytes"] for layer in profile["layers"])
    transfers = sum(layer["transfer"] for layer in profile["layers"])
    limit = kind.crossings() * model * HEADERS * 8 / rate
    return (
        f"The profile at {figures['rate']:g} Mbit/s: {profile['before'] * 1e3:.0f} ms before the backward pass, and "
        f"{1e3 * (computation_of(profile) - profile['before']):.0f} ms in it; all transfers take {1e3 * transfers:.0f} ms "
        f"({transfers / limit:.2f} of what the busiest link needs for the bytes), each communication "
        f"{1e3 * profile['startup']:.1f} ms, one that begins after a pause {1e3 * profile['latency']:.1f} ms more"
        + pulls_text(profile, model)
    )


def print_rows(figures):
    computation = computation_of(figures["profile"])
    for plan in figures["plans"]:
        flat = next(
            other["runs"]
            for other in figures["plans"]
            if FLAT in other["methods"] and other["pulls"] == plan["pulls"]
        )
        reports = plan["runs"]
        seconds, predicted = [r["measured_seconds"] for r in reports], reports[0]["predicted_seconds"]
        measured = statistics.median(seconds)
        batches = str(len(reports[0]["ends"])) + (f" + {len(reports[0]['pull_ends'])}" if reports[0]["pull_ends"] else "")
        print(
            f"| {figures['rate']:g} | {plan['pulls']} | {', '.join(plan['methods'])} | {batches} | {predicted:.3f} "
            f"| {spread(seconds)} | {measured / predicted:.2f} | {middle(reports, 'computation') / computation:.2f} "
            f"| {100 * middle(reports, 'overlap') / measured:.0f} % | {middle(flat, 'measured_seconds') / measured:.2f} |"
        )


def print_part(kind, measured):
    print(f"\n{kind.what}\n")
    for figures in measured:
        print(cost_text(kind, figures))
    print(
        "\n| Mbit/s | pulls | method | batches | predicted, s | measured, s | measured / predicted | computed / alone "
        "| overlap / measured | sequential / this |"
    )
    print("|---:|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for figures in measured:
        print_rows(figures)
