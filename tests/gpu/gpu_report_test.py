#!/usr/bin/env python3
"""The JSON file of gpu-prove as a part of a page."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import gpu_report  # noqa: E402
from stand_ins import h200  # noqa: E402


class ReportTest(unittest.TestCase):
    def test_a_row_says_what_was_reached_of_what(self):
        rows = {row[0]: row for row in gpu_report.speed_rows(h200())}
        self.assertEqual(rows["decode, batch 1, context 1k"][1:], ("3.52 ms", "4.00 ms (88%)", "4.2 ms", True))
        self.assertEqual(rows["prefill of 2,048"][1:], ("36.2 ms", "70.0 ms (52%)", "60%", False))
        self.assertEqual(rows["256 streams, 1,000 in and 1,000 out"][2:], ("8,533 tok/s", "8,000 tok/s", True))
        self.assertEqual(rows["decode in FP8, batch 1, context 1k"][1], "1.77 ms")
        self.assertEqual(rows["256 streams in FP8, 1,000 in and 1,000 out"][2:], ("8,533 tok/s", "14,000 tok/s", False))
        self.assertEqual(rows["first token after start, weights in the page cache"][4], False)
        self.assertEqual(rows["decode attention, batch 32, context 8k"][2:], ("3.58 TB/s (83%)", "80%", True))

    def test_what_failed_is_in_the_table(self):
        text = gpu_report.markdown(h200())
        self.assertIn("NVIDIA H200, 2026-01-02; copies 4.30 TB/s, cuBLASLt's best product 790 TFLOP/s", text)
        self.assertIn("| ranks | failed | --tp 4: other / tokens |", text)
        self.assertIn("| kernels | passed | 200 cases, 3 skipped |", text)

    def test_a_kernel_stands_beside_its_prediction(self):
        seen = h200()
        seen["parts"]["kernel-speed"]["figures"]["kernels"] = [
            {"kernel": "gemm o BF16 T 1", "seconds": 15e-6, "bytes": 33554432, "operations": 33554432,
             "predicted": 12e-6, "ratio": 1.25, "bound": "memory", "waves": 0.97},
            {"kernel": "rms_norm T 1", "seconds": 3e-6, "bytes": 24576, "operations": 0}]
        text = gpu_report.kernel_table(seen)
        self.assertIn("| gemm o BF16 T 1 | 15.0 us | 12.0 us, memory | 1.25 | 52% |", text)
        self.assertIn("| rms_norm T 1 | 3.0 us | - | - |", text)

    def test_the_page_has_a_place_for_it(self):
        with open(os.path.join(HERE, "..", "..", "docs", "performance.md")) as file:
            document = file.read()
        self.assertLess(document.index(gpu_report.BEGIN), document.index(gpu_report.END))

    def test_figures_of_a_part_that_was_cut_short_are_shown_as_far_as_they_go(self):
        seen = h200()
        seen["parts"]["speed"]["state"] = "cut short"
        for name in ("prefill", "decode 64", "256 streams"):
            del seen["parts"]["speed"]["figures"][name]
        names = [row[0] for row in gpu_report.speed_rows(seen)]
        self.assertEqual(names[:3], ["decode, batch 1, context 1k (of a part cut short)",
                                     "first token after start, weights in the page cache (of a part cut short)",
                                     "decode in FP8, batch 1, context 1k"])

    def test_figures_of_a_part_that_failed_are_not_shown(self):
        seen = h200()
        seen["parts"]["speed"]["state"] = "failed"
        self.assertNotIn("decode, batch 1", gpu_report.markdown(seen))


if __name__ == "__main__":
    unittest.main()
