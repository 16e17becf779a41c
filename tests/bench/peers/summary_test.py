#!/usr/bin/python3
"""Checks the arithmetic of compare-peers' summary, and the width of its Markdown, on cells whose sums are known."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "bench", "peers"))
import libraries
import markdown
import report
import summary


def cell(collective, size, ranks=2, wrong=(), **times):
    """times: the medians in us, by the rows' names with _ for a blank."""
    rows = {name.replace("_", " "): {"median_us": us, "wrong": int(name in wrong)} for name, us in times.items()}
    rows["MPICH"] = {"error": "its ranks did not start", "wrong": 0}
    return {"collective": collective, "bytes": size, "ranks": ranks, "rows": rows}


CELLS = [
    cell("all_reduce", 8, Open_MPI=8, Intel_MPI=4, Hocket=2, roofline=1),  # peer 2, limit 0.5
    cell("all_reduce", 64 << 10, Open_MPI=1, Intel_MPI=4, Hocket=2, roofline=4),  # peer 0.5, limit 2
    cell("gather", 2 << 20, Open_MPI=6, Hocket=6, roofline=3),  # peer 1, which is not behind, limit 0.5
    cell("gather", 8, Gloo=0.1, Open_MPI=8, Hocket=1, wrong=("Gloo",)),  # peer 8: a wrong result has no time
    cell("scatter", 8, Hocket=1, wrong=("Hocket",), Open_MPI=1),  # a wrong result of Hocket's has none, either
    cell("scatter", 64, Hocket=1),  # nothing to compare with
    cell("all_reduce", 8, ranks=4, oneCCL=3, Hocket=1),  # peer 3, no limit
]


def check_summary():
    # Means of two: the 4th root of 2 x 0.5 x 1 x 8 = 8, and the cube root of 0.5 x 2 x 0.5 = 0.5.
    expected = [
        {"ranks": 2, "memory": "hkt_mem_alloc", "against": "peer", "behind": 1, "of": 4, "mean": 8 ** (1 / 4),
         "least": 0.5, "at": "all_reduce, 64K", "least_against": "Open MPI"},
        {"ranks": 2, "memory": "hkt_mem_alloc", "against": "limit", "behind": 2, "of": 3, "mean": 0.5 ** (1 / 3),
         "least": 0.5, "at": "all_reduce, 8", "least_against": "roofline"},
        {"ranks": 4, "memory": "hkt_mem_alloc", "against": "peer", "behind": 0, "of": 1, "mean": 3,
         "least": 3, "at": "all_reduce, 8", "least_against": "oneCCL"},
    ]
    found = summary.of_cells(CELLS)
    assert len(found) == len(expected), found
    for entry, wanted in zip(found, expected):
        assert abs(entry["mean"] - wanted["mean"]) < 1e-9, (entry, wanted)
        assert {**entry, "mean": 0} == {**wanted, "mean": 0}, (entry, wanted)
    assert summary.of_cells([]) == []


def check_other_memory():
    (entry, _) = summary.of_cells([cell("reduce", 8, Gloo=3, roofline=1, **{report.PLAIN: 2})])
    assert (entry["memory"], entry["mean"]) == ("malloc", 1.5), entry


def document_of(cells):
    facts = {"cpu": "a processor", "processor": "cpu family 1", "cores": 2, "kernel": "1", "time": "2026-01-02T03",
             "versions": {"a-package-with-a-long-name": "1.2.3", "hocket": "0123456"}}
    result = {"machine": facts, "touch": True, "parts": {"host": cells}, "summary": summary.of_cells(cells)}
    return markdown.document(result)


def check_markdown():
    text = document_of(CELLS)
    assert "| all_reduce |" in text and "2026-01-02" in text and "buffers touched" in text, text
    # The ratios of each size, in the order of the sizes: gather was not measured at 64 bytes and 64 KiB.
    assert "| collective |    8 |  64 |  64K |   2M |" in text, text
    assert "| gather     | 8.00 |   - |    - | 1.00 |" in text, text


def check_width():
    sizes = [4 << shift for shift in range(26)]
    slow = {name.replace(" ", "_"): 12345 for name in report.PEERS}
    cells = [cell(name, size, Hocket=1, roofline=1, **slow) for name in libraries.COLLECTIVES for size in sizes]
    lines = document_of(cells).splitlines()
    assert max(map(len, lines)) <= markdown.COLUMNS, max(lines, key=len)
    header = [line for line in lines if line.startswith("| collective")]
    shown = [column.strip() for line in header for column in line.split("|")[2:-1]]
    assert shown == [report.short_size(size) for size in sizes], shown


def main():
    for check in (check_summary, check_other_memory, check_markdown, check_width):
        check()
        print(f"{check.__name__}: passed")


if __name__ == "__main__":
    sys.exit(main())
