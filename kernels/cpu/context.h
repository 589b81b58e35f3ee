// What every CPU operation works with: the threads, and memory that belongs to each of them.
// Used by one thread at a time, like the backend that owns it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/check.h"
#include "kernels/cpu/attention_task.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/sample_row.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/host_step.h"

namespace sluice {

// Scratch memory, one area per worker of a pool; it grows to what the largest operation needs and
// stays. A worker touches its own area only.
class Scratch {
 public:
  // An area of `whole_pages_from` bytes or more is whole huge pages.
  explicit Scratch(int num_workers, size_t whole_pages_from = std::numeric_limits<size_t>::max())
      : whole_pages_from_(whole_pages_from), areas_(num_workers) {}

  // `count` floats of unspecified content, 64-byte aligned, valid until the worker's next call.
  float* Floats(int worker, size_t count) {
    return reinterpret_cast<float*>(Bytes(worker, count * sizeof(float)));
  }
  // The same as bytes, in which its user may make whatever objects he likes.
  std::byte* Bytes(int worker, size_t count) {
    HostMemory& area = areas_[worker].memory;
    if (area.size_bytes() < count) {
      const size_t step = count < whole_pages_from_ ? 64 : kHugePage;
      absl::StatusOr<HostMemory> memory = HostMemory::Allocate((count + step - 1) / step * step);
      SLUICE_CHECK(memory.ok());
      area = *std::move(memory);
    }
    return area.data();
  }

  // Allocates `count` floats for every worker, while none is at work.
  void Reserve(size_t count) {
    for (size_t worker = 0; worker < areas_.size(); ++worker) {
      Floats(static_cast<int>(worker), count);
    }
  }

 private:
  struct alignas(64) Area {
    HostMemory memory;
  };
  const size_t whole_pages_from_;
  std::vector<Area> areas_;
};

// Products on tiles read the operand of a block of rows from the second-level cache for every panel,
// a quarter faster from huge pages (on a Xeon of 2 MiB of it a core); others, whose blocks are small,
// leave pages as they are.
constexpr size_t OperandOnWholePagesFrom(InstructionSet instructions) {
  return instructions == InstructionSet::kAmxBf16 ? kHugePage / 8
                                                  : std::numeric_limits<size_t>::max();
}

// What attention keeps from call to call, so that none allocates.
struct AttentionMemory {
  AttentionPlan plan;                     // of the call in progress
  std::vector<AttentionSegment> sources;  // of the call in progress, where it is one to sources

  // `count` floats, 64-byte aligned, of unspecified content, valid until the next call. A huge
  // number costs little until it is used.
  float* States(size_t count) {
    if (states_.size_bytes() < count * sizeof(float)) {
      absl::StatusOr<HostMemory> memory = HostMemory::Reserve(count * sizeof(float));
      SLUICE_CHECK(memory.ok());
      states_ = *std::move(memory);
    }
    return reinterpret_cast<float*>(states_.data());
  }

 private:
  HostMemory states_;
};

struct CpuContext {
  explicit CpuContext(int num_threads, InstructionSet instructions, absl::Span<const int> cpus = {})
      : instructions(instructions),
        pool(num_threads, cpus),
        scratch(pool.num_threads()),
        operand(1, OperandOnWholePagesFrom(instructions)),
        rounded(1),
        samplers(pool.num_threads()) {}

  const InstructionSet instructions;
  ThreadPool pool;
  Scratch scratch;
  Scratch operand;  // activations rearranged for a product: area 0, read by all
  Scratch rounded;  // activations that were rounded to FP8 for a product: area 0
  HostStep step;
  AttentionMemory attention;
  std::vector<RowSampler> samplers;  // one per worker
};

// So many elements rounded or added are worth handing to another thread.
inline constexpr int64_t kElementsWorthATask = 16384;

// Calls task(begin, end) for runs that together cover [0, rows). A run has enough rows, of
// `elements_per_row` elements each, that handing it to another thread pays.
inline void ForRowRuns(CpuContext& context, int64_t rows, int64_t elements_per_row,
                       absl::FunctionRef<void(int64_t begin, int64_t end)> task) {
  const int64_t run =
      std::max<int64_t>(1, kElementsWorthATask / std::max<int64_t>(1, elements_per_row));
  context.pool.ParallelFor((rows + run - 1) / run, [&](int64_t index, int) {
    task(index * run, std::min(rows, (index + 1) * run));
  });
}

}  // namespace sluice
