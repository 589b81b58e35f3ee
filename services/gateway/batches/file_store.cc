#include "services/gateway/batches/file_store.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/batches/durable_file.h"

namespace sluice::gateway {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json RecordOf(const StoredFile& file) {
  json record = FileJson(file);
  record["owner"] = file.owner;
  return record;
}

StoredFile FileOf(const std::string& id, const json& record) {
  return {.id = id,
          .owner = record.value("owner", ""),
          .filename = record.value("filename", ""),
          .purpose = record.value("purpose", ""),
          .bytes = record.value("bytes", int64_t{0}),
          .created_at = record.value("created_at", int64_t{0})};
}

}  // namespace

absl::StatusOr<FileStore> FileStore::Open(const std::string& folder) {
  absl::StatusOr<RecordFolder> records = RecordFolder::Open(folder);
  if (!records.ok()) return records.status();
  FileStore store(*std::move(records));
  for (const auto& [id, record] : store.records_.records()) {
    store.files_.emplace(id, FileOf(id, record));
  }
  if (absl::Status removed = store.RemoveUnfinished(); !removed.ok()) return removed;
  return store;
}

absl::Status FileStore::RemoveUnfinished() {
  std::error_code error;
  std::vector<std::string> unfinished;
  for (const fs::directory_entry& entry : fs::directory_iterator(records_.path(), error)) {
    const std::string name = entry.path().filename().string();
    const bool is_record = entry.path().extension() == ".json";
    if (!is_record && files_.count(name) == 0) unfinished.push_back(entry.path().string());
  }
  absl::Status status;
  if (error) status = FileError("cannot read", records_.path(), error.value());
  for (const std::string& path : unfinished) status.Update(RemoveFile(path));
  return status;
}

absl::Status FileStore::Add(StoredFile file, absl::string_view content) {
  absl::Status written = WriteDurably(PathOf(file.id), content);
  if (!written.ok()) return written;
  file.bytes = static_cast<int64_t>(content.size());
  return Record(std::move(file));
}

// The record first: content without one is removed when the folder is opened.
absl::Status FileStore::Adopt(StoredFile file, const std::string& from) {
  std::error_code error;
  const auto size = fs::file_size(from, error);
  if (error)
    return files_.count(file.id) > 0 ? absl::OkStatus() : FileError("cannot read", from, ENOENT);
  const std::string path = PathOf(file.id);
  if (files_.count(file.id) == 0) {
    file.bytes = static_cast<int64_t>(size);
    if (absl::Status recorded = Record(std::move(file)); !recorded.ok()) return recorded;
  }
  return MoveDurably(from, path);
}

absl::Status FileStore::Record(StoredFile file) {
  absl::Status saved = records_.Save(file.id, RecordOf(file));
  if (!saved.ok()) return saved;
  const std::string id = file.id;
  files_.insert_or_assign(id, std::move(file));
  return absl::OkStatus();
}

const StoredFile* FileStore::Find(const std::string& owner, const std::string& id) const {
  const auto found = files_.find(id);
  return found != files_.end() && found->second.owner == owner ? &found->second : nullptr;
}

std::vector<const StoredFile*> FileStore::List(const std::string& owner) const {
  std::vector<const StoredFile*> list;
  for (const auto& [id, file] : files_) {
    if (file.owner == owner) list.push_back(&file);
  }
  std::sort(list.begin(), list.end(), [](const StoredFile* a, const StoredFile* b) {
    return std::tie(a->created_at, a->id) > std::tie(b->created_at, b->id);
  });
  return list;
}

uint64_t FileStore::NumBytes(const std::string& owner) const {
  uint64_t bytes = 0;
  for (const auto& [id, file] : files_) {
    if (file.owner == owner) bytes += static_cast<uint64_t>(file.bytes);
  }
  return bytes;
}

size_t FileStore::NumFiles(const std::string& owner) const {
  return static_cast<size_t>(std::count_if(
      files_.begin(), files_.end(), [&](const auto& file) { return file.second.owner == owner; }));
}

// The record first: content without one is removed later.
absl::Status FileStore::Remove(const std::string& id) {
  if (absl::Status removed = records_.Remove(id); !removed.ok()) return removed;
  files_.erase(id);
  return RemoveFile(PathOf(id));
}

std::string FileStore::PathOf(const std::string& id) const {
  return absl::StrCat(records_.path(), "/", id);
}

json FileJson(const StoredFile& file) {
  return {{"id", file.id},
          {"object", "file"},
          {"bytes", file.bytes},
          {"created_at", file.created_at},
          {"filename", file.filename},
          {"purpose", file.purpose},
          {"status", "processed"}};
}

}  // namespace sluice::gateway
