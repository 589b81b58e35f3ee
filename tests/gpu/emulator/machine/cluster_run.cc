#include "tests/gpu/emulator/machine/cluster_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice::cuda::emulator {
namespace {

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

}  // namespace

ClusterRun::ClusterRun(const LaunchRequest& request, GlobalMemory& memory, int64_t first_block,
                       Stacks& stacks)
    : watched_(request.program->multiplies_asynchronously), stacks_(stacks) {
  cluster_.memory = &memory;
  cluster_.parameters = &request.parameters;
  cluster_.traffic = request.traffic;
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

ClusterRun::~ClusterRun() {
  for (Thread* const thread : threads_) stacks_.GiveBack(std::move(thread->stack));
}

std::string ClusterRun::Run() {
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

bool ClusterRun::AllBlocksWaited() const {
  return std::all_of(cluster_.blocks.begin(), cluster_.blocks.end(), [](const auto& block) {
    return std::any_of(block->threads.begin(), block->threads.end(),
                       [](const auto& thread) { return thread->has_waited_for_grids; });
  });
}

bool ClusterRun::AnyThreadReleasedEarly() const {
  return std::any_of(threads_.begin(), threads_.end(),
                     [](const Thread* thread) { return thread->has_released_early; });
}

bool ClusterRun::AllEnded() const {
  return std::all_of(threads_.begin(), threads_.end(),
                     [](const Thread* thread) { return thread->waits == Waits::kEnded; });
}

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

}  // namespace sluice::cuda::emulator
