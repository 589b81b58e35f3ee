"""Tests of the benchmark's pure parts. Usage: bench_test.py [unittest arguments]"""

import json
import os
import struct
import tempfile
import unittest
import xml.dom.minidom

import numpy

import bench
import gguf
import gpt_oss
import machine
import peer
import quantised
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
        if kind == "experts":
            return [{"kernel": "qwen3-a3b-4l T 512 experts", "seconds": 0.1, "products_seconds": 0.09}]
        if kind == "attention":
            shape = "smollm2-360m attention 1 x T 1 at "
            return [{"kernel": shape + "16384", "format": "F32", **line, "bytes_per_second": 1},
                    {"kernel": shape + "32768", "format": "BF16", **line, "bytes_per_second": 1},
                    {"kernel": shape + "32768", "format": "F32", **line}]
        return [{"kernel": "smollm2-360m T 1 qkv 960x1600", **line, "bytes_per_second": 1}, {"kernel": "smollm2-360m T 1 layer", **line}]


def context():
    models = {name: f"/{name}" for one in rows.MEASUREMENTS for name in one.models}
    models.update({rows.SMALL: "/small", rows.LARGE: "/large"})
    return rows.Context(Programs(), models, 0, lambda folder: 350e6,
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

    def test_one_long_sequence_is_held_to_reading_its_keys_and_values(self):
        self.assertEqual(taken("attention at 32,768 positions"), [("attention long", 25.0, 20.0)])

    def test_a_mixture_is_held_to_its_active_part_and_a_file_to_our_own_format_byte_for_byte(self):
        self.assertEqual(taken("qwen3-a3b-4l bf16 decode"), 3 * [("mixture bf16", 30.0, 30.0)])
        self.assertEqual(taken("tinyllama-1.1b awq file"), 3 * [("file awq", 30.0, 30.0)])
        (row, ceiling, reached), = taken("qwen3-a3b-4l step of 512 rows")
        self.assertEqual((row, ceiling, reached), ("mixture products", 90.0, 100.0))

    def test_a_step_of_gpt_oss_reads_four_experts_of_a_layer(self):
        of_expert = 3 * 2880 * 2880 * 17 // 32
        self.assertEqual(gpt_oss.step_bytes(4 * 32 * of_expert + 7), 4 * 4 * of_expert + 7)

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


class Peer:
    build = "build 7"

    def file(self, model, folder, weights, say):
        return f"{folder}/{weights}"

    def rate(self, file, kind):
        return 24.0


class PeerTest(unittest.TestCase):
    def test_compares_every_format_of_both_models_in_every_phase(self):
        titles = [one.title for one in peer.COMPARISONS]
        self.assertEqual(len(set(titles)), 18 + 9 + 6)
        self.assertIn("tinyllama-1.1b int4 decode, 16 streams", titles)

    def test_both_have_their_turn_and_the_ceiling_is_that_of_the_phase(self):
        comparison = next(one for one in peer.COMPARISONS if one.title == "smollm2-360m bf16 decode")
        report, ours, theirs = peer.compare(comparison, context(), Peer(), print)
        self.assertEqual((ours, theirs), (30.0, 24.0))
        self.assertEqual(comparison.ceiling(context(), report, 28e9, 400e9), 40.0)

    def test_reports_the_median_of_ratios_of_single_turns(self):
        one, = peer.summarise(peer.COMPARISONS[:1], {peer.COMPARISONS[0].title: [(40, 20, 10), (40, 30, 30), (40, 9, 6)]}, {})
        self.assertEqual((one.ours, one.theirs, one.ratio, one.least, one.most), (20, 10, 1.5, 1.0, 2.0))

    def test_says_what_was_not_measured(self):
        title = peer.COMPARISONS[0].title
        table = peer.table(peer.summarise(peer.COMPARISONS[:2], {}, {title: "failed: no such format"}))
        self.assertIn(f"| {title} | - | failed: no such format | - | - |", table)

    def test_refuses_a_folder_without_the_programs(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(ValueError, "no program llama-bench"):
            peer.folder_of(folder)


class QuantisedTest(unittest.TestCase):
    CONFIG = {"vocab_size": 512, "max_position_embeddings": 64, "hidden_size": 256, "num_hidden_layers": 1, "model_type": "llama",
              "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "head_dim": 64,
              "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False}

    def test_a_matrix_of_blocks_has_the_bytes_of_its_format(self):
        random = numpy.random.default_rng(0)
        for kind, (size, weights, _, _) in quantised.BLOCKS.items():
            raw = quantised.blocks(kind, 3, 512, random)
            self.assertEqual(raw.nbytes, 3 * 512 // weights * size, kind)
            at = 208 if kind == "Q6_K" else 0
            scale = raw[:, at:at + 2].copy().view(numpy.float16)
            self.assertTrue(numpy.isfinite(scale).all() and (scale > 0).all(), kind)

    def test_writes_files_and_folders_of_a_shape(self):
        with tempfile.TemporaryDirectory() as place:
            with open(os.path.join(place, "config.json"), "w") as file:
                json.dump(self.CONFIG, file)
            path = os.path.join(place, "q4_k.gguf")
            quantised.write_gguf(place, path, "Q4_K")
            with open(path, "rb") as file:
                data = file.read()
            count = 2 + 1 + 2 + 7  # embedding and head, norms, matrices
            self.assertEqual(struct.unpack("<IQ", data[4:16]), (3, count))
            for layout, tensors in (("awq", 3), ("gptq", 4)):
                folder = os.path.join(place, layout)
                quantised.write_packed(place, folder, layout)
                with open(os.path.join(folder, "model.safetensors"), "rb") as file:
                    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
                self.assertEqual(len(header), 5 + 7 * tensors)


class GgufTest(unittest.TestCase):
    CONFIG = {"vocab_size": 300, "max_position_embeddings": 64, "hidden_size": 8, "num_hidden_layers": 1,
              "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
              "head_dim": 4, "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2, "model_type": "llama"}

    def written(self, tensors):
        """The file of a model with these tensors (uint16 arrays)."""
        with tempfile.TemporaryDirectory() as folder:
            header, data = {"__metadata__": {}}, b""
            for name, values in tensors.items():
                header[name] = {"dtype": "BF16", "shape": list(values.shape),
                                "data_offsets": [len(data), len(data) + values.nbytes]}
                data += values.tobytes()
            text = json.dumps(header).encode()
            with open(os.path.join(folder, "model.safetensors"), "wb") as file:
                file.write(len(text).to_bytes(8, "little") + text + data)
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump(self.CONFIG, file)
            gguf.write(folder, os.path.join(folder, "model.gguf"))
            with open(os.path.join(folder, "model.gguf"), "rb") as file:
                return file.read()

    def test_lays_tensors_out_one_after_another_on_even_places(self):
        norm = numpy.array([0x3F80, 0x4000], numpy.uint16)  # 1 and 2
        up = numpy.arange(6, dtype=numpy.uint16).reshape(3, 2)
        data = self.written({"model.norm.weight": norm, "model.layers.0.mlp.up_proj.weight": up})
        self.assertEqual(data[:4], b"GGUF")
        self.assertEqual(struct.unpack("<IQQ", data[4:24]), (3, 2, len(gguf.metadata(self.CONFIG))))
        self.assertEqual(len(data) % gguf.ALIGNMENT, 0)
        self.assertEqual(data[-64:-56], struct.pack("<2f", 1, 2))  # vectors are F32
        self.assertEqual(data[-32:-20], up.tobytes())
        name = b"blk.0.ffn_up.weight"
        at = data.index(name) + len(name)
        self.assertEqual(struct.unpack("<IQQIQ", data[at:at + 32]), (2, 2, 3, gguf.BF16, 32))

    def test_joins_the_experts_of_a_layer(self):
        names = [f"model.layers.1.mlp.experts.{expert}.up_proj.weight" for expert in (1, 0)]
        self.assertEqual(gguf.joined(names + ["model.layers.1.mlp.gate.weight"]),
                         [("blk.1.ffn_up_exps.weight", names[::-1]),
                          ("blk.1.ffn_gate_inp.weight", ["model.layers.1.mlp.gate.weight"])])

    def test_rotates_neighbours_where_the_model_rotates_halves(self):
        rows_of_two_heads = numpy.arange(8).reshape(8, 1)
        self.assertEqual(gguf.neighbours_rotate(rows_of_two_heads, 2)[:, 0].tolist(), [0, 2, 1, 3, 4, 6, 5, 7])


def results():
    return rows.summarise({"small bf16": [(40, 36), (40, 30)], "memory": [(700, 735)], "ready": [(3, 6)]},
                          {"small int8": "failed: no such format"})


KINDS = [machine.Kind("GenuineIntel", {"avx512_bf16"}), machine.Kind("GenuineIntel", {"avx512_bf16", "amx_bf16"}),
         machine.Kind("AuthenticAMD", {"avx512_bf16"}), machine.Kind("", {"asimd"})]


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

    def test_keeps_the_blocks_of_other_kinds_of_machines(self):
        empty = f"a\n{report.BEGIN}\n{report.END}\nb\n"
        one = report.put_block(empty, machine.Kind("GenuineIntel", {"avx512_bf16"}).heading, "slow\n\n| a |\n")
        with_tiles = machine.Kind("GenuineIntel", {"avx512_bf16", "amx_bf16"}).heading
        both = report.put_block(one, with_tiles, "fast\n")
        self.assertEqual(both, f"a\n{report.BEGIN}\n### On an Intel processor\n\nslow\n\n| a |\n\n"
                               f"### On an Intel processor with AMX\n\nfast\n{report.END}\nb\n")
        again = report.put_block(both, with_tiles, "faster\n")
        self.assertEqual(again, both.replace("fast\n", "faster\n"))
        with self.assertRaises(ValueError):
            report.put_block("no marks", "kind", "new")

    def test_the_page_has_a_block_of_a_kind_in_each_table(self):
        with open(os.path.join(bench.CHECKOUT, "docs", "performance.md")) as file:
            page = file.read()
        for begin, end in ((report.BEGIN, report.END), (report.PEER_BEGIN, report.PEER_END)):
            table = page.split(begin)[1].split(end)[0]
            self.assertEqual(report.insert(page, table[1:], begin, end), page)
            headings = [line for line in table.splitlines() if line.startswith("### ")]
            heading = headings[0].removeprefix("### ")
            self.assertIn(heading, {kind.heading for kind in KINDS})
            text = table.split(headings[0])[1].split("\n### ")[0]
            self.assertEqual(report.put_block(page, heading, text, begin, end), page)

    def test_kinds_have_a_picture_each(self):
        self.assertEqual(len({kind.picture for kind in KINDS}), len(KINDS))


if __name__ == "__main__":
    unittest.main()
