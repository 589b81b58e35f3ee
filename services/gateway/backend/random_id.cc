#include "services/gateway/backend/random_id.h"

#include "absl/strings/str_cat.h"
#include "services/common/random.h"

namespace sluice::gateway {

std::string RandomId(absl::string_view prefix) {
  return absl::StrCat(prefix, absl::Hex(RandomNumber(), absl::kZeroPad16),
                      absl::Hex(RandomNumber(), absl::kZeroPad16));
}

}  // namespace sluice::gateway
