// What processes on one GPU see of each other: slots in device memory, mapped by CUDA IPC, and flags in shared memory of the host that streams write to and wait for.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/communicator.h"
#include "kernels/communicator/sealed_memory.h"
#include "kernels/cuda/gpu.h"
#include "kernels/gpu_ranks/introduction.h"
#include "kernels/gpu_ranks/peer_exchange.h"

namespace sluice::cuda {

// Device memory that other processes on this host may read; the same for all epochs, since a handle
// to it is given away.
class PeerSlot {
 public:
  // RESOURCE_EXHAUSTED where the device lacks memory, UNAVAILABLE where it can't be shared.
  static absl::StatusOr<std::unique_ptr<PeerSlot>> Create(size_t bytes, Gpu& gpu);
  PeerSlot(const PeerSlot&) = delete;
  PeerSlot& operator=(const PeerSlot&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  size_t size() const { return bytes_; }
  // Says how others open it, and its size.
  void Describe(GpuIntroduction& introduction) const;

 private:
  PeerSlot(std::shared_ptr<void> memory, size_t bytes, const GpuMemoryHandle& handle)
      : memory_(std::move(memory)), bytes_(bytes), handle_(handle) {}

  const std::shared_ptr<void> memory_;
  const size_t bytes_;
  const GpuMemoryHandle handle_;
};

// The others' slots as this process sees them, for an epoch.
class PeerMappings {
 public:
  // REQUIRES: each rank is a process of its own, which can't open what is its own.
  static absl::StatusOr<std::unique_ptr<PeerMappings>> Open(absl::Span<const GpuIntroduction> ranks,
                                                            int own_rank, const PeerSlot& own,
                                                            Gpu& gpu);
  ~PeerMappings();

  const std::vector<std::byte*>& slots() const { return slots_; }

 private:
  explicit PeerMappings(Gpu& gpu) : gpu_(gpu) {}

  Gpu& gpu_;
  std::vector<std::byte*> slots_;  // by rank
  std::vector<void*> opened_;
};

// The flags of all ranks of an epoch, in shared memory without a name.
class PeerFlagMemory {
 public:
  // Meets the other ranks: rank 0 makes it and hands it to them
  // (kernels/communicator/file_handover.h), and all have it when this returns. Errors are those of
  // the system or the communicator, on every rank.
  static absl::StatusOr<std::unique_ptr<PeerFlagMemory>> Meet(Communicator& communicator,
                                                              Deadline deadline, Gpu& gpu);
  ~PeerFlagMemory();

  std::vector<PeerFlags*> flags() const;
  // Where the GPU sees a flag.
  uint64_t AddressOf(const PeerFlag& flag) const;

 private:
  PeerFlagMemory(void* memory, int num_ranks) : memory_(memory), num_ranks_(num_ranks) {}

  static absl::StatusOr<std::unique_ptr<PeerFlagMemory>> Map(const SealedMemory& file,
                                                             int num_ranks);
  absl::Status Register(Gpu& gpu);
  size_t size_bytes() const;

  void* const memory_;
  const int num_ranks_;
  bool is_registered_ = false;
  std::byte* on_gpu_ = nullptr;  // once it is
};

}  // namespace sluice::cuda
