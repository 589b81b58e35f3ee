// What the page's view of attention shows: POST /page/inspect, an Inspect call with the texts of its
// tokens.
#pragma once

#include <memory>

#include "services/gateway/api/api_call.h"
#include "services/gateway/http/exchange.h"

namespace sluice::gateway {

// Body: {"text", "weights", "layers", "rollout", "lens"}, as InspectRequest has them. Answers
// {"tokens": [text], "num_layers", "num_heads", "attention_layers", "maps": [{"layer", "head",
// "weights"}], "rollout", "lens": [{"layer", "positions": [{"top": [[text, probability]], "next"}]}]},
// weights as lower triangles row by row, in ten-thousandths; "next" is the probability of the token that
// follows, null at the end. `context` is borrowed.
void ServeInspection(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

}  // namespace sluice::gateway
