// How a token is chosen from a row of logits: every parameter there is, once. What clients send
// (sampling.proto), what is refused, the flags of the command line, their help and docs/sampling.md
// all follow from the table below. Plain values; free of protos.
//
// A row passes these stages, in this order:
//
//   1. tokens are forbidden (their logit is -infinity): by allowed_token_ids and banned_token_ids,
//      by bad_words_ids, by min_tokens, by no_repeat_ngram_size
//   2. logit_bias is added
//   3. penalties of tokens that occurred: repetition, then presence and frequency, then DRY
//   4. temperature 0 ends here with the largest logit, ties by the lowest id
//   5. logits are divided by the temperature, dynamic where dynatemp_range is set
//   6. filters, each on what the one before left, probabilities renormalised between them:
//      top_k, top_p, min_p, typical_p, top_n_sigma, xtc
//   7. one token is drawn
// A row whose tokens are all forbidden fails.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <variant>
#include <vector>

namespace sluice {

struct TokenBias {
  int32_t id = 0;
  float bias = 0;

  friend bool operator==(const TokenBias&, const TokenBias&) = default;
};

// The initial values are neutral: each switches its stage off.
struct SamplingOptions {
  std::vector<int32_t> allowed_token_ids;
  std::vector<int32_t> banned_token_ids;
  std::vector<std::vector<int32_t>> bad_words_ids;
  int32_t min_tokens = 0;
  int32_t no_repeat_ngram_size = 0;
  std::vector<TokenBias> logit_bias;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  float dry_multiplier = 0;
  float dry_base = 1.75F;
  int32_t dry_allowed_length = 2;
  int32_t dry_range = 0;
  std::vector<int32_t> dry_breaker_token_ids;
  float temperature = 1;
  float dynatemp_range = 0;
  float dynatemp_exponent = 1;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float typical_p = 1;
  float top_n_sigma = 0;
  float xtc_probability = 0;
  float xtc_threshold = 0.1F;
  uint64_t seed = 0;

  friend bool operator==(const SamplingOptions&, const SamplingOptions&) = default;
};

// Accepted values: finite, and within these bounds.
struct SamplingRange {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is refused
};

struct SamplingParameter {
  using Member = std::variant<float SamplingOptions::*, int32_t SamplingOptions::*,
                              uint64_t SamplingOptions::*, std::vector<int32_t> SamplingOptions::*,
                              std::vector<TokenBias> SamplingOptions::*,
                              std::vector<std::vector<int32_t>> SamplingOptions::*>;

  const char* name;  // of the field in sampling.proto and of the flag
  Member member;
  SamplingRange range;         // of a number, or of how many entries a list has
  const char* value;           // what the help calls the value
  const char* help;            // what it does, in sentences
  const char* source;          // the paper or implementation that defines it
  const char* model_key = "";  // in generation_config.json; "": none there
  // Whether it looks at more than the row at hand: lists, or the tokens that came before. The
  // sampler keeps such options, and what it counts for them, by sequence.
  bool per_sequence = false;
};

// By the order of the stages.
inline constexpr std::array kSamplingParameters = {
    SamplingParameter{
        .name = "allowed_token_ids",
        .member = &SamplingOptions::allowed_token_ids,
        .range = {.max = 1 << 16},
        .value = "1,2,3",
        .help = "Only these tokens may be chosen. Empty: all.",
        .source = "vLLM's allowed_token_ids",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "banned_token_ids",
        .member = &SamplingOptions::banned_token_ids,
        .range = {.max = 1 << 16},
        .value = "1,2,3",
        .help = "These tokens are never chosen.",
        .source = "Hugging Face's suppress_tokens",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "bad_words_ids",
        .member = &SamplingOptions::bad_words_ids,
        .range = {.max = 1024},
        .value = "1,2,3",
        .help = "The last of these tokens is forbidden after the others; at most 64 tokens. On the "
                "command line, give the flag again for a further word.",
        .source = "Hugging Face's bad_words_ids",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "min_tokens",
        .member = &SamplingOptions::min_tokens,
        .value = "N",
        .help = "The tokens that end a sequence (end of sequence, stop_token_ids) are forbidden "
                "until it has N others.",
        .source = "vLLM's min_tokens",
        .model_key = "min_new_tokens",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "no_repeat_ngram_size",
        .member = &SamplingOptions::no_repeat_ngram_size,
        .value = "N",
        .help = "Forbids tokens that would complete N tokens which prompt and text already have in "
                "this order. 0: off.",
        .source = "Paulus, Xiong and Socher 2018; Hugging Face",
        .model_key = "no_repeat_ngram_size",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "logit_bias",
        .member = &SamplingOptions::logit_bias,
        .range = {.max = 1024},
        .value = "ID=BIAS,..",
        .help = "Added to the logits of these tokens; each bias from -100 to 100.",
        .source = "OpenAI's logit_bias",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "repetition_penalty",
        .member = &SamplingOptions::repetition_penalty,
        .range = {.above_min = true},
        .value = "R",
        .help = "Of tokens in prompt or text, logits above 0 are divided by R and others "
                "multiplied with it.",
        .source = "Keskar et al. 2019 (CTRL); both cases as Hugging Face",
        .model_key = "repetition_penalty",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "presence_penalty",
        .member = &SamplingOptions::presence_penalty,
        .range = {.min = -2, .max = 2},
        .value = "P",
        .help = "Subtracted from the logits of tokens in the text; the prompt does not count.",
        .source = "OpenAI's presence_penalty",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "frequency_penalty",
        .member = &SamplingOptions::frequency_penalty,
        .range = {.min = -2, .max = 2},
        .value = "P",
        .help =
            "Subtracted from the logits of tokens in the text once for each time they occur there.",
        .source = "OpenAI's frequency_penalty",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "dry_multiplier",
        .member = &SamplingOptions::dry_multiplier,
        .value = "M",
        .help =
            "M B^(n - A) is subtracted from the logit of a token that would repeat a run: n is the "
            "length of the longest run of tokens that ends the text and was followed by that token "
            "before, B is dry_base, A is dry_allowed_length; shorter runs are free. 0: off.",
        .source = "p-e-w 2024 (DRY), text-generation-webui",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "dry_base",
        .member = &SamplingOptions::dry_base,
        .range = {.min = 1},
        .value = "B",
        .help = "See dry_multiplier.",
        .source = "p-e-w 2024 (DRY), text-generation-webui",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "dry_allowed_length",
        .member = &SamplingOptions::dry_allowed_length,
        .value = "A",
        .help = "See dry_multiplier.",
        .source = "p-e-w 2024 (DRY), text-generation-webui",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "dry_range",
        .member = &SamplingOptions::dry_range,
        .value = "N",
        .help = "DRY looks at the newest N tokens of prompt and text. 0: at all of them.",
        .source = "p-e-w 2024 (DRY), text-generation-webui",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "dry_breaker_token_ids",
        .member = &SamplingOptions::dry_breaker_token_ids,
        .range = {.max = 1024},
        .value = "1,2,3",
        .help = "Runs end at these tokens, and DRY does not penalise them.",
        .source = "p-e-w 2024 (DRY), text-generation-webui",
        .per_sequence = true,
    },
    SamplingParameter{
        .name = "temperature",
        .member = &SamplingOptions::temperature,
        .value = "T",
        .help = "Logits are divided by it. 0: always the most probable token.",
        .source = "Ackley, Hinton and Sejnowski 1985",
        .model_key = "temperature",
    },
    SamplingParameter{
        .name = "dynatemp_range",
        .member = &SamplingOptions::dynatemp_range,
        .value = "R",
        .help = "The temperature becomes T - R + 2 R h^E, where h is the entropy of the tokens not "
                "forbidden, at temperature 1, divided by the logarithm of their number, and E is "
                "dynatemp_exponent. At most the temperature. 0: off.",
        .source = "kalomaze 2023, as llama.cpp's temp_ext",
    },
    SamplingParameter{
        .name = "dynatemp_exponent",
        .member = &SamplingOptions::dynatemp_exponent,
        .range = {.above_min = true},
        .value = "E",
        .help = "How entropy becomes temperature: see dynatemp_range.",
        .source = "kalomaze 2023, as llama.cpp's temp_ext",
    },
    SamplingParameter{
        .name = "top_k",
        .member = &SamplingOptions::top_k,
        .value = "K",
        .help = "Keeps the K most probable tokens and ties with the last of them. 0: all.",
        .source = "Fan, Lewis and Dauphin 2018",
        .model_key = "top_k",
    },
    SamplingParameter{
        .name = "top_p",
        .member = &SamplingOptions::top_p,
        .range = {.max = 1, .above_min = true},
        .value = "P",
        .help = "Keeps the most probable tokens until those before one reach P together, ties by "
                "lower id. 1: all.",
        .source = "Holtzman et al. 2020",
        .model_key = "top_p",
    },
    SamplingParameter{
        .name = "min_p",
        .member = &SamplingOptions::min_p,
        .range = {.max = 1},
        .value = "P",
        .help = "Keeps tokens at least P times as probable as the most probable one. 0: all.",
        .source = "Nguyen et al. 2024",
        .model_key = "min_p",
    },
    SamplingParameter{
        .name = "typical_p",
        .member = &SamplingOptions::typical_p,
        .range = {.max = 1, .above_min = true},
        .value = "P",
        .help = "Keeps the tokens whose -log(probability) is nearest to the entropy until those "
                "before one reach P together, ties by lower id. 1: all.",
        .source = "Meister et al. 2023",
        .model_key = "typical_p",
    },
    SamplingParameter{
        .name = "top_n_sigma",
        .member = &SamplingOptions::top_n_sigma,
        .value = "N",
        .help = "Keeps tokens whose logit is at most N standard deviations below the largest; the "
                "deviation is that of all tokens that are not forbidden. 0: all.",
        .source = "Tang et al. 2024",
    },
    SamplingParameter{
        .name = "xtc_probability",
        .member = &SamplingOptions::xtc_probability,
        .range = {.max = 1},
        .value = "P",
        .help = "With this probability, where several tokens reach xtc_threshold, all of them but "
                "the least probable (ties: the highest id) are removed. 0: never.",
        .source = "p-e-w 2024, text-generation-webui",
    },
    SamplingParameter{
        .name = "xtc_threshold",
        .member = &SamplingOptions::xtc_threshold,
        .range = {.max = 0.5},
        .value = "P",
        .help = "The probability from which on a token is a top choice: see xtc_probability.",
        .source = "p-e-w 2024, text-generation-webui",
    },
    SamplingParameter{
        .name = "seed",
        .member = &SamplingOptions::seed,
        .range = {.max = 0x1p64},
        .value = "S",
        .help = "Key of the random numbers: the same seed, model, prompt and options give the same "
                "tokens.",
        .source = "Salmon et al. 2011 (Philox)",
    },
};

// Whether one of the per_sequence parameters is not neutral.
inline bool HasSequenceParameters(const SamplingOptions& options) {
  static const SamplingOptions& neutral = *new SamplingOptions();
  for (const SamplingParameter& parameter : kSamplingParameters) {
    if (!parameter.per_sequence) continue;
    const auto differs = [&](auto member) { return options.*member != neutral.*member; };
    if (std::visit(differs, parameter.member)) return true;
  }
  return false;
}

}  // namespace sluice
