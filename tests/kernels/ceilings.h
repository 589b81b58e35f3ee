// What the machine can do at best, measured: kernels are judged as shares of these.
//
// Every measurement takes a few milliseconds, so that it can alternate with the kernel it is
// compared to: on a machine whose speed changes from second to second, only what was measured side
// by side makes a ratio.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/weight_format.h"

namespace sluice::testing {

// Seconds since some moment, for differences on one thread: of the wall clock, or, where only one
// thread is at work, of the CPU time of the calling thread, which other programs disturb less.
double Seconds(int num_threads);

// A way to read a large area.
struct ReadPattern {
  int streams = 1;   // runs side by side that a thread reads: 1, 2, 4 or 8
  size_t ahead = 0;  // bytes that it asks for in advance, in every run; 0: left to the processor
  size_t chunk = 1 << 20;  // bytes that a thread takes at a time; a power of two
  bool huge_pages = true;  // mapped as weights are, on huge pages where the system has them; or not
};

// Every pattern that was ever best somewhere, and those between.
std::vector<ReadPattern> ReadPatterns();

// The pattern for which `measure`, in bytes per second, once says most. All take turns, three
// times, because the machine's speed changes from second to second. REQUIRES: there are some.
ReadPattern BestPattern(absl::Span<const ReadPattern> patterns,
                        absl::FunctionRef<double(const ReadPattern&)> measure);

// How fast all threads of a pool together read an area much larger than the caches.
class ReadCeiling {
 public:
  // Fills an area of either kind of pages and finds out by which pattern they are read best: that
  // differs from machine to machine, and a ceiling that one loop happens to miss is none. Borrows
  // the pool.
  explicit ReadCeiling(ThreadPool& pool);

  // Bytes per second of one pass over a part of the area, the next one at each call.
  double Measure();

 private:
  HostMemory& AreaOf(const ReadPattern& pattern) { return areas_[pattern.huge_pages ? 1 : 0]; }
  void Fill(HostMemory& area);
  double Measure(const ReadPattern& pattern);

  ThreadPool& pool_;
  HostMemory areas_[2];  // on small pages, on huge ones; the best pattern's alone is kept
  size_t next_ = 0;      // in floats
  ReadPattern best_;
};

// Numbers that processors multiply with instructions of their own.
enum class Arithmetic { kF32, kBF16, kInt8 };

// The instruction that multiplies and adds most of these numbers a second here, such as
// "VDPBF16PS"; empty where this processor has none that this program knows.
std::string_view InstructionOf(Arithmetic arithmetic);

// Operations per second that all threads reach with that instruction on registers; a multiply-add
// counts as two. 0 where there is none.
double MeasurePeak(ThreadPool& pool, Arithmetic arithmetic);

// What products with weights of a format are held to: BF16 where the processor has instructions for
// it, but for F32 weights; else F32.
Arithmetic ArithmeticOf(WeightFormat format);

}  // namespace sluice::testing
