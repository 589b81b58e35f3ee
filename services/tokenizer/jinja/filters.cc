#include "services/tokenizer/jinja/filters.h"

namespace sluice::jinja {

Filter FindFilter(std::string_view name) {
  for (const auto find : {FindTextFilter, FindLayoutFilter, FindHtmlFilter, FindNumberFilter,
                          FindItemsFilter, FindOrderFilter, FindSelectFilter}) {
    if (const Filter filter = find(name); filter != nullptr) return filter;
  }
  return nullptr;
}

}  // namespace sluice::jinja
