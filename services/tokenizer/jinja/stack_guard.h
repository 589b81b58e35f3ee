// Bounds the stack that recursion takes, whatever a frame's size is in this build.
#pragma once

#include <cstddef>

namespace sluice::jinja {

class StackGuard {
 public:
  // Counts from the caller's frame on.
  explicit StackGuard(size_t max_bytes)
      : base_(static_cast<const char*>(__builtin_frame_address(0))), max_bytes_(max_bytes) {}

  bool IsExceeded() const {
    const auto* here = static_cast<const char*>(__builtin_frame_address(0));
    return base_ > here && static_cast<size_t>(base_ - here) > max_bytes_;
  }

 private:
  const char* const base_;
  const size_t max_bytes_;
};

}  // namespace sluice::jinja
