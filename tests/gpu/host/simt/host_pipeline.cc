#include "tests/gpu/host/simt/host_pipeline.h"

#include <cstring>

#include "tests/gpu/host/simt/host_grid.h"

namespace sluice::cuda {
namespace {

constexpr uint32_t kBulkBytes = 16;  // addresses and sizes are multiples
constexpr uint32_t kBarrierBytes = 8;

}  // namespace

void HostBarriers::Init(uint32_t barrier, int arrivals) {
  if (barrier % kBarrierBytes != 0) FailKernel("a barrier at an address that is no multiple of 8");
  if (!by_offset_.try_emplace(barrier, Barrier{arrivals, arrivals}).second) {
    FailKernel("a barrier is set up twice");
  }
}

void HostBarriers::Show() {
  for (auto& [offset, barrier] : by_offset_) barrier.is_shown = true;
}

HostBarriers::Barrier& HostBarriers::At(uint32_t barrier) {
  const auto known = by_offset_.find(barrier);
  if (known == by_offset_.end()) FailKernel("a barrier that was not set up");
  if (!known->second.is_shown) FailKernel("a barrier that was set up and not shown");
  return known->second;
}

void HostBarriers::EndPhaseIfDone(Barrier& barrier) {
  if (barrier.pending > 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.arrivals;
}

void HostBarriers::Arrive(uint32_t barrier, uint32_t bytes) {
  Barrier& at = At(barrier);
  if (at.pending == 0) FailKernel("more threads arrive at a barrier than it was set up for");
  at.bytes += bytes;
  --at.pending;
  EndPhaseIfDone(at);
}

void HostBarriers::Complete(uint32_t barrier, uint32_t bytes) {
  Barrier& at = At(barrier);
  at.bytes -= bytes;
  EndPhaseIfDone(at);
}

bool HostBarriers::IsOver(uint32_t barrier, uint32_t parity) {
  return (At(barrier).phase & 1) != parity;
}

void HostBarriers::EndBlock() {
  for (const auto& [offset, barrier] : by_offset_) {
    if (barrier.bytes != 0) FailKernel("bytes came to a barrier that were not announced there");
  }
  by_offset_.clear();
}

int64_t HostBarriers::BytesAwaited() const {
  for (const auto& [offset, barrier] : by_offset_) {
    if (barrier.bytes > 0) return barrier.bytes;
  }
  return 0;
}

bool BulkCopies::Land() {
  if (under_way_.empty()) return false;
  const size_t index = random_() % under_way_.size();
  const Copy copy = under_way_[index];
  under_way_[index] = under_way_.back();
  under_way_.pop_back();
  std::memcpy(copy.to, copy.from, copy.bytes);
  copy.barriers->Complete(copy.barrier, copy.bytes);
  return true;
}

void BulkCopies::LandMaybe() {
  if (!under_way_.empty() && random_() % 16 == 0) Land();
}

void HostThread::InitBarrier(const void* barrier, int arrivals) {
  block_->barriers().Init(SharedAddress(barrier), arrivals);
}

void HostThread::Arrive(const void* barrier, int rank, uint32_t bytes) {
  HostBlock& block = block_->cluster().block(rank);
  if (block.IsDone()) FailKernel("a thread arrives at a barrier of a block that has ended");
  block.barriers().Arrive(SharedAddress(barrier), bytes);
}

void HostThread::WaitForPhase(const void* barrier, uint32_t parity) {
  awaited_barrier_ = SharedAddress(barrier);
  awaited_parity_ = parity;
  while (!block_->barriers().IsOver(awaited_barrier_, parity)) GiveWay(State::kAtPhase);
}

// `blocks`: bit r is the cluster's block r; the copy goes to the same place of each.
void HostThread::CopyBulk(void* shared, const void* global, uint32_t bytes, const void* barrier,
                          uint32_t blocks) {
  const uint32_t to = SharedAddress(shared);
  if (to % kBulkBytes != 0 || bytes % kBulkBytes != 0 ||
      reinterpret_cast<uintptr_t>(global) % kBulkBytes != 0) {
    FailKernel("a copy in bulk whose addresses or size are no multiples of 16");
  }
  if (bytes == 0 || to + bytes > block_->shape().shared_bytes) {
    FailKernel("a copy in bulk beyond shared memory");
  }
  HostCluster& cluster = block_->cluster();
  for (int rank = 0; rank < cluster.size(); ++rank) {
    if ((blocks >> rank & 1) == 0) continue;
    HostBlock& block = cluster.block(rank);
    if (block.IsDone()) FailKernel("a copy to a block that has ended");
    cluster.copies().Add({block.shared_memory() + to, static_cast<const std::byte*>(global), bytes,
                          &block.barriers(), SharedAddress(barrier)});
  }
}

}  // namespace sluice::cuda
