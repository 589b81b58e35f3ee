// The token embedding of a model, [V, H], in memory of a backend. Driven by one thread at a time,
// as its backend is; the backend must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "services/model/model_config.h"
#include "services/model/weights.h"

namespace sluice {

class EmbeddingTable {
 public:
  // Reads the table through `source`, a few rows at a time, and keeps it as F32 or BF16. Errors as
  // WeightSource::Read, or RESOURCE_EXHAUSTED.
  static absl::StatusOr<EmbeddingTable> Load(const ModelConfig& config, const WeightSource& source,
                                             WeightType weights, Backend& backend);

  // out[t] = the embedding of ids[t]. `positions`, as long as `ids`, are absolute positions in each
  // token's sequence: a table with learned or sinusoidal positions adds theirs; rotary models read
  // none. out [T, H] is memory of the backend, in its activation dtype, T = ids.size().
  // INVALID_ARGUMENT, with `out` untouched, where an id is outside [0, V).
  absl::Status Embed(absl::Span<const int32_t> ids, absl::Span<const int32_t> positions,
                     MatrixView out);

  int64_t vocab_size() const { return table_.rows; }
  int64_t hidden_size() const { return table_.cols; }
  size_t weight_bytes() const { return memory_->size_bytes(); }

 private:
  EmbeddingTable(Backend& backend, std::unique_ptr<Buffer> memory, MatrixView table)
      : backend_(&backend), memory_(std::move(memory)), table_(table) {}

  Backend* backend_;
  std::unique_ptr<Buffer> memory_;
  MatrixView table_;
};

}  // namespace sluice
