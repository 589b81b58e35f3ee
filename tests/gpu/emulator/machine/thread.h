// Threads, warps, blocks and clusters while a kernel runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/gpu/emulator/machine/clocks.h"
#include "tests/gpu/emulator/machine/global_memory.h"
#include "tests/gpu/emulator/machine/program.h"
#include "tests/gpu/emulator/machine/shared_memory.h"
#include "tests/gpu/emulator/machine/traffic.h"

namespace sluice::cuda::emulator {

constexpr int kWarpThreads = 32;
constexpr int kWarpgroupWarps = 4;

struct Block;
struct Cluster;

enum class Waits { kNot, kForWarp, kForBlock, kForCluster, kForPhase, kEnded };

// 16 bytes or fewer on their way to shared memory by cp.async.
struct SmallCopy {
  uint64_t to = 0;
  int bytes = 0;
  std::array<std::byte, 16> data{};
};

struct Frame {
  const Program* program = nullptr;
  uint32_t next = 0;
  size_t registers = 0;  // where they begin
};

struct Thread {
  Block* block = nullptr;
  Warp* warp = nullptr;
  int index = 0;     // in the block
  int lane = 0;      // in the warp
  uint32_t who = 0;  // in the cluster
  Waits waits = Waits::kNot;
  const Step* at = nullptr;  // the step that it waits in

  // The function it is in.
  const Program* program = nullptr;
  uint32_t next = 0;  // step
  uint64_t* registers = nullptr;
  std::vector<Frame> callers;
  std::vector<uint64_t> stack;  // registers of all functions that it is in

  VectorClock clock;
  uint32_t proxy_fences = 0;
  bool has_waited_for_grids = false;
  bool has_released_early = false;  // launches behind, before it waited for those before
  uint32_t cluster_phase = 0;       // arrivals at the cluster's barrier
  int barrier = 0;                  // kForBlock: its number
  int barrier_threads = 0;          // 0: all
  uint32_t phase_barrier = 0;       // kForPhase: where it is, and
  uint32_t phase_parity = 0;        // which phase must be over

  std::vector<SmallCopy> copies;  // not yet in a group
  std::deque<std::vector<SmallCopy>> copy_groups;

  // Of programs that multiply asynchronously: when each register was last written, in steps, and
  // when the last fence of multiplies was.
  std::vector<uint64_t> written_at;
  uint64_t step = 1;
  uint64_t multiply_fence = 0;

  Accessor accessor() const { return {who, &clock, &proxy_fences}; }
  GlobalMemory::Accessor global_accessor() const;

  template <class T>
  T Get(Register from) const {
    T value;
    std::memcpy(&value, &registers[from], sizeof(T));
    return value;
  }
  template <class T>
  void Set(Register to, T value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    registers[to] = bits;
  }
  uint64_t Address(const Step& step_, int operand) const {
    return registers[step_.r[operand]] + static_cast<uint64_t>(step_.offset[operand]);
  }
  uint32_t SharedAddress(const Step& step_, int operand) const {
    return static_cast<uint32_t>(Address(step_, operand));
  }
  // Ends the launch; the first failure is kept. Nothing where `why` is empty.
  void Fault(const std::string& why);
};

// A multiply of a warpgroup as one of its warps sees it: 16 of the 64 rows.
struct AsyncMultiply {
  const Step* step = nullptr;
  std::array<std::array<uint32_t, 4>, kWarpThreads> a{};
  uint64_t b = 0;  // descriptor
  bool adds = false;
  std::vector<std::byte> b_bytes;  // as they were when it began
};

struct Warp {
  Block* block = nullptr;
  int index = 0;  // in the block
  std::array<Thread*, kWarpThreads> lanes{};
  uint32_t arrived = 0;
  const Step* at = nullptr;

  std::vector<AsyncMultiply> multiplies;  // not yet in a group
  std::deque<std::vector<AsyncMultiply>> multiply_groups;
  // How many multiplies that are under way write or read a register.
  std::vector<uint16_t> held;
  std::vector<const Step*> history;  // of its multiplies
};

struct PhaseBarrier {
  uint32_t phase = 0;
  int64_t arrivals = 0;  // of a phase
  int64_t pending = 0;
  int64_t bytes = 0;  // expected and not here yet; below 0 where they come before they are expected
  VectorClock gathering;
  VectorClock last;       // of the phase that is over
  size_t engine = 0;      // whose copies complete on it, in clocks
  bool is_shown = false;  // to copies and to other blocks
};

struct Block {
  Cluster* cluster = nullptr;
  int64_t index = 0;  // in the grid
  int rank = 0;       // in the cluster
  std::unique_ptr<SharedMemory> shared;
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<std::unique_ptr<Warp>> warps;
  std::map<uint32_t, PhaseBarrier> barriers;
  int num_ended = 0;
};

// Bytes on their way to one block's shared memory by cp.async.bulk.
struct BulkCopy {
  uint64_t from = 0;
  uint32_t bytes = 0;
  int rank = 0;
  uint32_t to = 0;
  uint32_t barrier = 0;
  VectorClock clock;  // of whoever asked for it, then
  GlobalMemory::Accessor accessor;
};

struct Cluster {
  GlobalMemory* memory = nullptr;
  const std::vector<std::byte>* parameters = nullptr;
  Traffic* traffic = nullptr;  // null: nobody counts
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<BulkCopy> copies;
  uint32_t phase = 0;
  size_t arrived = 0;
  VectorClock gathering;
  VectorClock last;
  size_t num_threads = 0;
  size_t num_engines = 0;
  std::string fault;

  // REQUIRES: the address is of its barrier.
  PhaseBarrier* FindBarrier(int rank, uint32_t address);
};

inline GlobalMemory::Accessor Thread::global_accessor() const {
  return {static_cast<uint32_t>(block->index), has_waited_for_grids};
}

inline void NoteTraffic(const Thread& thread, const Step& step, Space space, uint64_t address,
                        size_t bytes) {
  Traffic* const traffic = thread.block->cluster->traffic;
  if (traffic != nullptr) traffic->Note(thread, step, space, address, static_cast<uint32_t>(bytes));
}

// What says nothing here.
inline void DoNothing(Thread&, const Step&) {}
// Has the thread wait until its warp is at this step, and then all of it do what the step says.
void MeetWarp(Thread& thread, const Step& step);
// An arrival of one, or of bytes, at a barrier of the cluster; what came before it is released.
void Arrive(PhaseBarrier& barrier, const VectorClock& clock, int64_t arrivals, int64_t bytes);

}  // namespace sluice::cuda::emulator
