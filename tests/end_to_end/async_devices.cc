#include "tests/end_to_end/async_devices.h"

#include <cstdlib>
#include <string_view>

#include "tests/kernels/testing/async_backend.h"
#include "services/model_server/backend_decorator.h"

namespace sluice::testing {

void MakeDevicesAsync(bool async) {
  SetBackendDecorator(async ? BackendDecorator(MakeAsyncBackend) : nullptr);
}

namespace {

bool AreAsyncAtFirst() {
  const char* const kind = std::getenv("SLUICE_TEST_BACKEND");
  return kind != nullptr && std::string_view(kind) == "async";
}

// Before main(), which is a service's own.
[[maybe_unused]] const bool kAreAsyncAtFirst = [] {
  MakeDevicesAsync(AreAsyncAtFirst());
  return true;
}();

}  // namespace
}  // namespace sluice::testing
