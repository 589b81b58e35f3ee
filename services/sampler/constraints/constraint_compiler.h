// Compiles the constraint of a message to a grammar. Pure; thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "services/constraint/grammar/grammar.h"
#include "sluice/v1/constraint.pb.h"

namespace sluice {

// Statuses as constraint.proto has them. REQUIRES: one field is set. Takes up
// to a second for what is just within the limits; CANCELLED soon after `stop` is requested.
// `checkpoint`, where it is set, is called as ExprSpace::set_checkpoint says.
absl::StatusOr<std::unique_ptr<Grammar>> CompileConstraint(
    const v1::Constraint& constraint, const std::stop_token& stop = {},
    const std::function<void()>& checkpoint = nullptr);

}  // namespace sluice
