// The CPU backend: Highway for SIMD on whatever processor the program finds itself on, and a pool
// of threads.
//
// Activations are F32; weights are of any WeightFormat, tables and KV caches F32 or BF16. A result
// never depends on the number of threads, nor on the width of the processor's vectors: its name
// says what is left, the instructions of its products ("cpu/portable v5", "cpu/avx512_bf16 v5"),
// and "cpu/portable_unfused v5" where the processor lacks fused multiply-add.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/instruction_set.h"

namespace sluice {

struct CpuBackendOptions {
  // Threads that work on an operation, the caller included. 0: one for each of `cpus`, or, where
  // that is empty, one per core that this process may use. A negative number is a broken invariant.
  int num_threads = 0;
  // What matrix products are computed with, one of SupportedInstructionSets(); by default the
  // fastest.
  std::optional<InstructionSet> instructions;
  // CPUs on which the threads besides the caller stay, one by one (see ThreadPool). Empty: none is
  // pinned.
  std::vector<int> cpus;
};

std::unique_ptr<Backend> MakeCpuBackend(const CpuBackendOptions& options);

}  // namespace sluice
