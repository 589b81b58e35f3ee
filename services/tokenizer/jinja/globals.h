// Global functions of templates: range, dict, namespace, cycler, joiner, and what Hugging Face
// adds: raise_exception, strftime_now.
#pragma once

#include <optional>
#include <string_view>

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

std::optional<Value> FindGlobal(Run& run, std::string_view name);

// The value of namespace(): the one thing that a template can change.
class Namespace : public Native {
 public:
  std::string TypeName() const override { return "Namespace"; }
  std::optional<Value> Attribute(Run& run, std::string_view name) override;
  Text Repr(Run& run) override;
  void Clear() override { attributes_.Clear(); }

  void Set(Run& run, const std::string& name, const Value& value);

 private:
  DictObject attributes_;
};

// nullptr for what is none.
Namespace* FindNamespace(const Value& value);

}  // namespace sluice::jinja
