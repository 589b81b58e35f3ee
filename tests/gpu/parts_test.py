#!/usr/bin/env python3
"""The parts of gpu-prove on stand-ins of programs: what they leave of what they saw, however they end."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import ceilings  # noqa: E402
import gpu_report  # noqa: E402
import products  # noqa: E402
import test_programs  # noqa: E402
from stand_ins import LOG, Parts, h200, is_running, put_script  # noqa: E402


class CutShortTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.parts = Parts(folder.name)
        self.log = os.path.join(folder.name, "log")
        self.stuck_after_the_other = f"until [ -e {self.log}-end ]; do sleep 0.05; done; sleep 0.5; stuck"

    def put_test(self, name, log, then):
        with open(f"{self.log}-{name}", "w") as file:
            file.write(log)
        self.parts.program(name, f"cat {self.log}-{name}\n{then}\n")

    def test_cases_are_counted_as_they_come(self):
        cases = test_programs.read_cases(LOG)
        self.assertEqual((cases.passed, cases.skipped, cases.running), (1, 1, "Gpu.Waits"))
        self.assertEqual(cases.failed, {"Gpu.Multiplies/1": "one.cc:3: Failure\nExpected: 7"})

    def test_tests_that_are_cut_off_leave_what_passed_and_where_they_stood(self):
        passed = LOG[:LOG.index("[ RUN      ] Gpu.Reads")]
        self.put_test("kernels_device_test", passed, f"touch {self.log}-end")
        self.put_test("kernels_backend_gemm_test", passed + "[ RUN      ] Gpu.Waits\n", self.stuck_after_the_other)
        result = self.parts.run("kernels")
        self.assertEqual(result["state"], "cut short")
        self.assertEqual(result["why"], "kernels_backend_gemm_test was cut off after 1 cases, in Gpu.Waits")
        self.assertEqual(result["figures"], {"programs": 2, "passed": 2, "skipped": 0})
        self.assertEqual(result["missing"], ["kernels_backend_gemm_test"])
        table = gpu_report.state_table({"parts": {"kernels": result}})
        self.assertIn("| kernels | cut short | 2 cases, 0 skipped; kernels_backend_gemm_test was cut off", table)
        self.assertIn("missing: kernels_backend_gemm_test |", table)

    def test_a_failure_is_one_though_others_were_cut_off(self):
        self.put_test("kernels_device_test", LOG[:LOG.index("[ RUN      ] Gpu.Waits")], f"touch {self.log}-end; exit 1")
        self.put_test("kernels_backend_gemm_test", LOG[:LOG.index("[       OK")], self.stuck_after_the_other)
        result = self.parts.run("kernels")
        self.assertEqual(result["state"], "failed")
        self.assertIn("1 of 2: kernels_device_test Gpu.Multiplies/1; kernels_backend_gemm_test was cut off", result["why"])
        self.assertEqual(result["noted"], ["kernels_device_test Gpu.Multiplies/1: one.cc:3: Failure Expected: 7"])

    def test_a_test_that_ends_with_a_signal_says_in_which_case(self):
        self.put_test("kernels_device_test", LOG[:LOG.index("[       OK")], "kill -9 $$")
        self.assertEqual(self.parts.run("kernels")["why"], "1 of 1: kernels_device_test Gpu.Adds")

    def test_kernels_timed_before_the_end_are_kept_and_shown(self):
        kernel = '{"kernel": "attention BF16 32 x T 1 at 8192", "seconds": 3e-4, "bytes": 1.0737e9, "operations": 4.3e9}'
        for end, state in (("stuck", "cut short"), ("exit 1", "failed")):
            self.parts.program("sluice-gpu-bench", f"echo '{kernel}'\nprintf '{{\"kernel\": '\n{end}\n")
            result = self.parts.run("kernel-speed")
            self.assertEqual((result["state"], len(result["figures"]["kernels"])), (state, 1))
            seen = h200()
            seen["parts"]["kernel-speed"] = result
            shown = "decode attention, batch 32, context 8k (of a part cut short)" in gpu_report.markdown(seen)
            self.assertEqual(shown, state == "cut short")

    def test_ceilings_are_kept_as_they_come(self):
        self.parts.program("sluice-gpu-ceilings", """echo '{"gpu": "G", "copy_bytes_per_second": 4e12}'
echo '{"bf16_operations_per_second": {"1x1x1": 7e14}}'
echo '{"bf16_operations_per_second": {"2x2x2": 8e14}}'
stuck
""")
        result = self.parts.run("machine")
        self.assertEqual((result["state"], result["missing"]), ("cut short", ["ceilings"]))
        self.assertEqual(gpu_report.ceilings({"parts": {"machine": result}}), (4e12, 8e14))

    def test_cublaslt_is_found_among_the_packages_of_python(self):
        self.parts.program("sluice-gpu-ceilings", """echo "{\\"gpu\\": \\"$LD_LIBRARY_PATH\\"}"\n""")
        site = os.path.join(self.parts.folder, "site-packages")
        for library in ("cublas/lib/libcublasLt.so.12", "cuda_nvrtc/lib/libnvrtc.so.12"):
            put_script(os.path.join(site, "nvidia", library), "")

        def path(is_installed, ours):
            with unittest.mock.patch.object(ceilings, "is_installed", lambda *_: is_installed), \
                    unittest.mock.patch.object(sys, "path", [*sys.path, site]), \
                    unittest.mock.patch.dict(os.environ, LD_LIBRARY_PATH=ours):
                return self.parts.run("machine")["figures"]["ceilings"]["gpu"]

        folders = f"{site}/nvidia/cublas/lib:{site}/nvidia/cuda_nvrtc/lib"
        self.assertEqual(path(False, ""), folders)
        self.assertEqual(path(False, "/mine"), f"/mine:{folders}")
        self.assertEqual(path(True, "/mine"), "/mine")

    def test_a_library_is_installed_where_the_loader_finds_it(self):
        self.assertTrue(ceilings.is_installed("libc.so.6", []))
        self.assertFalse(ceilings.is_installed("libnothing.so.1", [""]))
        self.parts.program("libnothing.so.1", "")
        self.assertTrue(ceilings.is_installed("libnothing.so.1", ["", self.parts.folder]))

    def test_what_is_missing_of_the_bits_is_named(self):
        self.parts.program("sluice", """case $1 in
  run | generate) echo '{"token_ids": [7], "logprobs": [-0.5]}' ;;
  up) case "$*" in *"--tp 4") stuck ;; *) echo "ready nowhere"; exec sleep 60 ;; esac ;;
esac
""")
        result = self.parts.run("ranks")
        self.assertEqual(result["state"], "cut short", result)
        self.assertEqual(result["figures"]["arrangements"], ["--tp 1", "--tp 2"])
        self.assertEqual(result["missing"], ["--tp 4", "--tp 2 --pp 2"])
        name, kept = self.parts.put_kept[0]
        self.assertEqual((name, kept["state"], kept["figures"]["arrangements"]), ("ranks", "cut short", ["--tp 1"]))

    def test_a_step_that_was_lost_is_a_failure_though_the_bits_are_right(self):
        self.parts.program("sluice", """case $1 in
  run | generate) echo '{"token_ids": [7], "logprobs": [-0.5]}' ;;
  up) case "$*" in *"--tp 2") echo '2026 W orchestrator replica-lost epoch=1 status="INTERNAL: rank 1" requests=1' >&2 ;; esac
      echo '2026 W shard steps-unrecorded reason="no room"' >&2; echo "ready nowhere"; exec sleep 60 ;;
esac
""")
        result = self.parts.run("ranks")
        self.assertEqual(result["state"], "failed")
        self.assertEqual(result["why"], '--tp 2: a step failed and was computed again: "INTERNAL: rank 1" requests=1')
        self.assertIn('--tp 1: steps are not recorded: "no room"', result["noted"])

    def test_a_signal_ends_it_with_what_was_seen(self):
        self.put_test("kernels_device_test", LOG[:LOG.index("[ RUN      ] Gpu.Reads")],
                      f"echo $$ >{self.log}; exec sleep 60")
        path = os.path.join(self.parts.folder, "seen.json")
        begin = time.monotonic()
        process = subprocess.Popen([sys.executable, "-B", os.path.join(HERE, "prove.py"), "--tests", self.parts.folder,
                                    "--out", path, "--only", "kernels,errors"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        while not os.path.exists(self.log) or not os.path.getsize(self.log):
            self.assertLess(time.monotonic() - begin, 50)
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=50)
        self.assertIn("0 passed, 0 failed, 1 cut short (kernels), 1 skipped (errors)", said)
        with open(self.log) as file:
            self.assertFalse(is_running(int(file.read())))
        with open(path) as file:
            self.assertEqual(json.load(file)["parts"]["kernels"]["figures"]["passed"], 1)


class ProductsTest(unittest.TestCase):
    """With a stand-in of the sampler, which tries a way as it is asked to."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.parts = Parts(folder.name)

    def run_with(self, behaviour):
        self.parts.program("sluice-sampler", f'[ "$1 $2" = "check-gpu 0" ] || exit 9\ncase $3 in\n{behaviour}\nesac\n')
        return self.parts.run("products")

    def test_good_ones_are_all_used(self):
        result = self.run_with("  *) ;;")
        self.assertEqual(result["state"], "passed", result)
        self.assertEqual(list(result["figures"]), ["mma", "wgmma", "wgmma_pipeline", "wgmma_fp8"])
        self.assertEqual(self.parts.context.instructions, "auto")

    def test_those_that_the_gpu_does_not_have_are_no_failure(self):
        result = self.run_with('  mma) ;;\n  *) echo "NVIDIA A100 has no $3; accepted: mma" >&2; exit 1 ;;')
        self.assertEqual(result["state"], "passed", result)
        self.assertEqual(result["figures"]["wgmma"], "not this GPU's")

    def test_what_comes_after_goes_on_without_one_that_hangs_or_faults(self):
        with unittest.mock.patch.object(products, "SECONDS", 1):
            result = self.run_with("  wgmma_pipeline) exec sleep 60 ;;\n  wgmma_fp8) kill -SEGV $$ ;;")
        self.assertEqual(result["state"], "failed", result)
        self.assertRegex(result["why"], "wgmma_pipeline: sluice-sampler was cut off after 1 s; wgmma_fp8: .* ended with -11")
        self.assertEqual((result["figures"]["instructions"], result["gpu_instructions"]), ("wgmma", "wgmma"))
        self.assertEqual(self.parts.context.device_environment()["SLUICE_TEST_GPU_INSTRUCTIONS"], "wgmma")
        self.assertIn("wgmma", self.parts.context.device_flags())

    def test_the_end_of_the_time_is_no_failure_of_what_was_tried(self):
        result = self.run_with("  wgmma) stuck ;;")
        self.assertEqual((result["state"], result["missing"]), ("cut short", ["wgmma", "wgmma_pipeline", "wgmma_fp8"]))
        self.assertNotIn("instructions", result["figures"])


class SanitizerTest(unittest.TestCase):
    """With a stand-in of compute-sanitizer that runs the program, and a program that says what the tool would."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.parts = Parts(folder.name)
        self.parts.program("compute-sanitizer", """export TOOL=$2
[ "$1 $3 $4 $5 $6" = "--tool --error-exitcode 86 --report-api-errors no" ] || exit 1
echo "========= COMPUTE-SANITIZER"
shift 6
"$@"
""")
        search = unittest.mock.patch.dict(os.environ, PATH=f"{folder.name}:{os.environ['PATH']}")
        search.start()
        self.addCleanup(search.stop)

    def put(self, name, then):
        self.parts.program(name, "echo '[ RUN      ] Gpu.Adds'\necho '[       OK ] Gpu.Adds (12 ms)'\n"
                           f"echo '[ RUN      ] Gpu.Waits'\n{then}\n")

    def test_each_program_runs_without_the_self_check(self):
        self.put("kernels_backend_norm_test", '[ "$SLUICE_TEST_SELF_CHECK $SLUICE_TEST_DEVICE" = "off cuda:0" ]')
        result = self.parts.run("sanitizer")
        self.assertEqual(result["state"], "passed", result)
        self.assertEqual(result["figures"], {f"{kind} kernels_backend_norm_test": "clean"
                                             for kind in ("memcheck", "racecheck")})

    def test_what_was_clean_before_the_time_was_up_is_kept(self):
        self.put("kernels_backend_norm_test", "[ $TOOL = memcheck ] || stuck")
        result = self.parts.run("sanitizer")
        self.assertEqual(result["state"], "cut short", result)
        self.assertEqual(result["figures"], {
            "memcheck kernels_backend_norm_test": "clean",
            "racecheck kernels_backend_norm_test": "clean so far: 1 cases, then cut off in Gpu.Waits"})
        self.assertEqual(result["missing"], ["racecheck kernels_backend_norm_test"])

    def test_what_was_found_before_the_time_was_up_is_a_failure_and_keeps_none_from_running(self):
        self.put("kernels_backend_norm_test", "echo '========= Invalid __global__ read of size 4'; "
                 "[ $TOOL = racecheck ] && stuck; exit 86")
        self.put("kernels_backend_sum_to_residual_test", "exit 0")
        result = self.parts.run("sanitizer")
        self.assertEqual(result["state"], "failed", result)
        self.assertIn("memcheck of kernels_backend_norm_test: Invalid __global__ read of size 4", result["why"])
        self.assertIn("racecheck of kernels_backend_norm_test: Invalid __global__ read of size 4", result["why"])
        self.assertEqual(result["figures"], {"memcheck kernels_backend_sum_to_residual_test": "clean"})


if __name__ == "__main__":
    unittest.main()
