// Services whose devices work later and in memory of their own, which they share as GPUs do: real
// ones, in which every backend is made asynchronous (tests/kernels/testing/async_backend.h).
#pragma once

namespace sluice::testing {

// Whether backends made from now on are. At first where $SLUICE_TEST_BACKEND is "async", as programs
// are told.
void MakeDevicesAsync(bool async);

}  // namespace sluice::testing
