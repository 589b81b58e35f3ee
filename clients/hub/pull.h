// Gets a model from a hub into a folder that --model takes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/hub/download.h"
#include "clients/hub/hub_model.h"

namespace sluice {

struct PullOptions {
  HubModel model;
  std::string endpoint;               // such as "https://huggingface.co"
  std::string folder;                 // to make, or to bring up to date
  std::vector<std::string> patterns;  // of files; none: those that serving takes
  DownloadOptions download;
  std::function<void(uint64_t bytes)> on_expect = [](uint64_t) {};  // bytes that are to come
  std::function<void()> on_wait = [] {};  // called once before it waits for another pull
};

// Without files and bytes where the hub was not asked: the folder has the commit that the revision
// names, or is complete and the hub cannot be reached.
struct PullResult {
  std::string commit;  // of the revision
  std::vector<std::string> files;
  uint64_t num_bytes = 0;
  bool was_there = false;  // nothing had to be downloaded
  std::string not_asked;   // why the hub could not be asked for a newer commit than is there; or ""
};

// Fills a hidden folder beside FOLDER and then gives it the name FOLDER, so that a folder of that
// name is whole at any time; of an interrupted pull the next one finds what it had. What FOLDER held
// of another commit is removed. Every file has the digest that
// the hub names. INVALID_ARGUMENT where the endpoint is no http or https URL; FAILED_PRECONDITION
// where a token would be sent unencrypted to another machine, or where FOLDER holds what no pull made; NOT_FOUND where the hub has no such
// model or revision; PERMISSION_DENIED where it wants a token, or another one; RESOURCE_EXHAUSTED
// where the disk has no room. Waits where another pull of this folder is at work.
absl::StatusOr<PullResult> Pull(const PullOptions& options);

}  // namespace sluice
