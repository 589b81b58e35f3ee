// Memory that can be touched while its owner works, and at no other time. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kernels/backend.h"

namespace sluice {

class GuardedMemory : public std::enable_shared_from_this<GuardedMemory> {
 public:
  static std::shared_ptr<GuardedMemory> Create();
  ~GuardedMemory();

  // A buffer of zeroes on pages of its own, and never at an address that another one had: once it
  // is gone, nothing can be touched there any more. RESOURCE_EXHAUSTED where no room is left.
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size_bytes);

  // The same, but its pages are those of the file `fd`, which others map as well; contents are the
  // file's. UNAVAILABLE where it can't be mapped.
  absl::StatusOr<std::unique_ptr<Buffer>> Map(int fd, size_t size_bytes);

  // While one exists, all buffers can be touched.
  class Opened {
   public:
    explicit Opened(GuardedMemory& memory) : memory_(memory) { memory_.Protect(false); }
    ~Opened() { memory_.Protect(true); }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

   private:
    GuardedMemory& memory_;
  };

 private:
  class GuardedBuffer;

  explicit GuardedMemory(std::byte* area) : area_(area) {}

  // Of whole pages, unmapped.
  absl::StatusOr<std::byte*> TakeAddresses(size_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Free(std::byte* data);
  void Protect(bool protect);

  std::byte* const area_;
  absl::Mutex mutex_;
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::byte*, size_t> buffers_ ABSL_GUARDED_BY(mutex_);  // whole pages, by address
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice
