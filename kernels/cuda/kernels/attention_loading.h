// Keys and values in BF16 or F32 on their way to a block's shared memory, 64 positions at a time. After
// simt.h.
#pragma once

#include "kernels/cuda/kernels/attention_places.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// A place is where a position's keys begin, in bytes.
template <class Shape>
class KvLoader : public KvPlaces {
 public:
  // `stages`: room for task.stages tiles of keys and of values.
  SIMT_DEVICE KvLoader(const AttentionTask& task, char* places, char* stages)
      : KvPlaces(task, places), stages_(stages) {}

  SIMT_DEVICE void Locate(int kv_tile) { LocateBy(task_.pool.VectorBytes(), kv_tile); }

  // Brings keys and values of a tile that was located; zeroes for those that no row sees.
  SIMT_DEVICE void Load(int kv_tile, int stage) {
    if (Shape::kParts == 1 && task_.pool.head_dim % 8 == 0 && !is_careful()) {
      ForPieces([&](int slot, int piece) {
        const int64_t place = PlaceAt(kv_tile, slot);
        const bool is_real = place != kUnseen && piece * 8 < task_.pool.head_dim;
        const std::byte* const from = task_.pool.data + (is_real ? place + piece * 16 : 0);
        char* const to = At(KeysOffset(stage) + PieceOffset(slot, piece));
        CopyAsync(to, from, is_real);
        CopyAsync(to + Shape::kKvBytes, from + (is_real ? task_.pool.values_begin : 0), is_real);
      });
    } else {
      ForPieces([&](int slot, int piece) {
        const int64_t place = PlaceAt(kv_tile, slot);
        const int count = place == kUnseen ? 0 : task_.pool.head_dim - piece * 8;
        const std::byte* const from = task_.pool.data + (place == kUnseen ? 0 : place);
        char* const to = At(KeysOffset(stage) + PieceOffset(slot, piece));
        ConvertPiece(from, piece, count, false, to);
        ConvertPiece(from + task_.pool.values_begin, piece, count, true, to + Shape::kKvBytes);
      });
    }
  }

  // Rows are positions, of kPieces swizzled pieces.
  SIMT_DEVICE static int PieceOffset(int slot, int piece) {
    return (slot * Shape::kPieces + SwizzledPiece(slot, piece)) * 16;
  }
  // Values lie kKvBytes behind keys.
  SIMT_DEVICE static int KeysOffset(int stage) { return stage * 2 * Shape::kKvBytes; }
  SIMT_DEVICE char* At(int offset) const { return stages_ + offset; }

  // Element `i` of the values of a place.
  SIMT_DEVICE float Value(int64_t place, int i) const {
    return Element(task_.pool.data + task_.pool.values_begin + place, i);
  }

 private:
  SIMT_DEVICE static float Element(const std::byte* vector, int i) {
    if constexpr (Shape::kParts == 2) return reinterpret_cast<const float*>(vector)[i];
    return Widened(reinterpret_cast<const uint16_t*>(vector)[i]);
  }

  // Calls f(slot, piece) for the thread's: always the same piece.
  template <class F>
  SIMT_DEVICE static void ForPieces(F f) {
    constexpr int kSlotsAtATime = Shape::kThreads / Shape::kPieces;
    const int piece = Thread() % Shape::kPieces;
    SIMT_ROLLED
    for (int slot = Thread() / Shape::kPieces; slot < kKvTile; slot += 2 * kSlotsAtATime) {
      f(slot, piece);
      f(slot + kSlotsAtATime, piece);
    }
  }

  // The first `count` of eight elements, in parts; values that are not finite become zero.
  SIMT_DEVICE static void ConvertPiece(const std::byte* vector, int piece, int count, bool is_value,
                                       char* to) {
    Words parts[2];
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      float pair[2];
      SIMT_UNROLL
      for (int j = 0; j < 2; ++j) {
        pair[j] = 2 * i + j < count ? Element(vector, piece * 8 + 2 * i + j) : 0.0f;
        if (is_value && !IsUsable(pair[j])) pair[j] = 0;
      }
      const PairParts split = SplitPair(pair[0], pair[1]);
      parts[0].word[i] = split.high;
      parts[1].word[i] = split.low;
    }
    SIMT_UNROLL
    for (int part = 0; part < Shape::kParts; ++part) {
      *reinterpret_cast<Words*>(to + part * Shape::kPartBytes) = parts[part];
    }
  }

  char* const stages_;
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
