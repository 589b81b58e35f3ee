#include "services/stage/stage_adapters.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr int kMaxAdapterSlots = 1024;

}  // namespace

absl::Status TakeAdapters(
    const v1::StageExecute& plan, AdapterLibrary& library,
    absl::FunctionRef<absl::Status(int slot, std::shared_ptr<const AdapterSource> source)> load,
    absl::FunctionRef<void(int slot)> drop) {
  for (const v1::AdapterSlot& adapter : plan.adapters()) {
    const int slot = adapter.slot();
    if (slot < 0 || slot >= kMaxAdapterSlots) {
      return absl::InvalidArgumentError(
          absl::StrCat("an adapter is for slot ", slot, "; accepted: 0 to ", kMaxAdapterSlots - 1));
    }
    if (adapter.id().empty()) {
      drop(slot);
      continue;
    }
    absl::StatusOr<std::shared_ptr<const AdapterSource>> source =
        library.Get(adapter.id(), adapter.folder());
    if (!source.ok()) return source.status();
    if (absl::Status loaded = load(slot, *std::move(source)); !loaded.ok()) return loaded;
  }
  return absl::OkStatus();
}

}  // namespace sluice
