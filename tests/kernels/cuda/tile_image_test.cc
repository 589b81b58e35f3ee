#include "kernels/cuda/tile_image.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <vector>

#include "kernels/cuda/fragment.h"

namespace sluice::cuda {
namespace {

// Every element of a tile is held by one lane, once.
TEST(Fragment, LanesHoldEveryElementOnce) {
  std::set<std::tuple<int, int>> a, b, c;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    for (int i = 0; i < 8; ++i) a.emplace(ElementOfA(lane, i).row, ElementOfA(lane, i).col);
    for (int i = 0; i < 4; ++i) b.emplace(ElementOfB(lane, i).row, ElementOfB(lane, i).col);
    for (int i = 0; i < 4; ++i) c.emplace(ElementOfC(lane, i).row, ElementOfC(lane, i).col);
  }
  EXPECT_EQ(a.size(), 16u * 16);
  EXPECT_EQ(b.size(), 16u * 8);
  EXPECT_EQ(c.size(), 16u * 8);
}

// As the PTX ISA's tables have them, word by word: groupID is lane / 4, threadID_in_group lane % 4.
TEST(Fragment, LayoutsAreThoseOfThePtxIsa) {
  EXPECT_EQ(ElementOfA(0, 0), (TileElement{0, 0}));
  EXPECT_EQ(ElementOfA(5, 1), (TileElement{1, 3}));
  EXPECT_EQ(ElementOfA(5, 2), (TileElement{9, 2}));   // a2, a3: the row 8 further down
  EXPECT_EQ(ElementOfA(5, 4), (TileElement{1, 10}));  // a4, a5: 8 columns further right
  EXPECT_EQ(ElementOfA(31, 7), (TileElement{15, 15}));
  EXPECT_EQ(ElementOfB(6, 0), (TileElement{4, 1}));
  EXPECT_EQ(ElementOfB(6, 3), (TileElement{13, 1}));
  EXPECT_EQ(ElementOfC(9, 0), (TileElement{2, 2}));
  EXPECT_EQ(ElementOfC(9, 3), (TileElement{10, 3}));
}

TEST(TileImage, PlaceInFragmentInvertsElementOfA) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const TileElement element = ElementOfA(lane, i);
      const FragmentPlace place = PlaceInFragment(element.row, element.col);
      EXPECT_EQ(place.lane, lane);
      EXPECT_EQ(place.index, i);
    }
  }
}

TEST(TileImage, NoTwoElementsOrScalesShareAPlace) {
  for (const ImageFormat format : {ImageFormat::kBF16, ImageFormat::kInt8, ImageFormat::kInt4,
                                   ImageFormat::kFp8, ImageFormat::kFp8Pairs}) {
    const int width = IsPlain(format) ? 2 : 1;
    std::set<std::tuple<int, bool>> places;
    for (int row = 0; row < kTileOutputs; ++row) {
      for (int col = 0; col < kUnitInputs; ++col) {
        const UnitPlace place = PlaceInUnit(format, row, col);
        EXPECT_EQ(place.byte % width, 0);
        EXPECT_TRUE(places.emplace(place.byte, place.high_half).second);
      }
      for (int group = 0; group < 2 && !IsPlain(format); ++group) {
        EXPECT_TRUE(places.emplace(ScaleOffset(format, row, group), false).second);
      }
    }
    for (const auto& [byte, high] : places) EXPECT_LE(byte + width, UnitBytes(format));
  }
}

TEST(TileImage, EveryOutputAndSliceHasAScaleOfItsOwn) {
  constexpr int64_t kOutputs = 2 * 77;
  constexpr int kSlices = 4;
  for (const bool gated : {false, true}) {
    std::set<int64_t> places;
    for (int64_t n = 0; n < kOutputs; ++n) {
      const TileRow of = TileRowOf(n, kOutputs, gated);
      for (int slice = 0; slice < kSlices; ++slice) {
        const int64_t place = Fp8ScaleAt(of.tile, of.row, slice, kSlices);
        EXPECT_TRUE(places.insert(place).second);
        EXPECT_LT(place, Fp8Scales(kOutputs, gated, kSlices));
      }
    }
  }
}

// One thread writes a whole byte: both halves are of one row.
TEST(TileImage, HalvesOfAByteAreOfOneRow) {
  for (int row = 0; row < kTileOutputs; ++row) {
    for (int col = 0; col < kUnitInputs; ++col) {
      const UnitPlace low = PlaceInUnit(ImageFormat::kInt4, row, col);
      if (low.high_half) continue;
      const UnitPlace high = PlaceInUnit(ImageFormat::kInt4, row, col + 8);
      EXPECT_EQ(high.byte, low.byte);
      EXPECT_TRUE(high.high_half);
    }
  }
}

TEST(TileImage, GatesMeetTheirUpsInOneTile) {
  constexpr int64_t kOutputs = 2 * 77;
  std::set<std::tuple<int64_t, int>> rows;
  for (int64_t n = 0; n < 77; ++n) {
    const TileRow gate = TileRowOf(n, kOutputs, true), up = TileRowOf(77 + n, kOutputs, true);
    EXPECT_EQ(gate.tile, up.tile);
    EXPECT_EQ(gate.row + 8, up.row);
    EXPECT_LT(gate.tile, NumTiles(kOutputs, true));
    rows.emplace(gate.tile, gate.row);
    rows.emplace(up.tile, up.row);
  }
  EXPECT_EQ(rows.size(), static_cast<size_t>(kOutputs));
}

// A rank's part of K is cut as the whole is, or the ranks' tree would be another one.
TEST(TileImage, RanksCutTheirSlicesAlike) {
  for (const int64_t inputs : {int64_t{960}, int64_t{4096}, int64_t{14336}, int64_t{65536}}) {
    const RunShape whole = RunsOf(inputs, 8);
    for (const int ranks : {2, 4, 8}) {
      const RunShape part = RunsOf(inputs / ranks, 8 / ranks);
      EXPECT_EQ(part.depth, whole.depth);
      EXPECT_EQ(part.num_runs * ranks, whole.num_runs);
    }
    EXPECT_EQ(whole.num_runs * whole.depth, inputs);
  }
}

TEST(SwizzledPiece, ColumnsOfPiecesMeetAllBanks) {
  for (int piece = 0; piece < 8; ++piece) {
    std::set<int> banks;
    for (int row = 0; row < 8; ++row) banks.insert(SwizzledPiece(row, piece) % 8);
    EXPECT_EQ(banks.size(), 8u);
  }
}

}  // namespace
}  // namespace sluice::cuda
