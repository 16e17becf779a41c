"""What was measured, as tables, and whether it all came to the same weights."""

import statistics

from jobs import JobError
from measuring import FLAT

HEADERS = 1514 / 1448  # what crosses a link, of TCP's bytes


def spread(values, factor=1.0, digits=3):
    """The median, and the least and the largest."""
    middle, low, high = (factor * value for value in (statistics.median(values), min(values), max(values)))
    return f"{middle:.{digits}f}" + (f" ({low:.{digits}f} to {high:.{digits}f})" if len(values) > 1 else "")


def middle(reports, key):
    return statistics.median(report[key] for report in reports)


def computation_of(profile):
    return profile["before"] + sum(layer["compute"] for layer in profile["layers"])


def require_same_weights(figures, alone):
    for method, reports in figures["runs"].items():
        for report in reports:
            if report["checksum"] != alone["checksum"]:
                raise JobError(
                    f"{method}: the weights' checksum is {report['checksum']}, and {alone['checksum']} if one process "
                    "does the work of all"
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
    )


def rows(figures):
    """(methods, all reports of their plan)"""
    return [(methods, [r for method in methods for r in figures["runs"][method]]) for methods in figures["plans"]]


def print_rows(figures):
    flat = next(reports for methods, reports in rows(figures) if FLAT in methods)
    computation = computation_of(figures["profile"])
    for methods, reports in rows(figures):
        seconds, predicted = [r["measured_seconds"] for r in reports], reports[0]["predicted_seconds"]
        measured = statistics.median(seconds)
        print(
            f"| {figures['rate']:g} | {', '.join(methods)} | {reports[0]['batches']} | {predicted:.3f} | {spread(seconds)} "
            f"| {measured / predicted:.2f} | {middle(reports, 'computation') / computation:.2f} "
            f"| {100 * middle(reports, 'overlap') / measured:.0f} % | {middle(flat, 'measured_seconds') / measured:.2f} |"
        )


def print_part(kind, measured):
    print(f"\n{kind.what}\n")
    for figures in measured:
        print(cost_text(kind, figures))
    print(
        "\n| Mbit/s | method | batches | predicted, s | measured, s | measured / predicted | computed / alone "
        "| overlap / measured | sequential / this |"
    )
    print("|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    for figures in measured:
        print_rows(figures)
