// shfl, vote, elect, bar.warp.
#include <array>
#include <string>

#include "tests/gpu/emulator/machine/program.h"
#include "tests/gpu/emulator/machine/thread.h"

namespace sluice::cuda::emulator {
namespace {

// Which lane a lane reads; none where that is out of its part of the warp. `clamp` has the parts' mask
// in bits 8 to 12 and the last lane in bits 0 to 4.
constexpr int kNone = -1;
using SourceLane = int (*)(int lane, uint32_t operand, uint32_t clamp);

int ButterflyLane(int lane, uint32_t operand, uint32_t clamp) {
  const int parts = static_cast<int>(clamp >> 8 & 0x1f);
  const int last = (lane & parts) | static_cast<int>(clamp & 0x1f & ~parts);
  const int source = lane ^ static_cast<int>(operand & 0x1f);
  return source <= last ? source : kNone;
}
int LowerLane(int lane, uint32_t operand, uint32_t clamp) {
  const int parts = static_cast<int>(clamp >> 8 & 0x1f);
  const int first = (lane & parts) | static_cast<int>(clamp & 0x1f & ~parts);
  const int source = lane - static_cast<int>(operand & 0x1f);
  return source >= first ? source : kNone;
}
int IndexedLane(int lane, uint32_t operand, uint32_t clamp) {
  const int parts = static_cast<int>(clamp >> 8 & 0x1f);
  const int last = (lane & parts) | static_cast<int>(clamp & 0x1f & ~parts);
  const int source = (lane & parts) | static_cast<int>(operand & 0x1f & ~parts);
  return source <= last ? source : kNone;
}

bool IsWhole(Warp& warp, Register mask) {
  for (Thread* const lane : warp.lanes) {
    if (lane->Get<uint32_t>(mask) == ~0u) continue;
    lane->Fault("only whole warps are carried out, and its mask has not all lanes");
    return false;
  }
  return true;
}

// shfl.sync.mode.b32 d|p, a, b, c, mask: with a predicate there are six operands.
template <SourceLane kSource>
void Shuffle(Warp& warp, const Step& step) {
  const int first = step.count;  // of the operands behind the results
  if (!IsWhole(warp, step.r[first + 3])) return;
  std::array<uint32_t, kWarpThreads> values{};
  for (int i = 0; i < kWarpThreads; ++i) values[i] = warp.lanes[i]->Get<uint32_t>(step.r[first]);
  for (int i = 0; i < kWarpThreads; ++i) {
    Thread& lane = *warp.lanes[i];
    const auto operand = lane.Get<uint32_t>(step.r[first + 1]);
    const int source = kSource(i, operand, lane.Get<uint32_t>(step.r[first + 2]));
    if (first == 2) lane.Set<uint64_t>(step.r[1], source == kNone ? 0 : 1);
    lane.Set<uint32_t>(step.r[0], values[source == kNone ? i : source]);
  }
}

void Ballot(Warp& warp, const Step& step) {
  if (!IsWhole(warp, step.r[2])) return;
  uint32_t votes = 0;
  for (int i = 0; i < kWarpThreads; ++i) {
    votes |= (warp.lanes[i]->registers[step.r[1]] != 0 ? 1u : 0u) << i;
  }
  for (Thread* const lane : warp.lanes) lane->Set<uint32_t>(step.r[0], votes);
}

// elect.sync lane|is_elected, mask. Whichever a GPU takes: here the last, which is not the first.
void Elect(Warp& warp, const Step& step) {
  if (!IsWhole(warp, step.r[2])) return;
  for (Thread* const lane : warp.lanes) {
    lane->Set<uint32_t>(step.r[0], kWarpThreads - 1);
    lane->Set<uint64_t>(step.r[1], lane->lane == kWarpThreads - 1 ? 1 : 0);
  }
}

// The one operation of a warp that orders what its lanes do with memory.
void Synchronize(Warp& warp, const Step& step) {
  if (!IsWhole(warp, step.r[0])) return;
  VectorClock joined(0);
  for (const Thread* const lane : warp.lanes) joined.Join(lane->clock);
  for (Thread* const lane : warp.lanes) {
    lane->clock = joined;
    lane->clock.Tick(lane->who);
  }
}

ExecuteTogether ShuffleOf(const Instruction& instruction) {
  if (instruction.Has("bfly")) return Shuffle<ButterflyLane>;
  if (instruction.Has("up")) return Shuffle<LowerLane>;
  if (instruction.Has("idx")) return Shuffle<IndexedLane>;
  return nullptr;
}

}  // namespace

bool PrepareWarpOperation(const Instruction& instruction, Step& step) {
  const std::string& name = instruction.parts[0];
  step.execute = MeetWarp;
  if (name == "shfl" && instruction.parts.back() == "b32") {
    step.together = ShuffleOf(instruction);
    step.count = static_cast<int>(instruction.registers.size()) - 4;
    step.num_results = step.count;
  } else if (name == "vote" && instruction.Has("ballot")) {
    step.together = Ballot;
  } else if (name == "elect") {
    step.together = Elect;
    step.num_results = 2;
  } else if (name == "bar" && instruction.Has("warp")) {
    step.together = Synchronize;
  }
  return step.together != nullptr;
}

}  // namespace sluice::cuda::emulator
