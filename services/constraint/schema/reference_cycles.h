// Schemas that refer to themselves without a member or item between: they say nothing, and would be
// followed forever.
#pragma once

#include "absl/status/status.h"
#include "services/constraint/schema/schema_index.h"

namespace sluice {

// INVALID_ARGUMENT naming a $ref that comes back to itself about the same value. What `index` can't
// resolve is left for those who use it.
absl::Status CheckReferenceCycles(const JsonValue& document, SchemaIndex& index);

}  // namespace sluice
