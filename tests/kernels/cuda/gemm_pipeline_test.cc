// The ring that large products on Hopper are fetched through: its places and parities by themselves,
// and a pipeline of the same parts on the host, whose every mistake must be noticed.
#include "kernels/cuda/gemm_pipeline.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include "kernels/cuda/shared_descriptor.h"
#include "simt.h"
#include "tests/gpu/host/simt/host_grid.h"

namespace sluice::cuda {
namespace {

using on_host::ArriveAndExpect, on_host::ArriveAt, on_host::Block, on_host::ClusterBarrier;
using on_host::CopyBulk, on_host::CopyBulkToAll, on_host::InitBarrier, on_host::MemoryBarrier;
using on_host::RankInCluster, on_host::SharedMemory, on_host::ShowBarriers, on_host::Thread;
using on_host::WaitForPhase, on_host::WarpBarrier;
using Order = HostBlock::Order;

// What a barrier does, phase after phase, when each stage is filled and emptied in turn.
TEST(PipelinePlace, ParitiesFollowTheStagesPhases) {
  constexpr int kStages = 3;
  HostBarriers full, empty;
  for (int stage = 0; stage < kStages; ++stage) {
    full.Init(8 * stage, 1);
    empty.Init(8 * stage, 2);
  }
  full.Show();
  empty.Show();
  PipelinePlace<kStages> fetching, multiplying;
  for (int unit = 0; unit < 20; ++unit) {
    // As far ahead as there are stages.
    for (; fetching.round * kStages + fetching.stage < static_cast<unsigned>(unit + kStages);
         fetching.Advance()) {
      EXPECT_TRUE(empty.IsOver(8 * fetching.stage, fetching.EmptyParity()));
      full.Arrive(8 * fetching.stage, 0);
    }
    EXPECT_FALSE(empty.IsOver(8 * fetching.stage, fetching.EmptyParity()));
    EXPECT_EQ(multiplying.stage, unit % kStages);
    EXPECT_TRUE(full.IsOver(8 * multiplying.stage, multiplying.FullParity()));
    empty.Arrive(8 * multiplying.stage, 0);
    EXPECT_FALSE(empty.IsOver(8 * fetching.stage, fetching.EmptyParity())) << "one has not left it";
    empty.Arrive(8 * multiplying.stage, 0);
    multiplying.Advance();
  }
}

TEST(HostBarriers, PhasesEndWithTheLastThreadAndTheLastByte) {
  HostBarriers barriers;
  barriers.Init(0, 1);
  barriers.Show();
  EXPECT_TRUE(barriers.IsOver(0, 1));
  EXPECT_FALSE(barriers.IsOver(0, 0));
  barriers.Complete(0, 16);  // another block's may come before they are announced here
  EXPECT_FALSE(barriers.IsOver(0, 0));
  barriers.Arrive(0, 48);
  EXPECT_FALSE(barriers.IsOver(0, 0));
  EXPECT_EQ(barriers.BytesAwaited(), 32);
  barriers.Complete(0, 32);
  EXPECT_TRUE(barriers.IsOver(0, 0));
  EXPECT_FALSE(barriers.IsOver(0, 1));
}

TEST(GemmPlan, BlocksOfAClusterShareTokensAndRuns) {
  const GemmDevice device{132, 227 << 10, GemmPath::kPipelined};
  for (const int64_t tiles : {383, 384, 385, 8016}) {
    for (const int64_t rows : {300, 1000, 2048}) {
      const GemmPlan plan = PlanGemm(rows, tiles, RunsOf(4096, 8), ImageFormat::kBF16, device);
      ASSERT_EQ(plan.path, GemmPath::kPipelined);
      ASSERT_EQ(plan.blocks() % kClusterBlocks, 0);
      // 385 tiles fill 49 blocks: the last of their cluster has no outputs.
      if (tiles == 385) {
        EXPECT_GT(plan.output_blocks, 49);
      }
      std::set<std::tuple<int, int, int>> seen;
      for (int64_t block = 0; block < plan.blocks(); ++block) {
        const auto place = plan.PlaceOf(block),
                   first = plan.PlaceOf(block / kClusterBlocks * kClusterBlocks);
        EXPECT_TRUE(seen.insert({place.token_block, place.split, place.output_block}).second);
        EXPECT_LT(place.token_block, plan.token_blocks);
        EXPECT_LT(place.split, plan.splits);
        EXPECT_LT(place.output_block, plan.output_blocks);
        EXPECT_EQ(place.token_block, first.token_block);
        EXPECT_EQ(place.split, first.split);
        EXPECT_EQ(place.output_block, first.output_block + block % kClusterBlocks);
      }
    }
  }
}

TEST(GemmPlan, LargeTilesAloneArePipelinedAndFitAMultiprocessor) {
  const GemmDevice device{132, 227 << 10, GemmPath::kPipelined};
  for (const ImageFormat format :
       {ImageFormat::kBF16, ImageFormat::kFp8, ImageFormat::kInt8, ImageFormat::kInt4}) {
    const auto plan = [&](int64_t rows) {
      return PlanGemm(rows, 1792, RunsOf(14336, 8), format, device);
    };
    EXPECT_EQ(plan(1).path, GemmPath::kHopper);
    EXPECT_EQ(plan(32).path, GemmPath::kHopper);
    // Sums of groups leave a large tile three or four stages, too few for few rows.
    EXPECT_EQ(plan(33).path, ScalesGroupSums(format) ? GemmPath::kHopper : GemmPath::kPipelined);
    EXPECT_EQ(plan(2048).path, GemmPath::kPipelined);
    EXPECT_EQ(plan(2048).tile, GemmTile::kLarge);
  }
}

TEST(TokenImage, HasEveryPieceOnceAndWhereDescriptorsSay) {
  constexpr int64_t kRows = 200, kUnits = 3;
  std::vector<int> hits(TokenImageBytes(kRows, kUnits * kUnitInputs) / 16);
  for (int64_t row = 0; row < TokenBlocks(kRows) * kImageTokens; ++row) {
    for (int64_t piece = 0; piece < kUnits * 8; ++piece) {
      const int64_t at = TokenPiece(row, piece, kUnits);
      ++hits[at / 16];
      const int64_t unit = TokenUnit(row / kImageTokens, piece / 8, kUnits);
      EXPECT_EQ(at - unit, DescribedAddress(DescriptorOf(0), static_cast<int>(row % kImageTokens),
                                            static_cast<int>(piece % 8) * 8));
    }
  }
  for (const int count : hits) EXPECT_EQ(count, 1);
}

// ---- A pipeline on the host ----

// What its threads do wrong.
enum class Mistake {
  kNone,
  kNoWaitForFull,
  kNoWaitForEmpty,
  kSwappedStage,  // the fetching thread fills another stage than it announces
  kOtherParity,   // waits for the phase before
  kTooFewBytes,   // announces fewer than come
  kTooManyBytes,
  kLeftTooEarly,   // before it has read
  kNotLeft,        // one warp does not say that it has read
  kLeftHereAlone,  // the cluster's other block is not told
  kNotSetUp,
  kNotShown,   // barriers, to copies and to the cluster's other block
  kEndsEarly,  // without waiting for the cluster's other block
  kMisaligned,
};

constexpr int kStages = 3, kUnits = 40, kBlocks = 2 * kClusterBlocks;
constexpr int kReading = 2 * kWarpSize, kThreads = kReading + kWarpSize;
constexpr int kOwn = 64, kPart = 64, kStageBytes = kOwn + kClusterBlocks * kPart;
constexpr size_t kShared = kStages * kStageBytes + 2 * kStages * 8;

// What each block has of a unit: bytes of its own, and such as the cluster shares.
struct Data {
  std::vector<uint8_t> own = std::vector<uint8_t>(kBlocks * kUnits * kOwn);
  std::vector<uint8_t> shared = std::vector<uint8_t>(kUnits * kClusterBlocks * kPart);

  Data() {
    uint32_t state = 1;
    for (auto* const bytes : {&own, &shared}) {
      for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>((state = state * 69069 + 1) >> 24);
    }
  }
  int64_t Sum(int block) const {
    const auto begin = own.begin() + block * kUnits * kOwn;
    return std::accumulate(shared.begin(), shared.end(),
                           std::accumulate(begin, begin + kUnits * kOwn, int64_t{0}));
  }
};

class Pipeline {
 public:
  Pipeline(const Data& data, Mistake mistake) : data_(data), mistake_(mistake) {}

  void Run(std::vector<int64_t>& sums) {
    if (Thread() == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        if (mistake_ == Mistake::kNotSetUp && stage == 1) continue;
        InitBarrier(full_ + stage, 1);
        InitBarrier(empty_ + stage, kReading / kWarpSize * kClusterBlocks);
      }
      if (mistake_ != Mistake::kNotShown) ShowBarriers();
    }
    ClusterBarrier();
    if (Thread() == kReading) Fetch();
    if (Thread() < kReading) sums[Block() * kReading + Thread()] = Read();
  }

 private:
  void Fetch() {
    PipelinePlace<kStages> place;
    for (int unit = 0; unit < kUnits; ++unit, place.Advance()) {
      if (mistake_ != Mistake::kNoWaitForEmpty) {
        WaitForPhase(empty_ + place.stage, place.EmptyParity());
      }
      uint32_t bytes = kStageBytes;
      if (mistake_ == Mistake::kTooFewBytes && unit == 7) bytes -= 16;
      if (mistake_ == Mistake::kTooManyBytes && unit == 7) bytes += 16;
      ArriveAndExpect(full_ + place.stage, bytes);
      int stage = place.stage;
      if (mistake_ == Mistake::kSwappedStage && unit % 5 == 4) stage = (stage + 1) % kStages;
      char* const to = shared_ + stage * kStageBytes;
      const int skew = mistake_ == Mistake::kMisaligned ? 8 : 0;
      CopyBulk(to, &data_.own[(Block() * kUnits + unit) * kOwn + skew], kOwn, full_ + place.stage);
      const int part = RankInCluster() * kPart;
      CopyBulkToAll<kClusterBlocks>(to + kOwn + part,
                                    &data_.shared[unit * kClusterBlocks * kPart + part], kPart,
                                    full_ + place.stage);
    }
    if (mistake_ == Mistake::kEndsEarly) return;
    for (int i = 0; i < kStages; ++i, place.Advance()) {
      WaitForPhase(empty_ + place.stage, place.EmptyParity());
    }
  }

  // Each thread of the first warp sums what others sum, too, so that it matters when each reads.
  int64_t Read() {
    int64_t sum = 0;
    PipelinePlace<kStages> place;
    for (int unit = 0; unit < kUnits; ++unit, place.Advance()) {
      const uint32_t parity = place.FullParity() ^ (mistake_ == Mistake::kOtherParity ? 1 : 0);
      if (mistake_ != Mistake::kNoWaitForFull) WaitForPhase(full_ + place.stage, parity);
      if (mistake_ == Mistake::kLeftTooEarly) Leave(place.stage);
      const auto* const from =
          reinterpret_cast<const uint8_t*>(shared_ + place.stage * kStageBytes);
      for (int i = 0; i < kStageBytes; ++i) sum += from[i];
      if (mistake_ != Mistake::kLeftTooEarly) Leave(place.stage);
    }
    return sum;
  }

  void Leave(int stage) {
    WarpBarrier();
    if (mistake_ == Mistake::kNotLeft && Thread() >= kWarpSize) return;
    const int lane = Thread() % kWarpSize;
    if (lane >= kClusterBlocks) return;
    if (mistake_ == Mistake::kLeftHereAlone && lane != RankInCluster()) return;
    ArriveAt(empty_ + stage, lane);
  }

  const Data& data_;
  const Mistake mistake_;
  char* const shared_ = SharedMemory<char>();
  MemoryBarrier* const full_ = reinterpret_cast<MemoryBarrier*>(shared_ + kStages * kStageBytes);
  MemoryBarrier* const empty_ = full_ + kStages;
};

// Whether every thread of every block has summed what there is.
bool SumsAreRight(Mistake mistake, Order order) {
  const Data data;
  std::vector<int64_t> sums(kBlocks * kReading);
  RunGrid(
      {.blocks = kBlocks, .threads = kThreads, .shared_bytes = kShared, .cluster = kClusterBlocks},
      [&] { Pipeline(data, mistake).Run(sums); }, order);
  for (int i = 0; i < kBlocks * kReading; ++i) {
    if (sums[i] != data.Sum(i / kReading)) return false;
  }
  return true;
}

TEST(HostPipeline, BringsEveryUnit) {
  EXPECT_TRUE(SumsAreRight(Mistake::kNone, Order::kAscending));
  EXPECT_TRUE(SumsAreRight(Mistake::kNone, Order::kDescending));
}

// Ends the process with the shim's words, or with a wrong sum.
void RunWith(Mistake mistake) {
  const bool right =
      SumsAreRight(mistake, Order::kAscending) && SumsAreRight(mistake, Order::kDescending);
  FailKernel(right ? "nothing was noticed" : "wrong sums");
}

TEST(HostPipelineDeathTest, MistakesAreNoticed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(RunWith(Mistake::kNone), "nothing was noticed");
  EXPECT_DEATH(RunWith(Mistake::kNoWaitForFull), "wrong sums|more threads arrive");
  EXPECT_DEATH(RunWith(Mistake::kNoWaitForEmpty), "wrong sums|arrive at a barrier|does not end");
  EXPECT_DEATH(RunWith(Mistake::kSwappedStage), "wrong sums");
  EXPECT_DEATH(RunWith(Mistake::kOtherParity), "wrong sums|more threads arrive");
  EXPECT_DEATH(RunWith(Mistake::kTooFewBytes), "wrong sums|not announced|does not end");
  EXPECT_DEATH(RunWith(Mistake::kTooManyBytes), "waits for bytes that nobody copies");
  EXPECT_DEATH(RunWith(Mistake::kLeftTooEarly), "wrong sums");
  EXPECT_DEATH(RunWith(Mistake::kNotLeft), "does not end");
  EXPECT_DEATH(RunWith(Mistake::kNotSetUp), "was not set up");
  EXPECT_DEATH(RunWith(Mistake::kNotShown), "set up and not shown");
  EXPECT_DEATH(RunWith(Mistake::kMisaligned), "no multiples of 16");
  if (kClusterBlocks == 1) return;
  EXPECT_DEATH(RunWith(Mistake::kLeftHereAlone), "does not end");
  EXPECT_DEATH(RunWith(Mistake::kEndsEarly), "a block that has ended");
}

}  // namespace
}  // namespace sluice::cuda
