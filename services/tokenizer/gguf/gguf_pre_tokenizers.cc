#include "services/tokenizer/gguf/gguf_pre_tokenizers.h"

#include "absl/strings/str_split.h"
#include "services/tokenizer/pre_tokenizers/split_patterns.h"

namespace sluice {
namespace {

// Mistral's tokenizer of the name.
constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Qwen2's, with marks as letters.
constexpr std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// DeepSeek V3's last split; numbers and CJK are split off before.
constexpr std::string_view kDeepSeekV3Pattern =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr char kByRegex[] = R"({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": $0}, "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})";

constexpr char kGpt2[] =
    R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})";

constexpr char kDigitsThenGpt2[] = R"({"type": "Sequence", "pretokenizers": [
    {"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]})";

constexpr char kDeepSeekV3[] = R"({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}"}, "behavior": "Isolated",
     "invert": false},
    {"type": "Split", "pattern": {"Regex": "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"},
     "behavior": "Isolated", "invert": false},
    {"type": "Split", "pattern": {"Regex": $0}, "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})";

constexpr char kDeepSeekCoder[] = R"({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "[\r\n]"}, "behavior": "Isolated", "invert": false},
    {"type": "Split", "pattern": {"Regex": "\\s?\\p{L}+"}, "behavior": "Isolated", "invert": false},
    {"type": "Split", "pattern": {"Regex": "\\s?\\p{P}+"}, "behavior": "Isolated", "invert": false},
    {"type": "Split", "pattern": {"Regex": "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"},
     "behavior": "Isolated", "invert": false},
    {"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})";

// Of DeepSeek LLM and V2: words of letters that have a case, punctuation, CJK, single digits.
constexpr char kDeepSeekLlm[] = R"({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "[\r\n]"}, "behavior": "Isolated", "invert": false},
    {"type": "Split", "pattern": {"Regex": "\\s?[\\p{Lu}\\p{Ll}\\p{Lt}]+"}, "behavior": "Isolated",
     "invert": false},
    {"type": "Split", "pattern":
     {"Regex": "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"},
     "behavior": "Isolated", "invert": false},
    {"type": "Split", "pattern": {"Regex": "\\s+$"}, "behavior": "Isolated", "invert": false},
    {"type": "Split", "pattern": {"Regex": "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"},
     "behavior": "Isolated", "invert": false},
    {"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})";

constexpr GgufPreTokenizer kPreTokenizers[] = {
    {.names = "gpt-2 phi-2 mpt jais", .pre_tokenizer = kGpt2, .pattern = ""},
    {.names = "olmo", .pre_tokenizer = kGpt2, .pattern = "", .composes = true},
    {.names = "starcoder refact smollm codeshell command-r",
     .pre_tokenizer = kDigitsThenGpt2,
     .pattern = ""},
    {.names = "llama-bpe llama3 llama-v3 falcon3 pixtral",
     .pre_tokenizer = kByRegex,
     .pattern = kCl100kPattern,
     .keeps_whole_tokens = true,
     .adds_bos = true},
    {.names = "smaug-bpe dbrx chatglm-bpe glm4",
     .pre_tokenizer = kByRegex,
     .pattern = kCl100kPattern,
     .keeps_whole_tokens = true},
    {.names = "qwen2 deepseek-r1-qwen stablelm2",
     .pre_tokenizer = kByRegex,
     .pattern = kQwen2Pattern,
     .composes = true},
    {.names = "qwen35", .pre_tokenizer = kByRegex, .pattern = kQwen35Pattern, .composes = true},
    {.names = "gpt-4o llama4",
     .pre_tokenizer = kByRegex,
     .pattern = kO200kPattern,
     .keeps_whole_tokens = true},
    {.names = "tekken",
     .pre_tokenizer = kByRegex,
     .pattern = kTekkenPattern,
     .keeps_whole_tokens = true,
     .adds_bos = true},
    {.names = "deepseek-llm", .pre_tokenizer = kDeepSeekLlm, .pattern = ""},
    {.names = "deepseek-coder", .pre_tokenizer = kDeepSeekCoder, .pattern = ""},
    {.names = "deepseek-v3", .pre_tokenizer = kDeepSeekV3, .pattern = kDeepSeekV3Pattern},
};

}  // namespace

const GgufPreTokenizer* FindGgufPreTokenizer(std::string_view name) {
  for (const GgufPreTokenizer& each : kPreTokenizers) {
    for (const absl::string_view known : absl::StrSplit(each.names, ' ')) {
      if (name == std::string_view(known.data(), known.size())) return &each;
    }
  }
  return nullptr;
}

std::string KnownGgufPreTokenizers() {
  std::string all;
  for (const GgufPreTokenizer& each : kPreTokenizers) {
    if (!all.empty()) all += ' ';
    all += each.names;
  }
  for (size_t at = all.find(' '); at != all.npos; at = all.find(' ', at + 2)) {
    all.replace(at, 1, ", ");
  }
  return all;
}

}  // namespace sluice
