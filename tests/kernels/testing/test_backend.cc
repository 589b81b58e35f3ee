#include "tests/kernels/testing/test_backend.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/check.h"
#include "kernels/reference/async_backend.h"

namespace sluice::testing {

bool TestsAsync() {
  const char* const kind = std::getenv("SLUICE_TEST_BACKEND");
  return kind != nullptr && std::string_view(kind) == "async";
}

std::optional<DeviceId> TestDevice() {
  const char* const text = std::getenv("SLUICE_TEST_DEVICE");
  if (text == nullptr) return std::nullopt;
  const absl::StatusOr<DeviceId> device = ParseDevice(text);
  SLUICE_CHECK(device.ok());
  return *device;
}

std::unique_ptr<Backend> AsTestBackend(std::unique_ptr<Backend> backend) {
  return TestsAsync() ? MakeAsyncBackend(std::move(backend)) : std::move(backend);
}

std::unique_ptr<Backend> NewTestBackend(const CpuBackendOptions& options) {
  if (const std::optional<DeviceId> device = TestDevice(); device.has_value()) {
    auto backend = MakeBackend({.device = *device, .cpu = options}, [](const std::string&) {});
    if (!backend.ok()) std::fprintf(stderr, "%s\n", backend.status().ToString().c_str());
    SLUICE_CHECK(backend.ok());
    return *std::move(backend);
  }
  return AsTestBackend(MakeCpuBackend(options));
}

}  // namespace sluice::testing
