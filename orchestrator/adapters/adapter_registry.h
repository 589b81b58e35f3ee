// The adapters that requests may name: which folder each is in, and that it fits the served model.
// Knows nothing of slots; the scheduler has them. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "services/model/adapter_source.h"
#include "services/model/model_config.h"
#include "services/model/tensor_place.h"

namespace sluice {

struct AdapterDescription {
  std::string name;
  std::string folder;
  int max_rank = 0;  // of its modules
  uint64_t size_bytes = 0;
};

// Sizes and times of the files of the adapter in a folder; changes when they do. Empty where there is no
// adapter_config.json.
std::string AdapterStamp(const std::string& folder);

class AdapterRegistry {
 public:
  static constexpr size_t kMaxNameBytes = 128;
  static constexpr size_t kMaxAdapters = 100'000;

  // For the model in `folder`, a folder or GGUF file, which is served under `model_name`.
  // Errors as PublishedPlaces.
  static absl::StatusOr<std::unique_ptr<AdapterRegistry>> Create(const std::string& folder,
                                                                 const ModelConfig& config,
                                                                 std::string model_name);

  // Makes the adapter of a PEFT folder known by `name`: 1 to 128 letters, digits and ._-:/ of ASCII,
  // no other adapter's, and not the model's. Requests that began with an earlier one of that name end
  // with it. INVALID_ARGUMENT, ALREADY_EXISTS where the name is in use and `replace` is false,
  // RESOURCE_EXHAUSTED above kMaxAdapters, else as AdapterSource::Open.
  absl::Status Load(const std::string& name, const std::string& folder, bool replace);
  // New requests cannot name it any more. NOT_FOUND, naming some that are known.
  absl::Status Unload(const std::string& name);
  // By name.
  std::vector<AdapterDescription> List() const;

  // What SequenceSpec::adapter names it by: another one each time that it is loaded. Empty for an
  // empty name. NOT_FOUND, naming some that are known; FAILED_PRECONDITION where its files have gone or
  // changed since it was loaded, because stages read them when they need them.
  absl::StatusOr<std::string> IdOf(const std::string& name) const;

 private:
  struct Known {
    std::string id;
    std::string stamp;  // AdapterStamp, when it was loaded
    AdapterDescription description;
  };

  AdapterRegistry(const ModelConfig& config, TensorPlaces places, std::string model_name)
      : config_(config), places_(std::move(places)), model_name_(std::move(model_name)) {}

  absl::Status Unknown(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ModelConfig config_;
  const TensorPlaces places_;
  const std::string model_name_;

  mutable absl::Mutex mutex_;
  uint64_t num_loaded_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
