// A LoRA adapter in PEFT's folder layout (adapter_config.json, adapter_model.safetensors), read by
// the tensors of the model that it changes instead of by the names of modules: y = W x + B (A x).
// Files are mapped, not copied. Immutable, so safe to share among threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/model/adapter_config.h"
#include "services/model/model_config.h"
#include "services/model/tensor_file.h"
#include "services/model/tensor_id.h"
#include "services/model/tensor_place.h"
#include "services/model/tensor_slice.h"

namespace sluice {

// What an adapter adds to a slice of a matrix [rows, columns]: B A, the scale being in B.
struct LowRankFactors {
  std::string module;    // tensors that one module of the files holds share its A
  int rank = 0;          // >= 1
  std::vector<float> a;  // [rank, columns]
  std::vector<float> b;  // [rows, rank]
};

struct AdapterLimits {
  int max_rank = AdapterConfig::kMaxRank;  // of any module
};

// Where files as a model's family publishes them hold its tensors, plain ones, under the names that
// those of `model` (a folder or GGUF file) have: what an adapter's modules are called by, whatever the
// model's weights are quantised to. Errors as Checkpoint::Open.
absl::StatusOr<TensorPlaces> PublishedPlaces(const std::string& model, const ModelConfig& config);

class AdapterSource {
 public:
  // `places`: PublishedPlaces of the model.
  // Checks everything that can be wrong before any matrix is read: NOT_FOUND where the folder or a
  // file is missing; INVALID_ARGUMENT, naming the module and what the model accepts, where a file is
  // malformed, a module is not in the model or its matrices do not fit it or the configuration, or a
  // rank is above `limits`; UNIMPLEMENTED as AdapterConfig::Parse, and for modules whose adapters are
  // not computed: tied embeddings, norms, and whole modules other than the embedding and the head.
  static absl::StatusOr<AdapterSource> Open(const std::string& folder, const ModelConfig& config,
                                            const TensorPlaces& places,
                                            const AdapterLimits& limits);

  // Whether the adapter adds something to the tensor, or replaces it.
  bool Has(TensorId tensor) const { return bound_.count(tensor) > 0; }
  bool Replaces(TensorId tensor) const { return saved_.count(tensor) > 0; }

  // REQUIRES: Has(tensor), and the slice lies within the tensor.
  LowRankFactors Read(TensorId tensor, const TensorSlice& slice) const;
  // The rows of what replaces the tensor. REQUIRES: Replaces(tensor).
  std::vector<float> ReadSaved(TensorId tensor, IndexRange rows) const;

  const std::string& folder() const { return folder_; }
  int max_rank() const { return max_rank_; }  // of its modules; 0 where it has none
  uint64_t size_bytes() const { return weights_->bytes().size(); }

 private:
  // The two matrices of a module, and how their product lies in the model's.
  struct Module {
    const StoredTensor* a = nullptr;  // [rank, columns of the product]
    const StoredTensor* b = nullptr;  // [rows of the product, rank]
    bool is_embedding = false;
    int rank = 0;
    double scale = 1;
  };
  // A tensor of the model in a module's product.
  struct Bound {
    std::string module;
    TensorPlace place;
    bool is_transposed = false;  // the module's product, beside [outputs, inputs]
  };

  explicit AdapterSource(AdapterConfig config) : config_(std::move(config)) {}

  absl::Status FindModules(const AdapterLimits& limits);
  absl::Status FitModule(const std::string& name, const AdapterLimits& limits, Module& module);
  absl::Status Bind(const ModelConfig& config, const TensorPlaces& places);
  absl::Status BindModule(const std::string& name, TensorId tensor, const TensorPlace& place);
  absl::Status BindSaved(const std::string& name, TensorId tensor, const TensorPlace& place);
  absl::Status CheckTied(const ModelConfig& config) const;

  std::string folder_;
  AdapterConfig config_;
  std::unique_ptr<TensorFile> weights_;
  std::map<std::string, Module> modules_;                // by canonical name
  std::map<std::string, const StoredTensor*> replaced_;  // by canonical name of the tensor
  std::map<TensorId, Bound> bound_;
  std::map<TensorId, const StoredTensor*> saved_;
  int max_rank_ = 0;
};

}  // namespace sluice
