#include "services/constraint/engine/token_vocabulary.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "services/constraint/engine/byte_lexer.h"
#include "services/constraint/json/message.h"

namespace sluice {
namespace {

// Walks bytes through a JSON string that may hold anything, counting its characters.
class StringWalk {
 public:
  StringWalk() : lexer_(space_), start_(lexer_.Start(space_.AnyText(), Spelling::kJsonString)) {}

  struct Result {
    bool stays = false;
    uint32_t room = 0;  // where it stays: characters, one that is begun included
    bool closes = false;
    uint32_t characters = 0;  // where it closes: before the quote
    size_t behind = 0;        // where the bytes behind the quote begin
    bool plain = false;       // stays, between characters, without escapes
  };

  Result Run(std::string_view bytes) {
    Result result;
    ByteLexer::State state = start_;
    uint32_t characters = 0;
    bool escaped = false;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const auto byte = static_cast<unsigned char>(bytes[i]);
      escaped |= byte == '\\';
      state = lexer_.Next(state)[byte];
      if (state == ByteLexer::kDead) return result;
      if (state == start_) {
        ++characters;
      } else if (lexer_.IsAccepting(state)) {
        result.closes = true;
        result.characters = characters;
        result.behind = i + 1;
        return result;
      }
    }
    result.stays = true;
    result.room = characters + (state == start_ ? 0 : 1);
    // DEL may stand in a string, but has no class (byte_class.h).
    result.plain = state == start_ && !escaped && bytes.find('\x7F') == std::string_view::npos;
    return result;
  }

 private:
  ExprSpace space_;
  ByteLexer lexer_;
  const ByteLexer::State start_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenVocabulary>> TokenVocabulary::Create(
    TokenVocabularyOptions options) {
  if (options.bytes.empty()) return absl::InvalidArgumentError("a vocabulary without tokens");
  for (size_t id = 0; id < options.bytes.size(); ++id)
    if (options.bytes[id].size() > UINT16_MAX)
      return absl::InvalidArgumentError(Message("token ", id, " has ", options.bytes[id].size(),
                                                " bytes; accepted: up to ", UINT16_MAX));
  std::sort(options.end_ids.begin(), options.end_ids.end());
  for (const int32_t id : options.end_ids)
    if (id < 0 || static_cast<size_t>(id) >= options.bytes.size() || !options.bytes[id].empty())
      return absl::InvalidArgumentError(
          Message("end token ", id, " is no token of the vocabulary without bytes"));
  std::shared_ptr<TokenVocabulary> vocabulary(new TokenVocabulary());
  vocabulary->bytes_ = std::move(options.bytes);
  vocabulary->end_ids_ = std::move(options.end_ids);
  vocabulary->speller_ = TokenSpeller(vocabulary->bytes_);
  vocabulary->BuildTries();
  return vocabulary;
}

bool TokenVocabulary::IsEnd(int32_t token) const {
  return std::binary_search(end_ids_.begin(), end_ids_.end(), token);
}

void TokenVocabulary::BuildTries() {
  using Entries = std::vector<std::pair<std::string_view, int32_t>>;
  Entries plain, other, behind_quote;
  StringWalk walk;
  in_string_.assign(kMaxRoom + 2, TokenMask(mask_words()));
  for (size_t id = 0; id < bytes_.size(); ++id) {
    const std::string_view bytes = bytes_[id];
    if (bytes.empty()) continue;
    max_token_bytes_ = std::max(max_token_bytes_, bytes.size());
    const auto token = static_cast<int32_t>(id);
    const StringWalk::Result result = walk.Run(bytes);
    (result.plain ? plain : other).emplace_back(bytes, token);
    if (result.stays) {
      Allow(in_string_.back(), token);
      for (uint32_t room = result.room; room <= kMaxRoom; ++room) Allow(in_string_[room], token);
      if (result.room > kMaxRoom) long_in_string_.emplace_back(result.room, token);
    }
    if (result.closes) {
      behind_quote.emplace_back(bytes.substr(result.behind),
                                static_cast<int32_t>(closings_.size()));
      closings_.push_back({token, result.characters});
    }
  }
  std::sort(long_in_string_.begin(), long_in_string_.end());
  plain_ = TokenTrie(std::move(plain), mask_words());
  other_ = TokenTrie(std::move(other));
  behind_quote_ = TokenTrie(std::move(behind_quote));
}

void TokenVocabulary::TokensInString(uint32_t room, TokenMask& mask) const {
  if (long_in_string_.empty() ? room >= kMaxRoom : room >= long_in_string_.back().first) {
    mask = in_string_.back();
    return;
  }
  mask = in_string_[std::min(room, kMaxRoom)];
  for (const auto& [needed, token] : long_in_string_) {
    if (needed > room) break;
    Allow(mask, token);
  }
}

size_t TokenVocabulary::memory() const {
  size_t bytes = in_string_.size() * mask_words() * sizeof(uint64_t) + speller_.memory();
  for (const TokenTrie* trie : {&plain_, &other_, &behind_quote_}) bytes += trie->memory();
  for (const std::string& token : bytes_) bytes += sizeof(std::string) + token.capacity();
  return bytes;
}

}  // namespace sluice
