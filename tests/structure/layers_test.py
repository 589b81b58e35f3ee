#!/usr/bin/env python3
"""Holds the folders of the product to their layers, and docs/architecture.svg to the sources.

That no folders include each other is folders_test.py's.
"""

import pathlib
import sys
import tempfile
import unittest

import folders

# The services. The gateway and clients are programs on top of the public API.
SERVICES = ("tokenizer", "embedding", "shard", "sampler", "gateway")
# The shared folders of services, lowest first: each may include those before it.
SHARED = ("common", "messages", "process", "watch", "work", "streams", "rpc", "lane", "rows",
          "stage", "program")
PURE = ("orchestrator/scheduler", "orchestrator/kv_cache", "orchestrator/beams")


class LayersTest(unittest.TestCase):
    def setUp(self):
        self.graph = folders.includes()
        self.assertGreater(len(self.graph), 30)

    def test_no_service_includes_another(self):
        for service in SERVICES:
            others = {f"services/{other}" for other in SERVICES if other != service}
            self.assertEqual(set(), self.graph[f"services/{service}"] & others, service)

    def test_the_inspector_computes_as_the_stages_do_and_nothing_serves_with_it(self):
        self.assertLessEqual(self.graph["services/inspector"], {
            "kernels", "services/model", "services/embedding", "services/shard", "services/sampler", "services/options"})
        including = {folder for folder, others in self.graph.items() if "services/inspector" in others}
        self.assertEqual({"clients/cli"}, including)

    def test_shared_folders_are_in_order(self):
        for level, name in enumerate(SHARED):
            above = {f"services/{other}" for other in SHARED[level + 1:] + SERVICES}
            self.assertEqual(set(), self.graph.get(f"services/{name}", set()) & above, name)

    def test_rooms_are_in_order(self):
        self.assertEqual(set(), self.graph["kernels"])
        for folder, others in self.graph.items():
            if folder.startswith("services/"):
                above = [o for o in others if o.startswith(("orchestrator", "clients"))]
                self.assertEqual([], above, folder)
            if folder.startswith("orchestrator"):
                self.assertEqual([], [o for o in others if o.startswith("clients")], folder)
                services = others & {f"services/{service}" for service in SERVICES}
                self.assertEqual(set(), services, folder)

    def test_the_scheduler_includes_no_plumbing(self):
        for folder in PURE:
            allowed = set(PURE) | {"services/common", "kernels"}
            self.assertLessEqual(self.graph[folder], allowed, folder)

    def test_the_picture_is_up_to_date(self):
        self.assertEqual(folders.picture(self.graph), folders.PICTURE.read_text(),
                         "run tests/structure/folders.py --svg")

    def test_notices_what_a_folder_includes(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for folder in ("services/high", "services/middle", "kernels/low"):
                (root / folder).mkdir(parents=True)
            (root / "kernels/low/a.h").write_text("")
            (root / "services/middle/b.h").write_text('#include "kernels/low/a.h"\n')
            (root / "services/high/c.cc").write_text(
                '#include "services/middle/b.h"\n#include "kernels/low/a.h"\n')
            graph = folders.includes(root)
        self.assertEqual({"services/middle", "kernels"}, graph["services/high"])
        self.assertEqual({"services/middle"}, folders.reduced(graph)["services/high"])
        self.assertEqual({"kernels": 0, "services/middle": 1, "services/high": 2},
                         folders.floors(graph))


if __name__ == "__main__":
    sys.exit(unittest.main())
