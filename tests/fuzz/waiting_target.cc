// A target that waits and computes next to nothing, as those that wait for other threads do: the
// driver must end it by the clock.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return 0;
}
