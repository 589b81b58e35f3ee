// The model that a request asks for, found without reading the rest of it.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace sluice::gateway {

// The member "model" of the JSON object `body`: the first of that name, where it is a text. Empty where there
// is none, or where what comes before it is no JSON: whoever reads the whole says so.
std::string ModelNamedIn(absl::string_view body);

}  // namespace sluice::gateway
