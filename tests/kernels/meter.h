// Times kernels beside the machine's ceilings and prints each as a share of them.
//
// Ceilings and kernel take turns, seven times over; a share compares a sample with the ceilings
// measured right before and after it, and what is printed are medians. So a machine that is slower
// for a while, because of its clock or its other guests, changes both sides of a share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/ceilings.h"

namespace sluice::testing {

// What is timed, done once.
struct Work {
  std::string kernel;  // with its shape
  std::string format;  // of weights or cache
  double bytes = 0;    // read from and written to memory at least
  double operations = 0;
  Arithmetic arithmetic = Arithmetic::kF32;  // whose peak the operations are held to
  std::string group;  // for JSON: what the kernel belongs to, such as a model
};

enum class OutputFormat { kTable, kJsonLines };

class Meter {
 public:
  // `num_threads` 0: one per core. Borrows nothing; prints to stdout.
  Meter(int num_threads, OutputFormat output);

  ThreadPool& pool() { return pool_; }

  // The machine's ceilings by themselves: medians.
  void PrintCeilings();

  // Seconds that each of some works took, done once, or on average where a sample does it often.
  using Sample = std::function<std::vector<double>()>;

  // Times works that are done together and prints a line for each. Samples should take some
  // milliseconds or more.
  void Measure(absl::Span<const Work> works, const Sample& sample);
  // Times a call, repeated until the clock can tell.
  void Measure(const Work& work, const std::function<void()>& call);

 private:
  struct Ceilings {
    double bandwidth = 0;
    double peak[3] = {};  // by Arithmetic
  };

  Ceilings MeasureCeilings(absl::Span<const Arithmetic> arithmetics);
  void PrintHeader();
  void Print(const Work& work, double seconds, double bandwidth_share, double peak_share) const;

  ThreadPool pool_;
  const OutputFormat output_;
  ReadCeiling read_;
};

// REQUIRES: not empty.
double Median(std::vector<double> values);

}  // namespace sluice::testing
