#!/usr/bin/env python3
"""The folder for another machine, of programs that are stand-ins: what is in it, and that it runs there."""

import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
LOADER = "/lib64/ld-linux-x86-64.so.2"
PROGRAMS = ["sluice", *(f"sluice-{name}" for name in ("tokenizer", "embedding", "shard", "sampler", "orchestrator",
                                                      "kernel-bench", "gpu-bench", "random-model"))]
# Packages of ours that a machine that only tests may lack.
STAND_INS = {"strip": 'exec cp "$3" "$2"', "patchelf": ":"}


@unittest.skipUnless(platform.machine() == "x86_64" and os.path.exists(LOADER) and shutil.which("xz"),
                     "the folder is for x86-64 Linux, packed by xz")
class BundleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.out = os.path.join(folder.name, "out")
        build, tools = os.path.join(folder.name, "build"), os.path.join(folder.name, "tools")
        for name in [f"bin/{program}" for program in PROGRAMS] + ["tests/kernels_device_test"]:
            os.makedirs(os.path.dirname(os.path.join(build, name)), exist_ok=True)
            shutil.copy("/usr/bin/env", os.path.join(build, name))
        os.mkdir(tools)
        for name, does in STAND_INS.items():
            with open(os.path.join(tools, name), "w") as file:
                file.write(f"#!/bin/sh\n{does}\n")
            os.chmod(os.path.join(tools, name), 0o755)
        cls.build = build
        cls.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "SLUICE_TESTDATA": "/nowhere"}
        cls.make(cls.out)

    @classmethod
    def make(cls, *arguments):
        subprocess.run([os.path.join(HERE, "bundle.sh"), *arguments, cls.build], env=cls.environment, check=True,
                       stdout=subprocess.DEVNULL)

    def run_in_it(self, *arguments, **environment):
        return subprocess.run([os.path.join(self.out, "run"), *arguments], capture_output=True, text=True, timeout=100,
                              env={**os.environ, **environment})

    def test_the_whole_c_library_is_there(self):
        with tarfile.open(os.path.join(self.out, "payload.tar.xz")) as payload:
            names = payload.getnames()
        for name in ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libresolv.so.2",
                     "libutil.so.1", "version"):
            self.assertIn(f"libc/{name}", names)
        self.assertFalse([name for name in names if name.startswith("lib/libc.")])

    def test_the_script_runs(self):
        done = self.run_in_it("--list")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("kernel-speed", done.stdout)

    def test_one_without_the_model_takes_that_of_the_checkout_around_it(self):
        with tempfile.TemporaryDirectory() as checkout:
            out = os.path.join(checkout, "build", "gpu-bundle")
            self.make("--without-model", out)
            run = [os.path.join(out, "run"), "--list"]
            done = subprocess.run(run, capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 1)
            self.assertIn("this folder was made without the model", done.stderr)
            model = os.path.join(checkout, "models", "storyteller")
            os.makedirs(model)
            done = subprocess.run(run, capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.path.samefile(os.path.join(out, "unpacked", "models", "storyteller"), model))

    def test_a_signal_reaches_the_script(self):
        script = os.path.join(self.out, "prove.py")
        os.rename(script, script + ".kept")
        try:
            with open(script, "w") as file:
                file.write("import os\nprint(os.getpid())\n")
            with subprocess.Popen([os.path.join(self.out, "run")], stdout=subprocess.PIPE, text=True) as process:
                self.assertEqual(int(process.stdout.read()), process.pid)
        finally:
            os.rename(script + ".kept", script)

    def test_programs_run_with_their_c_library_or_with_the_machines(self):
        for whose in ("ours", "theirs"):
            done = self.run_in_it("--", "sluice", "echo", "once", SLUICE_BUNDLE_LIBC=whose)
            self.assertEqual((done.returncode, done.stdout), (0, "once\n"), done.stderr)

    def test_libraries_of_the_machine_are_looked_for_behind_ours(self):
        self.run_in_it("--list")
        loader = os.path.join(self.out, "unpacked", "bin", os.path.basename(LOADER))
        os.rename(loader, loader + ".kept")
        try:
            with open(loader, "w") as file:
                file.write('#!/bin/sh\necho "$2"\n')
            os.chmod(loader, 0o755)
            for ours, end in (("/mine:/others", "/lib:/mine:/others\n"), ("", "/lib\n")):
                done = self.run_in_it("--", "sluice", SLUICE_BUNDLE_LIBC="ours", LD_LIBRARY_PATH=ours)
                self.assertTrue(done.stdout.endswith(end), done)
        finally:
            os.rename(loader + ".kept", loader)


if __name__ == "__main__":
    unittest.main()
