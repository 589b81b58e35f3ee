#!/usr/bin/env python3
"""Counting instructions of machine code, on an excerpt as cuobjdump writes it."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sass import mix, table  # noqa: E402

TEXT = """
Fatbin elf code:
================
arch = sm_90a
\t\tFunction : _ZN3OneEv
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                         /* 0x00000a00ff017b82 */
                                                                                  /* 0x000fe20000000800 */
        /*0010*/                   USETMAXREG.DEALLOC.CTAPOOL 0x18 ;              /* 0x00000018000079c8 */
        /*0020*/              @!P0 UBLKCP.S.G [UR8], [UR10], UR12 ;               /* 0x0000000008ff7fb4 */
        /*0030*/                   HGMMA.64x128x16.F32.BF16 R24, R4, gdesc[UR8] ; /* 0x05e00004181879f0 */
        /*0040*/                   HGMMA.64x128x16.F32.BF16 R24, R4, gdesc[UR8] ; /* 0x05e00004181879f0 */
        /*0050*/                   STL [R1+0x8], R151 ;                           /* 0x0000080201007387 */
        /*0060*/                   EXIT ;                                         /* 0x000000000000794d */
\t\tFunction : _ZN3TwoEv
        /*0000*/                   HMMA.16816.F32.BF16 R8, R4, R2, R8 ;           /* 0x000000020408723c */
"""


class SassTest(unittest.TestCase):
    def test_counts_instructions_by_kernel(self):
        found = mix(TEXT.splitlines())
        one, two = found[("sm_90a", "_ZN3OneEv")], found[("sm_90a", "_ZN3TwoEv")]
        self.assertEqual({name: one[name] for name in ("HGMMA", "UBLKCP", "USETMAXREG", "STL", "LDL", "all", "registers")},
                         {"HGMMA": 2, "UBLKCP": 1, "USETMAXREG": 1, "STL": 1, "LDL": 0, "all": 7, "registers": 152})
        self.assertEqual((two["HMMA"], two["all"], two["registers"]), (1, 1, 9))

    def test_writes_a_line_a_kernel(self):
        lines = list(table(mix(TEXT.splitlines())))
        self.assertEqual(len(lines), 3)
        self.assertIn("HGMMA", lines[0])
        self.assertTrue(lines[1].startswith("sm_90a"), lines[1])


if __name__ == "__main__":
    unittest.main()
