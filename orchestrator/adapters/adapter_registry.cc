#include "orchestrator/adapters/adapter_registry.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/model/adapter_id.h"

namespace sluice {
namespace {

// Names that an error mentions.
constexpr size_t kMentioned = 8;

absl::Status CheckAdapterName(const std::string& name) {
  const bool is_short = !name.empty() && name.size() <= AdapterRegistry::kMaxNameBytes;
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::string_view("._-:/").find(c) != absl::string_view::npos;
  });
  if (is_short && is_plain) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the adapter's name has ", name.size(), " bytes",
                   is_plain ? "" : ", some of which are no letters", "; accepted: 1 to ",
                   AdapterRegistry::kMaxNameBytes, " letters, digits and ._-:/"));
}

// Of a file; empty where there is none.
std::string FileStamp(const std::filesystem::path& file) {
  std::error_code failed;
  const uintmax_t size = std::filesystem::file_size(file, failed);
  if (failed) return "";
  const auto time = std::filesystem::last_write_time(file, failed).time_since_epoch().count();
  return failed ? "" : absl::StrCat(size, " ", static_cast<int64_t>(time));
}

// As other processes find it, whatever their working folder is.
std::string AbsolutePath(const std::string& folder) {
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::absolute(folder, failed);
  return failed ? folder : path.lexically_normal().string();
}

}  // namespace

std::string AdapterStamp(const std::string& folder) {
  const std::filesystem::path path(folder);
  const std::string config = FileStamp(path / "adapter_config.json");
  if (config.empty()) return "";
  return absl::StrCat(config, ", ", FileStamp(path / "adapter_model.safetensors"));
}

absl::StatusOr<std::unique_ptr<AdapterRegistry>> AdapterRegistry::Create(const std::string& folder,
                                                                         const ModelConfig& config,
                                                                         std::string model_name) {
  const absl::StatusOr<TensorPlaces> places = PublishedPlaces(folder, config);
  if (!places.ok()) return places.status();
  return std::unique_ptr<AdapterRegistry>(
      new AdapterRegistry(config, *places, std::move(model_name)));
}

absl::Status AdapterRegistry::Load(const std::string& name, const std::string& folder,
                                   bool replace) {
  if (absl::Status valid = CheckAdapterName(name); !valid.ok()) return valid;
  if (name == model_name_) {
    return absl::AlreadyExistsError(absl::StrCat("\"", name, "\" is the model itself"));
  }
  const std::string path = AbsolutePath(folder);
  // Before they are read: what changes meanwhile shows as a change.
  const std::string stamp = AdapterStamp(path);
  const absl::StatusOr<AdapterSource> source = AdapterSource::Open(path, config_, places_, {});
  if (!source.ok()) return source.status();
  absl::MutexLock lock(&mutex_);
  if (!replace && known_.contains(name)) {
    return absl::AlreadyExistsError(absl::StrCat("there is an adapter \"", name, "\" already, of ",
                                                 known_.at(name).description.folder));
  }
  if (known_.size() >= kMaxAdapters) {
    return absl::ResourceExhaustedError(
        absl::StrCat(known_.size(), " adapters are known; the limit is ", kMaxAdapters));
  }
  known_.insert_or_assign(name, Known{.id = AdapterIdOf(++num_loaded_, path),
                                      .stamp = stamp,
                                      .description = {.name = name,
                                                      .folder = path,
                                                      .max_rank = source->max_rank(),
                                                      .size_bytes = source->size_bytes()}});
  return absl::OkStatus();
}

absl::Status AdapterRegistry::Unknown(const std::string& name) const {
  std::string some;
  size_t count = 0;
  for (const auto& [known, adapter] : known_) {
    if (count++ == kMentioned) break;
    absl::StrAppend(&some, count == 1 ? "; accepted: " : ", ", known);
  }
  if (known_.size() > kMentioned) {
    absl::StrAppend(&some, " and ", known_.size() - kMentioned, " more");
  }
  return absl::NotFoundError(absl::StrCat("adapter is \"", name, "\", which is not loaded",
                                          known_.empty() ? "; none is" : some));
}

absl::Status AdapterRegistry::Unload(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  return known_.erase(name) > 0 ? absl::OkStatus() : Unknown(name);
}

std::vector<AdapterDescription> AdapterRegistry::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<AdapterDescription> all;
  all.reserve(known_.size());
  for (const auto& [name, adapter] : known_) all.push_back(adapter.description);
  return all;
}

absl::StatusOr<std::string> AdapterRegistry::IdOf(const std::string& name) const {
  if (name.empty()) return std::string();
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the length of adapter is ", name.size(),
                                                   "; accepted: at most ", kMaxNameBytes));
  }
  Known known;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = known_.find(name);
    if (found == known_.end()) return Unknown(name);
    known = found->second;
  }
  if (AdapterStamp(known.description.folder) == known.stamp) return known.id;
  return absl::FailedPreconditionError(
      absl::StrCat("the files of adapter \"", name, "\" in ", known.description.folder,
                   " have changed since it was loaded; load it again"));
}

}  // namespace sluice
