#include "services/tokenizer/jinja/methods.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {
namespace {

using Kind = Value::Kind;

class BoundMethod : public Native {
 public:
  BoundMethod(Value self, std::string name, Method method)
      : self_(std::move(self)), name_(std::move(name)), method_(method) {}

  std::string TypeName() const override { return "builtin_function_or_method"; }
  bool IsCallable() const override { return true; }
  Value Call(Run& run, const Arguments& arguments) override {
    return method_(run, self_, arguments);
  }
  Text Repr(Run&) override {
    return Text(
        absl::StrCat("<built-in method ", name_, " of ", jinja::TypeName(self_), " object>"));
  }

 private:
  const Value self_;
  const std::string name_;
  const Method method_;
};

Method FindMethod(const Value& object, std::string_view name) {
  if (!object.IsString()) return FindContainerMethod(object.kind(), name);
  const Method method = FindStringMethod(name);
  return method != nullptr ? method : FindStringTest(name);
}

}  // namespace

bool HasMethod(const Value& object, std::string_view name) {
  return FindMethod(object, name) != nullptr;
}

Value MakeMethod(Run& run, const Value& object, std::string_view name) {
  return run.MakeNative<BoundMethod>(object.depth(), object, std::string(name),
                                     FindMethod(object, name));
}

bool IsRefusedMethod(const Value& object, std::string_view name) {
  if (object.IsDict()) {
    return name == "clear" || name == "pop" || name == "popitem" || name == "setdefault" ||
           name == "update";
  }
  return object.Is(Kind::kList) &&
         (name == "append" || name == "clear" || name == "pop" || name == "reverse" ||
          name == "insert" || name == "sort" || name == "extend" || name == "remove");
}

}  // namespace sluice::jinja
