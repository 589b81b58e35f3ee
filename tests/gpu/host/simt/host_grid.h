// A grid of blocks of threads on the host, one block or cluster after the other, each thread a fibre that
// gives way only where it waits for others. So a thread that reads what another should have written
// before, without having waited for it, finds what was there: NaN, at first. Which thread of a
// block goes first changes from launch to launch, so that a race is lost sooner or later.
//
// Misuse ends the process with a message: threads that wait at different places, or for one that
// has returned, or that name addresses an instruction refuses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/cuda/fragment.h"
#include "kernels/cuda/simt/launch_shape.h"
#include "kernels/cuda/stream.h"
#include "tests/gpu/host/simt/fibre.h"
#include "tests/gpu/host/simt/host_pipeline.h"

namespace sluice::cuda {

class HostThread;

// What a lane asks of a multiply by four warps (simt.h's MultiplyShared and MultiplySharedFp8).
struct HostMultiply {
  enum class Numbers : uint8_t { kBFloat16, kFp8 };
  const uint32_t* a;  // [4]
  uint64_t b;         // a descriptor
  float* c;           // [columns][4]
  int columns;
  bool adds;  // to what c holds
  Numbers numbers;
};

[[noreturn]] void FailKernel(const char* what);

class HostCluster;

// Carries out a block at a time, beside the others of its cluster.
class HostBlock {
 public:
  HostBlock(LaunchShape shape, const std::function<void()>& kernel, HostCluster& cluster);
  ~HostBlock();

  enum class Order { kAscending, kDescending };
  void Begin(int64_t index);
  // Lets each thread that can go on do so once. Whether one could.
  bool Pass(Order order);
  bool IsDone() const { return num_done_ == shape_.threads; }

  const LaunchShape& shape() const { return shape_; }
  int64_t index() const { return index_; }
  HostCluster& cluster() const { return cluster_; }
  HostBarriers& barriers() { return barriers_; }
  std::byte* shared_memory() const { return shared_memory_; }

 private:
  friend class HostThread;

  // What lanes of a warp meet in: an operation that the last of them carries out for all.
  struct Warp {
    const void* operation = nullptr;  // that the lanes here wait in
    int arrived = 0;
    void* arguments[kWarpSize];
  };

  // Lets threads go on where all that they wait for have come.
  bool OpenBarriers();
  [[noreturn]] void FailStuck() const;

  const LaunchShape shape_;
  const std::function<void()>& kernel_;
  HostCluster& cluster_;
  HostBarriers barriers_;
  int num_done_ = 0, num_at_barrier_ = 0, num_at_part_ = 0, num_at_cluster_ = 0, num_at_phase_ = 0;
  int part_ = 0;  // threads that the barrier of some of them waits for
  int64_t index_ = 0;
  std::byte* shared_memory_ = nullptr;  // of exactly the size asked for
  std::vector<HostThread*> threads_;
  std::vector<Warp> warps_;
  FibreContext scheduler_;

  friend class HostCluster;
};

// Blocks that run side by side.
class HostCluster {
 public:
  HostCluster(LaunchShape shape, const std::function<void()>& kernel);

  // The blocks from `first` on.
  void Run(int64_t first, HostBlock::Order order);
  HostBlock& block(int rank) { return *blocks_[rank]; }
  int size() const { return static_cast<int>(blocks_.size()); }
  BulkCopies& copies() { return copies_; }

 private:
  std::vector<std::unique_ptr<HostBlock>> blocks_;
  BulkCopies copies_;
};

// A thread of a block, and the one that is running.
class HostThread {
 public:
  static HostThread& Current() { return *current_; }

  int index() const { return index_; }
  int lane() const { return index_ % kWarpSize; }
  HostBlock& block() const { return *block_; }

  void WaitForBlock();
  void WaitForWarp();
  // For the block's first `threads` threads, of which this is one.
  void WaitForPart(int threads);
  void WaitForCluster();
  int rank() const { return static_cast<int>(block_->index() % block_->shape().cluster); }

  // Meets the warp's other lanes in `perform`, which the last to come calls for all, with the
  // arguments of each.
  using Perform = void (*)(void* const (&arguments)[kWarpSize]);
  void Meet(Perform perform, void* arguments);

  // The value of lane `source(lane)`.
  template <class T, class Source>
  T Shuffle(T value, Source source) {
    Shuffled<T> shuffled{value, value, source(lane())};
    Meet(
        [](void* const(&arguments)[kWarpSize]) {
          for (void* const each : arguments) {
            auto* const to = static_cast<Shuffled<T>*>(each);
            to->result = static_cast<Shuffled<T>*>(arguments[to->source])->value;
          }
        },
        &shuffled);
    return shuffled.result;
  }

  // Bit l is the vote of lane l.
  uint32_t Ballot(bool vote);

  void WaitForKernelsBefore();
  void CheckKernelWaited() const;

  void CopyAsync(void* shared, const void* global, int bytes, bool is_real);
  void CommitCopies() { ++committed_; }
  void WaitForCopies(int most_pending);

  // Barriers in shared memory, and copies that they count (host_pipeline.h).
  void InitBarrier(const void* barrier, int arrivals);
  void ShowBarriers() { block_->barriers().Show(); }
  void Arrive(const void* barrier, int rank, uint32_t bytes);
  void WaitForPhase(const void* barrier, uint32_t parity);
  void CopyBulk(void* shared, const void* global, uint32_t bytes, const void* barrier,
                uint32_t blocks);

  // What multiplies read must be as it is when they are asked for until they are waited for, which
  // is when they are carried out.
  void ShowToMultiplies() { has_unshown_ = false; }
  void Multiply(const HostMultiply& multiply);
  void CommitMultiplies() { ++committed_multiplies_; }
  void WaitForMultiplies(int most_pending);
  uint32_t SharedAddress(const void* shared) const;

 private:
  friend class HostBlock;
  friend class HostCluster;

  enum class State { kReady, kAtBarrier, kAtPart, kAtCluster, kAtPhase, kInWarp, kDone };

  template <class T>
  struct Shuffled {
    T value, result;
    int source;
  };
  struct Copy {
    void* to;
    const void* from;
    int bytes;
    bool is_real;
    int group;
  };

  struct PendingMultiply {
    HostMultiply asked;
    std::vector<uint32_t> a;  // as they were
    std::vector<uint16_t> b;  // lane 0's
    int group;
  };

  static void RunThread(void* thread);
  static void CarryOut(void* const (&lanes)[kWarpSize]);
  void GiveWay(State state);

  static thread_local HostThread* current_;

  FibreStack stack_;
  FibreContext context_;
  HostBlock* block_ = nullptr;
  int index_ = 0;
  State state_ = State::kReady;
  bool has_waited_for_kernels_ = false;
  uint32_t awaited_barrier_ = 0, awaited_parity_ = 0;
  std::vector<Copy> copies_;  // pending, oldest first
  int committed_ = 0;
  bool has_unshown_ = false;                 // copies have come that multiplies don't see yet
  std::vector<PendingMultiply> multiplies_;  // oldest first
  int committed_multiplies_ = 0;
  int waited_for_ = 0;  // groups
};

// Enqueues a grid on the queue of a host's GPU (tests/gpu/host).
void EnqueueGrid(Stream stream, LaunchShape shape, std::function<void()> kernel);

// Carries out a grid at once.
void RunGrid(LaunchShape shape, const std::function<void()>& kernel, HostBlock::Order order);

}  // namespace sluice::cuda
