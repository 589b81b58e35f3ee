// Going through what has items.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

// nullptr with a type error for what is not iterable. Goes on where an iterator stands.
std::shared_ptr<Iterator> Iterate(Run& run, const Value& value);
bool IsIterable(const Value& value);

// All items that are left.
std::vector<Value> ToVector(Run& run, const Value& value);

// As len(): a type error where there is none.
Int Length(Run& run, const Value& value);
bool HasLength(const Value& value);

// Python's generators: `next` gives nullopt at the end. `inner_depth` is that of what it refers to.
using NextItem = std::function<std::optional<Value>(Run&)>;
Value MakeGenerator(Run& run, int inner_depth, NextItem next);

// Character number `index` of a string, as a string. REQUIRES: there is one.
Value CharAt(Run& run, const Value& text, size_t begin, size_t end);

}  // namespace sluice::jinja
