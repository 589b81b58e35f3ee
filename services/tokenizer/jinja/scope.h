// Variables that a part of a template sees: its own, then those of what is around it.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "services/tokenizer/jinja/value.h"

namespace sluice::jinja {

struct Scope {
  explicit Scope(std::shared_ptr<Scope> outer) : parent(std::move(outer)) {}

  // nullptr where it is not defined.
  const Value* Find(std::string_view name) const;
  // `name` must live as long as the template.
  void Set(std::string_view name, Value value);
  void Clear();

  std::shared_ptr<Scope> parent;  // nullptr for the outermost
  std::vector<std::pair<std::string_view, Value>> variables;
  bool is_kept = false;  // by the run, because a macro refers to it
};

}  // namespace sluice::jinja
