#include "tests/gpu/emulator/machine/new_block.h"

#include <algorithm>

namespace sluice::cuda::emulator {
namespace {

void SetSpecial(Thread& thread, const char* name, uint64_t value) {
  const auto& special = thread.program->function.special;
  if (const auto found = special.find(name); found != special.end()) {
    thread.registers[found->second] = value;
  }
}

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

}  // namespace

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

}  // namespace sluice::cuda::emulator
