// A folder whose subfolders are adapters: each is known by its own name for as long as it is there.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "orchestrator/adapters/adapter_registry.h"

namespace sluice {

// Not thread-safe.
class AdapterFolder {
 public:
  // Borrows the registry.
  AdapterFolder(std::string folder, AdapterRegistry* registry)
      : folder_(std::move(folder)), registry_(*registry) {}

  // Loads subfolders with an adapter_config.json that are new or whose files have changed, and unloads
  // those that have gone. Adapters that were loaded otherwise stay as they are; a subfolder of such a
  // name is refused. Each change and each refusal is a line in the log; what is refused is tried again
  // when its files change.
  void Sync();

 private:
  struct Entry {
    std::string stamp;  // sizes and times of its files
    bool is_loaded = false;
  };

  std::map<std::string, std::string> Stamps() const;
  void Load(const std::string& name, const std::string& stamp);
  void Unload(const std::string& name);

  const std::string folder_;
  AdapterRegistry& registry_;
  std::map<std::string, Entry> entries_;
};

// Keeps it so from a thread of its own, until it is destroyed.
class AdapterFolderWatch {
 public:
  // Borrows the registry. The folder is read before this returns, and then each `interval`.
  AdapterFolderWatch(std::string folder, AdapterRegistry* registry,
                     absl::Duration interval = absl::Seconds(1));
  AdapterFolderWatch(const AdapterFolderWatch&) = delete;
  AdapterFolderWatch& operator=(const AdapterFolderWatch&) = delete;
  ~AdapterFolderWatch();

 private:
  void Loop();

  AdapterFolder folder_;  // of the thread, once it runs
  const absl::Duration interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace sluice
