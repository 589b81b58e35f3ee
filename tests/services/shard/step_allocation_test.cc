// Counts what a step allocates. By itself, because it replaces the program's operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/instruction_set.h"
#include "services/shard/shard_model.h"
#include "tests/services/model/model_folder.h"

namespace {

std::atomic<int64_t> allocations{0};

void* Allocate(size_t size, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), size) != 0) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, alignof(std::max_align_t));
}
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace sluice::testing {
namespace {

// The first step, and the largest: what it takes was set aside while loading.
TEST(StepAllocation, NoStepAllocates) {
  TempFolder folder;
  folder.Write("config.json", TinyLlamaConfig());
  folder.Write("model.safetensors", SafetensorsBytes(TinyLlamaTensors(DType::kBF16)));
  const ModelConfig config = LoadModelConfig(folder.path()).value();
  const auto source = WeightSource::Open(folder.path(), config);
  ASSERT_TRUE(source.ok()) << source.status();
  constexpr int kRows = 50;
  for (const InstructionSet instructions : SupportedInstructionSets()) {
    const auto backend = MakeCpuBackend({.num_threads = 2, .instructions = instructions});
    const auto model = ShardModel::Load(config, MakeShardPlan(config, {}).value(), *source,
                                        {.max_step_rows = kRows}, *backend);
    ASSERT_TRUE(model.ok()) << model.status();
    std::vector<float> rows(kRows * 16, 0.5F);
    std::vector<int32_t> blocks(4);
    std::iota(blocks.begin(), blocks.end(), 0);
    // A long chunk, and a step of single rows.
    std::vector<ShardSegment> chunk = {{0, kRows, blocks}};
    std::vector<ShardSegment> singles(kRows, ShardSegment{40, 1, blocks});
    for (const auto* segments : {&singles, &chunk}) {
      const int64_t before = allocations.load();
      const absl::Status done =
          (*model)->Forward(*segments, {rows.data(), DType::kF32, kRows, 16, 16});
      const int64_t after = allocations.load();
      ASSERT_TRUE(done.ok()) << done;
      EXPECT_EQ(after - before, 0) << Name(instructions) << ", " << segments->size() << " segments";
    }
  }
}

}  // namespace
}  // namespace sluice::testing
