#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <vector>

#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/emulator.h"

namespace sluice::testing {
namespace {

using MemoryTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(MemoryTest);

TEST_P(MemoryTest, BuffersAreAlignedAndZero) {
  for (const size_t size : {size_t{1}, size_t{63}, size_t{4096}, size_t{3} << 20}) {
    const auto buffer = backend().Allocate(size);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ((*buffer)->size_bytes(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*buffer)->data()) % 64, 0u);
    std::vector<std::byte> content(size, std::byte{1});
    ASSERT_TRUE(backend().CopyOut((*buffer)->data(), absl::MakeSpan(content)).ok());
    EXPECT_TRUE(std::all_of(content.begin(), content.end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST_P(MemoryTest, WhatIsCopiedInComesOut) {
  const auto buffer = backend().Allocate(100);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  std::vector<std::byte> in(90), out(90);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i);
  backend().CopyIn(in, (*buffer)->data());
  ASSERT_TRUE(backend().Synchronize().ok());
  ASSERT_TRUE(backend().CopyOut((*buffer)->data(), absl::MakeSpan(out)).ok());
  EXPECT_EQ(in, out);
}

TEST_P(MemoryTest, MoreThanThereIsIsResourceExhausted) {
  constexpr size_t kAbsurd = size_t{1} << 60;
  EXPECT_EQ(backend().Allocate(kAbsurd).status().code(), absl::StatusCode::kResourceExhausted);
  const PackSpec matrix{.num_outputs = 1 << 30, .num_inputs = 1 << 28};
  EXPECT_EQ(backend()
                .Pack(matrix, [](int64_t, int64_t, auto) { return absl::OkStatus(); })
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
  const KvPoolSpec pool{.num_layers = 1 << 6,
                        .num_blocks = 1 << 30,
                        .block_size = 16,
                        .num_kv_heads = 1 << 10,
                        .head_dim = 128};
  EXPECT_EQ(backend().NewKvPool(pool).status().code(), absl::StatusCode::kResourceExhausted);
}

int64_t ResidentBytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * 4096;
}

// 64 GiB, or of a device, whose memory is taken at once, a part of what others leave: they may want
// some, too.
uint64_t LargePoolBytes(const std::optional<DeviceMemory>& memory) {
  constexpr uint64_t kMost = uint64_t{64} << 30;
  return memory.has_value() ? std::min(kMost, memory->free_bytes / 4) : kMost;
}

TEST_P(MemoryTest, AKvPoolCostsNothingUntilUsed) {
  if (IsEmulated()) GTEST_SKIP() << "an emulator keeps tables of what is mapped";
  constexpr size_t kBlockBytes = size_t{2} * 32 * 16 * 8 * 128 * sizeof(float);
  constexpr int64_t kMostResident = 16 << 20;
  const auto blocks = static_cast<int>(LargePoolBytes(backend().memory()) / kBlockBytes);
  if (blocks * kBlockBytes < 4 * kMostResident) GTEST_SKIP() << "the device's memory is full";
  const KvPoolSpec spec{
      .num_layers = 32, .num_blocks = blocks, .block_size = 16, .num_kv_heads = 8, .head_dim = 128};
  const int64_t before = ResidentBytes();
  const auto pool = backend().NewKvPool(spec);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ((*pool)->size_bytes(), blocks * kBlockBytes);
  EXPECT_LT(ResidentBytes() - before, kMostResident);
}

TEST(LargePoolBytes, LeavesADeviceMostOfWhatItHas) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  EXPECT_EQ(LargePoolBytes(std::nullopt), 64 * kGiB);
  EXPECT_EQ(LargePoolBytes(DeviceMemory{.free_bytes = 40 * kGiB}), 10 * kGiB);
  EXPECT_EQ(LargePoolBytes(DeviceMemory{.free_bytes = 1024 * kGiB}), 64 * kGiB);
}

// What a budget counts, whatever the shape.
TEST_P(MemoryTest, ABlockTakesItsElementsAndNoMore) {
  for (const int block_size : {1, 5, 16, 20}) {
    for (const int head_dim : {1, 7, 64, 80}) {
      const auto pool = backend().NewKvPool({.num_layers = 3,
                                             .num_blocks = 100,
                                             .block_size = block_size,
                                             .num_kv_heads = 2,
                                             .head_dim = head_dim,
                                             .dtype = DType::kBF16});
      ASSERT_TRUE(pool.ok()) << pool.status();
      EXPECT_EQ((*pool)->size_bytes(), size_t{2} * 3 * 100 * block_size * 2 * head_dim * 2)
          << "blocks of " << block_size << ", heads of " << head_dim;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
