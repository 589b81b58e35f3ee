// Stop strings: texts that end a generation. StopStrings is the automaton of all of them at once
// (Aho and Corasick, 1975), immutable and thread-safe; StopMatcher is one text under way, for one
// thread.
//
// The rule: the match that ends first ends the text; of several that end together the longest does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/tokenizer/text/byte_trie.h"

namespace sluice {

class StopStrings {
 public:
  static constexpr size_t kMaxStrings = 64;
  static constexpr size_t kMaxBytes = 1024;  // of one string

  // INVALID_ARGUMENT where there are more than kMaxStrings, or one is empty, longer than kMaxBytes
  // or not UTF-8.
  static absl::StatusOr<StopStrings> Create(absl::Span<const std::string> strings);

  // No stop strings.
  StopStrings() : StopStrings(absl::Span<const std::string>()) {}

 private:
  friend class StopMatcher;
  using Node = ByteTrie::Node;

  explicit StopStrings(absl::Span<const std::string> strings);

  // The longest prefix of a stop string that the text ends with after `byte`, given the one before.
  Node Next(Node node, char byte) const;

  ByteTrie trie_;               // prefixes of stop strings; values index sizes_
  std::vector<Node> fallback_;  // the longest proper suffix of a node that is a node
  std::vector<uint32_t> depth_;
  std::vector<int32_t> match_;  // the longest stop string that a node ends with, or kNoValue
  std::vector<uint32_t> sizes_;
};

struct StopMatcherOptions {
  bool include_stop_string = false;  // the text ends with the stop string, rather than before it
};

class StopMatcher {
 public:
  // `strings` must outlive it.
  explicit StopMatcher(const StopStrings& strings, const StopMatcherOptions& options = {})
      : strings_(&strings), options_(options) {}

  struct Result {
    // Text that can be shown: no part of it is or may become part of a stop string. Whole
    // characters, if what was fed so far is.
    std::string text;
    // The index of the stop string that this piece completed; -1 for none.
    int stop_index = -1;
  };
  // Takes the next piece of the text. REQUIRES: no stop string was found, Finish was not called.
  Result Feed(std::string_view piece) { return Feed(piece, /*may_end=*/true); }
  // The same for a piece that can't end the text: a stop string that it completes is text.
  Result FeedWithoutEnd(std::string_view piece) { return Feed(piece, /*may_end=*/false); }

  // The text ends here: what was held back. Empty once a stop string was found.
  std::string Finish();

 private:
  Result Feed(std::string_view piece, bool may_end);

  const StopStrings* strings_;
  StopMatcherOptions options_;
  StopStrings::Node node_ = ByteTrie::kRoot;
  std::string held_;  // the text of node_
};

}  // namespace sluice
