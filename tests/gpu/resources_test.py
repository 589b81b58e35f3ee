#!/usr/bin/env python3
"""resources.py on what ptxas says."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import resources  # noqa: E402

SAID = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z4normPf' for 'sm_80'
ptxas info    : Function properties for _Z4normPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1024 bytes smem, 368 bytes cmem[0]
ptxas info    : Compiling entry function '_Z4gemmPf' for 'sm_90a'
ptxas info    : Function properties for _Z4gemmPf
    64 bytes stack frame, 24 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 352 bytes cmem[0]
"""


class ResourcesTest(unittest.TestCase):
    def setUp(self):
        self.taken = resources.named(resources.parse(SAID))

    def test_reads_what_ptxas_says(self):
        self.assertEqual(self.taken, {("norm(float*)", "sm_80"): (32, 0, 0, 1024), ("gemm(float*)", "sm_90a"): (255, 64, 40, 0)})

    def test_a_table_that_was_written_holds(self):
        self.assertEqual(resources.differences(resources.read_table(resources.write_table(self.taken, "13.0")), self.taken), [])

    def test_more_is_told_and_less_is_not(self):
        table = dict(self.taken)
        table["norm(float*)", "sm_80"] = (40, 0, 0, 1024)
        self.assertEqual(resources.differences(table, self.taken), [])
        table["norm(float*)", "sm_80"] = (31, 0, 0, 512)
        self.assertEqual(resources.differences(table, self.taken), [
            "norm(float*) for sm_80 takes 32 registers, the table has 31",
            "norm(float*) for sm_80 takes 1024 bytes of shared memory, the table has 512"])

    def test_serialized_multiplies_are_told(self):
        said = ("ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
                "insufficient register resources for the wgmma pipeline in the function '_Z4gemmPf'")
        self.assertEqual(resources.serialized(said), ["_Z4gemmPf"])
        self.assertEqual(resources.serialized(SAID), [])

    def test_kernels_that_come_and_go_are_told(self):
        wrong = resources.differences({("old()", "sm_80"): (1, 0, 0, 0)}, self.taken)
        self.assertIn("gemm(float*) for sm_90a is not in the table", wrong)
        self.assertIn("old() for sm_80 is no more", wrong)


if __name__ == "__main__":
    unittest.main()
