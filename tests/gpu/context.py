"""What the parts of gpu-prove share."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time

from run import CutShort, Failed, Limit, Skipped, Up, kill, run, wait

LARGE_BYTES = 17 << 30
BF16 = ["--weights", "bf16", "--kv_dtype", "bf16"]
FP8 = ["--weights", "fp8-w8a8", "--kv_dtype", "fp8"]


class Context:
    """The flags, how long a part has, what it has seen, the large model."""

    def __init__(self, flags, limit):
        self.flags = flags
        # The fastest way to multiply that is tried; auto: that the GPU has. Less where the part `products` finds one that is
        # not to be used.
        self.instructions = flags.gpu_instructions
        self.whole = limit
        self.begin(0)
        self.on_cpu = flags.device == "cpu"
        self.scratch = None
        self.maker = None
        self.gpu = None

    def __enter__(self):
        # While somebody has it open, the driver keeps the GPU ready for the next program.
        index = self.flags.device.partition(":")[2] or "0"
        with contextlib.suppress(OSError):
            self.gpu = None if self.on_cpu else os.open(f"/dev/nvidia{index}", os.O_RDWR | os.O_CLOEXEC)
        return self

    def __exit__(self, *_):
        if self.gpu is not None:
            os.close(self.gpu)
        if self.maker is not None:
            kill(self.maker)
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def begin(self, seconds, store=lambda: None):
        """A part. `store` is called whenever it has seen something."""
        self.limit = Limit(seconds, self.whole)
        self.figures, self.missing, self.noted = {}, [], []
        self.store = store

    def plan(self, *names):
        """What the part is to show: what of it is not done when the time is up is said to be missing."""
        self.missing = list(names)

    def done(self, name, figure=None):
        if figure is not None:
            self.figures[name] = figure
        if name in self.missing:
            self.missing.remove(name)
        self.store()

    def note(self, text):
        self.noted.append(text)

    def program(self, name):
        return os.path.join(self.flags.bin, name)

    def device_flags(self):
        """Of programs that compute by themselves or start those that do."""
        instructions = ["--gpu_instructions", self.instructions] if self.instructions != "auto" else []
        return ["--device", self.flags.device, *instructions]

    def device_environment(self):
        """The same for tests and sluice-gpu-bench."""
        return {"SLUICE_TEST_DEVICE": self.flags.device, "SLUICE_TEST_GPU_INSTRUCTIONS": self.instructions}

    def run(self, command, **options):
        return run(command, self.limit, **options)

    def sluice(self, *arguments, accept=(0,)):
        return self.run([self.program("sluice"), *arguments], accept=accept)

    def up(self, *flags):
        return Up(self.flags.bin, [*self.device_flags(), "--hang_timeout", "20", *flags], self.limit)

    # ---- The large model, which is made while the first parts run ----

    def begin_large_model(self):
        shape, needed = ("small", 64 << 20) if self.on_cpu else ("llama3.1-8b", LARGE_BYTES)
        if self.flags.large_model:
            if not os.path.exists(self.kept_model()) and not os.path.exists(self.kept_model() + ".part"):
                self.make(shape, self.kept_model() + ".part")
            return
        folders = [self.flags.scratch] if self.flags.scratch else ["/dev/shm", tempfile.gettempdir()]
        for folder in folders:
            if os.path.isdir(folder) and shutil.disk_usage(folder).free > needed:
                self.scratch = tempfile.mkdtemp(prefix="sluice-prove-", dir=folder)
                self.make(shape, self.large_folder())
                return

    def make(self, shape, folder):
        # On its own cores as far as the first parts leave them.
        self.maker = subprocess.Popen(["nice", self.program("sluice-random-model"), shape, folder],
                                      stderr=subprocess.PIPE, text=True, start_new_session=True)

    def kept_model(self):
        return os.path.abspath(self.flags.large_model)

    def kept_large_model(self):
        """The one of --large_model, which this program or another one makes."""
        if self.maker is not None:
            self.wait_for_maker()
            if os.path.exists(self.kept_model() + ".part"):
                os.rename(self.kept_model() + ".part", self.kept_model())
        while not os.path.exists(self.kept_model()):
            if self.limit.left() <= 0:
                raise CutShort("the random model is not there yet")
            time.sleep(0.2)
        return self.kept_model()

    def wait_for_maker(self):
        if not wait(self.maker, self.limit):
            raise CutShort("the random model is not there yet")
        if self.maker.returncode != 0:
            raise Failed(f"no random model: {self.maker.stderr.read().strip()}")

    def large_folder(self):
        return os.path.join(self.scratch, "model")

    def large_model(self):
        if self.flags.large_model:
            return self.kept_large_model()
        if self.maker is None:
            raise Skipped(f"no folder has the {LARGE_BYTES >> 30} GiB for a model of 8B; --scratch names one")
        self.wait_for_maker()
        return self.large_folder()
