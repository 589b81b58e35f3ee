#!/usr/bin/env python3
"""The script that proves things on a GPU, where there is none: it must not fail on trifles once there is one.

Usage: prove_test.py BIN_DIR TEST_DIR [unittest arguments]
"""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import ceilings  # noqa: E402
import gpu_report  # noqa: E402
import parts  # noqa: E402
import test_programs  # noqa: E402
from context import Context  # noqa: E402
from prove import chosen_parts, parse_flags, run_part, summary  # noqa: E402
from run import KILL_SECONDS, STOP_SECONDS, CutShort, Failed, Limit, Up, json_lines, run  # noqa: E402

BIN, TESTS = sys.argv[1:3]


def prove(*flags):
    return subprocess.run([sys.executable, "-B", os.path.join(HERE, "prove.py"), "--bin", BIN, "--tests", TESTS, *flags],
                          capture_output=True, text=True, timeout=300)


class ProveTest(unittest.TestCase):
    def test_every_part_runs_on_a_cpu(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "seen.json")
            # The tests are run by themselves.
            names = ",".join(part.name for part in parts.PARTS if part.name not in ("kernels", "models"))
            done = prove("--device", "cpu", "--out", path, "--minutes", "5", "--only", names, "--scratch", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path) as file:
                seen = json.load(file)
            states = {name: result["state"] for name, result in seen["parts"].items()}
            self.assertEqual(states.pop("sanitizer"), "skipped")
            self.assertEqual(set(states.values()), {"passed"}, done.stderr)
            self.assertIn("| ranks | passed |", gpu_report.markdown(seen))

    def test_what_is_wrong_is_told_and_does_not_stop_the_rest(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "seen.json")
            done = prove("--device", "cpu", "--out", path, "--only", "ranks,errors", "--model", "/nowhere")
            self.assertEqual(done.returncode, 1, done.stderr)
            with open(path) as file:
                seen = json.load(file)["parts"]
            self.assertEqual(seen["ranks"]["state"], "failed")
            self.assertIn("/nowhere", seen["ranks"]["why"])

    def test_parts_that_no_time_is_left_for_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            done = prove("--device", "cpu", "--out", os.path.join(folder, "x"), "--minutes", "0.01", "--only", "ranks")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("0 passed, 0 failed, 1 skipped (ranks)", done.stdout)

    def test_a_run_keeps_what_others_have_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "seen.json")
            with open(path, "w") as file:
                json.dump({"format": 1, "device": "cpu", "parts": {"machine": {"state": "passed"}}}, file)
            prove("--device", "cpu", "--out", path, "--minutes", "0.01", "--only", "ranks")
            with open(path) as file:
                self.assertEqual(list(json.load(file)["parts"]), ["machine", "ranks"])
            prove("--device", "cpu", "--out", path, "--minutes", "0.01", "--only", "machine")
            with open(path) as file:
                self.assertEqual(json.load(file)["parts"]["machine"], {"state": "passed"})


def put_script(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


# Of a GPU that is not there: says what it was called with.
RECORDING_SLUICE = """echo "$*" >>{log}
case "$*" in
  "run hello"*) echo "no cuda:97, blocks would fit" >&2; exit 1 ;;
  run*) echo '{{"token_ids": [7], "logprobs": [-0.5]}}' ;;
  *) exit 1 ;;
esac
"""


class InstructionsTest(unittest.TestCase):
    def calls(self, *flags):
        """What the programs were called with, and what the others found in their environment."""
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            put_script(os.path.join(folder, "sluice"), RECORDING_SLUICE.format(log=log))
            for name in ("sluice-gpu-bench", "kernels_device_test"):
                put_script(os.path.join(folder, name), f"echo $SLUICE_TEST_DEVICE $SLUICE_TEST_GPU_INSTRUCTIONS >>{log}\n")
            path = os.path.join(folder, "seen.json")
            done = prove("--bin", folder, "--tests", folder, "--device", "cuda:0", "--out", path, "--only",
                         "kernels,ranks,errors,kernel-speed", *flags)
            with open(path) as file:
                parts = json.load(file)["parts"]
            with open(log) as file:
                return done, parts, file.read().splitlines()

    def test_whatever_computes_gets_them(self):
        done, parts, calls = self.calls("--gpu_instructions", "wgmma")
        self.assertEqual(calls.count("cuda:0 wgmma"), 2, done.stderr)
        computing = [call for call in calls if "--device cuda:0" in call]
        self.assertEqual({call.split()[0] for call in computing}, {"run", "up"}, done.stderr)
        for call in computing:
            self.assertIn("--gpu_instructions wgmma", call)
        self.assertEqual({part["gpu_instructions"] for part in parts.values()}, {"wgmma"})
        self.assertIn("| errors | passed, --gpu_instructions wgmma |", gpu_report.state_table({"parts": parts}))

    def test_by_itself_each_takes_the_fastest(self):
        done, parts, calls = self.calls()
        self.assertEqual(calls.count("cuda:0 auto"), 2, done.stderr)
        self.assertNotIn("gpu_instructions", " ".join(calls))
        self.assertNotIn("gpu_instructions", json.dumps(parts))

    def test_others_are_refused(self):
        done = prove("--device", "cuda:0", "--gpu_instructions", "mmx")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'auto', 'mma', 'wgmma', 'wgmma_pipeline', 'wgmma_fp8'", done.stderr)
        done = prove("--device", "cpu", "--gpu_instructions", "mma")
        self.assertIn("--gpu_instructions is for a GPU", done.stderr)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")")[-1].split()[0] != "Z"
    except OSError:
        return False


class RunTest(unittest.TestCase):
    def test_a_program_that_fails_says_its_last_words(self):
        with self.assertRaisesRegex(Failed, "ended with 3: the end"):
            run(["/bin/sh", "-c", "echo the end >&2; exit 3"], Limit(10))
        with self.assertRaisesRegex(Failed, "/no/program"):
            run(["/no/program"], Limit(10))

    def test_what_was_written_till_the_time_was_up_is_kept_and_nothing_goes_on(self):
        seen = []
        with self.assertRaisesRegex(CutShort, "sh was cut off after .* s: half way"):
            run(["/bin/sh", "-c", "sleep 60 & echo $!; echo half way >&2; wait"], Limit(0.5), seen=seen.append)
        self.assertFalse(is_running(int(seen[0])))

    def test_what_a_program_wrote_before_it_failed_is_kept(self):
        seen = []
        with self.assertRaises(Failed):
            run(["/bin/sh", "-c", "echo before; exit 3"], Limit(10), seen=seen.append)
        self.assertEqual(seen, ["before\n"])

    def test_a_limit_can_be_brought_forward(self):
        whole = Limit(60)
        threading.Timer(0.3, whole.end_now).start()
        begin = time.monotonic()
        with self.assertRaises(CutShort):
            run(["/bin/sh", "-c", "exec sleep 60"], Limit(60, whole))
        self.assertLess(time.monotonic() - begin, 30)
        with self.assertRaisesRegex(CutShort, "no time was left for sh"):
            run(["/bin/sh"], whole)

    def test_a_line_that_was_not_ended_is_left_out(self):
        self.assertEqual(json_lines('{"a": 1}\nwords\n{"a": 2}\n{"a": '), [{"a": 1}, {"a": 2}])

    def test_services_that_are_not_ready_in_time_are_not_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            put_script(os.path.join(folder, "sluice"), "echo thinking >&2; exec sleep 60\n")
            with self.assertRaisesRegex(CutShort, "not ready after .*: thinking"):
                Up(folder, [], Limit(0.5))
            put_script(os.path.join(folder, "sluice"), "echo no >&2; exit 1\n")
            with self.assertRaisesRegex(Failed, "not ready after .*: no"):
                Up(folder, [], Limit(60))


# As GoogleTest writes it.
LOG = """[ RUN      ] Gpu.Adds
[       OK ] Gpu.Adds (12 ms)
[ RUN      ] Gpu.Reads/0
there is none
[  SKIPPED ] Gpu.Reads/0 (0 ms)
[ RUN      ] Gpu.Multiplies/1
one.cc:3: Failure
Expected: 7
[  FAILED  ] Gpu.Multiplies/1, where GetParam() = 8-byte object <01-00> (3 ms)
[ RUN      ] Gpu.Waits
"""


class Parts:
    """A folder of programs that are stand-ins, and parts that run them."""

    def __init__(self, folder, device="cuda:0"):
        self.folder = folder
        self.put_kept = []  # what was written down on the way
        flags = types.SimpleNamespace(bin=folder, tests=folder, device=device, model="/model", gpu_instructions="auto",
                                      scratch="", minutes=1, only="")
        self.context = Context(flags, Limit(60))

    def program(self, name, text):
        """A stand-in. Its time is up once it is `stuck`."""
        stuck = f"touch {self.folder}/is_stuck; exec sleep 60"
        put_script(os.path.join(self.folder, name), f"stuck() {{ {stuck}; }}\n{text}")

    def put(self, name, result):
        self.put_kept.append((name, json.loads(json.dumps(result))))

    def run(self, name):
        self.context.whole = Limit(60)
        threading.Thread(target=self.end_when_stuck, args=[self.context.whole], daemon=True).start()
        return run_part(next(part for part in parts.PARTS if part.name == name), self.context, self)

    def end_when_stuck(self, limit):
        mark = os.path.join(self.folder, "is_stuck")
        while limit.left() > 0:
            if os.path.exists(mark):
                os.remove(mark)
                limit.end_now()
            time.sleep(0.02)


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


class SanitizerTest(unittest.TestCase):
    """With a stand-in of compute-sanitizer that runs the program, and a program that says what the tool would."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.parts = Parts(folder.name)
        self.parts.program("compute-sanitizer", """[ "$1 $3 $4" = "--tool --error-exitcode 86" ] || exit 1
export TOOL=$2
echo "========= COMPUTE-SANITIZER"
shift 4
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


class ChoiceTest(unittest.TestCase):
    def test_a_name_chooses_its_part_and_any_other_word_those_that_contain_it(self):
        def names(only):
            return [part.name for part in chosen_parts(only)]

        self.assertEqual(names("death,fp8"), ["fp8", "death"])  # and not the one that needs a model of 16 GB
        self.assertEqual(names("peed"), ["speed", "fp8-speed", "kernel-speed"])
        self.assertEqual(names("speed,"), ["speed"])
        self.assertEqual(names("nothing"), [])
        self.assertEqual(names(""), [part.name for part in parts.PARTS])


class TimeTest(unittest.TestCase):
    def test_a_run_of_all_is_over_within_ten_minutes(self):
        with unittest.mock.patch.object(sys, "argv", ["gpu-prove"]):
            seconds = 60 * parse_flags().minutes
        # The last program is killed, the services stop or are killed, and before all that the bundle was unpacked.
        self.assertLessEqual(seconds + KILL_SECONDS + STOP_SECONDS + KILL_SECONDS + 40, 600)
        self.assertLessEqual(max(part.most_seconds(True) for part in parts.PARTS), seconds)

    def test_parts_that_are_chosen_have_more_time(self):
        listed = {only: dict(re.findall(r"^(\S+) +(\d+) s", prove("--list", "--only", only).stdout, re.MULTILINE))
                  for only in ("", "ranks,fp8,death")}
        for name, seconds in (("ranks", "90"), ("fp8", "60"), ("death", "60")):
            self.assertEqual((listed[""][name], listed["ranks,fp8,death"][name]), (seconds, "120"))

    def test_the_time_of_a_part_is_that_of_its_run(self):
        with tempfile.TemporaryDirectory() as folder:
            for only, least, most in (("", 50, 60), ("fp8", 110, 120)):
                stand_ins = Parts(folder)
                stand_ins.context.whole = Limit(1000)
                stand_ins.context.flags.only = only
                left = []
                part = next(part for part in parts.PARTS if part.name == "fp8")
                run_part(dataclasses.replace(part, run=lambda context: left.append(context.limit.left())),
                         stand_ins.context, stand_ins)
                self.assertTrue(least < left[0] <= most, left)


class SummaryTest(unittest.TestCase):
    def test_parts_that_were_not_shown_in_full_are_named(self):
        states = {"a": "passed", "b": "cut short", "c": "failed", "d": "skipped", "e": "passed"}
        self.assertEqual(summary({name: {"state": state} for name, state in states.items()}),
                         "2 passed, 1 failed, 1 cut short (b), 1 skipped (d)")


def h200():
    """As a run on a GPU writes it; the figures are made up."""
    load = {"between_tokens_ms": {"p50": 4.0}, "first_token_ms": {"p50": 70.0}, "generated_tokens": 256000,
            "wall_seconds": 30.0}
    return {"format": 1, "device": "cuda:0", "date": "2026-01-02", "parts": {
        "machine": {"state": "passed", "figures": {"ceilings": {
            "gpu": "NVIDIA H200", "copy_bytes_per_second": 4.3e12,
            "bf16_operations_per_second": {"8192x8192x8192": 7.9e14, "2048x28672x4096": 7e14}}}},
        "kernels": {"state": "passed", "figures": {"programs": 13, "passed": 200, "skipped": 3}},
        "ranks": {"state": "failed", "why": "--tp 4: other | tokens"},
        "speed": {"state": "passed", "figures": {
            "decode 1": load, "decode 64": load, "prefill": load, "256 streams": load, "first_token_seconds": 16.0,
            "arithmetic": ["cuda/mma v1, weights BF16"]}},
        "fp8-speed": {"state": "passed", "figures": {"decode 1": load, "256 streams": load}},
        "kernel-speed": {"state": "passed", "figures": {"kernels": [
            {"kernel": "attention BF16 32 x T 1 at 8192", "seconds": 3e-4, "bytes": 1.0737e9, "operations": 4.3e9}]}}}}


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
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
