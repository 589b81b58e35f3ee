// The parts of a JSON text as they were written. Parsed objects are sorted by name and their
// numbers are doubles; a model sees the order of a schema's properties, and the spelling of the
// arguments it has written itself.
//
// `text` is JSON that a parser has accepted; of other texts, any part or nothing. Each call reads
// its text once.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace sluice::gateway {

// The members of an object in their order, names without their escapes; empty for anything else.
std::vector<std::pair<std::string, absl::string_view>> RawMembers(absl::string_view text);

// The elements of an array; empty for anything else.
std::vector<absl::string_view> RawElements(absl::string_view text);

// The text of the value at `path`, such as {"response_format", "json_schema", "schema"}: of the
// last member of each name, as parsers take it. Nothing where it is not there.
std::optional<absl::string_view> RawMember(absl::string_view text,
                                           std::initializer_list<absl::string_view> path);

// Whether an object of the JSON text has more than 512 members, which is too many for a value that
// keeps their order: the time to build one grows with the square of their number.
bool HasLargeObject(absl::string_view text);

}  // namespace sluice::gateway
