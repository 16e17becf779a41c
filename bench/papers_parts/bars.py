"""Groups of bars, as SVG."""

COLOURS = ["#3b82d0", "#d9730d", "#2a9d6f", "#c2508f"]  # of middle brightness, for light and dark pages
LEFT, TOP, WIDTH, HEIGHT, LEGEND = 60, 20, 420, 260, 170


def text(x, y, anchor, words):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>\n'


def scale(most, step, unit):
    drawn = text(LEFT, TOP - 6, "middle", unit)
    for i in range(round(most / step) + 1):
        y = TOP + HEIGHT * (1 - i * step / most)
        drawn += f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}" stroke="#7d8590" stroke-opacity="0.4"/>\n'
        drawn += text(LEFT - 8, y + 4, "end", f"{i * step:g}")
    return drawn


def picture(groups, names, most, step, unit):
    """groups: {label: a value for each name}. The axis goes up to `most`."""
    drawn = scale(most, step, unit)
    wide = WIDTH / len(groups)
    bar = 0.8 * wide / len(names)
    for g, (label, values) in enumerate(groups.items()):
        for i, (name, value) in enumerate(zip(names, values)):
            x, high = LEFT + g * wide + 0.1 * wide + i * bar, HEIGHT * value / most
            drawn += f'<rect x="{x:.1f}" y="{TOP + HEIGHT - high:.1f}" width="{bar - 3:.1f}" height="{high:.1f}" fill="{COLOURS[i]}">'
            drawn += f"<title>{label}, {name}: {value:.5g}</title></rect>\n"
            drawn += text(x + (bar - 3) / 2, TOP + HEIGHT - high - 4, "middle", f"{value:.3f}")
        drawn += text(LEFT + (g + 0.5) * wide, TOP + HEIGHT + 20, "middle", label)
    for i, name in enumerate(names):
        x, y = LEFT + WIDTH + 20, TOP + 20 + 22 * i
        drawn += f'<rect x="{x}" y="{y - 11}" width="12" height="12" fill="{COLOURS[i]}"/>\n' + text(x + 18, y, "start", name)
    width, height = LEFT + WIDTH + LEGEND, TOP + HEIGHT + 36
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f"<style>text {{ font: 12px sans-serif; fill: #7d8590 }}</style>\n{drawn}</svg>\n"
    )
