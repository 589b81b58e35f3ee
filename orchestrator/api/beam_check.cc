#include "orchestrator/api/beam_check.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/sampling_options/sampling_options.h"
#include "orchestrator/api/refusal.h"
#include "services/messages/num_returned.h"
#include "services/messages/sampling_message.h"

namespace sluice {
namespace {

constexpr int32_t kMaxWidth = 64;
constexpr float kMaxLengthPenalty = 10;
// What decides how a token is drawn.
constexpr std::array kDrawing = {
    "temperature", "dynatemp_range", "dynatemp_exponent", "top_k",         "top_p",
    "min_p",       "typical_p",      "top_n_sigma",       "xtc_threshold", "xtc_probability"};

bool Draws(const SamplingParameter& parameter) {
  return std::find(kDrawing.begin(), kDrawing.end(), std::string(parameter.name)) != kDrawing.end();
}

absl::Status Contradicts(absl::string_view a, absl::string_view b, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(a, " and ", b, " contradict each other: ", why));
}

absl::Status CheckNumbers(const v1::BeamSearch& beams) {
  if (beams.beam_width() < 1 || beams.beam_width() > kMaxWidth) {
    return Refuse("beams.beam_width", beams.beam_width(), absl::StrCat("1 to ", kMaxWidth));
  }
  if (beams.has_num_return() &&
      (beams.num_return() < 1 || beams.num_return() > beams.beam_width())) {
    return Refuse("beams.num_return", beams.num_return(),
                  absl::StrCat("1 to beam_width, which is ", beams.beam_width()));
  }
  const float penalty = beams.length_penalty();
  if (!(penalty >= -kMaxLengthPenalty && penalty <= kMaxLengthPenalty)) {
    return Refuse("beams.length_penalty", penalty,
                  absl::StrCat(-kMaxLengthPenalty, " to ", kMaxLengthPenalty));
  }
  if (!v1::EarlyStopping_IsValid(beams.early_stopping())) {
    return Refuse("beams.early_stopping", static_cast<int>(beams.early_stopping()),
                  "heuristic (1), at_once (2) or never (3)");
  }
  return absl::OkStatus();
}

// The name of an option that draws and that the request itself asks for; else empty.
std::string DrawingOption(const v1::SamplingOptions& sampling) {
  const google::protobuf::Descriptor& fields = *sampling.GetDescriptor();
  for (const char* name : kDrawing) {
    if (sampling.GetReflection()->HasField(sampling, fields.FindFieldByName(name))) return name;
  }
  return "";
}

absl::Status CheckStochastic(const v1::GenerateRequest& request, const SamplingOptions& sampling) {
  const v1::BeamSearch& beams = request.beams();
  constexpr char kWhy[] =
      "what is drawn is not ranked by length, and has no end before all have ended";
  if (beams.has_length_penalty()) {
    return Contradicts("beams.stochastic", "beams.length_penalty", kWhy);
  }
  if (beams.early_stopping() != v1::EARLY_STOPPING_UNSPECIFIED) {
    return Contradicts("beams.stochastic", "beams.early_stopping", kWhy);
  }
  if (request.logprobs() > 0) {
    return Contradicts("beams.stochastic", "logprobs above 0",
                       "its rows return the tokens that were drawn, not the most probable ones");
  }
  if (sampling.temperature == 0) {
    return Contradicts("beams.stochastic", "sampling.temperature 0", "there is nothing to draw");
  }
  return absl::OkStatus();
}

// Whether something changes the probabilities that a search goes by.
bool ChangesProbabilities(const v1::GenerateRequest& request, const SamplingOptions& sampling) {
  return request.beams().stochastic() || request.has_constraint() || !request.bad_words().empty() ||
         HasSequenceParameters(sampling);
}

}  // namespace

absl::Status CheckBeams(const v1::GenerateRequest& request, const ModelDescription& model) {
  if (absl::Status status = CheckNumbers(request.beams()); !status.ok()) return status;
  if (request.has_n()) {
    return Contradicts("n", "beams", "beams.num_return says how many are returned");
  }
  if (request.has_best_of()) {
    return Contradicts("best_of", "beams", "a search draws nothing to choose from");
  }
  const SamplingOptions sampling = Merged(model.sampling, request.sampling());
  if (request.beams().stochastic()) return CheckStochastic(request, sampling);
  const std::string drawing = DrawingOption(request.sampling());
  if (!drawing.empty()) {
    return Contradicts(absl::StrCat("sampling.", drawing), "beams",
                       "they take the most probable texts and draw nothing; beams.stochastic does");
  }
  if (request.logprobs_mode() == v1::LOGPROBS_MODE_RAW && ChangesProbabilities(request, sampling)) {
    return Contradicts("logprobs_mode raw", "beams with a constraint, bias or penalties",
                       "they go by the probabilities after these");
  }
  return absl::OkStatus();
}

void SetBeams(const v1::GenerateRequest& request, const ModelDescription& model,
              EngineRequest& into) {
  const v1::BeamSearch& beams = request.beams();
  BeamSettings& settings = into.beams.emplace();
  settings.search.width = beams.beam_width();
  settings.search.num_return = NumReturned(request);
  settings.search.stochastic = beams.stochastic();
  if (beams.has_length_penalty()) settings.search.length_penalty = beams.length_penalty();
  if (beams.early_stopping() == v1::EARLY_STOPPING_AT_ONCE) {
    settings.search.early_stopping = EarlyStopping::kAtOnce;
  } else if (beams.early_stopping() == v1::EARLY_STOPPING_NEVER) {
    settings.search.early_stopping = EarlyStopping::kNever;
  }
  BeamOptions whole = settings.search;
  whole.stop_tokens = into.stop_tokens;
  settings.num_candidates = std::min(NumCandidates(whole), model.vocabulary_size);
  into.num_sequences = settings.search.num_return;
  into.processed_logprobs = ChangesProbabilities(request, into.sampling);
  if (beams.stochastic()) return;
  const SamplingOptions neutral;
  for (const SamplingParameter& parameter : kSamplingParameters) {
    if (!Draws(parameter)) continue;
    std::visit([&](auto member) { into.sampling.*member = neutral.*member; }, parameter.member);
  }
  // The most probable tokens of the model itself are found without a distribution to draw from.
  if (!into.processed_logprobs) into.sampling.temperature = 0;
}

}  // namespace sluice
