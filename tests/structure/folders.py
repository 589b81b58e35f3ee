#!/usr/bin/env python3
"""The graph of folders: who includes whom, by the includes of the sources.

usage: folders.py          prints every folder with the folders that it includes
       folders.py --svg    writes the picture in docs/architecture.svg

A folder is one of the second level (services/rpc, orchestrator/engine); kernels counts as one. The
picture shows the transitive reduction: an arrow is left out where a longer way leads to the same
folder.
"""

import argparse
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/architecture.svg"
ROOMS = ("kernels", "services", "orchestrator", "clients")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
STAGES = ("tokenizer", "embedding", "shard", "sampler", "gateway")
COLOURS = {"kernels": "#e8e8e8", "shared": "#dbe9f9", "service": "#d9f0dd",
           "orchestrator": "#fde7cf", "clients": "#ece0f5"}
BOX = (128, 22)
GAP = (12, 46)


def folder_of(path):
    """The folder that a source belongs to, such as services/rpc; None: not of the product."""
    parts = pathlib.PurePath(path).parts
    if parts[0] not in ROOMS:
        return None
    return parts[0] if parts[0] == "kernels" or len(parts) < 3 else "/".join(parts[:2])


def includes(root=ROOT):
    """{folder: folders that it includes}, of all folders of the product."""
    graph = collections.defaultdict(set)
    for room in ROOMS:
        for path in sorted((root / room).rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu") or path.is_symlink():
                continue
            folder = folder_of(path.relative_to(root))
            graph[folder]
            for include in INCLUDE.findall(path.read_text(errors="replace")):
                other = folder_of(include)
                if other and other != folder and (root / include).exists():
                    graph[folder].add(other)
    return dict(graph)


def reached(graph, start):
    seen, todo = set(), [start]
    while todo:
        for other in graph.get(todo.pop(), ()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def reduced(graph):
    """The graph without the arrows that a longer way makes superfluous."""
    return {folder: {other for other in others
                     if not any(other in reached(graph, between)
                                for between in others if between != other)}
            for folder, others in graph.items()}


def floors(graph):
    """{folder: its floor}: one above the highest folder that it includes; without circles."""
    known = {}

    def floor(folder):
        if folder not in known:
            known[folder] = 1 + max((floor(other) for other in graph.get(folder, ())), default=-1)
        return known[folder]

    for folder in graph:
        floor(folder)
    return known


def colour(folder):
    room, _, name = folder.partition("/")
    if room == "services":
        return COLOURS["service" if name in STAGES or not name else "shared"]
    return COLOURS[room]


def rows_and_routes(graph):
    """Rows of boxes and of bends, lowest first; {(folder, other): the bends of their arrow}.

    An arrow that passes a floor has a bend of its own there, so that it goes between the boxes.
    """
    floor = floors(graph)
    rows = [sorted(f for f in graph if floor[f] == level)
            for level in range(max(floor.values()) + 1)]
    routes = {}
    for folder in sorted(graph):
        for other in sorted(graph[folder]):
            bends = [(folder, other, level) for level in range(floor[folder] - 1, floor[other], -1)]
            routes[folder, other] = bends
            for bend in bends:
                rows[bend[2]].append(bend)
    return rows, routes


def in_order(rows, routes):
    """Sorts each row so that boxes and bends stand near what they are connected with."""
    near = {item: [] for row in rows for item in row}
    for (folder, other), bends in routes.items():
        way = [folder, *bends, other]
        for one, next_one in zip(way, way[1:]):
            near[one].append(next_one)
            near[next_one].append(one)
    at = {item: (i + 0.5) / len(row) for row in rows for i, item in enumerate(row)}
    for sweep in range(24):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            middle = {item: sum(at[n] for n in near[item]) / len(near[item]) if near[item] else 0.5
                      for item in row}
            row.sort(key=lambda item: (middle[item], str(item)))
            for i, item in enumerate(row):
                at[item] = (i + 0.5) / len(row)


def width_of(item):
    return BOX[0] if isinstance(item, str) else 4


def places(graph):
    """{box or bend: its middle and upper edge}, the bends of arrows, the picture's size."""
    rows, routes = rows_and_routes(graph)
    in_order(rows, routes)
    widths = [sum(width_of(item) + GAP[0] for item in row) for row in rows]
    width = max(widths) + GAP[0]
    height = len(rows) * (BOX[1] + GAP[1]) + 30
    middles = {}
    for level, row in enumerate(rows):
        x = (width - widths[level] + GAP[0]) / 2
        for item in row:
            y = height - 30 - (level + 1) * (BOX[1] + GAP[1]) + GAP[1]
            middles[item] = (x + width_of(item) / 2, y)
            x += width_of(item) + GAP[0]
    return middles, routes, width, height


def picture(graph):
    middles, routes, width, height = places(reduced(graph))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
           'font-family="sans-serif" font-size="11">',
           "<title>Folders of Sluice, and which include which (tests/structure/folders.py)</title>",
           '<defs><marker id="to" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" '
           'markerHeight="6" orient="auto">'
           '<path d="M0 0 L6 3 L0 6 z" fill="#777"/></marker></defs>',
           '<rect width="100%" height="100%" fill="white"/>']
    for (folder, other), bends in sorted(routes.items()):
        points = [(middles[folder][0], middles[folder][1] + BOX[1])]
        for bend in bends:
            x, y = middles[bend]
            points += [(x, y), (x, y + BOX[1])]
        points.append(middles[other])
        way = " L".join(f"{x:.0f} {y:.0f}" for x, y in points)
        out.append(f'<path d="M{way}" stroke="#999" stroke-width="0.8" fill="none" '
                   'marker-end="url(#to)"/>')
    for folder in sorted(item for item in middles if isinstance(item, str)):
        x, y = middles[folder]
        out.append(f'<rect x="{x - BOX[0] / 2:.0f}" y="{y:.0f}" width="{BOX[0]}" height="{BOX[1]}" '
                   f'rx="3" fill="{colour(folder)}" stroke="#555"/>')
        out.append(f'<text x="{x:.0f}" y="{y + 15:.0f}" text-anchor="middle">{folder}</text>')
    legend = (("kernels", "kernels"), ("shared", "shared folders of services"),
              ("service", "services"), ("orchestrator", "orchestrator"), ("clients", "clients"))
    for i, (key, words) in enumerate(legend):
        x = GAP[0] + i * 180
        out.append(f'<rect x="{x}" y="{height - 20:.0f}" width="12" height="12" '
                   f'fill="{COLOURS[key]}" stroke="#555"/>')
        out.append(f'<text x="{x + 18}" y="{height - 10:.0f}">{words}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description="Shows which folders include which.")
    parser.add_argument("--svg", action="store_true", help="write docs/architecture.svg")
    graph = includes()
    if parser.parse_args().svg:
        PICTURE.write_text(picture(graph))
        return
    for folder, others in sorted(graph.items()):
        print(f"{folder}: {' '.join(sorted(others))}")


if __name__ == "__main__":
    sys.exit(main())
