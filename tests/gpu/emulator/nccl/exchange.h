// What ranks of a group share, and how they exchange through it: host memory with a slot for each
// rank and words that streams wait for. The order of waits and copies is that of
// kernels/gpu_ranks/peer_exchange, of which nothing is used: the library has only CUDA's functions
// in common with the program that opens it.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace sluice::cuda::emulator {

inline constexpr int kMostRanks = 8;
inline constexpr size_t kSlotBytes = size_t{64}
                                     << 20;  // of a rank; none of it is there until it is used
inline constexpr uint64_t kKeptCalls = 256;

// All bytes are 0 at first.
struct GroupMemory {
  std::atomic<uint32_t> has_joined[kMostRanks];
  // By the rank that waits and the one it waits for: whether the other's slot is full, and whether
  // the other is still to read this one's.
  std::atomic<uint32_t> is_full[kMostRanks][kMostRanks];
  std::atomic<uint32_t> is_unread[kMostRanks][kMostRanks];
  // Of each rank: its latest calls, and how many there were.
  std::atomic<uint64_t> calls[kMostRanks][kKeptCalls];
  std::atomic<uint64_t> num_calls[kMostRanks];
  std::atomic<uint32_t> differ;  // ranks that should have made the same call did not
  alignas(4096) std::byte slots[kMostRanks][kSlotBytes];
};

class Exchange {
 public:
  // The group called `name`, which is unlinked once all have joined. Null: no memory to share.
  static std::unique_ptr<Exchange> Join(const std::string& name, int rank, int size);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool HaveAllJoined();
  bool Differ() const { return memory_->differ != 0; }

  // Enqueues: `bytes` of `sent` into this rank's slot, and `part` bytes of every rank's, from
  // `offset` on, one after another to `received`.
  bool Enqueue(cudaStream_t stream, const void* sent, size_t bytes, size_t offset, size_t part,
               void* received);
  // Lets streams go on that wait for another rank, with any bytes.
  void Release();
  // Compares a call of this rank, as a number that is not 0, with the others' of the same place.
  void Compare(uint64_t call);

 private:
  Exchange(GroupMemory* memory, std::string name, int rank, int size);
  static bool Await(cudaStream_t stream, std::atomic<uint32_t>& word, uint32_t value);
  static bool Set(cudaStream_t stream, std::atomic<uint32_t>& word, uint32_t value);

  GroupMemory* const memory_;
  const std::string name_;
  const int rank_, size_;
  bool has_met_ = false;
};

}  // namespace sluice::cuda::emulator
