// The adapters of a stage on one rank, by slot: what each adds to the matrices of the rank's layers,
// in memory of a backend. An adapter is cut like the matrices that it changes: where a rank has some
// of a matrix's outputs, it has those rows of B and all of A; where it has some of the inputs, those
// columns of A and all of B.
//
// Not thread-safe; the backend must outlive it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/adapter_memory.h"
#include "kernels/adapter_ops.h"
#include "kernels/backend.h"
#include "services/model/adapter_source.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "services/model/tensor_id.h"

namespace sluice {

// An adapter's part of the stage's layers on this rank.
class AdapterWeights {
 public:
  // Errors as AdapterSource::Open has left none of the files', so RESOURCE_EXHAUSTED alone.
  static absl::StatusOr<std::unique_ptr<AdapterWeights>> Load(const ModelConfig& config,
                                                              const ShardPlan& plan,
                                                              const AdapterSource& source,
                                                              Backend& backend);

  // Null where the adapter leaves the matrix as it is. A fused matrix has the name of the first tensor
  // in it that the model has. Of kKvB, whose heads are matrices of their own, the rank's head h has
  // its keys' map as "expert" 2 h and its values' as 2 h + 1.
  const AdapterFactors* Of(TensorId matrix) const {
    const auto found = factors_.find(matrix);
    return found == factors_.end() ? nullptr : &found->second;
  }
  const std::map<TensorId, AdapterFactors>& factors() const { return factors_; }
  size_t size_bytes() const { return memory_.size_bytes(); }

 private:
  friend class AdapterLoader;

  explicit AdapterWeights(Backend& backend) : memory_(backend) {}

  std::map<TensorId, AdapterFactors> factors_;  // `layer` counts the model's layers
  AdapterMemory memory_;
};

}  // namespace sluice
