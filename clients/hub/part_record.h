// Which parts of a file that is being downloaded have come, kept beside it so that a download that
// was interrupted goes on from there. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "clients/hub/http_transfer.h"
#include "clients/hub/hub_listing.h"

namespace sluice {

class PartRecord {
 public:
  // Opens the record at `path`, or begins one: of other bytes, size or parts than `file` and
  // `part_bytes` say, it is begun anew. A line cut short does not count.
  static absl::StatusOr<std::unique_ptr<PartRecord>> Open(const std::string& path,
                                                          const HubFile& file, uint64_t part_bytes);

  // A part that has neither come nor been taken; none when there is no more.
  std::optional<ByteRange> Take();
  // To be called when the part's bytes are on disk.
  absl::Status SetDone(const ByteRange& part);
  uint64_t num_done_bytes() const;

 private:
  PartRecord(std::string path, uint64_t size, uint64_t part_bytes);

  void Read(const std::string& header);
  absl::Status Write(const std::string& header);
  ByteRange RangeOf(size_t index) const;

  const std::string path_;
  const uint64_t size_;
  const uint64_t part_bytes_;
  mutable absl::Mutex mutex_;
  std::vector<bool> done_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // parts before it are done or taken
};

}  // namespace sluice
