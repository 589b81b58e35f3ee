#include "services/tokenizer/jinja/macro.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {
namespace {

class Macro : public Native {
 public:
  Macro(const MacroCode& code, std::shared_ptr<Scope> scope)
      : code_(code), scope_(std::move(scope)) {}

  std::string TypeName() const override { return "Macro"; }
  bool IsCallable() const override { return true; }

  Value Call(Run& run, const Arguments& arguments) override {
    auto scope = std::make_shared<Scope>(scope_);
    if (!Bind(run, arguments, scope.get())) return Value();
    Frame frame{run, scope, nullptr};
    for (const MacroCode::Parameter& parameter : code_.parameters) {
      if (IsBound(*scope, parameter.name)) continue;
      Value value = parameter.otherwise != nullptr
                        ? parameter.otherwise->Evaluate(frame)
                        : run.Undefined(absl::StrCat("parameter ", ReprString(parameter.name),
                                                     " was not provided"));
      if (run.failed()) return Value();
      scope->Set(parameter.name, std::move(value));
    }
    return run.String(CaptureIn(code_.body, run, std::move(scope)));
  }

  std::optional<Value> Attribute(Run& run, std::string_view name) override {
    if (name == "name") return run.String(code_.name);
    if (name == "catch_kwargs") return Value::Bool(code_.uses_keywords);
    if (name == "catch_varargs") return Value::Bool(code_.uses_arguments);
    if (name == "caller") return Value::Bool(code_.uses_caller);
    if (name != "arguments") return std::nullopt;
    std::vector<Value> names;
    for (const auto& parameter : code_.parameters) names.push_back(run.String(parameter.name));
    return run.Tuple(std::move(names));
  }

  Text Repr(Run&) override {
    return Text(
        absl::StrCat("<Macro ", code_.name.empty() ? "anonymous" : ReprString(code_.name), ">"));
  }

 private:
  static bool IsBound(const Scope& scope, std::string_view name) {
    return std::any_of(scope.variables.begin(), scope.variables.end(),
                       [&](const auto& variable) { return variable.first == name; });
  }

  bool HasParameter(std::string_view name) const {
    return std::any_of(code_.parameters.begin(), code_.parameters.end(),
                       [&](const auto& parameter) { return parameter.name == name; });
  }

  bool Bind(Run& run, const Arguments& arguments, Scope* scope) {
    const size_t num_named = std::min(arguments.positional.size(), code_.parameters.size());
    for (size_t i = 0; i < num_named; ++i) {
      scope->Set(code_.parameters[i].name, arguments.positional[i]);
    }
    std::vector<DictObject::Entry> others;
    for (const auto& [keyword, value] : arguments.keywords) {
      if (!BindKeyword(run, keyword, value, num_named, scope)) {
        others.emplace_back(run.String(keyword), value);
      }
    }
    if (code_.uses_caller && !HasParameter("caller") && !IsBound(*scope, "caller")) {
      scope->Set("caller", run.Undefined("No caller defined"));
    }
    return BindOthers(run, arguments, std::move(others), scope);
  }

  // Whether the keyword is one of the macro's own.
  bool BindKeyword(Run& run, const std::string& keyword, const Value& value, size_t num_named,
                   Scope* scope) {
    for (size_t i = num_named; i < code_.parameters.size(); ++i) {
      if (code_.parameters[i].name != keyword) continue;
      scope->Set(code_.parameters[i].name, value);
      return true;
    }
    if (keyword != "caller" || !code_.uses_caller || HasParameter("caller")) return false;
    scope->Set("caller", value);
    return true;
  }

  bool BindOthers(Run& run, const Arguments& arguments, std::vector<DictObject::Entry> others,
                  Scope* scope) {
    if (code_.uses_keywords) {
      scope->Set("kwargs", run.Dict(std::move(others)));
    } else if (!others.empty()) {
      run.TypeError(absl::StrCat("macro ", ReprString(code_.name), " takes no keyword argument ",
                                 run.failed() ? "" : ReprString(others.front().first.bytes())));
    }
    const size_t num_parameters = code_.parameters.size();
    const bool has_more = arguments.positional.size() > num_parameters;
    if (code_.uses_arguments) {
      const auto begin = arguments.positional.begin();
      scope->Set("varargs", run.Tuple(has_more ? std::vector<Value>(begin + num_parameters,
                                                                    arguments.positional.end())
                                               : std::vector<Value>()));
    } else if (has_more) {
      run.TypeError(absl::StrCat("macro ", ReprString(code_.name), " takes not more than ",
                                 num_parameters, " argument(s)"));
    }
    return !run.failed();
  }

  const MacroCode& code_;
  const std::shared_ptr<Scope> scope_;
};

}  // namespace

Value MakeMacro(Run& run, const MacroCode& code, std::shared_ptr<Scope> scope) {
  if (!scope->is_kept) {
    if (!run.Keep(scope)) return Value();
    scope->is_kept = true;
  }
  return run.MakeNative<Macro>(0, code, std::move(scope));
}

}  // namespace sluice::jinja
