// Words shared by the whole tokenizer.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

// A token's number in the vocabulary. Never negative in a valid token.
using TokenId = int32_t;
inline constexpr TokenId kNoToken = -1;

// Bytes [begin, end) of a text.
struct ByteRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// What a text becomes. `offsets`, where it was asked for, is as long as `ids` and says which bytes
// of the original text each token stands for, in whole characters: two tokens that share a
// character both cover it. A token that a post-processor added covers {0, 0}.
struct Encoding {
  std::vector<TokenId> ids;
  std::vector<ByteRange> offsets;
};

}  // namespace sluice
