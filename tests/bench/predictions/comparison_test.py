#!/usr/bin/python3
"""Checks what bench/predictions says of figures whose order and distance are known."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "bench", "prediction_parts"))
import comparison
from comparison import Cell

MIB = 1 << 20
CELLS = [
    Cell("a", "near", MIB, 1.0, 1.14),
    Cell("a", "near", 2 * MIB, 1.0, 0.86),
    Cell("a", "far", MIB, 2.0, 1.13),  # slower than near, but predicted as faster
    Cell("a", "far", 2 * MIB, 2.0, 2.0),
    Cell("a", "alike", MIB, 1.1, 1.0),  # within 20 % of near
    Cell("b", "near", MIB, 5.0, 5.0),  # on another place: no pair
]


def check_cells():
    assert [cell.is_near for cell in CELLS] == [True, True, False, True, True, True]
    assert round(CELLS[2].ratio, 3) == 0.565


def check_pairs():
    pairs = comparison.pairs_apart(CELLS)
    found = {(slower.schedule, faster.schedule, slower.bytes) for slower, faster in pairs}
    assert found == {("far", "near", MIB), ("far", "alike", MIB), ("far", "near", 2 * MIB)}, found
    wrong = comparison.wrong_pairs(pairs)
    assert [(slower.schedule, faster.schedule, slower.bytes) for slower, faster in wrong] == [("far", "near", MIB)]


def check_texts():
    summary = comparison.summary(CELLS)
    assert "within 15%: 5 of 6 figures; at all sizes: near, alike\n" in summary, summary
    assert "more than 20%: 3; predicted in the right order: 2\n" in summary, summary
    assert "wrong at 1 MiB: far takes 2.00 of near, predicted 0.99" in summary, summary
    table = comparison.table([cell for cell in CELLS if cell.place == "a"])
    assert table.splitlines()[0] == "| schedule | 1 MiB | 2 MiB |"
    assert "| `near` | 1000, 1140: 1.14 | 1000, 860: 0.86 |" in table, table
    assert "| `alike` | 1100, 1000: 0.91 |  |" in table, table


check_cells()
check_pairs()
check_texts()
