"""Writes the summary of part host, and its ratios of the fastest peer's time to Hocket's, as Markdown."""

import textwrap

import report
import summary

COLUMNS = 100
MEMORIES = summary.MEMORIES


def table(header, rows, left=1):
    """Returns the lines of a table whose first `left` columns are aligned on the left."""
    widths = [max(3, *(len(line[i]) for line in [header, *rows])) for i in range(len(header))]

    def line(texts):
        aligned = (t.ljust(w) if i < left else t.rjust(w) for i, (t, w) in enumerate(zip(texts, widths)))
        return "| " + " | ".join(aligned) + " |"

    rule = ("-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths))
    return [line(header), "| " + " | ".join(rule) + " |", *(line(row) for row in rows)]


def column_groups(names, columns):
    """Splits the columns so that a table of each group fits the page. columns: lists of texts, the header first."""
    width = COLUMNS
    groups: list[list[list[str]]] = []
    names_width = max(map(len, names)) + 4
    for column in columns:
        needed = max(3, *map(len, column)) + 3
        if width + needed > COLUMNS:
            width = names_width
            groups.append([])
        width += needed
        groups[-1].append(column)
    return groups


def ratio_tables(cells, row):
    """Returns the lines of the tables of these cells' ratios, a row for each collective and a column for each size."""
    by_key = {(cell["collective"], cell["bytes"]): cell for cell in cells}
    collectives = list(dict.fromkeys(cell["collective"] for cell in cells))
    columns = []
    for size in sorted({cell["bytes"] for cell in cells}):
        measured = [by_key.get((collective, size)) for collective in collectives]
        columns.append([report.short_size(size), *(report.ratio_text(cell and report.ratio(cell, row)) for cell in measured)])
    lines = []
    for group in column_groups(["collective", *collectives], columns):
        rows = list(zip(*[collectives, *(column[1:] for column in group)]))
        lines += ["", *table(["collective", *(column[0] for column in group)], rows)]
    return lines


def paragraph(text):
    return ["", *textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False)]


def document(result):
    """Returns the text. result: that of the JSON."""
    facts, cells, touch = result["machine"], result["parts"]["host"], report.buffers_text(result["touch"])
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    lines = [f"## Part host on {facts['cpu']}"]
    lines += paragraph(f"{facts['time'][:10]}; {facts['processor']}, {facts['cores']} cores, kernel {facts['kernel']}; {versions}.")
    lines += paragraph(
        f"float32, {touch}. Ratios are the other's median time over Hocket's: above 1, Hocket is faster. The peer is "
        "the fastest one of each cell, the limit is the roofline, and the mean is geometric."
    )
    lines += ["", *table(summary.HEADER, summary.lines(result["summary"]), left=3)]
    for ranks in sorted({cell["ranks"] for cell in cells}):
        group = [cell for cell in cells if cell["ranks"] == ranks]
        for row, memory in MEMORIES.items():
            if any(report.ratio(cell, row) for cell in group):
                lines += paragraph(f"**{ranks} ranks, {memory}, {touch}: peer / Hocket**")
                lines += ratio_tables(group, row)
    return "\n".join(lines) + "\n"
