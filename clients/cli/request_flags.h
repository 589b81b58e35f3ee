// The flags that describe a request, shared by `run`, `generate` and `chat`, and the message they
// become. Only what the message cannot carry is refused here; ranges are the server's to judge, so
// that every client hears the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/cli/beam_flags.h"
#include "clients/cli/constraint_flags.h"
#include "services/options/flags.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

struct RequestFlags {
  // At most one of these three; `prompt` may also come as the argument without a flag.
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;  // read by ReadPrompt (prompt_input.h)
  std::optional<std::vector<int32_t>> token_ids;
  // Of encoder-decoders, at most one: beside a prompt or instead of it.
  std::optional<std::string> source;
  std::optional<std::vector<int32_t>> source_ids;

  ConstraintFlags constraint;
  std::optional<int32_t> max_tokens;
  v1::SamplingOptions sampling;           // what was given
  std::vector<std::string> stop_strings;  // UTF-8, escapes resolved
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  std::vector<std::string> bad_words, dry_breakers;  // UTF-8
  std::optional<int32_t> n;
  std::optional<int32_t> best_of;
  BeamFlags beams;
  std::optional<int32_t> logprobs;         // only with `json`
  bool processed_logprobs = false;         // only with `logprobs`
  std::optional<int32_t> prompt_logprobs;  // only with `json`
  std::optional<std::string> adapter;
  std::optional<int32_t> priority;
  bool decline_drafts = false;
  std::optional<int32_t> max_draft_tokens;

  std::optional<absl::Duration> timeout;
  bool json = false;
};

// --prompt, --prompt_file, --token_ids, --n, --best_of, --logprobs, --prompt_logprobs, --json, and the
// flags of beam_flags.h.
void AddPromptFlags(FlagSet& flags, RequestFlags* into);
// The flags of constraint_flags.h, --max_tokens, a flag for every sampling parameter, --bad_words,
// --dry_breakers, --stop, --stop_token_ids, --ignore_eos, --priority, --decline_drafts,
// --max_draft_tokens, --timeout.
void AddSamplingFlags(FlagSet& flags, RequestFlags* into);

// The request but for its prompt and beams.
v1::GenerateRequest WithoutPrompt(const RequestFlags& flags);

// What is set in it, as flags have it: "temperature=0.2 max_tokens=40". Empty where nothing is.
std::string OptionsText(const v1::GenerateRequest& request);

// The whole request. `positional` is the argument without a flag. INVALID_ARGUMENT unless there is
// exactly one prompt, where it is not UTF-8, for log-probabilities without --json, and for a search
// without --beam_width.
absl::StatusOr<v1::GenerateRequest> ToRequest(const RequestFlags& flags,
                                              const std::optional<std::string>& positional);

}  // namespace sluice
