#include "services/tokenizer/jinja/arguments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/compare.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {

Bound::Bound(Run& run, std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> parameters, size_t num_required)
    : run_(run), values_(parameters.size()) {
  const std::string name(function);
  if (arguments.positional.size() > parameters.size()) {
    run.TypeError(absl::StrCat(name, "() takes at most ", parameters.size(), " arguments (",
                               arguments.positional.size(), " given)"));
    return;
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), values_.begin());
  for (const auto& [keyword, value] : arguments.keywords) {
    const auto found = std::find(parameters.begin(), parameters.end(), keyword);
    if (found == parameters.end()) {
      run.TypeError(
          absl::StrCat(name, "() got an unexpected keyword argument ", ReprString(keyword)));
      return;
    }
    Value& slot = values_[found - parameters.begin()];
    if (!slot.IsMissing()) {
      run.TypeError(
          absl::StrCat(name, "() got multiple values for argument ", ReprString(keyword)));
      return;
    }
    slot = value;
  }
  for (size_t i = 0; i < num_required; ++i) {
    if (values_[i].IsMissing()) {
      run.TypeError(absl::StrCat(
          name, "() missing required argument: ", ReprString(*(parameters.begin() + i))));
      return;
    }
  }
}

Int Bound::Integer(size_t parameter, Int otherwise) const {
  const Value& value = values_[parameter];
  if (value.IsMissing()) return otherwise;
  if (value.IsInt()) return value.int_value();
  if (value.IsUndefined()) {
    run_.FailUndefined(value);
  } else {
    run_.TypeError(
        absl::StrCat("'", TypeName(value), "' object cannot be interpreted as an integer"));
  }
  return otherwise;
}

bool Bound::Flag(size_t parameter, bool otherwise) const {
  const Value& value = values_[parameter];
  return value.IsMissing() ? otherwise : IsTrue(run_, value);
}

Text Bound::String(size_t parameter, std::string_view otherwise) const {
  const Value& value = values_[parameter];
  if (value.IsMissing()) return Text(std::string(otherwise));
  if (value.IsString()) return value.text();
  if (value.IsUndefined()) {
    run_.FailUndefined(value);
  } else {
    run_.TypeError(absl::StrCat("expected str, not ", TypeName(value)));
  }
  return Text();
}

}  // namespace sluice::jinja
