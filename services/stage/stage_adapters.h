// The slots of adapters as a plan changes them (StageExecute.adapters). Pure functions.
#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "services/model/adapter_library.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

// Calls `load` and `drop` for what the plan puts into slots and for slots that it empties, in order.
// The first failure ends it: INVALID_ARGUMENT for a slot out of range, else that of `library` or
// `load`, which name the adapter's folder.
absl::Status TakeAdapters(
    const v1::StageExecute& plan, AdapterLibrary& library,
    absl::FunctionRef<absl::Status(int slot, std::shared_ptr<const AdapterSource> source)> load,
    absl::FunctionRef<void(int slot)> drop);

}  // namespace sluice
