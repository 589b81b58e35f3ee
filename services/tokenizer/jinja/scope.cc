#include "services/tokenizer/jinja/scope.h"

namespace sluice::jinja {

const Value* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [variable, value] : scope->variables) {
      if (variable == name) return &value;
    }
  }
  return nullptr;
}

void Scope::Set(std::string_view name, Value value) {
  for (auto& [variable, old] : variables) {
    if (variable == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

void Scope::Clear() {
  parent = nullptr;
  variables.clear();
}

}  // namespace sluice::jinja
