// The adapters that a process has opened lately, by the ids that the orchestrator gives them, so that one
// that returns to a slot is not looked up again. Their files stay mapped meanwhile: they may be removed or
// replaced under their names. Not thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "services/model/adapter_source.h"
#include "services/model/model_config.h"
#include "services/model/tensor_place.h"

namespace sluice {

class AdapterLibrary {
 public:
  static constexpr size_t kMaxOpen = 256;

  // For the model in a folder or GGUF file, which is read when the first adapter is asked for.
  AdapterLibrary(std::string model, const ModelConfig& config)
      : model_(std::move(model)), config_(config) {}

  // The adapter `id`, which is in `folder`. Errors as AdapterSource::Open and PublishedPlaces.
  absl::StatusOr<std::shared_ptr<const AdapterSource>> Get(const std::string& id,
                                                           const std::string& folder);

 private:
  std::string model_;
  ModelConfig config_;
  std::optional<TensorPlaces> places_;
  // The one used last first.
  std::list<std::pair<std::string, std::shared_ptr<const AdapterSource>>> open_;
};

}  // namespace sluice
