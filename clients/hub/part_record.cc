#include "clients/hub/part_record.h"

#include <algorithm>
#include <fstream>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace sluice {

PartRecord::PartRecord(std::string path, uint64_t size, uint64_t part_bytes)
    : path_(std::move(path)),
      size_(size),
      part_bytes_(part_bytes),
      done_((size + part_bytes - 1) / part_bytes) {}

absl::StatusOr<std::unique_ptr<PartRecord>> PartRecord::Open(const std::string& path,
                                                             const HubFile& file,
                                                             uint64_t part_bytes) {
  auto record = absl::WrapUnique(new PartRecord(path, file.size, part_bytes));
  const std::string header =
      absl::StrCat("parts of ", part_bytes, " of ", file.size, " ", file.sha256, file.git_id);
  record->Read(header);
  const absl::Status written = record->Write(header);
  if (!written.ok()) return written;
  return record;
}

void PartRecord::Read(const std::string& header) {
  absl::MutexLock lock(&mutex_);
  std::ifstream in(path_);
  std::string line;
  if (!std::getline(in, line) || line != header) return;
  while (std::getline(in, line) && !in.eof()) {
    size_t index = 0;
    if (absl::SimpleAtoi(line, &index) && index < done_.size()) done_[index] = true;
  }
}

// Anew, so that a line that was cut short does not become part of the next one.
absl::Status PartRecord::Write(const std::string& header) {
  absl::MutexLock lock(&mutex_);
  std::ofstream out(path_, std::ios::trunc);
  out << header << "\n";
  for (size_t i = 0; i < done_.size(); ++i) {
    if (done_[i]) out << i << "\n";
  }
  if (out.flush()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path_, ": cannot be written"));
}

ByteRange PartRecord::RangeOf(size_t index) const {
  const uint64_t offset = index * part_bytes_;
  return {.offset = offset, .length = std::min(part_bytes_, size_ - offset)};
}

std::optional<ByteRange> PartRecord::Take() {
  absl::MutexLock lock(&mutex_);
  while (next_ < done_.size() && done_[next_]) ++next_;
  if (next_ == done_.size()) return std::nullopt;
  return RangeOf(next_++);
}

absl::Status PartRecord::SetDone(const ByteRange& part) {
  absl::MutexLock lock(&mutex_);
  const size_t index = part.offset / part_bytes_;
  done_[index] = true;
  std::ofstream out(path_, std::ios::app);
  out << index << "\n";
  if (out.flush()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path_, ": cannot be written"));
}

uint64_t PartRecord::num_done_bytes() const {
  absl::MutexLock lock(&mutex_);
  uint64_t bytes = 0;
  for (size_t i = 0; i < done_.size(); ++i) bytes += done_[i] ? RangeOf(i).length : 0;
  return bytes;
}

}  // namespace sluice
