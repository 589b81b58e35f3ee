// Receives which blocks a KV cache knows by their tokens. Called within the cache's operations: must
// not call it back, nor take long.
#pragma once

#include <cstdint>

#include "services/common/prefix_key.h"

namespace sluice {

class KvRecorder {
 public:
  virtual ~KvRecorder() = default;

  // A cache begins, empty; what was recorded before it holds no more.
  virtual void OnNewCache(PrefixKey model, int32_t block_size, int32_t num_blocks) = 0;
  // A block became known: `index` of its prompt's, from 0, after the one with key `parent`. The same
  // key may be stored more than once, in several blocks.
  virtual void OnStored(PrefixKey key, PrefixKey parent, int32_t index) = 0;
  // One of the blocks with this key is known no longer.
  virtual void OnRemoved(PrefixKey key) = 0;
};

}  // namespace sluice
