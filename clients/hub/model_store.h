// The folder in which `sluice pull` keeps models, and where --model looks for their names.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/hub/hub_model.h"

namespace sluice {

// The value of an environment variable, "" where it is not set.
using ReadVariable = std::function<std::string(const char* name)>;

// $SLUICE_MODELS, or $XDG_DATA_HOME/sluice/models, by default in ~/.local/share. FAILED_PRECONDITION
// where none of these variables nor HOME is an absolute path.
absl::StatusOr<std::string> ModelStore(const ReadVariable& variable);

// Where a model lies in the store: STORE/ORGANISATION/NAME, with "@REVISION" behind it for another
// revision than main; a revision's "/" is "%2F" there.
std::string FolderInStore(const std::string& store, const HubModel& model);

// The folder of a model that was pulled. INVALID_ARGUMENT where `text` is no NAME or NAME@REVISION;
// NOT_FOUND where it was not pulled, with the command that does.
absl::StatusOr<std::string> FindPulled(const std::string& text, const ReadVariable& variable);

}  // namespace sluice
