// The tokenizer that fuzz targets share: GPT-2-like, small, with added tokens of several kinds.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/check.h"
#include "services/tokenizer/byte_alphabet.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {

inline std::unique_ptr<const Tokenizer> MakeFuzzTokenizer() {
  nlohmann::json file = nlohmann::json::parse(R"({
    "added_tokens": [
      {"id": 270, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false, "special": true},
      {"id": 271, "content": "aab", "single_word": true, "lstrip": false, "rstrip": false,
       "normalized": true, "special": false},
      {"id": 272, "content": "  ", "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": true, "special": false}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
    "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
    "model": {"type": "BPE", "vocab": {}, "merges": [["a", "a"], ["aa", "aa"], ["a", "b"],
      ["Ġ", "a"], ["Ã", "©"], ["<", "s"], ["<s", ">"], ["â", "Ĥ"], ["âĤ", "¬"]]}})");
  nlohmann::json& vocabulary = file["model"]["vocab"];
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[std::string(ByteToAlphabet(static_cast<uint8_t>(byte)))] = byte;
  }
  for (const auto& merge : file["model"]["merges"]) {
    vocabulary.emplace(merge[0].get<std::string>() + merge[1].get<std::string>(),
                       vocabulary.size());
  }
  auto tokenizer = Tokenizer::FromJson(file.dump(), "fuzz");
  SLUICE_CHECK(tokenizer.ok());
  return *std::move(tokenizer);
}

}  // namespace sluice
