#include "tests/kernels/testing/test_backend.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "kernels/check.h"
#include "kernels/gpu/gpu_check.h"
#include "kernels/gpu/gpu_devices.h"
#include "tests/kernels/testing/async_backend.h"
#include "tests/kernels/testing/gpu_on_host.h"

namespace sluice::testing {

namespace {

bool TestsOn(std::string_view backend) {
  const char* const kind = std::getenv("SLUICE_TEST_BACKEND");
  return kind != nullptr && kind == backend;
}

// $SLUICE_TEST_GPU_MULTIPROCESSORS, or 0 where it is not set.
int PlannedMultiprocessors() {
  const char* const text = std::getenv("SLUICE_TEST_GPU_MULTIPROCESSORS");
  if (text == nullptr) return 0;
  int number = 0;
  const bool is_valid = absl::SimpleAtoi(text, &number) && number > 0;
  if (!is_valid) {
    std::fprintf(stderr, "SLUICE_TEST_GPU_MULTIPROCESSORS: \"%s\"; accepted: 1 or more\n", text);
  }
  SLUICE_CHECK(is_valid);
  return number;
}

bool LeavesSelfCheckOut() {
  const char* const text = std::getenv("SLUICE_TEST_SELF_CHECK");
  return text != nullptr && std::string_view(text) == "off";
}

absl::StatusOr<std::unique_ptr<Backend>> MakeUncheckedGpu(const DeviceId& device) {
  if (absl::Status usable = CheckDevice(device); !usable.ok()) return usable;
  const int index = device.index.value_or(0);
  const auto products = ProductsUpTo(QueryGpus().gpus[index], TestGpuProducts());
  if (!products.ok()) return products.status();
  return MakeGpuBackend(
      index, {.products = products->back(), .plan = {.multiprocessors = PlannedMultiprocessors()}});
}

absl::StatusOr<std::unique_ptr<Backend>> MakeOnDevice(const DeviceId& device,
                                                      const CpuBackendOptions& cpu) {
  if (device.kind == DeviceKind::kCuda && (LeavesSelfCheckOut() || PlannedMultiprocessors() > 0)) {
    return MakeUncheckedGpu(device);
  }
  return MakeBackend({.device = device, .cpu = cpu, .gpu_products = TestGpuProducts()},
                     [](const std::string&) {});
}

}  // namespace

bool TestsAsync() { return TestsOn("async"); }

bool TestsGpuOnHost() { return TestsOn("gpu_on_host"); }

std::optional<DeviceId> TestDevice() {
  const char* const text = std::getenv("SLUICE_TEST_DEVICE");
  if (text == nullptr) return std::nullopt;
  const absl::StatusOr<DeviceId> device = ParseDevice(text);
  SLUICE_CHECK(device.ok());
  return *device;
}

std::optional<GpuProducts> TestGpuProducts() {
  const char* const text = std::getenv("SLUICE_TEST_GPU_INSTRUCTIONS");
  if (text == nullptr) return std::nullopt;
  const auto products = ParseGpuProducts(text);
  if (!products.ok()) {
    std::fprintf(stderr, "SLUICE_TEST_GPU_INSTRUCTIONS: %s\n",
                 products.status().ToString().c_str());
  }
  SLUICE_CHECK(products.ok());
  return *products;
}

bool TestsRoundOperands() {
  const std::optional<DeviceId> device = TestDevice();
  return TestsGpuOnHost() || (device.has_value() && device->kind == DeviceKind::kCuda);
}

std::unique_ptr<Backend> AsTestBackend(std::unique_ptr<Backend> backend) {
  return TestsAsync() ? MakeAsyncBackend(std::move(backend)) : std::move(backend);
}

std::unique_ptr<Backend> NewTestBackend(const CpuBackendOptions& options) {
  if (const std::optional<DeviceId> device = TestDevice(); device.has_value()) {
    auto backend = MakeOnDevice(*device, options);
    if (!backend.ok()) std::fprintf(stderr, "%s\n", backend.status().ToString().c_str());
    SLUICE_CHECK(backend.ok());
    return *std::move(backend);
  }
  if (TestsGpuOnHost()) return NewGpuOnHost();
  return AsTestBackend(MakeCpuBackend(options));
}

}  // namespace sluice::testing
