#include "services/routing/prompt_keys.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

struct Stretch {
  uint64_t end;
  uint64_t stride;
};
constexpr Stretch kStretches[] = {
    {8 << 10, 256}, {64 << 10, 1024}, {1 << 20, 4096}, {UINT64_MAX, 64 << 10}};

// Whether a key covers exactly so many bytes, a multiple of 256.
bool HasKeyAt(uint64_t num_bytes) {
  for (const Stretch& stretch : kStretches) {
    if (num_bytes <= stretch.end) return num_bytes % stretch.stride == 0;
  }
  return false;
}

}  // namespace

uint64_t BytesOfKey(size_t index) {
  uint64_t begin = 0;
  for (const Stretch& stretch : kStretches) {
    const uint64_t count = (stretch.end - begin) / stretch.stride;
    if (index < count) return begin + (index + 1) * stretch.stride;
    index -= count;
    begin = stretch.end;
  }
  return UINT64_MAX;
}

int64_t PromptKeys::NumTokens(double bytes_per_token) const {
  const double each = token_ids ? sizeof(int32_t) : std::max(bytes_per_token, 0.25);
  return static_cast<int64_t>(static_cast<double>(num_bytes) / each);
}

PromptKeyBuilder::PromptKeyBuilder(absl::string_view kind, absl::string_view adapter)
    : key_(KeyOfBytes(adapter, KeyOfBytes(kind, /*seed=*/2))) {
  chunk_.reserve(kChunkBytes);
}

void PromptKeyBuilder::Add(absl::string_view bytes) {
  if (!chunk_.empty()) {
    const size_t taken = std::min(kChunkBytes - chunk_.size(), bytes.size());
    chunk_.append(bytes.data(), taken);
    bytes.remove_prefix(taken);
    if (chunk_.size() < kChunkBytes) return;
    AddChunk(chunk_);
    chunk_.clear();
  }
  for (; bytes.size() >= kChunkBytes; bytes.remove_prefix(kChunkBytes)) {
    AddChunk(bytes.substr(0, kChunkBytes));
  }
  chunk_.append(bytes.data(), bytes.size());
}

void PromptKeyBuilder::Add(absl::Span<const int32_t> token_ids) {
  result_.token_ids = true;
  for (const int32_t token : token_ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      chunk_.push_back(static_cast<char>(static_cast<uint32_t>(token) >> shift));
    }
    if (chunk_.size() < kChunkBytes) continue;
    AddChunk(chunk_);
    chunk_.clear();
  }
}

void PromptKeyBuilder::AddChunk(absl::string_view chunk) {
  key_ = MixKeys(key_, KeyOfBytes(chunk));
  result_.num_bytes += kChunkBytes;
  if (HasKeyAt(result_.num_bytes)) result_.keys.push_back(key_);
}

PromptKeys PromptKeyBuilder::Finish() {
  result_.num_bytes += chunk_.size();
  return std::move(result_);
}

PrefixKey CacheScope(absl::string_view cache_domain) {
  const PrefixKey scope = KeyOfBytes(cache_domain, /*seed=*/3);
  return scope == 0 ? 1 : scope;
}

}  // namespace sluice
