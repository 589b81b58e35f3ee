"""Gradients of one batch on several single-threaded processes that share the weights.

One process a core beats one process with a thread a core: there is one meeting point a step
instead of one an operation, which also keeps a busy machine from stalling the run.
"""
import multiprocessing

import torch

SLICE = 4              # windows a process takes at a time
MASK_STEPS = 256       # dropout masks are drawn anew after so many steps
TIMEOUT_SECONDS = 900


class Workers:
    """This process and `processes` - 1 forked helpers, which end with it.

    After construction the parameters of `model` live in shared memory and must be changed in
    place only.  REQUIRES: torch uses one thread (a fork would lose the others).
    """

    def __init__(self, model, processes, batch, length):
        """batch: windows a step; length: input tokens in a window."""
        self.model = model
        self.parameters = list(model.parameters())
        for parameter in self.parameters:
            parameter.data.share_memory_()
        self.windows = torch.zeros(batch, length + 1, dtype=torch.int64).share_memory_()
        fork = multiprocessing.get_context("fork")
        self.seed, self.loss = fork.Value("q", 0), fork.Value("d", 0.0)
        self.next_slice = fork.Value("q", 0)
        self.done = fork.Semaphore(0)
        self.mask_epoch = None
        self.helpers = []
        for _ in range(processes - 1):
            start = fork.Semaphore(0)
            grads = [torch.zeros_like(p).share_memory_() for p in self.parameters]
            fork.Process(target=self.help, args=(start, grads), daemon=True).start()
            self.helpers.append((start, grads))

    def help(self, start, grads):
        """A helper's life: waits for a step, works on its slices, reports, waits again."""
        for parameter, grad in zip(self.parameters, grads):
            parameter.grad = grad
        while True:
            start.acquire()
            for grad in grads:
                grad.zero_()
            self.work()
            self.done.release()

    def work(self):
        """Adds the gradients of slices to this process's .grad until none is left."""
        batch = len(self.windows)
        while True:
            with self.next_slice.get_lock():
                begin = self.next_slice.value
                self.next_slice.value += SLICE
            if begin >= batch:
                return
            torch.manual_seed(self.seed.value * batch + begin)
            self.redraw_masks()
            windows = self.windows[begin:begin + SLICE]
            loss = self.model.loss(windows[:, :-1], windows[:, 1:]) * (len(windows) / batch)
            loss.backward()
            with self.loss.get_lock():
                self.loss.value += loss.item()

    def redraw_masks(self):
        epoch = self.seed.value // MASK_STEPS
        if self.model.masks and self.mask_epoch != epoch:
            self.model.masks.redraw(epoch)
            self.mask_epoch = epoch

    def gradients(self, windows, seed):
        """Sets the parameters' .grad to the batch's; returns the mean loss in nats per token."""
        self.windows.copy_(windows)
        self.seed.value, self.loss.value, self.next_slice.value = seed, 0.0, 0
        for parameter in self.parameters:
            parameter.grad = None
        for start, _ in self.helpers:
            start.release()
        self.work()
        for _ in self.helpers:
            if not self.done.acquire(timeout=TIMEOUT_SECONDS):
                raise RuntimeError("a helper process has not answered")
        for parameter, *shared in zip(self.parameters, *(grads for _, grads in self.helpers)):
            if parameter.grad is None:    # the helpers took every slice
                parameter.grad = torch.zeros_like(parameter)
            for grad in shared:
                parameter.grad += grad
        return self.loss.value
