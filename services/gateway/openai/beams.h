// Searching for the most probable texts, and the best of what is drawn, as vLLM's parameters say it:
// use_beam_search, best_of, length_penalty, early_stopping; and beam_width, stochastic_beams.
#pragma once

#include "services/gateway/json/object_reader.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::openai {

// A search follows beam_width beginnings, else best_of, else n, and returns n texts. `request` has n
// and the sampling options; a temperature of 0 or 1, which clients of vLLM's set with a search, is
// taken out. Without a search, best_of are drawn for n. Faults go to the reader.
void ReadBeams(ObjectReader& reader, v1::GenerateRequest& request);

// Log-probabilities of the prompt: vLLM's prompt_logprobs. They don't go with `stream`.
void ReadPromptLogprobs(ObjectReader& reader, bool streams, v1::GenerateRequest& request);

}  // namespace sluice::gateway::openai
