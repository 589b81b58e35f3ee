// What each parameter of the HTTP API does, in a sentence.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "services/gateway/json/parameter_log.h"

namespace sluice::gateway {

// By the parameter's path, such as "messages[].role", else by its last name; those of sampling are
// described by the table of sampling parameters. Empty where there is none.
std::string DescriptionOf(absl::string_view parameter);

// "1 to 16", "'auto', 'flex'": what is accepted of a parameter, in words; empty: anything of its type.
std::string AcceptedText(absl::string_view parameter, const ParameterNote& note);

}  // namespace sluice::gateway
