// Fuzzes the reading of a hub's list of files: a list whose names stay in a folder and whose digests
// are digests, or a Status.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "clients/hub/hub_listing.h"
#include "kernels/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<sluice::HubListing> listing = sluice::ParseHubListing(text);
  if (!listing.ok()) {
    SLUICE_CHECK(absl::IsDataLoss(listing.status()));
    return 0;
  }
  for (const sluice::HubFile& file : listing->files) {
    SLUICE_CHECK(!file.name.empty() && file.name[0] != '.');
    SLUICE_CHECK(file.name.find('/') == std::string::npos);
    SLUICE_CHECK(file.sha256.size() == 64 || file.git_id.size() == 40);
  }
  const auto files = sluice::ChooseFiles(*listing, {});
  SLUICE_CHECK(!files.ok() || files->size() <= listing->files.size());
  return 0;
}
