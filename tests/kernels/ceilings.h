// What the machine can do at best, measured: kernels are judged as shares of these.
#pragma once

#include "kernels/cpu/thread_pool.h"

namespace sluice::testing {

// Seconds since some moment, for differences on one thread: of the wall clock, or, where only one
// thread is at work, of the CPU time of the calling thread, which other programs disturb less.
double Seconds(int num_threads);

// Bytes per second at which all threads of `pool` together read an area much larger than the
// caches. The best of several passes that read it as 1, 2, 4 and 8 runs side by side.
double MeasureReadBandwidth(ThreadPool& pool);

// Floating-point operations per second that all threads reach in fused (or, where there are none,
// separate) multiply-adds of independent F32 vectors in registers; one multiply-add counts as two.
double MeasureFlops(ThreadPool& pool);

}  // namespace sluice::testing
