#include "services/common/prefix_key.h"

#include <bit>
#include <cstddef>
#include <cstring>

namespace sluice {
namespace {

// Little-endian, of up to 8 bytes.
inline uint64_t Word(const char* bytes, size_t count) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

}  // namespace

// 32 bytes at a time in four chains, none of which waits for another's product.
PrefixKey KeyOfBytes(absl::string_view bytes, PrefixKey seed) {
  const char* next = bytes.data();
  size_t left = bytes.size();
  uint64_t a = seed;
  uint64_t b = seed ^ 0x8ebc6af09c88c6e3u;
  uint64_t c = seed ^ 0x589965cc75374cc3u;
  uint64_t d = seed ^ 0x1d8e4e27c47d124fu;
  for (; left >= 32; left -= 32, next += 32) {
    a = MixKeys(a, Word(next, 8));
    b = MixKeys(b, Word(next + 8, 8));
    c = MixKeys(c, Word(next + 16, 8));
    d = MixKeys(d, Word(next + 24, 8));
  }
  uint64_t key = MixKeys(MixKeys(a, b), MixKeys(c, d));
  for (; left >= 8; left -= 8, next += 8) key = MixKeys(key, Word(next, 8));
  const uint64_t rest = left == 0 ? 0 : Word(next, left);
  return MixKeys(MixKeys(key, rest), bytes.size());
}

PrefixKey ModelKey(const ModelKeyParts& parts) {
  PrefixKey key = KeyOfBytes(parts.configuration, /*seed=*/1);
  key = KeyOfBytes(parts.weights, key);
  key = KeyOfBytes(parts.arithmetic, key);
  return MixKeys(key, static_cast<uint32_t>(parts.block_size));
}

PrefixKey DomainKey(PrefixKey model, absl::string_view salt, absl::string_view adapter,
                    int32_t length_like) {
  const PrefixKey key = KeyOfBytes(adapter, KeyOfBytes(salt, model));
  return MixKeys(key, static_cast<uint32_t>(length_like));
}

PrefixKey BlockKey(PrefixKey parent, absl::Span<const int32_t> tokens) {
  PrefixKey key = parent;
  size_t i = 0;
  for (; i + 1 < tokens.size(); i += 2) {
    key = MixKeys(key, uint64_t{static_cast<uint32_t>(tokens[i])} |
                           uint64_t{static_cast<uint32_t>(tokens[i + 1])} << 32);
  }
  if (i < tokens.size()) key = MixKeys(key, uint64_t{static_cast<uint32_t>(tokens[i])});
  return MixKeys(key, tokens.size());
}

}  // namespace sluice
