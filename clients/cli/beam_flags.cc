#include "clients/cli/beam_flags.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// By the names of the API and by Hugging Face's values.
absl::Status SetEarlyStopping(const std::string& text, v1::EarlyStopping* into) {
  if (text == "heuristic" || text == "false") {
    *into = v1::EARLY_STOPPING_HEURISTIC;
  } else if (text == "at_once" || text == "true") {
    *into = v1::EARLY_STOPPING_AT_ONCE;
  } else if (text == "never") {
    *into = v1::EARLY_STOPPING_NEVER;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is none of false (heuristic), true (at_once) and never"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddBeamFlags(FlagSet& flags, BeamFlags* into) {
  flags.Section("Searching for the most probable texts instead of drawing some");
  flags.Add("beam_width", "W",
            "Follows the W most probable beginnings token by token, 1 to 64, and returns the best "
            "of the texts they come to.",
            &into->beam_width);
  flags.Add("num_return", "N",
            "The best so many texts, up to W. In text, what they begin with in common is streamed "
            "as soon as it is settled. Default 1; with --stochastic_beams W.",
            &into->num_return);
  flags.Add("length_penalty", "P",
            "A text's score is the sum of its log-probabilities, divided by the number of its "
            "tokens to the power of P; -10 to 10. Above 0 favours long texts. Default 1.",
            &into->length_penalty);
  flags.AddParsed(
      "early_stopping", "false|true|never",
      "When a search with W finished texts ends: once no beginning scores better than the worst of "
      "them (false, the default), at once (true), once none can come to score better (never).",
      [into](const std::string& text) { return SetEarlyStopping(text, &into->early_stopping); });
  flags.AddSwitch("stochastic_beams",
                  "Draws W texts without replacement instead; --temperature and filters hold.",
                  &into->stochastic);
}

absl::Status SetBeams(const BeamFlags& flags, v1::GenerateRequest& request) {
  if (!flags.beam_width.has_value()) {
    const bool others = flags.length_penalty.has_value() || flags.num_return.has_value() ||
                        flags.stochastic || flags.early_stopping != v1::EARLY_STOPPING_UNSPECIFIED;
    if (!others) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--num_return, --length_penalty, --early_stopping and --stochastic_beams need "
        "--beam_width");
  }
  v1::BeamSearch& beams = *request.mutable_beams();
  beams.set_beam_width(*flags.beam_width);
  if (flags.length_penalty) beams.set_length_penalty(*flags.length_penalty);
  beams.set_early_stopping(flags.early_stopping);
  if (flags.num_return) beams.set_num_return(*flags.num_return);
  beams.set_stochastic(flags.stochastic);
  return absl::OkStatus();
}

}  // namespace sluice
