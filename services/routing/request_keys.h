// The keys of a request's prompt. Pure.
#pragma once

#include "services/routing/prompt_keys.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

PromptKeys KeysOf(const v1::GenerateRequest& request);

}  // namespace sluice
