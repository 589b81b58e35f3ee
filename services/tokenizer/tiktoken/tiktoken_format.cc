#include "services/tokenizer/tiktoken/tiktoken_format.h"

#include <string>
#include <utility>

#include "services/tokenizer/pre_tokenizers/split_patterns.h"
#include "services/tokenizer/text/strings.h"

namespace sluice {
namespace {

AddedToken Special(std::string_view content, TokenId id) {
  AddedToken token;
  token.id = id;
  token.content = std::string(content);
  token.special = true;
  return token;
}

TiktokenFormat Gpt2() {
  return {.pattern = std::string(kGpt2Pattern),
          .special_tokens = {Special("<|endoftext|>", 50256)}};
}

TiktokenFormat Cl100k() {
  return {.pattern = std::string(kCl100kPattern),
          .special_tokens = {Special("<|endoftext|>", 100257), Special("<|fim_prefix|>", 100258),
                             Special("<|fim_middle|>", 100259), Special("<|fim_suffix|>", 100260),
                             Special("<|endofprompt|>", 100276)}};
}

TiktokenFormat O200k() {
  return {.pattern = std::string(kO200kPattern),
          .special_tokens = {Special("<|endoftext|>", 199999), Special("<|endofprompt|>", 200018)}};
}

TiktokenFormat Llama3() {
  constexpr TokenId kFirst = 128000;
  constexpr TokenId kEnd = 128256;
  // nullptr: "<|reserved_special_token_N|>", counted from 0.
  constexpr const char* kNames[] = {"<|begin_of_text|>",
                                    "<|end_of_text|>",
                                    nullptr,
                                    nullptr,
                                    "<|finetune_right_pad_id|>",
                                    nullptr,
                                    "<|start_header_id|>",
                                    "<|end_header_id|>",
                                    "<|eom_id|>",
                                    "<|eot_id|>",
                                    "<|python_tag|>"};
  TiktokenFormat format{.pattern = std::string(kCl100kPattern), .bos_token = kNames[0]};
  int num_reserved = 0;
  for (TokenId id = kFirst; id < kEnd; ++id) {
    const size_t index = id - kFirst;
    const char* name = index < std::size(kNames) ? kNames[index] : nullptr;
    format.special_tokens.push_back(Special(
        name != nullptr ? name : StrCat("<|reserved_special_token_", num_reserved++, "|>"), id));
  }
  return format;
}

}  // namespace

std::optional<TiktokenFormat> TiktokenPreset(std::string_view name) {
  if (name.ends_with("_base")) name.remove_suffix(std::string_view("_base").size());
  if (name == "gpt2" || name == "r50k" || name == "p50k") return Gpt2();
  if (name == "cl100k") return Cl100k();
  if (name == "o200k") return O200k();
  if (name == "llama3") return Llama3();
  return std::nullopt;
}

}  // namespace sluice
