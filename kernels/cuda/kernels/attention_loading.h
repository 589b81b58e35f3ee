// Keys and values on their way to a block's shared memory, 64 positions at a time. After simt.h.
#pragma once

#include "kernels/cuda/kernels/attention_rows.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// Whether matrix instructions may multiply a value: it is finite, in BF16, too.
SIMT_DEVICE bool IsUsable(float value) { return IsFinite(Widened(Rounded(value))); }

template <class Shape>
class KvLoader {
 public:
  // Of an element that no row sees.
  static constexpr int64_t kUnseen = -1;

  // `places`: PlaceBytes(); `stages`: room for task.stages tiles of keys and of values.
  SIMT_DEVICE KvLoader(const AttentionTask& task, char* places, char* stages)
      : task_(task), places_(reinterpret_cast<int64_t*>(places)), stages_(stages) {}

  SIMT_DEVICE void Begin(const AttentionTile& tile, int kv_head, PositionRange seen) {
    table_ = task_.tables + tile.table_begin;
    kv_head_ = kv_head;
    seen_ = seen;
    is_careful_ = *task_.pool.has_nonfinite != 0;
  }

  // Values that are infinite or no number may be among those at hand: they were left out.
  SIMT_DEVICE bool is_careful() const { return is_careful_; }

  // Looks up where the positions of a tile lie, once for the block: known after its next barrier,
  // until kPlacesKept tiles later.
  SIMT_DEVICE void Locate(int kv_tile) {
    if (Thread() >= kKvTile) return;
    const int position = kv_tile * kKvTile + Thread();
    int64_t place = kUnseen;
    if (seen_.Has(position)) {
      const auto size = static_cast<unsigned>(task_.pool.block_size);
      const unsigned block = static_cast<unsigned>(position) / size;
      place = task_.pool.Index(task_.layer, table_[block], false, kv_head_,
                               static_cast<int>(position - block * size));
    }
    places_[kv_tile % kPlacesKept * kKvTile + Thread()] = place;
  }
  // The first element of the keys of position `slot` of a tile, or kUnseen.
  SIMT_DEVICE int64_t KeyPlace(int kv_tile, int slot) const {
    return places_[kv_tile % kPlacesKept * kKvTile + slot];
  }
  // How far the values of a position are from its keys.
  SIMT_DEVICE int64_t ValueDistance() const {
    return task_.pool.num_kv_heads * task_.pool.HeadElements();
  }

  // Brings keys and values of a tile that was located; zeroes for those that no row sees.
  SIMT_DEVICE void Load(int kv_tile, int stage) {
    if (Shape::kParts == 1 && task_.pool.head_dim % 8 == 0 && !is_careful_) {
      ForPieces([&](int slot, int piece) {
        const int64_t place = KeyPlace(kv_tile, slot);
        const bool is_real = place != kUnseen && piece * 8 < task_.pool.head_dim;
        const std::byte* const from = task_.pool.data + (is_real ? (place + piece * 8) * 2 : 0);
        char* const to = At(KeysOffset(stage) + PieceOffset(slot, piece));
        CopyAsync(to, from, is_real);
        CopyAsync(to + Shape::kKvBytes, from + (is_real ? ValueDistance() * 2 : 0), is_real);
      });
    } else {
      ForPieces([&](int slot, int piece) {
        const int64_t place = KeyPlace(kv_tile, slot);
        const int count = place == kUnseen ? 0 : task_.pool.head_dim - piece * 8;
        char* const to = At(KeysOffset(stage) + PieceOffset(slot, piece));
        ConvertPiece(place + piece * 8, count, false, to);
        ConvertPiece(place + ValueDistance() + piece * 8, count, true, to + Shape::kKvBytes);
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

  SIMT_DEVICE float Element(int64_t index) const {
    if constexpr (Shape::kParts == 2) return reinterpret_cast<const float*>(task_.pool.data)[index];
    return Widened(reinterpret_cast<const uint16_t*>(task_.pool.data)[index]);
  }

 private:
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
  SIMT_DEVICE void ConvertPiece(int64_t index, int count, bool is_value, char* to) const {
    Words parts[2];
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      float pair[2];
      SIMT_UNROLL
      for (int j = 0; j < 2; ++j) {
        pair[j] = 2 * i + j < count ? Element(index + 2 * i + j) : 0.0f;
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

  const AttentionTask& task_;
  int64_t* const places_;
  char* const stages_;
  const int32_t* table_ = nullptr;
  int kv_head_ = 0;
  PositionRange seen_;
  bool is_careful_ = false;
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
