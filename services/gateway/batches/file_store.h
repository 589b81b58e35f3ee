// Files that clients uploaded, and results of batches, by owner, in a folder. Not thread-safe.
//
// A file is there once its record is on the disk; content without a record is removed when the
// folder is opened.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/gateway/batches/record_folder.h"

namespace sluice::gateway {

struct StoredFile {
  std::string id;
  std::string owner;
  std::string filename;
  std::string purpose;
  int64_t bytes = 0;
  int64_t created_at = 0;  // Unix seconds
};

class FileStore {
 public:
  // Errors of the file system; DATA_LOSS for a record that can't be read.
  static absl::StatusOr<FileStore> Open(const std::string& folder);

  // Stores `content` under the id of `file`, whose `bytes` are set.
  absl::Status Add(StoredFile file, absl::string_view content);
  // The same of what is in the file at `from`, which is moved. OK where that was done already.
  absl::Status Adopt(StoredFile file, const std::string& from);

  // Null where `owner` has no such file.
  const StoredFile* Find(const std::string& owner, const std::string& id) const;
  // Those of an owner, newest first.
  std::vector<const StoredFile*> List(const std::string& owner) const;
  uint64_t NumBytes(const std::string& owner) const;
  size_t NumFiles(const std::string& owner) const;
  absl::Status Remove(const std::string& id);

  // Where the content of a file is.
  std::string PathOf(const std::string& id) const;

 private:
  explicit FileStore(RecordFolder records) : records_(std::move(records)) {}

  absl::Status RemoveUnfinished();
  absl::Status Record(StoredFile file);

  RecordFolder records_;
  std::map<std::string, StoredFile> files_;
};

// As OpenAI's API shows it.
nlohmann::json FileJson(const StoredFile& file);

}  // namespace sluice::gateway
