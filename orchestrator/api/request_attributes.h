// Attributes of a request's span, by OpenTelemetry's conventions for generative AI: numbers only,
// no text. Pure functions.
#pragma once

#include <string>

#include "services/telemetry/span.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

// gen_ai.operation.name: "chat" or "text_completion".
std::string OperationOf(const v1::GenerateRequest& request);

// Adds what `request` sets; what it leaves to defaults is not there.
void DescribeRequest(const v1::GenerateRequest& request, Span& span);

}  // namespace sluice
