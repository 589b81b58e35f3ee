#include "services/model/adapter_library.h"

#include <algorithm>
#include <utility>

namespace sluice {

absl::StatusOr<std::shared_ptr<const AdapterSource>> AdapterLibrary::Get(
    const std::string& id, const std::string& folder) {
  const auto found = std::find_if(open_.begin(), open_.end(),
                                  [&](const auto& entry) { return entry.first == id; });
  if (found != open_.end()) {
    open_.splice(open_.begin(), open_, found);
    return open_.front().second;
  }
  if (!places_.has_value()) {
    absl::StatusOr<TensorPlaces> places = PublishedPlaces(model_, config_);
    if (!places.ok()) return places.status();
    places_ = *std::move(places);
  }
  absl::StatusOr<AdapterSource> source = AdapterSource::Open(folder, config_, *places_, {});
  if (!source.ok()) return source.status();
  open_.emplace_front(id, std::make_shared<const AdapterSource>(*std::move(source)));
  if (open_.size() > kMaxOpen) open_.pop_back();
  return open_.front().second;
}

}  // namespace sluice
