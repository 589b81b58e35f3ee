// The backend that tests of what stands on kernels/backend.h run on.
#pragma once

#include <memory>
#include <optional>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/device/make_backend.h"

namespace sluice::testing {

// The backend of the test device where there is one; otherwise the CPU backend or, where the test
// runs once more (sluice_test, which sets SLUICE_TEST_BACKEND): as "async" the same made
// asynchronous, with the same bits (tests/kernels/testing/async_backend.h); as "gpu_on_host" the backend
// of GPUs with its kernels carried out on the host.
// A device's has passed its self-check. With SLUICE_TEST_SELF_CHECK=off a GPU's has not, and
// multiplies by the fastest that it may, right or wrong: compute-sanitizer takes longer for the
// check's large products than for all of a test.
// With SLUICE_TEST_GPU_MULTIPROCESSORS=N, work on a GPU is shared out as for one of N
// multiprocessors: with 4, the shapes of tests take large tiles, splits and uncut attention. Such a
// backend has not passed the self-check either, which plans for the whole GPU.
std::unique_ptr<Backend> NewTestBackend(const CpuBackendOptions& options = {.num_threads = 2});

// `backend`, made asynchronous where the test runs so.
std::unique_ptr<Backend> AsTestBackend(std::unique_ptr<Backend> backend);

// The device that $SLUICE_TEST_DEVICE names, such as cuda:0: on a machine with a GPU the tests run
// on it, which ./dev gpu-prove has them do. None where it is not set.
std::optional<DeviceId> TestDevice();

// The fastest that a GPU is to multiply with in tests: what $SLUICE_TEST_GPU_INSTRUCTIONS says in
// the words of --gpu_instructions. None where that is auto or not set: the fastest that the GPU has.
// What is left out is not tried, so that the others can be tested where it hangs or ends the
// process. Any other word ends the program, naming those that are accepted.
std::optional<GpuProducts> TestGpuProducts();

// Which of those the test runs on.
bool TestsAsync();
bool TestsGpuOnHost();

// Whether that backend rounds what products read to BF16 whatever the weights are, as GPUs do: what
// is exact to F32 elsewhere is then off by as much as with BF16 weights.
bool TestsRoundOperands();

}  // namespace sluice::testing
