// Checks that the fields of a constraint fit together. The sampler compiles their contents. Pure
// functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "sluice/v1/constraint.pb.h"

namespace sluice {

// INVALID_ARGUMENT naming fields that contradict each other, or field, value and what is accepted.
// `prefix` is what the constraint is called: "constraint".
absl::Status CheckConstraint(const v1::Constraint& constraint, const std::string& prefix);

}  // namespace sluice
