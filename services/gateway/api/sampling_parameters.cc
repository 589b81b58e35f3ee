#include "services/gateway/api/sampling_parameters.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/sampling_options/sampling_options.h"
#include "services/messages/sampling_message.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

constexpr size_t kMaxBadWords = 256;

// Each reads one member into `value`, and says whether it was there.
bool Read(ObjectReader& reader, const char* name, float& value) {
  const std::optional<double> number = reader.Number(name);
  if (number.has_value()) value = static_cast<float>(*number);
  return number.has_value();
}

bool Read(ObjectReader& reader, const char* name, int32_t& value) {
  using Limits = std::numeric_limits<int32_t>;
  const std::optional<int64_t> number = reader.Integer(name, Limits::min(), Limits::max());
  if (number.has_value()) value = static_cast<int32_t>(*number);
  return number.has_value();
}

// -1 draws a seed, as llama.cpp and vLLM have it: as if there were none.
bool Read(ObjectReader& reader, const char* name, uint64_t& value) {
  const std::optional<uint64_t> number = reader.Bits(name);
  if (!number.has_value() || *number == ~uint64_t{0}) return false;
  value = *number;
  return true;
}

bool Read(ObjectReader& reader, const char* name, std::vector<int32_t>& value) {
  std::optional<std::vector<int32_t>> ids = reader.Integers(name);
  if (!ids.has_value()) return false;
  value = *std::move(ids);
  return true;
}

bool Read(ObjectReader& reader, const char* name, std::vector<TokenBias>& value) {
  const json* biases = reader.Object(name);
  if (biases == nullptr) return false;
  for (const auto& entry : biases->items()) {
    TokenBias bias;
    if (!absl::SimpleAtoi(entry.key(), &bias.id) || !entry.value().is_number()) {
      reader.Fail(name, "invalid_value",
                  absl::StrCat("'", name, "' must map token ids to numbers, but has '", entry.key(),
                               "': ", entry.value().type_name(), "."));
      return false;
    }
    bias.bias = entry.value().get<float>();
    value.push_back(bias);
  }
  return true;
}

bool Read(ObjectReader& reader, const char* name, std::vector<std::vector<int32_t>>& value) {
  const json* words = reader.Array(name);
  if (words == nullptr) return false;
  for (size_t i = 0; i < words->size(); ++i) {
    // Read as a member of an object of its own, so that faults have the word's place.
    const std::string place = absl::StrCat(name, "[", i, "]");
    const json holder = {{place, (*words)[i]}};
    ObjectReader word(holder);
    std::optional<std::vector<int32_t>> ids = word.Integers(place.c_str());
    reader.Fail(word.Finish());
    value.push_back(std::move(ids).value_or(std::vector<int32_t>()));
  }
  return true;
}

}  // namespace

void ReadSamplingParameters(ObjectReader& reader, v1::SamplingOptions& sampling) {
  for (const SamplingParameter& parameter : kSamplingParameters) {
    SamplingOptions options;
    const bool is_there =
        std::visit([&](auto member) { return Read(reader, parameter.name, options.*member); },
                   parameter.member);
    if (is_there) SetField(parameter, options, sampling);
  }
  if (sampling.top_k() == -1) sampling.set_top_k(0);
  // OpenAI's range has 0, by which the most probable token alone is left.
  if (sampling.has_top_p() && sampling.top_p() == 0) {
    sampling.set_top_p(std::numeric_limits<float>::min());
  }
}

std::vector<std::string> ReadBadWords(ObjectReader& reader) {
  std::vector<std::string> result;
  const json* words = reader.Array("bad_words");
  if (words == nullptr) return result;
  for (const json& word : *words) {
    if (word.is_string() && !word.get_ref<const std::string&>().empty()) {
      result.push_back(word.get<std::string>());
    }
  }
  if (result.size() != words->size() || result.size() > kMaxBadWords) {
    reader.Fail("bad_words", "invalid_value",
                absl::StrCat("'bad_words' must hold up to ", kMaxBadWords,
                             " strings, none of them empty."));
  }
  return result;
}

}  // namespace sluice::gateway
