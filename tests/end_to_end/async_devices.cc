#include "tests/end_to_end/async_devices.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/device/make_backend.h"
#include "tests/kernels/testing/async_backend.h"

namespace sluice {
namespace {

using Warn = absl::FunctionRef<void(const std::string& reason)>;
using Made = absl::StatusOr<std::unique_ptr<Backend>>;

std::atomic<bool>& AreAsync() {
  static std::atomic<bool> async = [] {
    const char* const kind = std::getenv("SLUICE_TEST_BACKEND");
    return kind != nullptr && std::string_view(kind) == "async";
  }();
  return async;
}

}  // namespace

Made RealMakeBackend(const DeviceOptions& options, Warn warn) asm("__real_" SLUICE_MAKE_SYMBOL);
Made WrappedMakeBackend(const DeviceOptions& options, Warn warn) asm("__wrap_" SLUICE_MAKE_SYMBOL);

Made WrappedMakeBackend(const DeviceOptions& options, Warn warn) {
  Made made = RealMakeBackend(options, warn);
  if (!made.ok() || !AreAsync()) return made;
  return MakeAsyncBackend(*std::move(made));
}

namespace testing {

void MakeDevicesAsync(bool async) { AreAsync() = async; }

}  // namespace testing
}  // namespace sluice
