#include "orchestrator/adapters/adapter_folder.h"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/process/log.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::map<std::string, std::string> AdapterFolder::Stamps() const {
  std::map<std::string, std::string> stamps;
  std::error_code failed;
  for (fs::directory_iterator entry(folder_, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string stamp = AdapterStamp(entry->path().string());
    if (!stamp.empty()) stamps[entry->path().filename().string()] = stamp;
  }
  return stamps;
}

void AdapterFolder::Sync() {
  const std::map<std::string, std::string> stamps = Stamps();
  std::vector<std::string> gone;
  for (const auto& [name, entry] : entries_) {
    if (stamps.count(name) == 0) gone.push_back(name);
  }
  for (const std::string& name : gone) Unload(name);
  for (const auto& [name, stamp] : stamps) {
    const auto known = entries_.find(name);
    if (known == entries_.end() || known->second.stamp != stamp) Load(name, stamp);
  }
}

void AdapterFolder::Load(const std::string& name, const std::string& stamp) {
  Entry& entry = entries_[name];
  entry.stamp = stamp;
  const std::string path = absl::StrCat(folder_, "/", name);
  // What it was remains known where what it has become is refused.
  const absl::Status status = registry_.Load(name, path, /*replace=*/entry.is_loaded);
  entry.is_loaded = entry.is_loaded || status.ok();
  Log(status.ok() ? LogLevel::kInfo : LogLevel::kWarning, "orchestrator",
      status.ok() ? "adapter-loaded" : "adapter-refused",
      {{"adapter", name}, {"folder", path}, {"status", status.ToString()}});
}

void AdapterFolder::Unload(const std::string& name) {
  const bool was_loaded = entries_.at(name).is_loaded;
  entries_.erase(name);
  if (!was_loaded) return;
  const absl::Status status = registry_.Unload(name);
  Log(LogLevel::kInfo, "orchestrator", "adapter-unloaded",
      {{"adapter", name}, {"status", status.ToString()}});
}

AdapterFolderWatch::AdapterFolderWatch(std::string folder, AdapterRegistry* registry,
                                       absl::Duration interval)
    : folder_(std::move(folder), registry), interval_(interval) {
  folder_.Sync();
  thread_ = std::thread([this] { Loop(); });
}

AdapterFolderWatch::~AdapterFolderWatch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AdapterFolderWatch::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    const auto until = std::chrono::steady_clock::now() + absl::ToChronoMilliseconds(interval_);
    if (changed_.wait_until(lock, until, [this] { return stopped_; })) return;
    folder_.Sync();
  }
}

}  // namespace sluice
