#include "services/gateway/backend/random.h"

#include <random>

#include "absl/strings/str_cat.h"

namespace sluice::gateway {

uint64_t RandomNumber() {
  static thread_local std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

std::string RandomId(absl::string_view prefix) {
  return absl::StrCat(prefix, absl::Hex(RandomNumber(), absl::kZeroPad16),
                      absl::Hex(RandomNumber(), absl::kZeroPad16));
}

}  // namespace sluice::gateway
