// Jinja's filters, applied with "|".
#pragma once

#include <array>
#include <string_view>

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

using Filter = Value (*)(Run& run, const Value& value, const Arguments& arguments);

// nullptr where there is none of that name.
Filter FindFilter(std::string_view name);

struct FilterEntry {
  std::string_view name;
  Filter filter;
};

// By what they work on: each a file of its own.
Filter FindTextFilter(std::string_view name);
Filter FindLayoutFilter(std::string_view name);
Filter FindHtmlFilter(std::string_view name);
Filter FindNumberFilter(std::string_view name);
Filter FindItemsFilter(std::string_view name);
Filter FindOrderFilter(std::string_view name);
Filter FindSelectFilter(std::string_view name);

template <size_t size>
Filter FindIn(const std::array<FilterEntry, size>& entries, std::string_view name) {
  for (const FilterEntry& entry : entries) {
    if (entry.name == name) return entry.filter;
  }
  return nullptr;
}

}  // namespace sluice::jinja
