#include "kernels/cuda/emulator/machine/launch.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/emulator/machine/thread.h"

namespace sluice::cuda::emulator {
namespace {

// Barriers of a cluster that copies complete on, at most.
constexpr size_t kEngines = 64;

absl::Status CheckShape(const LaunchRequest& request) {
  const Function& function = request.program->function;
  if (request.threads > function.max_threads || request.threads % kWarpThreads != 0) {
    return absl::InternalError(absl::StrCat(function.name, ": blocks of ", request.threads,
                                            " threads; accepted: whole warps, at most ",
                                            function.max_threads));
  }
  if (request.blocks % request.cluster != 0) {
    return absl::InternalError(absl::StrCat(function.name, ": ", request.blocks,
                                            " blocks in clusters of ", request.cluster));
  }
  if (request.parameters.size() != function.parameter_bytes) {
    return absl::InternalError(absl::StrCat(function.name, ": ", request.parameters.size(),
                                            " bytes of parameters, of ", function.parameter_bytes));
  }
  return absl::OkStatus();
}

void SetSpecial(Thread& thread, const char* name, uint64_t value) {
  const auto& special = thread.program->function.special;
  if (const auto found = special.find(name); found != special.end()) {
    thread.registers[found->second] = value;
  }
}

using Stack = std::vector<uint64_t>;

// Its registers lie in `stack`, which another thread may have had.
std::unique_ptr<Thread> NewThread(const LaunchRequest& request, Block& block, int index,
                                  Stack stack) {
  auto thread = std::make_unique<Thread>();
  thread->block = &block;
  thread->index = index;
  thread->lane = index % kWarpThreads;
  thread->who = static_cast<uint32_t>(block.rank * request.threads + index);
  thread->program = request.program;
  thread->stack = std::move(stack);
  thread->stack.resize(request.program->function.num_registers);
  std::copy(request.program->preset.begin(), request.program->preset.end(), thread->stack.begin());
  thread->registers = thread->stack.data();
  thread->clock = VectorClock(static_cast<size_t>(request.cluster) * request.threads + kEngines);
  thread->clock.Tick(thread->who);
  if (request.program->multiplies_asynchronously) thread->written_at.resize(thread->stack.size());
  SetSpecial(*thread, "%tid.x", index);
  SetSpecial(*thread, "%ntid.x", request.threads);
  SetSpecial(*thread, "%ctaid.x", block.index);
  SetSpecial(*thread, "%nctaid.x", request.blocks);
  SetSpecial(*thread, "%cluster_ctarank", block.rank);
  SetSpecial(*thread, "%laneid", thread->lane);
  return thread;
}

// What a thread needs of those before it: memory is not to be had anew for each.
class Stacks {
 public:
  Stack Take() {
    if (free_.empty()) return {};
    Stack stack = std::move(free_.back());
    free_.pop_back();
    return stack;
  }
  void GiveBack(Stack stack) { free_.push_back(std::move(stack)); }

 private:
  std::vector<Stack> free_;
};

std::unique_ptr<Block> NewBlock(const LaunchRequest& request, Cluster& cluster, int64_t index,
                                Stacks& stacks) {
  auto block = std::make_unique<Block>();
  block->cluster = &cluster;
  block->index = index;
  block->rank = static_cast<int>(index % request.cluster);
  block->shared = std::make_unique<SharedMemory>(request.shared_bytes);
  for (int i = 0; i < request.threads; ++i) {
    if (i % kWarpThreads == 0) {
      block->warps.push_back(std::make_unique<Warp>());
      block->warps.back()->block = block.get();
      block->warps.back()->index = i / kWarpThreads;
      if (request.program->multiplies_asynchronously) {
        block->warps.back()->held.resize(request.program->function.num_registers);
      }
    }
    block->threads.push_back(NewThread(request, *block, i, stacks.Take()));
    Thread& thread = *block->threads.back();
    thread.warp = block->warps.back().get();
    thread.warp->lanes[thread.lane] = &thread;
  }
  return block;
}

// What asynchronous multiplies that are under way have been given must be left alone.
void CheckHeld(Thread& thread, const Step& step) {
  if (step.source->parts[0] == "wgmma") return;
  for (const Register used : step.source->registers) {
    if (used != kSink && thread.warp->held[used] != 0) {
      thread.Fault("a register that a multiply under way has is used");
    }
  }
}

void RunOn(Thread& thread) {
  while (thread.waits == Waits::kNot) {
    const Step& step = thread.program->steps[thread.next++];
    if (step.has_guard && (thread.registers[step.guard] != 0) != step.guard_wanted) continue;
    step.execute(thread, step);
  }
}

void RunWatchedOn(Thread& thread) {
  while (thread.waits == Waits::kNot) {
    const Step& step = thread.program->steps[thread.next++];
    if (step.has_guard && (thread.registers[step.guard] != 0) != step.guard_wanted) continue;
    CheckHeld(thread, step);
    ++thread.step;
    for (int i = 0; i < step.num_results; ++i) thread.written_at[step.r[i]] = thread.step;
    step.execute(thread, step);
  }
}

class ClusterRun {
 public:
  ClusterRun(const LaunchRequest& request, GlobalMemory& memory, int64_t first_block,
             Stacks& stacks)
      : watched_(request.program->multiplies_asynchronously), stacks_(stacks) {
    cluster_.memory = &memory;
    cluster_.parameters = &request.parameters;
    cluster_.num_threads = static_cast<size_t>(request.cluster) * request.threads;
    const VectorClock none(cluster_.num_threads + kEngines);
    cluster_.gathering = cluster_.last = none;
    for (int i = 0; i < request.cluster; ++i) {
      cluster_.blocks.push_back(NewBlock(request, cluster_, first_block + i, stacks));
    }
    for (const auto& block : cluster_.blocks) {
      for (const auto& thread : block->threads) threads_.push_back(thread.get());
    }
    // One order in half of the clusters, the other in the rest.
    if (first_block / request.cluster % 2 != 0) std::reverse(threads_.begin(), threads_.end());
  }

  ~ClusterRun() {
    for (Thread* const thread : threads_) stacks_.GiveBack(std::move(thread->stack));
  }

  // Whether each block has waited for the launches before it, in one of its threads at least.
  bool AllBlocksWaited() const {
    return std::all_of(cluster_.blocks.begin(), cluster_.blocks.end(), [](const auto& block) {
      return std::any_of(block->threads.begin(), block->threads.end(),
                         [](const auto& thread) { return thread->has_waited_for_grids; });
    });
  }

  std::string Run() {
    for (uint64_t round = 0;; ++round) {
      bool went_on = false;
      for (Thread* const thread : threads_) {
        Release(*thread);
        if (thread->waits != Waits::kNot) continue;
        went_on = true;
        watched_ ? RunWatchedOn(*thread) : RunOn(*thread);
        if (!cluster_.fault.empty()) return cluster_.fault;
      }
      // Copies arrive late, and not in the order in which they were asked for.
      if (!cluster_.copies.empty() && (!went_on || round % 3 == 2)) {
        Deliver(round % cluster_.copies.size());
        went_on = true;
      }
      if (!cluster_.fault.empty()) return cluster_.fault;
      if (!went_on) return AllEnded() ? "" : WhoWaits();
    }
  }

 private:
  void Release(Thread& thread);
  void ReleaseBlock(Thread& thread);
  void Deliver(size_t which);
  bool AllEnded() const {
    return std::all_of(threads_.begin(), threads_.end(),
                       [](const Thread* thread) { return thread->waits == Waits::kEnded; });
  }
  std::string WhoWaits() const;

  const bool watched_;
  Stacks& stacks_;
  Cluster cluster_;
  std::vector<Thread*> threads_;
};

void ClusterRun::Release(Thread& thread) {
  if (thread.waits == Waits::kForBlock) return ReleaseBlock(thread);
  if (thread.waits == Waits::kForCluster && cluster_.phase >= thread.cluster_phase) {
    thread.clock.Join(cluster_.last);
    thread.waits = Waits::kNot;
  } else if (thread.waits == Waits::kForPhase) {
    thread.waits = Waits::kNot;  // it looks again
    const PhaseBarrier* barrier = cluster_.FindBarrier(thread.block->rank, thread.phase_barrier);
    if (barrier != nullptr && (barrier->phase & 1) == thread.phase_parity) {
      thread.waits = Waits::kForPhase;
    }
  }
}

// The last to arrive lets all go.
void ClusterRun::ReleaseBlock(Thread& thread) {
  std::vector<Thread*> waiting;
  for (const auto& other : thread.block->threads) {
    if (other->waits == Waits::kForBlock && other->barrier == thread.barrier) {
      waiting.push_back(other.get());
    }
  }
  const size_t wanted = thread.barrier_threads != 0
                            ? static_cast<size_t>(thread.barrier_threads)
                            : thread.block->threads.size() - thread.block->num_ended;
  if (waiting.size() < wanted) return;
  VectorClock joined(0);
  for (const Thread* const other : waiting) joined.Join(other->clock);
  for (Thread* const other : waiting) {
    if (other->barrier_threads != thread.barrier_threads) {
      return thread.Fault("threads wait at one barrier for different numbers of threads");
    }
    other->clock = joined;
    other->clock.Tick(other->who);
    other->waits = Waits::kNot;
  }
}

void ClusterRun::Deliver(size_t which) {
  BulkCopy copy = std::move(cluster_.copies[which]);
  cluster_.copies.erase(cluster_.copies.begin() + static_cast<std::ptrdiff_t>(which));
  Block& block = *cluster_.blocks[copy.rank];
  PhaseBarrier* const barrier = cluster_.FindBarrier(copy.rank, copy.barrier);
  std::string wrong =
      cluster_.memory->Note(GlobalMemory::Access::kRead, copy.from, copy.bytes, 16, copy.accessor);
  if (block.num_ended == static_cast<int>(block.threads.size())) {
    wrong = "a copy arrives at a block that has ended";
  } else if (barrier == nullptr) {
    wrong = "a copy completes on what is no barrier";
  } else if (!barrier->is_shown) {
    wrong = "a copy completes on a barrier that was set up and not shown";
  }
  if (barrier != nullptr && wrong.empty()) {
    const auto engine = static_cast<uint32_t>(barrier->engine);
    copy.clock.Tick(engine);
    wrong = block.shared->Write(copy.to, copy.bytes, 16, {engine, &copy.clock, nullptr},
                                reinterpret_cast<const void*>(copy.from));
    if (wrong.empty()) return Arrive(*barrier, copy.clock, 0, -static_cast<int64_t>(copy.bytes));
  }
  cluster_.fault = absl::StrCat("block ", block.index, ", a copy in bulk: ", wrong);
}

std::string ClusterRun::WhoWaits() const {
  for (const Thread* const thread : threads_) {
    if (thread->waits == Waits::kEnded) continue;
    return absl::StrCat("all threads wait: thread ", thread->index, " of block ",
                        thread->block->index, " at line ", thread->at->source->line, ": ",
                        thread->at->source->text);
  }
  return "";
}

}  // namespace

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

absl::Status CarryOut(const LaunchRequest& request, const LaunchOrder& order, GlobalMemory& memory,
                      bool& all_waited) {
  all_waited = true;
  if (absl::Status shape = CheckShape(request); !shape.ok()) return shape;
  memory.BeginLaunch(order);
  Stacks stacks;
  for (int64_t block = 0; block < request.blocks; block += request.cluster) {
    ClusterRun cluster(request, memory, block, stacks);
    const std::string fault = cluster.Run();
    all_waited = all_waited && cluster.AllBlocksWaited();
    if (fault.empty()) continue;
    return absl::InternalError(absl::StrCat(request.program->function.name, ": ", fault));
  }
  return absl::OkStatus();
}

}  // namespace sluice::cuda::emulator
