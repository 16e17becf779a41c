"""Compares predicted with measured times."""

from dataclasses import dataclass
from itertools import combinations

NEAR = 0.15  # of the measured time
APART = 1.2  # of two measured times, from where on their order must be predicted


@dataclass
class Cell:
    place: str
    schedule: str
    bytes: int
    measured: float  # seconds
    predicted: float

    @property
    def ratio(self):
        return self.predicted / self.measured

    @property
    def is_near(self):
        return abs(self.ratio - 1) <= NEAR


def pairs_apart(cells):
    """Returns pairs of schedules on one place and with one size that take noticeably different times, slower first."""
    ordered = [sorted(pair, key=lambda cell: -cell.measured) for pair in combinations(cells, 2)]
    return [
        (slower, faster)
        for slower, faster in ordered
        if (slower.place, slower.bytes) == (faster.place, faster.bytes) and slower.measured > APART * faster.measured
    ]


def wrong_pairs(pairs):
    return [(slower, faster) for slower, faster in pairs if slower.predicted <= faster.predicted]


def size_text(size):
    return f"{size >> 20} MiB" if size % (1 << 20) == 0 else f"{size >> 10} KiB"


def table(cells):
    """Returns Markdown: a row for each schedule, and in each cell measured ms, predicted ms and their ratio."""
    sizes = sorted({cell.bytes for cell in cells})
    lines = ["| schedule | " + " | ".join(size_text(size) for size in sizes) + " |", "|---" * (1 + len(sizes)) + "|"]
    for schedule in dict.fromkeys(cell.schedule for cell in cells):
        row = {cell.bytes: cell for cell in cells if cell.schedule == schedule}
        texts = []
        for size in sizes:
            cell = row.get(size)
            texts.append(f"{cell.measured * 1e3:.4g}, {cell.predicted * 1e3:.4g}: {cell.ratio:.2f}" if cell else "")
        lines.append(f"| `{schedule}` | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def summary(cells):
    near = [cell for cell in cells if cell.is_near]
    schedules = dict.fromkeys(cell.schedule for cell in cells)
    always = [name for name in schedules if all(cell.is_near for cell in cells if cell.schedule == name)]
    pairs = pairs_apart(cells)
    wrong = wrong_pairs(pairs)
    text = (
        f"within {NEAR:.0%}: {len(near)} of {len(cells)} figures; at all sizes: {', '.join(always) or 'no schedule'}\n"
        f"pairs that differ by more than {APART - 1:.0%}: {len(pairs)}; predicted in the right order: "
        f"{len(pairs) - len(wrong)}"
    )
    for slower, faster in wrong:
        text += (
            f"\n  wrong at {size_text(slower.bytes)}: {slower.schedule} takes {slower.measured / faster.measured:.2f} "
            f"of {faster.schedule}, predicted {slower.predicted / faster.predicted:.2f}"
        )
    return text
