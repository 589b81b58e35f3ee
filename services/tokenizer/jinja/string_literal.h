// Escapes in a template's string literals, as Python has them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::jinja {

// What stands between the quotes, without its escapes. An error's message where there is one.
std::optional<std::string> UnescapeLiteral(std::string_view literal, std::string* text);

}  // namespace sluice::jinja
