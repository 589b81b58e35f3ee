// The parameters of sampling as all APIs take them: each by the name that
// kernels/sampling_options gives it, which is also what clients of other servers call it.
#pragma once

#include <string>
#include <vector>

#include "services/gateway/json/object_reader.h"
#include "sluice/v1/sampling.pb.h"

namespace sluice::gateway {

// What the object has of them, into `sampling`; faults of type go to the reader. Which values are
// accepted the server says. Beyond the table: `top_k` may be -1, vLLM's word for no limit; `seed` may be
// -1, which draws one, and is any integer of 64 bits, with or without a sign; `top_p` may be 0, which
// leaves the most probable token; `logit_bias` is an object by token ids as strings, which is OpenAI's.
void ReadSamplingParameters(ObjectReader& reader, v1::SamplingOptions& sampling);

// vLLM's `bad_words`: texts that are not to occur, which take a tokenizer to become bad_words_ids.
std::vector<std::string> ReadBadWords(ObjectReader& reader);

}  // namespace sluice::gateway
