// A member of a JSON object as it was written. Parsed objects are sorted by name, and the order of a
// schema's properties is the order in which a model writes them.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/string_view.h"

namespace sluice::gateway {

// The text of the value at `path`, such as {"response_format", "json_schema", "schema"}: of the last
// member of each name, as parsers take it, with or without escapes in the name. Nothing where it is
// not there. `text` is JSON that a parser has accepted; of other texts, any part or nothing.
std::optional<absl::string_view> RawMember(absl::string_view text,
                                           std::initializer_list<absl::string_view> path);

// Whether an object of the JSON text has more than 512 members, which is too many for a value that
// keeps their order: the time to build one grows with the square of their number.
bool HasLargeObject(absl::string_view text);

// The same as a value that keeps the order of members; null where there is nothing, or where
// HasLargeObject().
nlohmann::ordered_json OrderedMember(absl::string_view text,
                                     std::initializer_list<absl::string_view> path);

// The member of this name; null where it is not there, or `value` is no object.
const nlohmann::ordered_json* FindMember(const nlohmann::ordered_json& value, const char* name);

}  // namespace sluice::gateway
