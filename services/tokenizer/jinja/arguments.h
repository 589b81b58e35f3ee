// Arguments of a call, bound to parameters as Python does.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

// The values of `parameters` in order, kMissing for those not given; the first `num_required` must
// be. Empty values after a failure, so that indexing is always fine.
class Bound {
 public:
  Bound(Run& run, std::string_view function, const Arguments& arguments,
        std::initializer_list<std::string_view> parameters, size_t num_required);

  const Value& operator[](size_t parameter) const { return values_[parameter]; }
  bool Has(size_t parameter) const { return !values_[parameter].IsMissing(); }

  // Values of a type, or `otherwise` where not given; a type error for others.
  Int Integer(size_t parameter, Int otherwise) const;
  bool Flag(size_t parameter, bool otherwise) const;
  Text String(size_t parameter, std::string_view otherwise) const;

 private:
  Run& run_;
  std::vector<Value> values_;
};

}  // namespace sluice::jinja
