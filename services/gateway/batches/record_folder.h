// A folder of JSON records, each in a file of its own, ID.json. Not thread-safe.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice::gateway {

class RecordFolder {
 public:
  // Makes the folder where there is none, and reads what it has. DATA_LOSS names a record that is
  // no JSON object; errors of the file system.
  static absl::StatusOr<RecordFolder> Open(std::string path);

  const std::map<std::string, nlohmann::json>& records() const { return records_; }
  const std::string& path() const { return path_; }

  // On the disk once it returns OK; else nothing has changed.
  absl::Status Save(const std::string& id, nlohmann::json record);
  absl::Status Remove(const std::string& id);

 private:
  explicit RecordFolder(std::string path) : path_(std::move(path)) {}
  std::string FileOf(const std::string& id) const;

  std::string path_;
  std::map<std::string, nlohmann::json> records_;
};

}  // namespace sluice::gateway
