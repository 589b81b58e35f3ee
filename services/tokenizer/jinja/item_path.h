// "a.b.0": where filters such as map and sort look in each item.
#pragma once

#include <vector>

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

class ItemPath {
 public:
  // Of an attribute's path or a number; None for the item itself.
  ItemPath(Run& run, const Value& path);

  // Undefined where it leads nowhere.
  Value Follow(Run& run, Value item) const { return Follow(run, std::move(item), Value()); }
  // `otherwise` in the place of what is undefined on the way, unless missing or None.
  Value Follow(Run& run, Value item, const Value& otherwise) const;

 private:
  std::vector<Value> parts_;
};

// What strings are compared by where case does not matter; other values as they are.
Value IgnoringCase(Run& run, const Value& value);

}  // namespace sluice::jinja
