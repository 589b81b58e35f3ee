#include "services/gateway/openai/beams.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

constexpr int64_t kMaxSequences = 16;
constexpr int64_t kMaxLogprobs = 20;

// Hugging Face's values, which vLLM has, too.
v1::EarlyStopping ReadEarlyStopping(ObjectReader& reader) {
  const json* value = reader.Any("early_stopping");
  if (value == nullptr) return v1::EARLY_STOPPING_UNSPECIFIED;
  if (*value == true) return v1::EARLY_STOPPING_AT_ONCE;
  if (*value == false) return v1::EARLY_STOPPING_HEURISTIC;
  if (*value == "never") return v1::EARLY_STOPPING_NEVER;
  reader.Fail("early_stopping", "invalid_type",
              "'early_stopping' must be a boolean or the string 'never'.");
  return v1::EARLY_STOPPING_UNSPECIFIED;
}

// What only means something for a search.
struct SearchFields {
  std::optional<double> length_penalty;
  v1::EarlyStopping early_stopping = v1::EARLY_STOPPING_UNSPECIFIED;
  bool stochastic = false;

  const char* given() const {
    if (length_penalty.has_value()) return "length_penalty";
    if (early_stopping != v1::EARLY_STOPPING_UNSPECIFIED) return "early_stopping";
    return stochastic ? "stochastic_beams" : nullptr;
  }
};

void SetSearch(int32_t width, const SearchFields& fields, v1::GenerateRequest& request) {
  v1::BeamSearch& beams = *request.mutable_beams();
  beams.set_beam_width(width);
  beams.set_num_return(std::max(1, request.n()));
  if (fields.length_penalty) beams.set_length_penalty(static_cast<float>(*fields.length_penalty));
  beams.set_early_stopping(fields.early_stopping);
  beams.set_stochastic(fields.stochastic);
  request.clear_n();
  v1::SamplingOptions& sampling = *request.mutable_sampling();
  const float temperature = sampling.temperature();
  if (!fields.stochastic && (temperature == 0 || temperature == 1)) sampling.clear_temperature();
}

}  // namespace

void ReadBeams(ObjectReader& reader, v1::GenerateRequest& request) {
  const std::optional<int64_t> best_of = reader.Integer("best_of", 1, kMaxSequences);
  const std::optional<int64_t> width =
      reader.Integer("beam_width", 1, std::numeric_limits<int32_t>::max());
  SearchFields fields = {.length_penalty = reader.Number("length_penalty"),
                         .early_stopping = ReadEarlyStopping(reader),
                         .stochastic = reader.Bool("stochastic_beams").value_or(false)};
  if (reader.Bool("use_beam_search").value_or(width.has_value())) {
    const int64_t n = std::max(1, request.n());
    return SetSearch(static_cast<int32_t>(width.value_or(best_of.value_or(n))), fields, request);
  }
  if (fields.given() != nullptr) {
    reader.Fail(fields.given(), "invalid_value",
                absl::StrCat("'", fields.given(), "' needs 'use_beam_search'."));
  }
  if (best_of.has_value()) request.set_best_of(static_cast<int32_t>(*best_of));
}

void ReadPromptLogprobs(ObjectReader& reader, bool streams, v1::GenerateRequest& request) {
  const std::optional<int64_t> count = reader.Integer("prompt_logprobs", 0, kMaxLogprobs);
  if (!count.has_value()) return;
  if (streams) {
    reader.Fail("prompt_logprobs", "invalid_value",
                "'prompt_logprobs' are not available when 'stream' is enabled.");
  }
  request.set_prompt_logprobs(static_cast<int32_t>(*count));
}

}  // namespace sluice::gateway::openai
