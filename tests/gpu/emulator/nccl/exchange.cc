#include "tests/gpu/emulator/nccl/exchange.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

namespace sluice::cuda::emulator {
namespace {

// The driver's function, which the program has.
template <class Call>
Call* Driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
  return reinterpret_cast<Call*>(found);
}

CUdeviceptr AddressOf(std::atomic<uint32_t>& word) { return reinterpret_cast<CUdeviceptr>(&word); }

}  // namespace

std::unique_ptr<Exchange> Exchange::Join(const std::string& name, int rank, int size) {
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (ftruncate(file, sizeof(GroupMemory)) == 0) {
    memory = mmap(nullptr, sizeof(GroupMemory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  if (memory == MAP_FAILED) return nullptr;
  return std::unique_ptr<Exchange>(
      new Exchange(static_cast<GroupMemory*>(memory), name, rank, size));
}

Exchange::Exchange(GroupMemory* memory, std::string name, int rank, int size)
    : memory_(memory), name_(std::move(name)), rank_(rank), size_(size) {
  cudaHostRegister(memory_, sizeof(GroupMemory), cudaHostRegisterMapped);
  memory_->has_joined[rank_] = 1;
}

Exchange::~Exchange() {
  if (!has_met_) shm_unlink(name_.c_str());
  cudaHostUnregister(memory_);
  munmap(memory_, sizeof(GroupMemory));
}

bool Exchange::HaveAllJoined() {
  if (has_met_) return true;
  for (int rank = 0; rank < size_; ++rank) {
    if (memory_->has_joined[rank] == 0) return false;
  }
  has_met_ = true;
  if (rank_ == 0) shm_unlink(name_.c_str());
  return true;
}

bool Exchange::Await(cudaStream_t stream, std::atomic<uint32_t>& word, uint32_t value) {
  static auto* const wait = Driver<decltype(cuStreamWaitValue32_v2)>("cuStreamWaitValue32");
  return wait(stream, AddressOf(word), value, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS;
}

bool Exchange::Set(cudaStream_t stream, std::atomic<uint32_t>& word, uint32_t value) {
  static auto* const write = Driver<decltype(cuStreamWriteValue32_v2)>("cuStreamWriteValue32");
  return write(stream, AddressOf(word), value, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS;
}

// A word is put back by the rank that waits for it, before what allows the other to change it
// again: the same work can be enqueued again and again.
bool Exchange::Enqueue(cudaStream_t stream, const void* sent, size_t bytes, size_t offset,
                       size_t part, void* received) {
  const auto with_others = [&](auto&& enqueue) {
    for (int other = 0; other < size_; ++other) {
      if (other != rank_ && !enqueue(other)) return false;
    }
    return true;
  };
  const auto copy = [&](void* to, const void* from, size_t count) {
    return cudaMemcpyAsync(to, from, count, cudaMemcpyDefault, stream) == cudaSuccess;
  };
  GroupMemory& memory = *memory_;
  bool done = with_others([&](int other) {
    return Await(stream, memory.is_unread[rank_][other], 0) &&
           Set(stream, memory.is_unread[rank_][other], 1);
  });
  done = done && copy(memory.slots[rank_], sent, bytes);
  done =
      done && with_others([&](int other) { return Set(stream, memory.is_full[other][rank_], 1); });
  done = done && with_others([&](int other) {
           return Await(stream, memory.is_full[rank_][other], 1) &&
                  Set(stream, memory.is_full[rank_][other], 0);
         });
  for (int rank = 0; rank < size_ && done; ++rank) {
    done = copy(static_cast<std::byte*>(received) + rank * part, memory.slots[rank] + offset, part);
  }
  return done &&
         with_others([&](int other) { return Set(stream, memory.is_unread[other][rank_], 0); });
}

void Exchange::Release() {
  for (int other = 0; other < size_; ++other) {
    memory_->is_unread[rank_][other] = 0;
    memory_->is_full[rank_][other] = 1;
  }
}

void Exchange::Compare(uint64_t call) {
  const uint64_t number = memory_->num_calls[rank_];
  memory_->calls[rank_][number % kKeptCalls] = call;
  memory_->num_calls[rank_] = number + 1;
  for (int other = 0; other < size_; ++other) {
    const uint64_t made = memory_->num_calls[other];
    // Those that have not come so far compare themselves; of those far ahead it is gone.
    if (made <= number || made > number + kKeptCalls / 2) continue;
    const uint64_t others = memory_->calls[other][number % kKeptCalls];
    if (others != 0 && others != call) memory_->differ = 1;
  }
}

}  // namespace sluice::cuda::emulator
