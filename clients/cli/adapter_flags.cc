#include "clients/cli/adapter_flags.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace sluice {

void AddAdapterFlags(FlagSet& flags, AdapterFlags* into) {
  flags.Section("Adapter");
  flags.Add(
      "adapters", "NAME=DIR",
      "LoRA adapters of the model, several by comma: PEFT folders with adapter_config.json and "
      "adapter_model.safetensors.",
      &into->adapters);
  flags.Add("adapter", "NAME", "The one of them to compute with. Default: none.", &into->adapter);
}

absl::StatusOr<std::string> AdapterFolder(const AdapterFlags& flags) {
  std::map<std::string, std::string> folders;
  for (const absl::string_view each :
       absl::StrSplit(flags.adapters.value_or(""), ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> adapter =
        absl::StrSplit(each, absl::MaxSplits('=', 1));
    if (adapter.first.empty() || adapter.second.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--adapters: \"", each, "\" is no adapter; accepted: NAME=DIR, several by comma"));
    }
    folders.insert(adapter);
  }
  if (!flags.adapter.has_value()) return std::string();
  const auto found = folders.find(*flags.adapter);
  if (found != folders.end()) return found->second;
  std::string names = absl::StrJoin(
      folders, ", ", [](std::string* out, const auto& folder) { out->append(folder.first); });
  return absl::InvalidArgumentError(absl::StrCat(
      "--adapter is ", *flags.adapter, "; ",
      folders.empty() ? "name its folder with --adapters NAME=DIR" : "accepted: " + names));
}

}  // namespace sluice
