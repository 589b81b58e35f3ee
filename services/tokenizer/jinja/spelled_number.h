// A number of a context with its spelling, for those that a double or an integer of 64 bits would
// write otherwise: Python's integers have no bounds, and a model's arguments are to be shown as the
// model wrote them. JSON has no binary values, so one stands for nothing else.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace sluice::jinja {

// `spelling` is a number by JSON's grammar.
inline nlohmann::ordered_json SpelledNumber(std::string_view spelling) {
  return nlohmann::ordered_json::binary({spelling.begin(), spelling.end()});
}

// REQUIRES: number.is_binary().
inline std::string SpellingOf(const nlohmann::ordered_json& number) {
  const auto& bytes = number.get_binary();
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace sluice::jinja
