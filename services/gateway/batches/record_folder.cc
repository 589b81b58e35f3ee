#include "services/gateway/batches/record_folder.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "services/gateway/batches/durable_file.h"
#include "services/gateway/json/json_text.h"

namespace sluice::gateway {
namespace {

namespace fs = std::filesystem;

constexpr char kEnding[] = ".json";

absl::StatusOr<nlohmann::json> ReadRecord(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  absl::StatusOr<nlohmann::json> record = ParseJson(text.str());
  if (!record.ok() || !record->is_object()) {
    return absl::DataLossError(absl::StrCat(path.string(), " is no record"));
  }
  return record;
}

}  // namespace

absl::StatusOr<RecordFolder> RecordFolder::Open(std::string path) {
  if (absl::Status made = MakeFolder(path); !made.ok()) return made;
  RecordFolder folder(std::move(path));
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path_, error)) {
    if (entry.path().extension() != kEnding) continue;
    absl::StatusOr<nlohmann::json> record = ReadRecord(entry.path());
    if (!record.ok()) return record.status();
    folder.records_.emplace(entry.path().stem().string(), *std::move(record));
  }
  if (error) return FileError("cannot read", folder.path_, error.value());
  return folder;
}

absl::Status RecordFolder::Save(const std::string& id, nlohmann::json record) {
  absl::Status status = WriteDurably(FileOf(id), ToJson(record));
  if (status.ok()) records_[id] = std::move(record);
  return status;
}

absl::Status RecordFolder::Remove(const std::string& id) {
  absl::Status status = RemoveFile(FileOf(id));
  if (status.ok()) records_.erase(id);
  return status;
}

std::string RecordFolder::FileOf(const std::string& id) const {
  return absl::StrCat(path_, "/", id, kEnding);
}

}  // namespace sluice::gateway
