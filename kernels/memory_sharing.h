// Memory of a device that several backends reach: those of one process, and of processes on one
// host. What lies in it is handed over without passing through the host.
//
// Part of a backend (Device::sharing()), driven by its thread as the backend is. Nothing orders the
// work of two backends: who writes waits for its work before it tells who reads.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

class Buffer;

class MemorySharing {
 public:
  virtual ~MemorySharing() = default;

  // What opens it elsewhere, as long as `memory` lives: bytes for a message, at most
  // kMostHandleBytes.
  struct Shared {
    std::unique_ptr<Buffer> memory;
    std::string handle;
  };
  static constexpr size_t kMostHandleBytes = 1024;

  // Memory as Device::Allocate's, which others may open. It goes once all who have it let go, or
  // have ended, however they end. RESOURCE_EXHAUSTED where the device lacks memory, UNAVAILABLE
  // where it shares none.
  virtual absl::StatusOr<Shared> AllocateShared(size_t size_bytes) = 0;

  // The memory behind a handle, which is a peer's word: its size is the memory's own, or the peer's
  // word as well where the device can't tell.
  //   NOT_FOUND         it can't be reached from here: another host or kind of device, no way
  //                     between the devices, or nobody has it any more
  //   INVALID_ARGUMENT  these bytes are no handle
  virtual absl::StatusOr<std::unique_ptr<Buffer>> OpenShared(absl::string_view handle) = 0;

  // to = from, not overlapping; either may be memory that was opened. Enqueued like any operation.
  virtual void CopyShared(const void* from, void* to, size_t size_bytes) = 0;
};

}  // namespace sluice
