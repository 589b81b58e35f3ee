"""What is shown, in the order of its value. A part puts what it sees into the context's figures as it goes, so that it is
there however the part ends, and raises Failed, CutShort or Skipped where it does not get through."""

from dataclasses import dataclass
from typing import Callable

import ceilings
import products
import serving
import speeds
import test_programs


@dataclass
class Part:
    name: str
    seconds: int  # at most, in a run of all
    what: str
    run: Callable
    least_seconds: int = 10  # with fewer left it is not begun
    needs_large_model: bool = False
    seconds_if_chosen: int = 0  # at most, in a run of some; 0: no more

    def most_seconds(self, is_chosen):
        return max(self.seconds, self.seconds_if_chosen) if is_chosen else self.seconds


PARTS = [
    Part("machine", 60, "what it is, and what it can do at best", ceilings.machine),
    Part("products", 100, "each way to multiply, in a process of its own", products.products),
    Part("kernels", 150, "every operation against plain loops, and the promises about bits", test_programs.kernels),
    Part("models", 90, "whole small models against their goldens", test_programs.models),
    Part("ranks", 90, "TP 2 and 4 as processes on one device have the bits of TP 1", serving.ranks,
         seconds_if_chosen=120),
    Part("fp8", 60, "the same of weights, activations, keys and values in FP8", serving.fp8, seconds_if_chosen=120),
    Part("death", 60, "a stream survives kill -9 of a rank and of the sampler", serving.death, seconds_if_chosen=120),
    Part("errors", 20, "what can't be had is said", serving.errors),
    Part("speed", 180, "8B through the whole pipeline", speeds.speed, 60, True),
    Part("fp8-speed", 120, "8B in FP8 through the whole pipeline", speeds.fp8_speed, 60, True),
    Part("kernel-speed", 90, "kernels on shapes of 8B", speeds.kernel_speed, 30),
    Part("one-process", 90, "8B in separate processes against one", speeds.in_one_process, 60, True),
    Part("sanitizer", 120, "compute-sanitizer on kernels", test_programs.sanitizer, 20, seconds_if_chosen=480),
]
