// The tokenizers that fuzz targets share: GPT-2-like, small, with added tokens of several kinds;
// and one of each other kind.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/check.h"
#include "services/tokenizer/text/byte_alphabet.h"
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

// Models, normalizers, pre-tokenizers and decoders of all kinds, in combinations that are common
// and some that are not. Every one has the tokens "<0x00>" to "<0xFF>".
inline std::vector<std::unique_ptr<const Tokenizer>> MakeFuzzTokenizers() {
  constexpr const char* kBpe =
      R"({"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true})";
  constexpr const char* kAffixed =
      R"({"type": "BPE", "unk_token": "<unk>", "end_of_word_suffix": "</w>",
          "continuing_subword_prefix": "##"})";
  constexpr const char* kUnigram = R"({"type": "Unigram", "unk_id": 0, "byte_fallback": true})";
  constexpr const char* kWordPiece =
      R"({"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##",
          "max_input_chars_per_word": 100})";
  // Model, normalizer, pre-tokenizer, decoder.
  const char* const kKinds[][4] = {
      {kBpe,
       R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
           {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})",
       "null",
       R"({"type": "Sequence", "decoders": [
           {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
           {"type": "ByteFallback"}, {"type": "Fuse"},
           {"type": "Strip", "content": " ", "start": 1, "stop": 1}]})"},
      {kUnigram, R"({"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Nmt"},
           {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]})",
       R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"})",
       R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"},
           {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}]})"},
      {kWordPiece, R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
           "strip_accents": null, "lowercase": true})",
       R"({"type": "BertPreTokenizer"})",
       R"({"type": "WordPiece", "prefix": "##", "cleanup": true})"},
      {kAffixed, R"({"type": "Sequence", "normalizers": [{"type": "Lowercase"},
           {"type": "StripAccents"}, {"type": "Strip", "strip_left": true, "strip_right": true}]})",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Whitespace"},
           {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "UnicodeScripts"}]})",
       R"({"type": "BPEDecoder", "suffix": "</w>"})"},
      {kUnigram, "null", R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true})",
       R"({"type": "Sequence", "decoders": [{"type": "CTC", "pad_token": "a",
           "word_delimiter_token": "|", "cleanup": true},
           {"type": "Replace", "pattern": {"Regex": "b+"}, "content": "é"}]})"},
  };
  std::vector<std::unique_ptr<const Tokenizer>> tokenizers;
  for (const auto& [model, normalizer, pre_tokenizer, decoder] : kKinds) {
    nlohmann::json file = {{"normalizer", nlohmann::json::parse(normalizer)},
                           {"pre_tokenizer", nlohmann::json::parse(pre_tokenizer)},
                           {"decoder", nlohmann::json::parse(decoder)},
                           {"model", nlohmann::json::parse(model)}};
    const bool is_list = file["model"]["type"] == "Unigram";
    nlohmann::json& vocabulary = file["model"]["vocab"];
    const auto add = [&](const std::string& token) {
      if (is_list) {
        vocabulary.push_back({token, -static_cast<double>(vocabulary.size() % 17)});
      } else {
        vocabulary.emplace(token, vocabulary.size());
      }
    };
    add("<unk>");
    for (int byte = 0; byte < 256; ++byte) add(absl::StrFormat("<0x%02X>", byte));
    for (const char* token : {"▁", "a", "b", "é", "c", "▁▁", "▁a", "ab", "a</w>", "##b", "##b</w>",
                              "ab</w>", "世", "|"}) {
      add(token);
    }
    if (file["model"]["type"] == "BPE") {
      file["model"]["merges"] = nlohmann::json::parse(
          file["model"].contains("end_of_word_suffix") ? R"([["a", "##b</w>"], ["a", "##b"]])"
                                                       : R"([["▁", "▁"], ["▁", "a"], ["a", "b"]])");
    }
    auto tokenizer = Tokenizer::FromJson(file.dump(), "fuzz");
    SLUICE_CHECK(tokenizer.ok());
    tokenizers.push_back(*std::move(tokenizer));
  }
  return tokenizers;
}

}  // namespace sluice
