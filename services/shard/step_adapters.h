// The adapters of a shard by slot, and what a step needs to compute with them: which rows have which,
// and memory for their sums. Driven by the thread that drives the backend, which must outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/adapter_ops.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "services/model/tensor_id.h"
#include "services/shard/adapter_weights.h"
#include "services/shard/step_check.h"

namespace sluice {

class StepAdapters {
 public:
  // Of steps of up to `max_rows` rows of a stage whose mixtures choose up to `num_chosen` experts.
  // `max_rank`: of any module; 0: there will be no adapters, and nothing is allocated. UNIMPLEMENTED
  // where the backend does not compute adapters, RESOURCE_EXHAUSTED where it lacks memory.
  static absl::StatusOr<std::unique_ptr<StepAdapters>> Create(const ModelConfig& config,
                                                              const ShardPlan& plan,
                                                              int64_t max_rows, int max_rank,
                                                              Backend& backend);

  // Meets the other ranks of an epoch, as RankGroup::Join.
  absl::Status Join(Communicator* communicator, Deadline deadline);

  // Puts an adapter into a slot, or empties it. Not while a step is under way.
  // RESOURCE_EXHAUSTED where the backend lacks memory for its sums.
  absl::Status Set(int slot, std::shared_ptr<const AdapterWeights> weights);
  bool Has(int slot) const {
    return slot >= 0 && slot < static_cast<int>(slots_.size()) && slots_[slot] != nullptr;
  }
  // Empties all slots.
  void Clear() { slots_.clear(); }
  int max_rank() const { return max_rank_; }
  size_t size_bytes() const;

  // Takes up a step. INVALID_ARGUMENT, naming the segment, where one names an empty slot.
  absl::Status Begin(absl::Span<const ShardSegment> segments, Deadline deadline);
  void End();

  // The adapters of the step's rows that change a matrix, by slot; empty where none does. Valid until
  // the next call. The second is of each of a mixture's `num_experts` experts.
  FactorsBySlot Of(TensorId matrix);
  FactorsBySlot OfExperts(TensorId matrix, int num_experts);
  absl::Span<const int32_t> slots_of_rows() const { return slots_of_rows_; }

  // [rows, R] of as many columns as `factors` have ranks at most; of partial sums, which Join
  // adds up, as many as the ranks exchange.
  MatrixView Sums(int64_t rows, FactorsBySlot factors) const;
  MatrixView PartialSums(int64_t rows) const;
  // The sums of all ranks of the stage: `partial` itself where there is one.
  absl::StatusOr<MatrixView> JoinSums(MatrixView partial);
  // Memory for addends [rows, columns]; grows where it has to, which happens at the first steps alone.
  struct AddendMemory {
    MatrixView values;
    uint8_t* rows = nullptr;
  };
  absl::StatusOr<AddendMemory> Addends(int64_t rows, int64_t columns);

  AdapterOps& ops() const { return *ops_; }

 private:
  StepAdapters(int64_t max_rows, int max_rank, Backend& backend)
      : max_rows_(max_rows), max_rank_(max_rank), backend_(backend), ops_(backend.adapters()) {}

  const int64_t max_rows_;  // of a step, times the experts of a row
  const int max_rank_;
  Backend& backend_;
  AdapterOps* const ops_;  // null where the backend computes none
  std::vector<std::shared_ptr<const AdapterWeights>> slots_;
  std::unique_ptr<RankGroup> ranks_;  // null for a single rank
  int64_t sums_width_ = 0;
  std::unique_ptr<Buffer> sums_, joined_, zeros_, addends_, addend_rows_;
  // Of the step.
  std::vector<int32_t> slots_of_rows_;
  std::vector<int32_t> active_;  // slots that rows name
  std::vector<const AdapterFactors*> factors_;
};

}  // namespace sluice
