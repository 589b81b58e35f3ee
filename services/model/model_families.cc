#include "services/model/model_families.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/model/families.h"

namespace sluice {
namespace {

constexpr ModelFamily kFamilies[] = {
    {"llama", MapLlama, &kLlamaNames, {}},
    {"mistral", MapMistral, &kLlamaNames, {}},
    {"qwen2", MapQwen2, &kLlamaNames, {}},
    {"qwen3", MapQwen3, &kLlamaNames, {}},
    {"smollm3", MapSmolLm3, &kLlamaNames, {}},
    {"ministral", MapMinistral, &kLlamaNames, {}},
    {"ministral3", MapMinistral3, &kLlamaNames, {}},
    {"ernie4_5", MapErnie, &kLlamaNames, {}},
    {"granite", MapGranite, &kLlamaNames, {}},
    {"minicpm", MapMiniCpm, &kLlamaNames, {}},
    {"internlm2", MapInternLm2, &kInternLm2Names, {}},
    {"olmo2", MapOlmo2, &kOlmoNames, {}},
    {"olmo3", MapOlmo3, &kOlmoNames, {}},
    {"glm", MapGlm, &kGlmNames, {.turned_fraction = 0.5}},
    {"glm4", MapGlm4, &kGlm4Names, {.turned_fraction = 0.5}},
    {"cohere", MapCohere, &kLlamaNames, {}},
    {"cohere2", MapCohere2, &kLlamaNames, {}},
    {"starcoder2", MapStarCoder2, &kStarCoder2Names, {}, R"({"num_key_value_heads": 2})"},
    {"stablelm", MapStableLm, &kStableLmNames, {.turned_fraction = 0.25}},
    {"gemma", MapGemma, &kLlamaNames, {}},
    {"mixtral", MapMixtral, &kMixtralNames, {}},
    {"qwen2_moe", MapQwen2Moe, &kQwenMoeNames, {}},
    {"qwen3_moe", MapQwen3Moe, &kQwenMoeNames, {}},
    {"glm4_moe", MapGlm4Moe, &kDeepseekMoeNames, {.turned_fraction = 0.5}},
    {"ernie4_5_moe", MapErnieMoe, &kErnieMoeNames, {}},
    {"gpt_oss", MapGptOss, &kGptOssNames, {}},
    {"granitemoe", MapGraniteMoe, &kGraniteMoeNames, {}},
    {"granitemoeshared", MapGraniteMoe, &kGraniteMoeNames, {}},
    {"qwen3_next", MapQwen3Next, &kQwen3NextNames, {.turned_fraction = 0.25}},
    {"qwen3_5_text", MapQwen35, &kQwen35Names, {.turned_fraction = 0.25}},
    {"qwen3_5_moe_text",
     MapQwen35Moe,
     &kQwen35MoeNames,
     {.turned_fraction = 0.25},
     R"({"intermediate_size": 1})"},  // no layer has a dense MLP
    {"granitemoehybrid", MapGranite4, &kGranite4Names, {}},
    {"nemotron_h", MapNemotronH, &kNemotronNames, {}},
    {"olmoe", MapOlmoe, &kQwenMoeNames, {}},
    {"llama4_text", MapLlama4, &kLlama4Names, {}},
    {"gemma2", MapGemma2, &kGemma2Names, {}},
    {"gemma3_text",
     MapGemma3,
     &kGemma2Names,
     {.names_reach = true, .local_theta = "rope_local_base_freq"},
     R"({"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4,
         "max_position_embeddings": 131072})"},
    {"gemma4_text",
     MapGemma4,
     &kGemma4Names,
     {.names_reach = true},
     R"({"rope_parameters": {
           "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
           "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                              "rope_theta": 1000000.0}}})"},
    {"phi", MapPhi, &kPhiNames, {.turned_fraction = 0.5}},
    {"phi3", MapPhi3, &kPhi3Names, {.original_positions = 4096, .every_list_long = true}},
    {"gpt2", MapGpt2, &kGpt2Names, {}},
    {"gpt_neox", MapGptNeox, &kGptNeoxNames, {.turned_fraction = 0.25}},
    {"bert", MapBert, &kBertNames, {}},
    {"roberta", MapRoberta, &kRobertaNames, {}},
    {"xlm-roberta", MapRoberta, &kRobertaNames, {}},
    {"distilbert", MapDistilBert, &kDistilBertNames, {}},
    {"modernbert",
     MapModernBert,
     &kModernBertNames,
     {.names_reach = true, .local_theta = "local_rope_theta"}},
    {"t5", MapT5, &kT5Names, {}, R"({"tie_word_embeddings": true})"},
    {"mt5",
     MapT5,
     &kT5Names,
     {},
     R"({"feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})"},
    {"bart", MapBart, &kBartNames, {}},
    {"mbart", MapMbart, &kBartNames, {}},
    {"marian", MapMarian, &kBartNames, {}},
    {"sluice_decoder", MapSluiceDecoder, &kLlamaNames, {}},
    {"deepseek_v2", MapDeepSeek, &kDeepSeekNames, {}},
    {"deepseek_v3", MapDeepSeek, &kDeepSeekNames, {}},
    {"kimi_k2", MapDeepSeek, &kDeepSeekNames, {}},
    {"glm4_moe_lite", MapGlm4MoeLite, &kDeepSeekNames, {}},
};

}  // namespace

const ModelFamily* FindModelFamily(const std::string& model_type) {
  for (const ModelFamily& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

std::string KnownModelTypes() {
  return absl::StrJoin(kFamilies, ", ", [](std::string* out, const ModelFamily& family) {
    absl::StrAppend(out, "\"", family.model_type, "\"");
  });
}

}  // namespace sluice
