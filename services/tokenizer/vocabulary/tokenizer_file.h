// A tokenizer.json taken apart: its two large tables flat, all else as JSON. Reading is one pass
// over the text. Only .cc files include this header: nlohmann-json is heavy to compile.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/token.h"

namespace sluice {

struct TokenizerFile {  // NOLINT(bugprone-exception-escape): moving JSON does not throw
  // model.vocab in the file's order: an object of tokens and ids, or a list of tokens and scores.
  struct VocabularyTable {
    bool present = false;
    struct Entry {
      uint32_t size;
      TokenId id;
    };
    std::string texts;  // one behind the other
    std::vector<Entry> entries;
    bool is_list = false;        // ids count from 0 then
    std::vector<double> scores;  // of a list's entries
  };
  // model.merges, in the file's order: rank by rank. Either spelling, "a b" or ["a", "b"].
  struct MergeList {
    bool present = false;
    struct Entry {
      uint32_t left_size;
      uint32_t right_size;
    };
    std::string texts;  // left and right, one merge behind the other
    std::vector<Entry> entries;
  };

  std::string source;
  nlohmann::json rest;
  VocabularyTable vocabulary;
  MergeList merges;

  JsonPlace Root() const { return {&rest, source, ""}; }
};

// INVALID_ARGUMENT where `text`, which messages call `source`, is not JSON, an object other than
// the vocabulary has a key twice, nesting is deeper than 64, or the two tables hold anything that
// does not belong there.
absl::StatusOr<TokenizerFile> ParseTokenizerFile(std::string_view text, std::string_view source);

}  // namespace sluice
