#include "kernels/cpu/memory.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(HostArena, PartsAreAlignedZeroAndApart) {
  HostArena arena;
  std::vector<HostPart> parts;
  for (const size_t size : {1, 63, 64, 65, 1000, 1 << 20, 100 << 20, 5}) {
    absl::StatusOr<HostPart> part = arena.Take(size);
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_EQ(part->size_bytes, size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(part->data) % 64, 0u);
    parts.push_back(*std::move(part));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    std::byte* const end = parts[i].data + parts[i].size_bytes;
    EXPECT_TRUE(std::all_of(parts[i].data, end, [](std::byte b) { return b == std::byte{0}; }));
    std::fill(parts[i].data, end, std::byte{7});  // shows in another part, were they to overlap
  }
}

TEST(HostArena, PartsOutliveTheArena) {
  std::optional<HostArena> arena(std::in_place);
  absl::StatusOr<HostPart> part = arena->Take(1000);
  ASSERT_TRUE(part.ok());
  arena.reset();
  std::fill_n(part->data, 1000, std::byte{1});
  EXPECT_EQ(part->data[999], std::byte{1});
}

TEST(HostArena, RefusesWhatTheSystemLacks) {
  HostArena arena;
  EXPECT_EQ(arena.Take(size_t{1} << 60).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(arena.Take(10).ok());
}

TEST(HostMemory, LargeAreasBeginWhereHugePagesMay) {
  absl::StatusOr<HostMemory> memory = HostMemory::Allocate((size_t{4} << 20) + 12345);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % (size_t{2} << 20), 0u);
  std::fill_n(memory->data(), memory->size_bytes(), std::byte{1});
}

}  // namespace
}  // namespace sluice
