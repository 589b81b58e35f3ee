// Where the keys and values of a block of attention lie in the pool, 64 positions at a time. After
// simt.h.
#pragma once

#include "kernels/cuda/kernels/attention_rows.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// Whether matrix instructions may multiply a value: it is finite, in BF16, too.
SIMT_DEVICE bool IsUsable(float value) { return IsFinite(Widened(Rounded(value))); }

class KvPlaces {
 public:
  // Of a position that no row sees.
  static constexpr int64_t kUnseen = -1;

  // Before places are looked up. Reads nothing that a kernel writes.
  SIMT_DEVICE void Begin(const AttentionTile& tile, int kv_head, PositionRange seen) {
    table_ = task_.tables + tile.table_begin;
    kv_head_ = kv_head;
    seen_ = seen;
  }
  // Before keys and values are brought; after WaitForKernelsBefore().
  SIMT_DEVICE void BeginLoads() { is_careful_ = *task_.pool.has_nonfinite != 0; }

  // Values that are infinite or no number may be among those at hand: they were left out.
  SIMT_DEVICE bool is_careful() const { return is_careful_; }

  // The place of position `slot` of a tile, or kUnseen.
  SIMT_DEVICE int64_t PlaceAt(int kv_tile, int slot) const {
    return places_[kv_tile % kPlacesKept * kKvTile + slot];
  }

 protected:
  // `places`: PlaceBytes().
  SIMT_DEVICE KvPlaces(const AttentionTask& task, char* places)
      : task_(task), places_(reinterpret_cast<int64_t*>(places)) {}

  // Looks up where the positions of a tile lie, once for the block: known after its next barrier,
  // until kPlacesKept tiles later. A place is `step` times the number of a vector.
  SIMT_DEVICE void LocateBy(int64_t step, int kv_tile) {
    if (Thread() >= kKvTile) return;
    const int position = kv_tile * kKvTile + Thread();
    int64_t place = kUnseen;
    if (seen_.Has(position)) {
      const auto size = static_cast<unsigned>(task_.pool.block_size);
      const unsigned block = static_cast<unsigned>(position) / size;
      place = task_.pool.Vector(task_.layer, table_[block], kv_head_,
                                static_cast<int>(position - block * size)) *
              step;
    }
    places_[kv_tile % kPlacesKept * kKvTile + Thread()] = place;
  }

  const AttentionTask& task_;

 private:
  int64_t* const places_;
  const int32_t* table_ = nullptr;
  int kv_head_ = 0;
  PositionRange seen_;
  bool is_careful_ = false;
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
