// The end of a model: final norm and LM head, hidden rows to logits. Driven by one thread at a
// time, as its backend is; the backend must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/adapter_memory.h"
#include "kernels/backend.h"
#include "services/model/adapter_source.h"
#include "services/model/model_config.h"
#include "services/model/weights.h"

namespace sluice {

class LmHead {
 public:
  // Reads the norm and the head (the embedding, where the two are tied) through `source`, a few
  // rows at a time. Computes at most `max_rows` rows at once. RESOURCE_EXHAUSTED where the
  // backend lacks memory, else as WeightSource::Read.
  static absl::StatusOr<LmHead> Load(const ModelConfig& config, const WeightSource& source,
                                     WeightType weights, int64_t max_rows, Backend& backend);

  // logits = norm(hidden) W^T + bias, scaled and capped, all as the model has it. hidden [R, H], or
  // rows as they come from a stage, [R, row_width()], and logits [R, V] are memory of the backend, F32, R <= max_rows. A row's bits don't depend on the
  // other rows.
  void Logits(MatrixView hidden, MatrixView logits) { Logits(hidden, {}, logits); }
  // The same where row r has the adapter in slots[r], or none where that is negative; empty: no row
  // has one.
  void Logits(MatrixView hidden, absl::Span<const int32_t> slots, MatrixView logits);

  // Takes up what an adapter changes of the head, in place of what the slot had. Errors as
  // LmHead::Load.
  absl::Status LoadAdapter(int slot, const AdapterSource& source);
  void DropAdapter(int slot);
  void DropAdapters() { adapters_.clear(); }

  int64_t vocab_size() const { return head_->num_outputs(); }
  int64_t hidden_size() const { return head_->num_inputs(); }
  int64_t row_width() const { return row_width_; }
  // What the bits depend on besides the model, in words: backend and weights.
  std::string arithmetic() const {
    return std::string(backend_->name()) + ", weights " + std::string(Name(format_));
  }
  size_t weight_bytes() const {
    return (norm_ == nullptr ? 0 : norm_->size_bytes()) +
           (norm_bias_ == nullptr ? 0 : norm_bias_->size_bytes()) +
           (head_bias_ == nullptr ? 0 : head_bias_->size_bytes()) + head_->size_bytes();
  }

 private:
  // What an adapter changes.
  struct HeadAdapter {
    explicit HeadAdapter(Backend& backend) : memory(backend) {}
    AdapterMemory memory;
    std::optional<AdapterFactors> factors;   // of what it adds
    std::unique_ptr<PackedMatrix> replaced;  // what it has in place of the head; null: nothing
  };

  const PackedMatrix& HeadOf(int32_t slot) const;
  void AddAdapters(MatrixView normed, absl::Span<const int32_t> slots, MatrixView logits);
  LmHead(Backend& backend, const ModelConfig& config, int64_t max_rows)
      : backend_(&backend),
        shape_(ShapeOf({TensorRole::kHead}, config)),
        norm_kind_(config.norm),
        norm_eps_(config.norm_eps),
        logit_scale_(config.logit_scale),
        logit_softcap_(config.logit_softcap),
        max_rows_(max_rows),
        row_width_(config.row_width()) {}

  absl::Status LoadNorm(const ModelConfig& config, const WeightSource& source);
  absl::StatusOr<std::unique_ptr<Buffer>> LoadVector(const ModelConfig& config,
                                                     const WeightSource& source, TensorId tensor);
  void Norm(MatrixView x, MatrixView out);
  static const float* DataOrNull(const std::unique_ptr<Buffer>& vector) {
    return vector == nullptr ? nullptr : static_cast<const float*>(vector->data());
  }
  absl::Status LoadHead(const ModelConfig& config, const WeightSource& source, WeightFormat wanted);

  Backend* backend_;
  MatrixShape shape_;
  NormKind norm_kind_;
  float norm_eps_;
  float logit_scale_;
  float logit_softcap_;                       // 0: none
  WeightFormat format_ = WeightFormat::kF32;  // of the head
  int64_t max_rows_;
  int64_t row_width_;                                   // ModelConfig's
  std::unique_ptr<Buffer> norm_;                        // [H], or null
  std::unique_ptr<Buffer> norm_bias_;                   // [H], or null
  std::unique_ptr<PackedMatrix> head_;                  // [V, H]
  std::unique_ptr<Buffer> head_bias_;                   // [V], or null
  std::unique_ptr<Buffer> normed_;                      // [max_rows, H] in operand dtype
  std::vector<std::unique_ptr<HeadAdapter>> adapters_;  // by slot; null where the head stays
  std::unique_ptr<Buffer> sums_;                        // of adapters; grows
};

}  // namespace sluice
