// How byte-level BPE splits text, by the names that GGUF files give it (tokenizer.ggml.pre), as the
// tokenizer.json files that they are made of have it. An immutable table.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

struct GgufPreTokenizer {
  const char* names;                // separated by spaces
  const char* pre_tokenizer;        // as JSON; $0 stands for the pattern
  std::string_view pattern;         // a regular expression; empty: none
  bool composes = false;            // the text is brought into the form NFC before
  bool keeps_whole_tokens = false;  // "ignore_merges"
  bool adds_bos = false;            // unless the file says otherwise
};

// nullptr where the name is unknown.
const GgufPreTokenizer* FindGgufPreTokenizer(std::string_view name);

// All names, for messages.
std::string KnownGgufPreTokenizers();

}  // namespace sluice
