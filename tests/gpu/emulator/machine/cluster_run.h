// The threads of a cluster, from their beginning to their end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/emulator/machine/launch.h"
#include "tests/gpu/emulator/machine/new_block.h"
#include "tests/gpu/emulator/machine/thread.h"

namespace sluice::cuda::emulator {

class ClusterRun {
 public:
  // Borrows all of them.
  ClusterRun(const LaunchRequest& request, GlobalMemory& memory, int64_t first_block,
             Stacks& stacks);
  ~ClusterRun();
  ClusterRun(const ClusterRun&) = delete;
  ClusterRun& operator=(const ClusterRun&) = delete;

  // What went wrong; empty: all have ended.
  std::string Run();

  // Whether each block has waited for the launches before it, in one of its threads at least.
  bool AllBlocksWaited() const;
  // Whether a thread has let the next launch begin before it waited for those before it.
  bool AnyThreadReleasedEarly() const;

 private:
  void Release(Thread& thread);
  void ReleaseBlock(Thread& thread);
  void Deliver(size_t which);
  bool AllEnded() const;
  std::string WhoWaits() const;

  const bool watched_;
  Stacks& stacks_;
  Cluster cluster_;
  std::vector<Thread*> threads_;
};

}  // namespace sluice::cuda::emulator
