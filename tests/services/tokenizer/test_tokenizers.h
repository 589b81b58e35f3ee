// Tokenizers and texts for tests.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/tokenizer/text/token.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice::testing {

// The strings of a file with one JSON string a line; the arrays of integers of one with an array a
// line. Fails the running test where the file is malformed.
std::vector<std::string> ReadJsonStrings(const std::string& path);
std::vector<std::vector<TokenId>> ReadJsonIds(const std::string& path);

// The whole file.
std::string ReadFile(const std::string& path);

// Loads a folder, failing the running test where that fails; nullptr then.
std::unique_ptr<const Tokenizer> LoadOrFail(const std::string& folder);

// What is put into SmallTokenizerJson below, each as JSON.
struct TokenizerParts {
  std::string added_tokens = "[]";
  std::string normalizer = "null";
  std::string pre_tokenizer =
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})";
  std::string post_processor = "null";
  std::string decoder =
      R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})";
  // Merges of the byte-level alphabet, in order; each adds its result to the vocabulary.
  std::vector<std::pair<std::string, std::string>> merges;
  // Further members of "model", such as R"("ignore_merges": true)".
  std::string model_settings = R"("unk_token": null)";
};

// A tokenizer.json whose vocabulary is the byte-level alphabet (ids 0 to 255 by byte) and the
// results of the merges (from 256 on).
std::string SmallTokenizerJson(const TokenizerParts& parts);

// The tokenizer of it, failing the running test where it does not load; nullptr then.
std::unique_ptr<const Tokenizer> SmallTokenizer(const TokenizerParts& parts);

// Texts of random characters that tokenizers find hard: letters, digits, spaces, line ends, marks,
// emoji, CJK, and `spice` now and then.
std::string RandomText(uint32_t seed, size_t num_chars, const std::vector<std::string>& spice = {});

}  // namespace sluice::testing
