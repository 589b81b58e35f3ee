#include "tests/gpu/host/simt/host_grid.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "kernels/check.h"

namespace sluice::cuda {
namespace {

constexpr size_t kSharedAlignment = 1024;

// Threads of blocks past, for the next ones: their stacks cost a system call each.
std::vector<std::unique_ptr<HostThread>>& SpareThreads() {
  thread_local std::vector<std::unique_ptr<HostThread>> threads;
  return threads;
}

bool IsAligned(const void* address, int bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

}  // namespace

thread_local HostThread* HostThread::current_ = nullptr;

void FailKernel(const char* what) {
  std::fprintf(stderr, "kernel on the host: %s\n", what);
  std::abort();
}

HostBlock::HostBlock(LaunchShape shape, const std::function<void()>& kernel, HostCluster& cluster)
    : shape_(shape), kernel_(kernel), cluster_(cluster), warps_(shape.threads / kWarpSize) {
  SLUICE_CHECK(shape.threads > 0 && shape.threads % kWarpSize == 0 && shape.threads <= 1024);
  if (shape.shared_bytes > 0) {
    // A whole number of alignments, as aligned_alloc wants it.
    const size_t bytes =
        (shape.shared_bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
    shared_memory_ = static_cast<std::byte*>(std::aligned_alloc(kSharedAlignment, bytes));
    SLUICE_CHECK(shared_memory_ != nullptr);
  }
  auto& spare = SpareThreads();
  for (int i = 0; i < shape.threads; ++i) {
    std::unique_ptr<HostThread> thread;
    if (spare.empty()) {
      thread = std::make_unique<HostThread>();
    } else {
      thread = std::move(spare.back());
      spare.pop_back();
    }
    thread->block_ = this;
    thread->index_ = i;
    threads_.push_back(thread.release());
  }
}

HostBlock::~HostBlock() {
  for (HostThread* const thread : threads_) SpareThreads().emplace_back(thread);
  std::free(shared_memory_);
}

void HostBlock::Begin(int64_t index) {
  index_ = index;
  num_done_ = 0;
  if (shared_memory_ != nullptr) std::memset(shared_memory_, 0xff, shape_.shared_bytes);
  for (HostThread* const thread : threads_) {
    thread->context_ = thread->stack_.Begin(&HostThread::RunThread, thread);
    thread->state_ = HostThread::State::kReady;
    thread->copies_.clear();
    thread->committed_ = 0;
    thread->has_unshown_ = false;
    thread->has_waited_for_kernels_ = false;
    thread->multiplies_.clear();
    thread->committed_multiplies_ = 0;
  }
}

bool HostBlock::Pass(Order order) {
  using State = HostThread::State;
  bool has_moved = false;
  num_done_ = num_at_barrier_ = num_at_part_ = num_at_cluster_ = num_at_phase_ = 0;
  for (int i = 0; i < shape_.threads; ++i) {
    HostThread& thread = *threads_[order == Order::kAscending ? i : shape_.threads - 1 - i];
    if (thread.state_ == State::kReady ||
        (thread.state_ == State::kAtPhase &&
         barriers_.IsOver(thread.awaited_barrier_, thread.awaited_parity_))) {
      has_moved = true;
      HostThread::current_ = &thread;
      SwitchFibre(scheduler_, thread.context_);
      cluster_.copies().LandMaybe();
    }
    num_done_ += thread.state_ == State::kDone;
    num_at_barrier_ += thread.state_ == State::kAtBarrier;
    num_at_part_ += thread.state_ == State::kAtPart;
    num_at_cluster_ += thread.state_ == State::kAtCluster;
    num_at_phase_ += thread.state_ == State::kAtPhase;
  }
  return OpenBarriers() || has_moved;
}

bool HostBlock::OpenBarriers() {
  using State = HostThread::State;
  const auto open = [&](State state) {
    for (HostThread* const thread : threads_) {
      if (thread->state_ == state) thread->state_ = State::kReady;
    }
    return true;
  };
  if (num_at_barrier_ == shape_.threads) return open(State::kAtBarrier);
  return num_at_part_ > 0 && num_at_part_ == part_ && open(State::kAtPart);
}

void HostBlock::FailStuck() const {
  if (barriers_.BytesAwaited() > 0) {
    FailKernel("a barrier waits for bytes that nobody copies");
  }
  if (num_at_phase_ > 0) FailKernel("threads wait for a phase of a barrier that does not end");
  FailKernel(num_at_barrier_ + num_at_part_ + num_at_cluster_ > 0 && num_done_ > 0
                 ? "some threads wait at a barrier, and others have returned"
                 : "threads of a block wait for each other at different places");
}

HostCluster::HostCluster(LaunchShape shape, const std::function<void()>& kernel) {
  SLUICE_CHECK(shape.cluster >= 1 && shape.blocks % shape.cluster == 0);
  for (int rank = 0; rank < shape.cluster; ++rank) {
    blocks_.push_back(std::make_unique<HostBlock>(shape, kernel, *this));
  }
}

void HostCluster::Run(int64_t first, HostBlock::Order order) {
  for (int rank = 0; rank < size(); ++rank) block(rank).Begin(first + rank);
  for (;;) {
    bool has_moved = false;
    int num_done = 0, num_at_cluster = 0;
    for (const auto& block : blocks_) {
      if (!block->IsDone()) has_moved = block->Pass(order) || has_moved;
      num_done += block->IsDone();
      num_at_cluster += block->num_at_cluster_ == block->shape().threads;
    }
    if (num_done == size()) break;
    if (num_at_cluster == size()) {
      for (const auto& block : blocks_) {
        for (HostThread* const thread : block->threads_) {
          thread->state_ = HostThread::State::kReady;
        }
      }
    } else if (!has_moved && !copies_.Land()) {
      for (const auto& block : blocks_) {
        if (!block->IsDone()) block->FailStuck();
      }
    }
  }
  if (!copies_.empty()) FailKernel("a block ends before copies to it have come");
  for (const auto& block : blocks_) block->barriers().EndBlock();
}

void HostThread::RunThread(void* thread) {
  auto* const self = static_cast<HostThread*>(thread);
  self->block_->kernel_();
  self->GiveWay(State::kDone);
}

void HostThread::GiveWay(State state) {
  state_ = state;
  SwitchFibre(context_, block_->scheduler_);
}

void HostThread::WaitForBlock() { GiveWay(State::kAtBarrier); }

void HostThread::WaitForPart(int threads) {
  if (index_ >= threads) FailKernel("a thread waits at a barrier that does not count it");
  block_->part_ = threads;
  GiveWay(State::kAtPart);
}

void HostThread::WaitForCluster() { GiveWay(State::kAtCluster); }

void HostThread::WaitForWarp() {
  Meet([](void* const(&)[kWarpSize]) {}, nullptr);
}

void HostThread::Meet(Perform perform, void* arguments) {
  const int first = index_ / kWarpSize * kWarpSize;
  HostBlock::Warp& warp = block_->warps_[index_ / kWarpSize];
  const auto* const operation = reinterpret_cast<const void*>(perform);
  if (warp.arrived > 0 && warp.operation != operation) {
    FailKernel("lanes of a warp meet in different operations");
  }
  warp.operation = operation;
  warp.arguments[lane()] = arguments;
  if (++warp.arrived < kWarpSize) {
    GiveWay(State::kInWarp);
    return;
  }
  perform(warp.arguments);
  warp.arrived = 0;
  for (int i = 0; i < kWarpSize; ++i) block_->threads_[first + i]->state_ = State::kReady;
}

uint32_t HostThread::Ballot(bool vote) {
  struct Vote {
    bool vote;
    uint32_t all = 0;
  } ours{vote};
  Meet(
      [](void* const(&arguments)[kWarpSize]) {
        uint32_t all = 0;
        for (int lane = 0; lane < kWarpSize; ++lane) {
          all |= uint32_t{static_cast<Vote*>(arguments[lane])->vote} << lane;
        }
        for (void* const each : arguments) static_cast<Vote*>(each)->all = all;
      },
      &ours);
  return ours.all;
}

void HostThread::CopyAsync(void* shared, const void* global, int bytes, bool is_real) {
  if (!IsAligned(shared, bytes) || (is_real && !IsAligned(global, bytes))) {
    FailKernel("an asynchronous copy of an address that is no multiple of its bytes");
  }
  copies_.push_back({shared, global, bytes, is_real, committed_});
}

void HostThread::WaitForKernelsBefore() {
  if (has_waited_for_kernels_) FailKernel("a kernel waits twice for those before it");
  has_waited_for_kernels_ = true;
}

void HostThread::CheckKernelWaited() const {
  if (!has_waited_for_kernels_) FailKernel("a kernel does not wait for those before it");
}

void HostThread::WaitForCopies(int most_pending) {
  size_t done = 0;
  for (; done < copies_.size() && copies_[done].group < committed_ - most_pending; ++done) {
    const Copy& copy = copies_[done];
    if (copy.is_real) {
      std::memcpy(copy.to, copy.from, copy.bytes);
    } else {
      std::memset(copy.to, 0, copy.bytes);
    }
  }
  has_unshown_ = has_unshown_ || done > 0;
  copies_.erase(copies_.begin(), copies_.begin() + static_cast<ptrdiff_t>(done));
}

void RunGrid(LaunchShape shape, const std::function<void()>& kernel, HostBlock::Order order) {
  if (shape.blocks == 0) return;
  HostCluster cluster(shape, kernel);
  const bool ascending = order == HostBlock::Order::kAscending;
  for (int64_t i = 0; i < shape.blocks; i += shape.cluster) {
    cluster.Run(ascending ? i : shape.blocks - shape.cluster - i, order);
  }
}

}  // namespace sluice::cuda
