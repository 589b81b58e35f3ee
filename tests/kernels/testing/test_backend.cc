#include "tests/kernels/testing/test_backend.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "kernels/reference/async_backend.h"

namespace sluice::testing {

bool TestsAsync() {
  const char* const kind = std::getenv("SLUICE_TEST_BACKEND");
  return kind != nullptr && std::string_view(kind) == "async";
}

std::unique_ptr<Backend> AsTestBackend(std::unique_ptr<Backend> backend) {
  return TestsAsync() ? MakeAsyncBackend(std::move(backend)) : std::move(backend);
}

std::unique_ptr<Backend> NewTestBackend(const CpuBackendOptions& options) {
  return AsTestBackend(MakeCpuBackend(options));
}

}  // namespace sluice::testing
