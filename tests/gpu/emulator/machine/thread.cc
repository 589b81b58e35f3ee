#include "tests/gpu/emulator/machine/thread.h"

#include "absl/strings/str_cat.h"

namespace sluice::cuda::emulator {

PhaseBarrier* Cluster::FindBarrier(int rank, uint32_t address) {
  if (rank < 0 || rank >= static_cast<int>(blocks.size())) return nullptr;
  const auto found = blocks[rank]->barriers.find(address);
  return found == blocks[rank]->barriers.end() ? nullptr : &found->second;
}

void Thread::Fault(const std::string& why) {
  if (why.empty()) return;
  waits = Waits::kEnded;
  if (!block->cluster->fault.empty()) return;
  const Step& failed = program->steps[next == 0 ? 0 : next - 1];
  block->cluster->fault = absl::StrCat("thread ", index, " of block ", block->index, ", line ",
                                       failed.source->line, " (", failed.source->text, "): ", why);
}

void MeetWarp(Thread& thread, const Step& step) {
  Warp& warp = *thread.warp;
  if (warp.arrived != 0 && warp.at != &step) {
    return thread.Fault(
        absl::StrCat("lanes of a warp meet at different instructions: another is at ", "line ",
                     warp.at->source->line));
  }
  warp.at = &step;
  warp.arrived |= 1u << thread.lane;
  thread.waits = Waits::kForWarp;
  thread.at = &step;
  if (warp.arrived != ~0u) return;
  warp.arrived = 0;
  for (Thread* const lane : warp.lanes) lane->waits = Waits::kNot;
  step.together(warp, step);
}

void Arrive(PhaseBarrier& barrier, const VectorClock& clock, int64_t arrivals, int64_t bytes) {
  barrier.pending -= arrivals;
  barrier.bytes += bytes;
  barrier.gathering.Join(clock);
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.arrivals;
  barrier.last = barrier.gathering;
  barrier.gathering.Clear();
}

}  // namespace sluice::cuda::emulator
