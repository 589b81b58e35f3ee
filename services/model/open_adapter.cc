#include "services/model/open_adapter.h"

namespace sluice {

absl::StatusOr<AdapterSource> OpenAdapter(const std::string& folder, const std::string& model,
                                          const ModelConfig& config) {
  const absl::StatusOr<TensorPlaces> places = PublishedPlaces(model, config);
  if (!places.ok()) return places.status();
  return AdapterSource::Open(folder, config, *places, {});
}

}  // namespace sluice
