#!/usr/bin/env python3
"""The chart on a real cluster: installs it from the image, and does to its pods what happens to pods."""

import argparse
import os
import sys

from cluster import Helm, Report, load_image, start
from first_text import FirstText
from services import Drafts, Ranks, Services
from single import Single

LAYOUTS = {"first": FirstText, "single": Single, "services": Services, "ranks": Ranks, "drafts": Drafts}


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev cluster", description=__doc__)
    parser.add_argument("folder", help="../shared/cluster; $CLUSTER_HOME says where its state is")
    parser.add_argument("archive", help="the image, as `ctr images import` takes it")
    parser.add_argument("helm", help="the program")
    parser.add_argument("layouts", nargs="*", help=f"{', '.join(LAYOUTS)}; default: all of them")
    steps = sorted({step for layout in LAYOUTS.values() for step in layout.steps})
    parser.add_argument("--only", default="", help=f"steps by comma, of {', '.join(steps)}; default: all of them")
    parser.add_argument("--readme", metavar="FILE", help="puts each layout's report into this document, after <!-- report LAYOUT -->")
    parsed = parser.parse_args(arguments)
    parsed.only = [step for step in parsed.only.split(",") if step]
    for known, given, what in ((LAYOUTS, parsed.layouts, "layout"), (steps, parsed.only, "step")):
        for one in given:
            if one not in known:
                parser.error(f"no {what} {one!r}; accepted: {', '.join(known)}")
    return parsed


def main():
    arguments = parse(sys.argv[1:])
    folder = os.path.abspath(arguments.folder)
    version = start(folder)
    image, digest = load_image(arguments.archive)
    helm = Helm(arguments.helm, image)
    failures = 0
    for name in arguments.layouts or LAYOUTS:
        report = Report(f"Kubernetes {version}, {image} {digest[:19]}, layout {name}")
        LAYOUTS[name](helm, image, report, folder).run(arguments.only)
        if arguments.readme and not arguments.only:
            report.put_into(arguments.readme, name)
        failures += report.failures
    print(f"{failures} failed" if failures else "all seen")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
