// A member of a JSON object as it was written. Parsed objects are sorted by name, and the order of a
// schema's properties is the order in which a model writes them.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/string_view.h"

namespace sluice::gateway {

// The text of the value at `path`, such as {"response_format", "json_schema", "schema"}: of the last
// member of each name, as parsers take it. Nothing where it is not there, or a name on the way is
// spelt with escapes. `text` is JSON that a parser has accepted; of other texts, any part or nothing.
std::optional<absl::string_view> RawMember(absl::string_view text,
                                           std::initializer_list<absl::string_view> path);

// The same as a value that keeps the order of members; null where there is nothing.
nlohmann::ordered_json OrderedMember(absl::string_view text,
                                     std::initializer_list<absl::string_view> path);

}  // namespace sluice::gateway
