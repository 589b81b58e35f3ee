// Error messages for clients of the public API: internal addresses and paths are removed, and
// logged instead. Immutable, hence thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/common/location_filter.h"

namespace sluice {

class ClientErrors {
 public:
  // `locations`: addresses and folders of this server.
  explicit ClientErrors(std::vector<std::string> locations = {}) : filter_(std::move(locations)) {}

  // `status` as the client of a call is told. A text that says more is logged by the call's name:
  // its request id, or its method where it has none.
  absl::Status ForClient(absl::string_view call, const absl::Status& status) const;

  // A detail of a process or request, without locations.
  std::string Detail(absl::string_view text) const { return filter_.WithoutAny(text); }

 private:
  const LocationFilter filter_;
};

}  // namespace sluice
