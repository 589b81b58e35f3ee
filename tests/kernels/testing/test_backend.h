// The backend that tests of what stands on kernels/backend.h run on.
#pragma once

#include <memory>
#include <optional>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/device.h"

namespace sluice::testing {

// The backend of the test device where there is one; otherwise the CPU backend or, where the test runs a second time as "async" (ASYNC of sluice_test, which
// sets SLUICE_TEST_BACKEND), the same made asynchronous: kernels/reference/async_backend.h. Bits
// are the same on both.
std::unique_ptr<Backend> NewTestBackend(const CpuBackendOptions& options = {.num_threads = 2});

// `backend`, made asynchronous where the test runs so.
std::unique_ptr<Backend> AsTestBackend(std::unique_ptr<Backend> backend);

// The device that $SLUICE_TEST_DEVICE names, such as cuda:0: on a machine with a GPU the tests run
// on it, which ./dev gpu-prove has them do. None where it is not set.
std::optional<DeviceId> TestDevice();

// Whether it does.
bool TestsAsync();

}  // namespace sluice::testing
