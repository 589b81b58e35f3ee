// Keys and values in FP8 on their way to a block's shared memory, 64 positions at a time: codes come
// with their scales, a tile ahead, and become the BF16 numbers that they stand for when they are at
// hand. So what is multiplied lies where it does for keys and values in BF16. After simt.h.
#pragma once

#include "kernels/cuda/kernels/attention_places.h"
#include "kernels/cuda/kernels/fp8_codes.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// A place is the number of a position's vectors.
template <class Shape>
class Fp8KvLoader : public KvPlaces {
 public:
  // `shared`: room for a tile of BF16 keys and values, then task.stages of codes.
  SIMT_DEVICE Fp8KvLoader(const AttentionTask& task, char* places, char* shared)
      : KvPlaces(task, places), shared_(shared) {}

  SIMT_DEVICE void Locate(int kv_tile) { LocateBy(1, kv_tile); }

  // Brings codes and scales of a tile that was located; scales of zero for positions that no row
  // sees.
  SIMT_DEVICE void Load(int kv_tile, int stage) {
    const KvLayout& pool = task_.pool;
    char* const codes = CodesOf(stage);
    ForPieces([&](int slot, int piece) {
      const int64_t place = PlaceAt(kv_tile, slot);
      const int count = place == kUnseen ? 0 : pool.head_dim - piece * 16;
      const std::byte* const from =
          pool.data + (count > 0 ? place * pool.VectorBytes() + piece * 16 : 0);
      char* const to = codes + slot * Shape::kHeadDim + piece * 16;
      CopyPiece(from, count, to);
      CopyPiece(from + (count > 0 ? pool.values_begin : 0), count, to + kCodeBytes);
    });
    if (Thread() >= kKvTile) return;
    const int64_t place = PlaceAt(kv_tile, Thread());
    CopyWordAsync(codes + 2 * kCodeBytes + Thread() * 4,
                  pool.data + (place == kUnseen ? 0 : pool.scales_begin + place * 4),
                  place != kUnseen);
  }

  // Makes BF16 numbers of the codes at `stage`, which have come for all threads; there for all after
  // the block's next barrier. Values that are no numbers become zero.
  SIMT_DEVICE void Unpack(int stage) {
    const char* const codes = CodesOf(stage);
    ForPieces([&](int slot, int piece) {
      const uint32_t scales = *reinterpret_cast<const uint32_t*>(codes + 2 * kCodeBytes + slot * 4);
      const bool is_number = IsFinite(Widened(static_cast<uint16_t>(scales >> 16)));
      const char* const from = codes + slot * Shape::kHeadDim + piece * 16;
      UnpackPiece(from, FactorsOfScales(Twice(scales)), slot, piece, shared_);
      UnpackPiece(from + kCodeBytes, is_number ? FactorsOfScales(Twice(scales >> 16)) : 0, slot,
                  piece, shared_ + Shape::kKvBytes);
    });
  }

  SIMT_DEVICE static int PieceOffset(int slot, int piece) {
    return (slot * Shape::kPieces + SwizzledPiece(slot, piece)) * 16;
  }
  // Of what is unpacked, from whichever stage.
  SIMT_DEVICE static int KeysOffset(int) { return 0; }
  SIMT_DEVICE char* At(int offset) const { return shared_ + offset; }

  // Element `i` of the values of a place.
  SIMT_DEVICE float Value(int64_t place, int i) const {
    const KvLayout& pool = task_.pool;
    const auto* const codes = reinterpret_cast<const uint8_t*>(pool.data + pool.values_begin);
    const auto* const scales = reinterpret_cast<const uint16_t*>(pool.data + pool.scales_begin);
    return FloatFromFp8(codes[place * pool.VectorBytes() + i]) * Widened(scales[2 * place + 1]);
  }

 private:
  static constexpr int kCodeBytes = kKvTile * Shape::kHeadDim;  // of keys, or values
  static constexpr int kCodePieces = Shape::kHeadDim / 16;
  static_assert(Shape::kParts == 1);

  SIMT_DEVICE char* CodesOf(int stage) const {
    constexpr auto kStage = static_cast<int>(KvStageBytes(Shape::kHeadDim, DType::kF8E4M3));
    return shared_ + 2 * Shape::kKvBytes + stage * kStage;
  }

  // Calls f(slot, piece) for the thread's: always the same piece, of 16 codes.
  template <class F>
  SIMT_DEVICE static void ForPieces(F f) {
    SIMT_ROLLED
    for (int slot = Thread() / kCodePieces; slot < kKvTile; slot += Shape::kThreads / kCodePieces) {
      f(slot, Thread() % kCodePieces);
    }
  }

  // The first `count` of 16 codes; zeroes behind them.
  SIMT_DEVICE void CopyPiece(const std::byte* from, int count, char* to) const {
    if (task_.pool.head_dim % 16 == 0) return CopyAsync(to, from, count > 0);
    Words codes{};
    SIMT_UNROLL
    for (int i = 0; i < 16; ++i) {
      if (i < count) codes.word[i / 4] |= static_cast<uint32_t>(from[i]) << (i % 4 * 8);
    }
    *reinterpret_cast<Words*>(to) = codes;
  }

  // The numbers of eight codes.
  SIMT_DEVICE static Words Unpacked(uint32_t first, uint32_t second, uint32_t factors) {
    // Of four codes the lower two, and the upper two, each in the upper byte of its half.
    const auto lower = [&](uint32_t codes) {
      return PairFromFp8(PermuteBytes(codes, 0, 0x1100), factors);
    };
    const auto upper = [&](uint32_t codes) {
      return PairFromFp8(PermuteBytes(codes, 0, 0x3322), factors);
    };
    return {lower(first), upper(first), lower(second), upper(second)};
  }

  SIMT_DEVICE static void UnpackPiece(const char* from, uint32_t factors, int slot, int piece,
                                      char* tile) {
    const Words codes = *reinterpret_cast<const Words*>(from);
    // Eight threads of a row first write pieces of both parities, and so meet different banks.
    const int first = kCodePieces > 4 ? piece / 4 % 2 : 0;
    SIMT_UNROLL
    for (int i = 0; i < 2; ++i) {
      const bool is_second = (first ^ i) != 0;
      const uint32_t a = is_second ? codes.word[2] : codes.word[0];
      const uint32_t b = is_second ? codes.word[3] : codes.word[1];
      *reinterpret_cast<Words*>(tile + PieceOffset(slot, 2 * piece + (first ^ i))) =
          Unpacked(a, b, factors);
    }
  }

  char* const shared_;
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
