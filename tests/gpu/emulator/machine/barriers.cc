// bar, barrier.cluster, mbarrier, and fences.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/machine/program.h"
#include "tests/gpu/emulator/machine/thread.h"

namespace sluice::cuda::emulator {
namespace {

// Another block's shared memory, as an address of a cluster's: its rank + 1 above the place.
constexpr int kRankShift = 24;
constexpr uint32_t kPlaceMask = (1u << kRankShift) - 1;

int RankOf(const Thread& thread, uint32_t address) {
  const uint32_t above = address >> kRankShift;
  return above == 0 ? thread.block->rank : static_cast<int>(above) - 1;
}

void WaitAt(Thread& thread, const Step& step, Waits what) {
  thread.waits = what;
  thread.at = &step;
}

// bar.sync number {, threads};
void WaitForBlock(Thread& thread, const Step& step) {
  thread.barrier = static_cast<int>(thread.Get<uint32_t>(step.r[0]));
  thread.barrier_threads = step.count > 1 ? static_cast<int>(thread.Get<uint32_t>(step.r[1])) : 0;
  WaitAt(thread, step, Waits::kForBlock);
}

// A relaxed arrival passes nothing on.
void ArriveAtCluster(Thread& thread, const Step& step) {
  Cluster& cluster = *thread.block->cluster;
  if (thread.cluster_phase > cluster.phase) {
    return thread.Fault("a second arrival at the cluster's barrier without a wait");
  }
  thread.cluster_phase = cluster.phase + 1;
  if (!step.is_relaxed) {
    cluster.gathering.Join(thread.clock);
    thread.clock.Tick(thread.who);
  }
  if (++cluster.arrived < cluster.num_threads) return;
  cluster.arrived = 0;
  ++cluster.phase;
  cluster.last = cluster.gathering;
}
void WaitForCluster(Thread& thread, const Step& step) { WaitAt(thread, step, Waits::kForCluster); }

// ---- mbarrier ----

void InitBarrier(Thread& thread, const Step& step) {
  Block& block = *thread.block;
  const uint32_t address = thread.SharedAddress(step, 0);
  if (address < kSharedBase || address + 8 > kSharedBase + block.shared->size_bytes() ||
      address % 8 != 0) {
    return thread.Fault(absl::StrCat("no place for a barrier: ", address));
  }
  Cluster& cluster = *block.cluster;
  const bool is_new = block.barriers.count(address) == 0;
  PhaseBarrier& barrier = block.barriers[address];
  if (is_new) barrier.engine = cluster.num_threads + cluster.num_engines++;
  barrier.is_shown = false;
  barrier.phase = 0;
  barrier.bytes = 0;
  barrier.arrivals = barrier.pending = thread.Get<uint32_t>(step.r[1]);
  barrier.gathering = barrier.last = VectorClock(thread.clock.size());
  if (barrier.engine >= thread.clock.size()) thread.Fault("more barriers than are carried out");
}

// Of this block, or of the cluster by an address of mapa; step.count: which operand has the bytes
// expected with it, or 0.
void ArriveAtBarrier(Thread& thread, const Step& step) {
  const uint32_t address = thread.SharedAddress(step, 1);
  const int rank = RankOf(thread, address);
  PhaseBarrier* const barrier = thread.block->cluster->FindBarrier(rank, address & kPlaceMask);
  if (barrier == nullptr) return thread.Fault("an arrival at what is no barrier");
  if (!barrier->is_shown && rank != thread.block->rank) {
    return thread.Fault("the barrier was set up and not shown to other blocks");
  }
  const Block& owner = *thread.block->cluster->blocks[rank];
  if (owner.num_ended == static_cast<int>(owner.threads.size())) {
    return thread.Fault("an arrival at a barrier of a block that has ended");
  }
  const int64_t bytes = step.count != 0 ? thread.Get<uint32_t>(step.r[step.count]) : 0;
  Arrive(*barrier, thread.clock, 1, bytes);
  thread.clock.Tick(thread.who);
}

// mbarrier.try_wait.parity over, [barrier], parity; waits as long as it takes.
void WaitForPhase(Thread& thread, const Step& step) {
  const uint32_t address = thread.SharedAddress(step, 1), parity = thread.Get<uint32_t>(step.r[2]);
  const PhaseBarrier* const barrier =
      thread.block->cluster->FindBarrier(thread.block->rank, address);
  if (barrier == nullptr) return thread.Fault("a wait at what is no barrier");
  if ((barrier->phase & 1) != parity) {
    thread.clock.Join(barrier->last);
    thread.Set<uint64_t>(step.r[0], 1);
    return;
  }
  thread.phase_barrier = address;
  thread.phase_parity = parity;
  --thread.next;  // looks once more when the phase is over
  WaitAt(thread, step, Waits::kForPhase);
}

void MapAddress(Thread& thread, const Step& step) {
  const auto rank = thread.Get<uint32_t>(step.r[2]);
  if (rank >= thread.block->cluster->blocks.size()) {
    return thread.Fault(absl::StrCat("there is no block ", rank, " in the cluster"));
  }
  thread.Set<uint32_t>(step.r[0],
                       (rank + 1) << kRankShift | (thread.Get<uint32_t>(step.r[1]) & kPlaceMask));
}

void ShowBarriers(Thread& thread, const Step&) {
  for (auto& [address, barrier] : thread.block->barriers) barrier.is_shown = true;
}
void ShowToProxy(Thread& thread, const Step&) { ++thread.proxy_fences; }
void FenceGlobal(Thread& thread, const Step&) {
  thread.block->cluster->memory->Fence(static_cast<uint32_t>(thread.block->index));
}

bool PrepareMemoryBarrier(const Instruction& instruction, Step& step) {
  if (instruction.Has("init")) {
    step.num_results = 0;
    step.execute = InitBarrier;
  } else if (instruction.Has("arrive")) {
    step.execute = ArriveAtBarrier;
    step.count = instruction.Has("expect_tx") ? 2 : 0;
  } else if (instruction.Has("try_wait") && instruction.Has("parity")) {
    step.execute = WaitForPhase;
  }
  return step.execute != nullptr;
}

}  // namespace

bool PrepareBarrier(const Instruction& instruction, Step& step) {
  const std::string& name = instruction.parts[0];
  if (name == "mbarrier") return PrepareMemoryBarrier(instruction, step);
  if (name == "mapa") {
    step.execute = MapAddress;
  } else if ((name == "bar" || name == "barrier") && instruction.Has("cluster")) {
    step.execute = instruction.Has("arrive") ? ArriveAtCluster : WaitForCluster;
    step.is_relaxed = instruction.Has("relaxed");
  } else if ((name == "bar" || name == "barrier") && instruction.parts[1] == "sync") {
    step.execute = WaitForBlock;
    step.count = static_cast<int>(instruction.registers.size());
  } else if (name == "fence") {
    step.execute = instruction.Has("mbarrier_init") ? ShowBarriers
                   : instruction.Has("gpu")         ? FenceGlobal
                   : instruction.Has("shared::cta") ? ShowToProxy
                                                    : DoNothing;
  } else if (name == "setmaxnreg") {
    step.execute = DoNothing;
  }
  return step.execute != nullptr;
}

}  // namespace sluice::cuda::emulator
