// Added tokens: tokens that are found in a text before the model sees it, such as "<|endoftext|>".
// Immutable once built, then thread-safe.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "services/tokenizer/text/byte_trie.h"
#include "services/tokenizer/text/pace.h"
#include "services/tokenizer/text/token.h"

namespace sluice {

struct AddedToken {
  TokenId id = kNoToken;
  std::string content;
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the whitespace before it along
  bool rstrip = false;       // takes the whitespace behind it along
  bool normalized = false;   // its normalized form is looked for in the normalized text
  bool special = false;      // steers the model, rather than being text
};

// Finds a set of added tokens in texts: from left to right, the longest where several begin.
class AddedTokenFinder {
 public:
  // Finds `token` where its `spelling` stands. Of two tokens with one spelling, the later one.
  void Add(const AddedToken& token, std::string_view spelling);

  bool empty() const { return tokens_.empty(); }

  struct Options {
    bool parse_special = true;  // otherwise special tokens are text
    // Whether bytes [begin, end) of the text may be a special token, if they spell one; always
    // where it is nullptr. Borrowed.
    const std::function<bool(size_t begin, size_t end)>* may_be_special = nullptr;
    Pace* pace = nullptr;  // of the search; borrowed, null for none
  };

  // A part of the text: an added token, or (nullptr) what lies between two. Not empty.
  struct Segment {
    size_t begin;
    size_t end;
    const AddedToken* token;
  };
  using SegmentSink = absl::FunctionRef<absl::Status(const Segment&)>;

  // Hands the segments of `text` to `sink` in order, and returns the first error of `sink`, or of
  // the pace where that stops. The segments cover the text; tokens that begin with whitespace may
  // overlap the token before them if that took the whitespace along. REQUIRES: valid UTF-8.
  absl::Status Split(std::string_view text, const Options& options, SegmentSink sink) const;

 private:
  struct Match {
    size_t begin;
    size_t end;
    const AddedToken* token;
  };
  // The next match from byte `from` on; token is nullptr where there is none.
  Match Find(std::string_view text, size_t from, const Options& options) const;
  Match LongestAt(std::string_view text, size_t begin, const Options& options) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // values index tokens_
  std::array<bool, 256> first_bytes_{};
};

}  // namespace sluice
