// Keys of the beginnings of a prompt as it was sent: text, conversation or token ids. By them one who
// sends requests to several orchestrators knows which of them hold how much of a prompt, without its
// tokens (docs/decisions/081). The same numbers in every process. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/common/prefix_key.h"

namespace sluice {

// The bytes of a prompt that its key `index`, from 0, covers: multiples of 256 up to 8 KiB, of 1,024 up
// to 64 KiB, of 4,096 up to 1 MiB, and of 65,536 beyond. So keys are few, and what is cut off of a
// beginning is at most 3% to 12% of it.
uint64_t BytesOfKey(size_t index);

struct PromptKeys {
  // One for each BytesOfKey that the prompt has; none of a prompt below 256 bytes.
  std::vector<PrefixKey> keys;
  uint64_t num_bytes = 0;
  bool token_ids = false;  // the bytes are those of token ids, 4 each

  // Estimates the prompt's tokens.
  int64_t NumTokens(double bytes_per_token) const;
};

// Makes the keys of a prompt that comes in pieces.
class PromptKeyBuilder {
 public:
  // `kind` tells prompts apart that are read otherwise; `adapter` computes them, "": none does.
  PromptKeyBuilder(absl::string_view kind, absl::string_view adapter);

  void Add(absl::string_view bytes);
  void Add(absl::Span<const int32_t> token_ids);
  // A piece ends here: "ab" and "c" are others than "a" and "bc".
  void EndPiece() { Add(absl::string_view("\0", 1)); }

  // Once.
  PromptKeys Finish();

 private:
  static constexpr size_t kChunkBytes = 256;
  void AddChunk(absl::string_view chunk);

  PromptKeys result_;
  PrefixKey key_;
  std::string chunk_;  // begun
};

// Among which requests prefixes are shared (TenantBook::CacheDomain), as a number that says nothing
// else of it. Never 0.
PrefixKey CacheScope(absl::string_view cache_domain);

// The key of a beginning in a scope.
constexpr PrefixKey KeyInScope(PrefixKey key, PrefixKey scope) { return MixKeys(key, scope); }

}  // namespace sluice
