#include "services/tokenizer/jinja/item_path.h"

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "services/tokenizer/jinja/operators.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {

ItemPath::ItemPath(Run& run, const Value& path) {
  if (path.IsNone() || path.IsMissing()) return;
  if (!path.IsString()) {
    parts_.push_back(path);
    return;
  }
  const std::vector<std::string> parts = absl::StrSplit(path.bytes(), '.');
  for (const std::string& part : parts) {
    int64_t index = 0;
    const bool is_number = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
      return c >= '0' && c <= '9';
    });
    if (!run.Step()) return;
    parts_.push_back(is_number && absl::SimpleAtoi(part, &index) ? Value::Integer(index)
                                                                 : run.String(part));
  }
}

Value ItemPath::Follow(Run& run, Value item, const Value& otherwise) const {
  for (const Value& part : parts_) {
    item = GetItem(run, item, part);
    if (item.IsUndefined() && !otherwise.IsMissing() && !otherwise.IsNone()) item = otherwise;
  }
  return item;
}

Value IgnoringCase(Run& run, const Value& value) {
  if (!value.IsString() || !run.StepBytes(value.text().size())) return value;
  return run.String(ToLower(value.bytes()));
}

}  // namespace sluice::jinja
