#include "clients/hub/model_store.h"

#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace sluice {
namespace fs = std::filesystem;

absl::StatusOr<std::string> ModelStore(const ReadVariable& variable) {
  if (const fs::path named = variable("SLUICE_MODELS"); named.is_absolute()) return named.string();
  if (const fs::path data = variable("XDG_DATA_HOME"); data.is_absolute()) {
    return (data / "sluice/models").string();
  }
  if (const fs::path home = variable("HOME"); home.is_absolute()) {
    return (home / ".local/share/sluice/models").string();
  }
  return absl::FailedPreconditionError(
      "no folder for models: set SLUICE_MODELS to an absolute path");
}

std::string FolderInStore(const std::string& store, const HubModel& model) {
  const std::string name = (fs::path(store) / model.name).string();
  if (model.revision.empty()) return name;
  return absl::StrCat(name, "@", absl::StrReplaceAll(model.revision, {{"/", "%2F"}}));
}

absl::StatusOr<std::string> FindPulled(const std::string& text, const ReadVariable& variable) {
  const absl::StatusOr<HubModel> model = ParseHubModel(text);
  if (!model.ok()) return model.status();
  const absl::StatusOr<std::string> store = ModelStore(variable);
  if (!store.ok()) return store.status();
  const std::string folder = FolderInStore(*store, *model);
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) return folder;
  const std::string revision =
      model->revision.empty() ? "" : absl::StrCat(" --revision ", model->revision);
  return absl::NotFoundError(absl::StrCat(text, ": no such folder, and no model of this name in ",
                                          *store, "; to get it: sluice pull ", model->name,
                                          revision));
}

}  // namespace sluice
