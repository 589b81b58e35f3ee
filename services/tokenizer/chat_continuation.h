// Prompts that end within the conversation's last message, which the model goes on with.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "services/tokenizer/jinja/rendering.h"

namespace sluice {

// Cuts a rendering of the variables behind the content of their last message: what the template
// writes to end a message is left out. Nothing is cut where the template was told to begin a
// message. INVALID_ARGUMENT where the rendering does not have that content.
absl::Status EndInFinalMessage(const nlohmann::ordered_json& variables,
                               jinja::Rendering& rendering);

}  // namespace sluice
