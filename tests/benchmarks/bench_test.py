"""Tests of the benchmark's pure parts. Usage: bench_test.py [unittest arguments]"""

import unittest
import xml.dom.minidom

import report
import rows

CEILINGS = {"bytes_per_second": 28e9, "f32_operations_per_second": 233e9, "bf16_operations_per_second": 463e9,
            "int8_operations_per_second": 0}


class Programs:
    """What the runs would print on a machine of round figures."""

    threads = 2

    def bench(self, target, phases, max_tokens):
        return {"step_weight_bytes": 700e6, "rates": {phases: 30.0}}

    def kernels(self, kind, formats, models):
        line = {"bytes_per_second": 20e9, "share_of_bandwidth": 0.8, "operations_per_second": 1e11, "share_of_peak": 0.5}
        return [{"kernel": "smollm2-360m T 1 qkv 960x1600", **line, "bytes_per_second": 1}, {"kernel": "smollm2-360m T 1 layer", **line}]


def context():
    return rows.Context(Programs(), {rows.SMALL: "/small", rows.LARGE: "/large"}, 0, lambda folder: 350e6,
                        lambda folder: 10e6 if folder == "/large" else 0)


def taken(title):
    measurement = next(one for one in rows.MEASUREMENTS if one.title == title)
    return [(row, ceiling(28e9, 400e9) if callable(ceiling) else ceiling, reached)
            for row, ceiling, reached in measurement.run(context())]


class RowsTest(unittest.TestCase):
    def test_decode_is_held_to_reading_all_weights_once(self):
        self.assertEqual(taken("smollm2-360m bf16 decode"), [("small bf16", 40.0, 30.0)])

    def test_an_embedding_that_is_not_the_head_counts_as_in_the_asked_ceiling(self):
        self.assertEqual(taken("tinyllama-1.1b bf16 decode"), [("large bf16", 28e9 / 720e6, 30.0)])

    def test_streams_are_held_to_the_slower_of_reading_and_multiplying(self):
        self.assertAlmostEqual(rows.streams_ceiling(28e9, 1e15, 700e6, 350e6, 16), 640)
        self.assertAlmostEqual(rows.streams_ceiling(28e9, 70e9, 700e6, 350e6, 16), 100)

    def test_prefill_is_held_to_multiplying_by_every_weight(self):
        (row, ceiling, _), = taken("smollm2-360m prefill")
        self.assertEqual(row, "small prefill")
        self.assertAlmostEqual(ceiling, 400e9 / 700e6)

    def test_kernels_are_judged_by_whole_layers(self):
        self.assertEqual(taken("GEMV bf16"), [("gemv bf16", 25.0, 20.0)])
        self.assertEqual(taken("GEMM bf16"), [("gemm bf16", 200.0, 100.0)])

    def test_every_row_is_fed(self):
        self.assertEqual({row for one in rows.MEASUREMENTS for row in one.rows}, set(rows.ROWS))

    def test_reports_the_median_of_shares_and_not_the_share_of_medians(self):
        result = next(one for one in rows.summarise({"small bf16": [(10, 9), (40, 20), (20, 16)]}, {})
                      if one.samples)
        self.assertEqual((result.ceiling, result.reached, result.share), (20, 16, 0.8))
        self.assertEqual((result.least, result.most), (0.5, 0.9))

    def test_of_shards_the_one_with_the_most_waste_counts(self):
        result = next(one for one in rows.summarise({"memory": [(100, 110), (100, 125), (50, 51)]}, {}) if one.samples)
        self.assertEqual(result.reached, 125)
        self.assertAlmostEqual(result.share, 0.8)


def results():
    return rows.summarise({"small bf16": [(40, 36), (40, 30)], "memory": [(700, 735)], "ready": [(3, 6)]},
                          {"small int8": "failed: no such format"})


class ReportTest(unittest.TestCase):
    def test_writes_a_row_for_each_result(self):
        table = report.table(results())
        self.assertIn("| smollm2-360m bf16 decode, batch 1 | 40.0 tok/s | 33.0 tok/s | 82% (75% to 90%) | "
                      "85% (33 of 38.7) | no |", table)
        self.assertIn("| failed: no such format | - | 79% (58 of 73) | - |", table)
        self.assertIn("| peak memory of a shard against weights + KV pool | 700.0 MB | 735.0 MB | 95% | "
                      "87% (1.15 times) | yes |", table)
        self.assertIn("| 3.00 s | 6.00 s | 50% | 100% (3 s) | no |", table)

    def test_names_machine_and_ceilings(self):
        line = report.machine_line("Box <1>", 2, CEILINGS, 4, 0.1)
        self.assertIn("Box <1>; 2 threads. Medians of 4 rounds", line)
        self.assertIn("reads 28.0 GB/s, F32 233 GFLOP/s, BF16 463 GFLOP/s. Load", line)

    def test_draws_what_xml_readers_take(self):
        drawn = xml.dom.minidom.parseString(report.svg("Box <1>; more", results()))
        self.assertEqual(len(drawn.getElementsByTagName("rect")), 1 + 3)

    def test_replaces_what_lies_between_the_marks(self):
        document = f"a\n{report.BEGIN}\nold\n{report.END}\nb\n"
        once = report.insert(document, "new\n")
        self.assertEqual(once, f"a\n{report.BEGIN}\nnew\n{report.END}\nb\n")
        self.assertEqual(report.insert(once, "new\n"), once)
        with self.assertRaises(ValueError):
            report.insert("no marks", "new")


if __name__ == "__main__":
    unittest.main()
