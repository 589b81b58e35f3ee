// Keys of blocks of keys and values: a hash chain over what they depend on and all tokens up to the
// block's last one. The same number in every process, on every machine, in every build
// (docs/decisions/081). A key names and proves nothing: who takes bytes by their key compares tokens.
// Pure functions.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

using PrefixKey = uint64_t;

// A key made of two. Their order counts.
constexpr PrefixKey MixKeys(PrefixKey a, PrefixKey b) {
  const unsigned __int128 product =
      static_cast<unsigned __int128>(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xe7037ed1a0b428dbu);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// The key of a text after `seed`; its length counts.
PrefixKey KeyOfBytes(absl::string_view bytes, PrefixKey seed = 0);

// What a block's keys and values depend on besides the domain and the tokens.
struct ModelKeyParts {
  absl::string_view configuration;  // ModelIdentity::fingerprint
  absl::string_view weights;        // digests of the weights
  absl::string_view arithmetic;     // names of the backends
  int32_t block_size = 0;           // positions
};

PrefixKey ModelKey(const ModelKeyParts& parts);

// Parent of a prompt's first block: who may share it, and the adapter that computes it. The fields
// are those of PrefixDomain (orchestrator/kv_cache/prefix_index.h).
PrefixKey DomainKey(PrefixKey model, absl::string_view salt, absl::string_view adapter,
                    int32_t length_like);

// The key of the block of these tokens that follows `parent`.
PrefixKey BlockKey(PrefixKey parent, absl::Span<const int32_t> tokens);

}  // namespace sluice
