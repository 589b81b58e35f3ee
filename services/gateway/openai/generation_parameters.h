// The parameters that completions and chat completions have in common: OpenAI's, and those that
// vLLM adds to them.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/gateway/json/object_reader.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::openai {

struct StreamOptions {
  bool stream = false;
  bool include_usage = false;  // a chunk with the usage before the last
};

// What a response says beside what was generated.
struct GenerationParameters {
  std::string model;         // as asked for; empty where the client leaves it to the server
  std::string service_tier;  // as it is answered; empty where not asked for
  StreamOptions stream;
  std::string constraint;  // the parameter that says what the text must keep; empty where none does
  std::vector<std::string> bad_words;  // texts that are not to occur
  // vLLM's: choices have `token_ids`, and the prompt's are answered as `prompt_token_ids`.
  bool return_token_ids = false;
};

// Sampling, beams, constraints, stopping, n, seed, priority: into `request`. `text` is the body as
// it was sent. Not the prompt, max_tokens and logprobs, which the two APIs spell differently.
// Faults go to the reader.
GenerationParameters ReadGenerationParameters(ObjectReader& reader, absl::string_view text,
                                              v1::GenerateRequest& request);

}  // namespace sluice::gateway::openai
