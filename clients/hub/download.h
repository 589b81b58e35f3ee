// One file from a hub into a folder, in parts over several connections.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "clients/hub/http_transfer.h"
#include "clients/hub/hub_listing.h"

namespace sluice {

struct DownloadOptions {
  HttpTransferOptions http;
  int num_connections = 4;
  uint64_t part_bytes = uint64_t{16} << 20;
  int num_attempts = 6;                          // at a part, in a row without a byte
  absl::Duration first_wait = absl::Seconds(1);  // before the second attempt; then twice as long
  // Of bytes on disk, those of earlier attempts too. Called by several threads.
  std::function<void(uint64_t bytes)> on_progress = [](uint64_t) {};
};

// Makes FOLDER/NAME of what `url` has, or leaves it where it is and is right. Until it is complete
// and its digest is right, its bytes are in NAME.part and what came of it in NAME.parts, from which
// a later call goes on. Tries again where the server or the connection fails, after Retry-After if
// the server says so. Errors are HttpTransfer's and StatusOfAnswer's; DATA_LOSS where the digest is
// wrong, after which nothing is left of the file; RESOURCE_EXHAUSTED where the disk is full.
absl::Status Download(const std::string& url, const HubFile& file, const std::string& folder,
                      const DownloadOptions& options);

}  // namespace sluice
