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
    {"gemma", MapGemma, &kLlamaNames, {}},
    {"phi3", MapPhi3, &kPhi3Names, {.original_positions = 4096, .every_list_long = true}},
    {"gpt2", MapGpt2, &kGpt2Names, {}},
    {"gpt_neox", MapGptNeox, &kGptNeoxNames, {.turned_fraction = 0.25}},
    {"sluice_decoder", MapSluiceDecoder, &kLlamaNames, {}},
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
