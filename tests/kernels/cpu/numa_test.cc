#include "kernels/cpu/numa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/shared_runs.h"
#include "tests/kernels/testing/emulator.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NumaLayout, OneNodeNeedsNoPlace) {
  const NumaLayout layout = NumaLayout::OfPinnedWorkers(3, {1, 1});
  EXPECT_THAT(layout.shares(), ElementsAre(NumaShare{{}, 3}));
  EXPECT_THAT(layout.Nodes(), IsEmpty());
  EXPECT_THAT(NumaLayout::OfRoamingWorkers(2, {0}).Nodes(), IsEmpty());
}

TEST(NumaLayout, GivesEachNodeTheShareOfItsWorkers) {
  const NumaLayout layout = NumaLayout::OfPinnedWorkers(4, {2, 0, 2, 2});
  EXPECT_THAT(layout.shares(), ElementsAre(NumaShare{{0}, 1}, NumaShare{{2}, 3}));
  EXPECT_EQ(layout.ShareOf(0), 1);
  EXPECT_EQ(layout.ShareOf(1), 0);
  EXPECT_EQ(layout.FirstUnit(0, 100), 0);
  EXPECT_EQ(layout.FirstUnit(1, 100), 25);
  EXPECT_EQ(layout.FirstUnit(2, 100), 100);
  EXPECT_THAT(layout.Nodes(), ElementsAre(0, 2));
}

TEST(NumaLayout, WorkersThatRoamShareAllNodes) {
  const NumaLayout layout = NumaLayout::OfRoamingWorkers(5, {0, 3});
  EXPECT_THAT(layout.shares(), ElementsAre(NumaShare{{0, 3}, 5}));
  EXPECT_EQ(layout.ShareOf(4), 0);
}

TEST(NodeOfCpu, IsReadFromTheSystemsFolder) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "numa_cpus";
  std::filesystem::create_directories(folder / "cpu7" / "node3");
  std::filesystem::create_directories(folder / "cpu8" / "nodes");
  EXPECT_EQ(NodeOfCpu(7, folder), 3);
  EXPECT_EQ(NodeOfCpu(8, folder), 0);
  EXPECT_EQ(NodeOfCpu(9, folder), 0);
  std::filesystem::remove_all(folder);
}

TEST(SharedRuns, GivesEveryUnitOnceAndAShareItsOwnFirst) {
  const NumaLayout layout = NumaLayout::OfPinnedWorkers(3, {0, 1, 1});
  SharedRuns runs(layout, /*num_panels=*/90, /*num_blocks=*/2);
  const int64_t first_of_second = 2 * layout.FirstUnit(1, 90);
  std::vector<int> taken(180, 0);
  bool own_left = true;
  for (int64_t i = runs.count(); i > 0; --i) {
    const SharedRuns::Units units = runs.Next(/*share=*/1);
    for (int64_t unit = units.begin; unit < units.end; ++unit) ++taken[unit];
    const bool own = units.begin >= first_of_second;
    EXPECT_TRUE(own_left || !own);
    own_left = own;
  }
  EXPECT_FALSE(own_left);
  EXPECT_THAT(taken, ::testing::Each(1));
}

// Shares that are no multiple of a group: none may reach over to the next one's panels.
TEST(SharedRuns, PanelsTakeTurnsWithinTheirShare) {
  constexpr int64_t kPanels = 66, kBlocks = 4, kGroup = 16;
  const NumaLayout layout = NumaLayout::OfPinnedWorkers(3, {0, 1, 1});
  ASSERT_EQ(layout.FirstUnit(1, kPanels), 22);
  SharedRuns runs(layout, kPanels, kBlocks, kGroup);
  std::vector<int> taken(kPanels * kBlocks, 0);
  for (int share = 0; share < layout.num_shares(); ++share) {
    const int64_t first = layout.FirstUnit(share, kPanels);
    const int64_t end = layout.FirstUnit(share + 1, kPanels);
    for (int64_t unit = first * kBlocks; unit < end * kBlocks; ++unit) {
      const auto [panel, block] = runs.Of(unit);
      ASSERT_TRUE(first <= panel && panel < end) << "unit " << unit << " is of panel " << panel;
      ASSERT_TRUE(0 <= block && block < kBlocks) << "unit " << unit << " is of block " << block;
      ++taken[panel * kBlocks + block];
    }
  }
  EXPECT_THAT(taken, ::testing::Each(1));
  // Of the second share: a group of all blocks, one after another, then the next group.
  for (const auto& [unit, panel, block] :
       {std::tuple{88, 22, 0}, {103, 37, 0}, {104, 22, 1}, {151, 37, 3}, {152, 38, 0}}) {
    EXPECT_EQ(runs.Of(unit).panel, panel) << "unit " << unit;
    EXPECT_EQ(runs.Of(unit).block, block) << "unit " << unit;
  }
}

TEST(SharedRuns, BlocksOfOnePanelFollowEachOther) {
  SharedRuns runs(NumaLayout::OfPinnedWorkers(2, {0, 1}), /*num_panels=*/10, /*num_blocks=*/3);
  for (int64_t unit = 0; unit < 30; ++unit) {
    EXPECT_EQ(runs.Of(unit).panel, unit / 3);
    EXPECT_EQ(runs.Of(unit).block, unit % 3);
  }
}

// What the system says of the area that begins at `data`.
std::string PolicyOf(const void* data) {
  std::ifstream maps("/proc/self/numa_maps");
  const std::string address = absl::StrFormat("%x ", reinterpret_cast<uintptr_t>(data));
  for (std::string line; std::getline(maps, line);) {
    if (absl::StartsWith(line, address)) return line;
  }
  return "";
}

TEST(PlaceOnNodes, TellsTheSystem) {
  if (testing::IsEmulated()) GTEST_SKIP() << "an emulator does not hand such wishes on";
  constexpr size_t kSize = size_t{4} << 20;
  const int node = NodesOfThisProcess().front();
  absl::StatusOr<HostMemory> one = HostMemory::Reserve(kSize), none = HostMemory::Reserve(kSize);
  ASSERT_TRUE(one.ok() && none.ok());
  PlaceOnNodes(one->data(), kSize, {node});
  PlaceOnNodes(none->data(), kSize, {});
  PlaceOnNodes(none->data(), kSize, {100'000});  // no such node: nothing happens
  one->data()[0] = none->data()[0] = std::byte{1};
  if (PolicyOf(none->data()).empty()) GTEST_SKIP() << "the system has no numa_maps";
  EXPECT_THAT(PolicyOf(one->data()), ::testing::HasSubstr(absl::StrCat(" prefer:", node)));
  EXPECT_THAT(PolicyOf(none->data()), ::testing::HasSubstr(" default"));
}

// The nodes need not exist: a place is a wish.
TEST(CpuPackedMatrix, HasTheSameProductsWhereverItsPanelsLie) {
  constexpr int64_t kInputs = 128;
  CpuContext context(/*num_threads=*/3, SupportedInstructionSets().back());
  testing::Random random(1);
  testing::HostMatrix x = testing::RandomMatrix(random, 5, kInputs);
  for (const int64_t outputs : {16, 33, 500}) {
    testing::HostMatrix w = testing::RandomMatrix(random, outputs, kInputs);
    const auto product = [&](const NumaLayout& layout) {
      std::vector<HostArena> arenas(layout.num_shares());
      const RowReader read = [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
        std::memcpy(out.data(), &w.At(begin, 0), (end - begin) * kInputs * sizeof(float));
        return absl::OkStatus();
      };
      const auto weights = CpuPackedMatrix::Pack(
          {.num_outputs = outputs, .num_inputs = kInputs, .num_slices = 2}, context.instructions,
          read, layout, absl::MakeSpan(arenas), context.pool);
      EXPECT_TRUE(weights.ok());
      std::vector<float> out(x.rows * outputs);
      Gemm(context, {x.values.data(), DType::kF32, x.rows, kInputs, kInputs},
           static_cast<const CpuPackedMatrix&>(**weights),
           {out.data(), DType::kF32, x.rows, outputs, outputs}, {});
      return out;
    };
    EXPECT_EQ(product(NumaLayout::OfRoamingWorkers(3, {0})),
              product(NumaLayout::OfPinnedWorkers(3, {0, 1, 900})))
        << outputs << " outputs";
  }
}

}  // namespace
}  // namespace sluice
