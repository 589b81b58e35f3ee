#include "services/tokenizer/vocabulary/added_tokens.h"

#include <algorithm>

#include "services/tokenizer/text/char_class.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

bool IsInsideWord(std::string_view text, size_t begin, size_t end) {
  const bool after_word = begin > 0 && IsWordChar(ReadUtf8Before(text, begin).code_point);
  const bool before_word = end < text.size() && IsWordChar(ReadUtf8(text, end).code_point);
  return after_word || before_word;
}

size_t WhitespaceBegin(std::string_view text, size_t end, size_t limit) {
  while (end > limit) {
    const Utf8Char c = ReadUtf8Before(text, end);
    if (!IsWhitespace(c.code_point)) break;
    end -= c.length;
  }
  return end;
}

size_t WhitespaceEnd(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Utf8Char c = ReadUtf8(text, begin);
    if (!IsWhitespace(c.code_point)) break;
    begin += c.length;
  }
  return begin;
}

}  // namespace

void AddedTokenFinder::Add(const AddedToken& token, std::string_view spelling) {
  if (spelling.empty()) return;
  trie_.Insert(spelling, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(token);
  first_bytes_[static_cast<uint8_t>(spelling.front())] = true;
}

absl::Status AddedTokenFinder::Split(std::string_view text, const Options& options,
                                     SegmentSink sink) const {
  size_t done = 0;  // up to where segments were handed out
  size_t space_end =
      0;  // end of the whitespace that an rstrip token last took: no need to look twice
  for (Match match = Find(text, 0, options); match.token != nullptr;
       match = Find(text, match.end, options)) {
    const AddedToken& token = *match.token;
    if (token.special && !options.parse_special) continue;
    if (token.single_word && IsInsideWord(text, match.begin, match.end)) continue;
    Segment segment{match.begin, match.end, match.token};
    if (token.lstrip) segment.begin = WhitespaceBegin(text, std::max(segment.begin, done), done);
    if (token.rstrip) {
      if (segment.end >= space_end) space_end = WhitespaceEnd(text, segment.end);
      segment.end = space_end;
    }
    if (segment.begin >= segment.end) continue;  // whitespace that was taken already
    if (done < segment.begin) {
      if (auto status = sink({done, segment.begin, nullptr}); !status.ok()) return status;
    }
    if (auto status = sink(segment); !status.ok()) return status;
    done = segment.end;
  }
  if (options.pace != nullptr && options.pace->stopped()) return options.pace->status();
  return done < text.size() ? sink({done, text.size(), nullptr}) : absl::OkStatus();
}

AddedTokenFinder::Match AddedTokenFinder::Find(std::string_view text, size_t from,
                                               const Options& options) const {
  const auto may_begin = [&](char byte) { return first_bytes_[static_cast<uint8_t>(byte)]; };
  constexpr size_t kBytesAtATime = 1 << 16;
  constexpr size_t kBytesOfAUnit = 16;  // of work, where no token could begin
  for (size_t at = from; !empty() && at < text.size();) {
    const size_t end = at + std::min(kBytesAtATime, text.size() - at);
    const size_t begin =
        std::find_if(text.begin() + at, text.begin() + end, may_begin) - text.begin();
    if (!Passes(options.pace, 1 + (begin - at) / kBytesOfAUnit)) break;
    at = begin;
    if (begin == end) continue;
    const Match match = LongestAt(text, begin, options);
    if (match.token != nullptr) return match;
    ++at;
  }
  return {text.size(), text.size(), nullptr};
}

AddedTokenFinder::Match AddedTokenFinder::LongestAt(std::string_view text, size_t begin,
                                                    const Options& options) const {
  Match longest{begin, begin, nullptr};
  ByteTrie::Node node = ByteTrie::kRoot;
  for (size_t at = begin; at < text.size(); ++at) {
    node = trie_.Child(node, text[at]);
    if (node == ByteTrie::kNoNode) break;
    if (const int32_t index = trie_.Value(node); index != ByteTrie::kNoValue) {
      const AddedToken& token = tokens_[index];
      const bool is_refused = token.special && options.may_be_special != nullptr &&
                              !(*options.may_be_special)(begin, at + 1);
      if (!is_refused) longest = {begin, at + 1, &token};
    }
  }
  return longest;
}

}  // namespace sluice
