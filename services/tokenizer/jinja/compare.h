// Equality, order and membership as Python has them.
#pragma once

#include <algorithm>
#include <vector>

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

bool IsTrue(Run& run, const Value& value);
bool Equal(Run& run, const Value& a, const Value& b);

// The sign of a's place before (-1) or behind (1) b; a type error of `operation` ("<") where there
// is no order. NaN is 2.
int Order(Run& run, const Value& a, const Value& b, const char* operation);
inline bool Less(Run& run, const Value& a, const Value& b) { return Order(run, a, b, "<") == -1; }

bool Contains(Run& run, const Value& container, const Value& item);

// Merges runs of growing size: safe whatever `less` says, also where it fails on the way.
template <typename T, typename IsLess>
void StableSort(Run& run, std::vector<T>* items, IsLess less) {
  std::vector<T> other(items->size());
  for (size_t width = 1; width < items->size(); width *= 2) {
    for (size_t begin = 0; begin < items->size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, items->size());
      const size_t end = std::min(begin + 2 * width, items->size());
      for (size_t a = begin, b = middle, out = begin; out < end; ++out) {
        if (!run.Step()) return;
        const bool take_b = b < end && (a == middle || less((*items)[b], (*items)[a]));
        other[out] = (*items)[take_b ? b++ : a++];
      }
    }
    items->swap(other);
  }
}

}  // namespace sluice::jinja
