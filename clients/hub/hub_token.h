// The token with which a hub is asked, where one is set up.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "clients/hub/model_store.h"

namespace sluice {

// The text of `file` if that is named; else $HF_TOKEN; else the text of the file $HF_TOKEN_PATH,
// $HF_HOME/token or ~/.cache/huggingface/token, the first that is there; else "". Spaces around it
// do not count. NOT_FOUND where `file` cannot be read; INVALID_ARGUMENT where a token is empty or has
// characters that a header cannot hold.
absl::StatusOr<std::string> HubToken(const std::string& file, const ReadVariable& variable);

}  // namespace sluice
