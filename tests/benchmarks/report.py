"""The table as Markdown and the shares as SVG. Pure functions."""

import re
from xml.sax.saxutils import escape

BEGIN, END = "<!-- begin of what ./dev bench wrote -->", "<!-- end of what ./dev bench wrote -->"
PEER_BEGIN = "<!-- begin of what ./dev bench --peer wrote -->"
PEER_END = "<!-- end of what ./dev bench --peer wrote -->"


def _number(value, unit):
    digits = 0 if value >= 1000 else 1 if value >= 10 or unit in ("GB/s", "GFLOP/s") else 2
    return f"{value:,.{digits}f} {unit}"


def _percent(value):
    return f"{100 * value:.0f}%"


def _verdict(result):
    # As it is printed: a share of 89.6% is shown, and judged, as 90%.
    return "yes" if round(100 * result.share) >= round(100 * result.row.asked) else "no"


def machine_line(machine, threads, ceilings, rounds, load):
    text = (f"{machine}; {threads} threads. Medians of {rounds} rounds; ceilings over the whole run: reads "
            f"{ceilings['bytes_per_second'] / 1e9:.1f} GB/s, F32 {ceilings['f32_operations_per_second'] / 1e9:.0f} GFLOP/s")
    for name, unit in (("bf16", "GFLOP/s"), ("int8", "GOP/s")):
        rate = ceilings[f"{name}_operations_per_second"]
        if rate > 0:
            text += f", {name.upper()} {rate / 1e9:.0f} {unit}"
    return f"{text}. Load average before the run: {load:.2f}."


def table(results):
    lines = ["| what | ceiling here | reached | share (least to most) | asked | met |", "|---|---|---|---|---|---|"]
    for result in results:
        row = result.row
        asked = f"{_percent(row.asked)} ({row.asked_as})" if row.asked_as != _percent(row.asked) else row.asked_as
        if result.note:
            lines.append(f"| {row.what} | - | {result.note} | - | {asked} | - |")
            continue
        spread = f" ({_percent(result.least)} to {_percent(result.most)})" if result.samples > 1 else ""
        lines.append(f"| {row.what} | {_number(result.ceiling, row.unit)} | {_number(result.reached, row.unit)} | "
                     f"{_percent(result.share)}{spread} | {asked} | {_verdict(result)} |")
    return "\n".join(lines) + "\n"


def markdown(machine, results, picture):
    return f"{machine}\n\n{table(results)}\n![Share of each ceiling that was reached, against what is asked]({picture})\n"


def insert(document, text, begin=BEGIN, end=END):
    """The document with what lies between the marks replaced."""
    if begin not in document or end not in document:
        raise ValueError(f"the document lacks the lines {begin} and {end}")
    head, rest = document.split(begin, 1)
    return head + begin + "\n" + text + end + rest.split(end, 1)[1]


def put_block(document, heading, text, begin=BEGIN, end=END):
    """The document with the block of that heading, among those between the marks, replaced or added in its place."""
    between = document.split(begin, 1)[-1].split(end, 1)[0]
    blocks = dict(re.findall(r"^### (.+)\n\n((?:(?!^### ).*\n)*)", between, re.MULTILINE))
    blocks[heading] = text
    return insert(document, "\n".join(f"### {name}\n\n{blocks[name].strip()}\n" for name in sorted(blocks)), begin, end)


def svg(machine, results):
    """A bar for each row: the share reached, with a mark where it should be."""
    left, width, step, top = 530, 400, 30, 70  # the longest label fits left of the bars, in any font
    scale = width / 1.2  # of a share of 100%
    height = top + step * len(results) + 46
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {height}" font-family="system-ui, sans-serif" '
           'font-size="13">',
           "  <title>Share of each ceiling that was reached, against what is asked</title>",
           f'  <rect width="960" height="{height}" fill="#fff"/>',
           '  <text x="20" y="28" font-size="16" font-weight="600" fill="#0f172a">Share of what this machine could do</text>',
           f'  <text x="20" y="48" font-size="11" fill="#475569">{escape(machine.split(". ")[0])}</text>']
    bottom = top + step * len(results)
    for percent in range(0, 121, 20):
        x = left + scale * percent / 100
        out.append(f'  <path d="M{x:.1f} {top - 6} V{bottom}" stroke="#e2e8f0"/>')
        out.append(f'  <text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" font-size="11" fill="#475569">{percent}%</text>')
    for index, result in enumerate(results):
        y = top + step * index
        out.append(f'  <text x="{left - 10}" y="{y + 15}" text-anchor="end" font-size="11" '
                   f'fill="#0f172a">{escape(result.row.what)}</text>')
        if result.note:
            out.append(f'  <text x="{left + 6}" y="{y + 15}" font-size="11" fill="#64748b">not measured</text>')
        else:
            color = "#0369a1" if _verdict(result) == "yes" else "#d97706"
            bar = scale * min(result.share, 1.2)
            out.append(f'  <rect x="{left}" y="{y + 2}" width="{bar:.1f}" height="18" rx="3" fill="{color}"/>')
            inside = bar > 60
            # At the bar's beginning, where no mark is.
            out.append(f'  <text x="{left + (6 if inside else bar + 6):.1f}" y="{y + 15}" font-size="11" '
                       f'fill="{"#fff" if inside else "#0f172a"}">'
                       f'{_percent(result.share)}</text>')
        asked = left + scale * result.row.asked
        out.append(f'  <path d="M{asked:.1f} {y - 2} V{y + 24}" stroke="#0f172a" stroke-width="2.5"/>')
    out.append(f'  <text x="20" y="{bottom + 36}" font-size="11" fill="#475569">Bar: reached (orange: less than asked). '
               "Black mark: asked.</text>")
    return "\n".join(out) + "\n</svg>\n"
