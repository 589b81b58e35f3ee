"""`cmake --install` into a folder that nobody knew at build time: what is there afterwards works from there.

Usage: install_test.py BUILD_DIR [unittest arguments]
"""

import glob
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv[1])
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
PROGRAMS = ["sluice"] + [f"sluice-{name}" for name in
                         ("tokenizer", "embedding", "shard", "sampler", "orchestrator", "gateway")]


class InstallTest(unittest.TestCase):
    FLAGS = {"--ignore_eos": "Goes on after", "--temperature": "Logits are divided by it"}  # without a value and with one

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = os.path.join(cls.folder.name, "prefix")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, *names):
        return os.path.join(self.prefix, *names)

    def sluice(self, *arguments, program=None):
        """stdout of `sluice`, which finds nothing by the folder that it is called from."""
        done = subprocess.run([program or self.path("bin", "sluice"), *arguments], cwd="/", capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_everything_is_where_it_belongs(self):
        # The demonstration's gateway can end processes, so it is a program of its own; the orchestrator starts the inspector.
        self.assertEqual(sorted(os.listdir(self.path("bin"))), sorted(PROGRAMS + ["sluice-gateway-demo", "sluice-inspector"]))
        pages = os.listdir(self.path("share", "man", "man1"))
        for page in PROGRAMS + ["sluice-run", "sluice-up", "sluice-chat"]:
            self.assertIn(f"{page}.1.gz", pages)
        for path in ("share/sluice/models/storyteller/model.safetensors", "share/sluice/protos/sluice/v1/generation.proto",
                     "share/bash-completion/completions/sluice", "share/zsh/vendor-completions/_sluice",
                     "share/fish/vendor_completions.d/sluice.fish"):
            self.assertGreater(os.path.getsize(self.path(path)), 0, path)
        self.assertEqual(len(glob.glob(self.path("share/sluice/protos/sluice/v1/*.proto"))),
                         len(glob.glob(os.path.join(ROOT, "protos/sluice/v1/*.proto"))))
        with open(self.path("lib/systemd/system/sluice.service")) as unit:
            self.assertIn(f"ExecStart={self.path('bin/sluice')} up", unit.read())

    def test_a_drop_in_opens_the_devices_of_gpus_to_the_unit(self):
        with open(self.path("share/sluice/systemd/gpu.conf")) as file:
            drop_in = [line for line in file.read().splitlines() if line and not line.startswith("#")]
        self.assertIn("PrivateDevices=no", drop_in)
        self.assertIn("DevicePolicy=closed", drop_in)
        self.assertIn("DeviceAllow=char-nvidia-uvm rw", drop_in)
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is missing (systemd): the drop-in is not verified")
        units = os.path.join(self.folder.name, "units")
        shutil.copytree(self.path("lib/systemd/system"), units)
        os.makedirs(os.path.join(units, "sluice.service.d"))
        shutil.copy(self.path("share/sluice/systemd/gpu.conf"), os.path.join(units, "sluice.service.d"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", os.path.join(units, "sluice.service")],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual([line for line in done.stderr.splitlines() if "gpu.conf" in line or "sluice.service" in line], [])

    def test_the_program_finds_its_model_wherever_it_is_put(self):
        text = ["run", "Once upon a time", "--max_tokens", "8", "--temperature", "0"]
        expected = self.sluice(*text)
        self.assertTrue(expected.strip())
        moved = os.path.join(self.folder.name, "moved")
        shutil.copytree(self.prefix, moved)
        self.assertEqual(self.sluice(*text, program=os.path.join(moved, "bin", "sluice")), expected)
        link = os.path.join(self.folder.name, "sluice")
        os.symlink(self.path("bin", "sluice"), link)
        self.assertEqual(self.sluice(*text, program=link), expected)

    def test_the_folder_of_another_model_is_asked_for_where_there_is_none(self):
        alone = os.path.join(self.folder.name, "alone", "bin", "sluice")
        os.makedirs(os.path.dirname(alone))
        shutil.copy(self.path("bin", "sluice"), alone)
        done = subprocess.run([alone, "run", "Once"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--model DIR", done.stderr)

    def test_manual_pages_say_what_help_says(self):
        with gzip.open(self.path("share/man/man1/sluice-run.1.gz"), "rt") as page:
            text = page.read().replace("\\-", "-")
        for line in self.sluice("run", "--help").splitlines():
            if line.startswith("  --"):
                self.assertIn(line.split()[0], text)

    @unittest.skipUnless(shutil.which("bash"), "needs bash")
    def test_bash_completes_commands(self):
        script = (f"source {self.path('share/bash-completion/completions/sluice')}; COMP_WORDS=(sluice ge); COMP_CWORD=1; "
                  "$(complete -p sluice | sed 's/.*-F \\([^ ]*\\).*/\\1/') sluice ge sluice; echo \"${COMPREPLY[*]}\"")
        environment = dict(os.environ, PATH=self.path("bin") + ":" + os.environ["PATH"])
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, timeout=60)
        self.assertEqual(done.stdout.split(), ["generate"], done.stderr)

    def lines(self, *command):
        environment = dict(os.environ, PATH=self.path("bin") + ":" + os.environ["PATH"])
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    @unittest.skipUnless(shutil.which("zsh"), "needs zsh")
    def test_zsh_completes_flags_with_what_they_do(self):
        # What completion hands to the line editor, printed instead.
        script = ("_describe() { print -rl -- ${(P)2} }; words=(sluice generate --); CURRENT=3; source "
                  + self.path("share/zsh/vendor-completions/_sluice"))
        offered = dict(line.split(":", 1) for line in self.lines("zsh", "-f", "-c", script))
        for flag, text in self.FLAGS.items():
            self.assertTrue(offered[flag].startswith(text), offered[flag])

    @unittest.skipUnless(shutil.which("fish"), "needs fish")
    def test_fish_completes_flags_with_what_they_do(self):
        script = f"source {self.path('share/fish/vendor_completions.d/sluice.fish')}; complete -C 'sluice generate --'"
        offered = dict(line.split("\t", 1) for line in self.lines("fish", "--no-config", "-c", script) if "\t" in line)
        for flag, text in self.FLAGS.items():
            self.assertTrue(offered[flag].startswith(text), offered[flag])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
