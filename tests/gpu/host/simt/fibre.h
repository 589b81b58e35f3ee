// Threads of execution that take turns on one thread of the host, switching only where they say so.
// Not thread-safe: a fibre belongs to the thread that made it.
#pragma once

#include <cstddef>

namespace sluice::cuda {

// Where a fibre goes on.
struct FibreContext {
  void* stack_pointer = nullptr;
};

// Memory for the frames of one fibre, with a page below it that can't be touched.
class FibreStack {
 public:
  static constexpr size_t kBytes = size_t{128} << 10;

  FibreStack();
  ~FibreStack();
  FibreStack(const FibreStack&) = delete;
  FibreStack& operator=(const FibreStack&) = delete;

  // The context of a fibre that begins with run(argument), which never returns.
  FibreContext Begin(void (*run)(void*), void* argument);

 private:
  std::byte* memory_;
};

// Leaves the fibre that calls for the one at `to`; returns when another switches to `from`.
void SwitchFibre(FibreContext& from, const FibreContext& to);

}  // namespace sluice::cuda
