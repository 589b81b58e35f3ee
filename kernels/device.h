// A kind of device that computes: its memory, what it keeps there, and its stream of work. What it
// computes: kernels/ops.h. kernels/backend.h says when work is done, and how long memory must stay.
// Driven by one thread at a time.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/deadline.h"
#include "kernels/dtype.h"
#include "kernels/kv_format.h"
#include "kernels/packed_matrix.h"
#include "kernels/rank_group.h"

namespace sluice {

class AdapterOps;         // kernels/adapter_ops.h
class CrossAttentionOps;  // kernels/cross_attention_ops.h
class ExpertOps;          // kernels/expert_ops.h
class LatentOps;          // kernels/latent_ops.h
class MemorySharing;      // kernels/memory_sharing.h
class OpenAttentionOps;   // kernels/open_attention_ops.h
class RecurrentOps;       // kernels/recurrent_ops.h

// Memory of a backend. At least 64-byte aligned. Freed on destruction.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  virtual size_t size_bytes() const = 0;
};

// Memory of a device that has its own.
struct DeviceMemory {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // now, whoever uses the rest
};

// The keys and values of all blocks of some layers, paged. A block holds `block_size` consecutive
// positions.
class KvPool {
 public:
  virtual ~KvPool() = default;
  virtual size_t size_bytes() const = 0;
};

// The geometry of a pool. A block takes num_layers * block_size * bytes_per_position() bytes, and
// nothing besides.
//
// Two layouts. By head: a position has a key and a value vector of head_dim elements for each KV
// head. Latent (DeepSeek-AI 2024, "DeepSeek-V2"): a position has one vector of head_dim elements,
// which is the key of every query head; its first latent_dim elements are also their value.
struct KvPoolSpec {
  int num_layers = 0;
  int num_blocks = 0;
  int block_size = 16;
  int num_kv_heads = 0;  // 1 in the latent layout
  int head_dim = 0;
  DType dtype = DType::kF32;  // one of IsKvType: kernels/kv_format.h says how each is kept
  int latent_dim = 0;         // in [1, head_dim] in the latent layout; 0: by head

  bool is_latent() const { return latent_dim > 0; }
  // Elements of the value of one query head.
  int value_dim() const { return is_latent() ? latent_dim : head_dim; }
  // Of one layer.
  size_t bytes_per_position() const {
    return (is_latent() ? 1 : 2) * size_t{1} * num_kv_heads * KvVectorBytes(dtype, head_dim);
  }
};

// The rows of one sequence in a step: rows [first_row, first_row + num_rows) of the activations are
// its positions first_position, first_position + 1, ...; position p lives in slot p % block_size of
// block_table[p / block_size].
struct AttentionSegment {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t first_position = 0;
  absl::Span<const int32_t> block_table;
};

// Tells apart the steps that a backend may record. Whatever is enqueued under one key is the same
// operations on the same memory; only what BeginStep() and CopyIn() were given differs.
struct StepKey {
  int64_t rows = 0;              // BucketRows() of the step's
  const void* memory = nullptr;  // of the rows that go in and come out
  int variant = 0;               // whatever else the caller's operations depend on

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the default for a literal 0
  auto operator<=>(const StepKey&) const = default;
};

class Device {
 public:
  virtual ~Device() = default;

  // All that the bits of its operations depend on: kind of device, where that leaves a choice what
  // computes its products, and a version: "cpu/avx512_bf16 v3". Two backends of one name give the
  // same bits, whatever the processors.
  virtual std::string_view name() const = 0;
  // Element type of the operands of products: F32 on CPU.
  virtual DType operand_dtype() const = 0;

  // ---- Memory ----

  // nullopt where it is the host's.
  virtual std::optional<DeviceMemory> memory() const { return std::nullopt; }
  // RESOURCE_EXHAUSTED where the device lacks memory. The contents are zero.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size_bytes) = 0;
  virtual void CopyIn(absl::Span<const std::byte> host, void* device) = 0;
  // Waits for the work enqueued before, as Synchronize() does.
  virtual absl::Status CopyOut(const void* device, absl::Span<std::byte> host) = 0;

  // Waits until all work is done. Returns the first failure since the last call, after which what
  // was enqueued behind it has been dropped, or DEADLINE_EXCEEDED where the work is not done in
  // time: then memory in use stays so, and the backend is lost.
  virtual absl::Status Synchronize(Deadline deadline) = 0;
  // No wait is without a bound.
  static constexpr absl::Duration kLongestWait = absl::Minutes(2);
  absl::Status Synchronize() { return Synchronize(Deadline::After(kLongestWait)); }

  // Reads every row once, at most 64 at a time, so that no second copy of the matrix is ever held.
  // Returns what `read` returns when it fails, or RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const PackSpec& spec,
                                                             const RowReader& read) = 0;
  // Memory is reserved, not touched: pages that no position uses cost nothing where the system
  // allows it. RESOURCE_EXHAUSTED; UNIMPLEMENTED for a latent pool where latents() is null.
  virtual absl::StatusOr<std::unique_ptr<KvPool>> NewKvPool(const KvPoolSpec& spec) = 0;

  // Sets aside what Gemm with `weights`, or PagedAttention over `pool`, takes for up to `max_rows`
  // rows, so that nothing is allocated while serving. Without it that happens when they first meet
  // a step as large.
  virtual void ReserveForGemm(const PackedMatrix& weights, int64_t max_rows) = 0;
  virtual void ReserveForAttention(const KvPool& pool, int64_t max_rows) = 0;

  // What adds up partial results of `spec`'s ranks in this backend's stream. RESOURCE_EXHAUSTED
  // where the device lacks memory.
  virtual absl::StatusOr<std::unique_ptr<RankGroup>> NewRankGroup(const RankGroupSpec& spec) = 0;

  // How its memory is shared with other backends on this host; null where it is not.
  virtual MemorySharing* sharing() { return nullptr; }

  // How it computes mixtures of experts, in the same stream of work; null where it does not.
  virtual ExpertOps* experts() { return nullptr; }

  // ---- Steps ----

  // Rows that a step of `rows` is computed with, at least as many: those behind mean nothing, and
  // hold anything. So that a step can be recorded for all steps of about its size; on CPU it is
  // `rows` itself. Never falls as `rows` rises.
  virtual int64_t BucketRows(int64_t rows) const { return rows; }

  // Says which rows of a step of `rows` rows (BucketRows() of what it has) belong to which
  // positions, for the operations that store keys and values and for PagedAttention until the next
  // call. Segments don't overlap; rows of none are computed like those of position 0 and stored
  // nowhere.
  virtual void BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) = 0;

  // Calls `enqueue`, which enqueues a step's operations and waits for none, or does as it did when
  // it was last called with `key`. Returns what it returned.
  virtual absl::Status RunStep(const StepKey& key, absl::FunctionRef<absl::Status()> enqueue) {
    return enqueue();
  }

  // ---- What not every device computes ----

  // Parts of the device, the same at every call, which enqueue on its stream of work; null where it
  // does not compute such things. experts() is one of them.
  virtual LatentOps* latents() { return nullptr; }                  // latent attention
  virtual RecurrentOps* recurrence() { return nullptr; }            // recurrent layers
  virtual AdapterOps* adapters() { return nullptr; }                // low-rank adapters
  virtual OpenAttentionOps* open_attention() { return nullptr; }    // attention of encoders
  virtual CrossAttentionOps* cross_attention() { return nullptr; }  // of encoder-decoders
};

}  // namespace sluice
