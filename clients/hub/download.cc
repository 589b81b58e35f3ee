#include "clients/hub/download.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "clients/hub/file_hash.h"
#include "clients/hub/part_record.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLongestWait = absl::Seconds(60);

// A file of the size that is to come, into which bytes are written anywhere.
class SparseFile {
 public:
  static absl::StatusOr<std::unique_ptr<SparseFile>> Open(const std::string& path, uint64_t size) {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return absl::ErrnoToStatus(errno, path);
    auto file = std::make_unique<SparseFile>(path, fd);
    if (ftruncate(fd, static_cast<off_t>(size)) != 0) return absl::ErrnoToStatus(errno, path);
    return file;
  }

  SparseFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~SparseFile() { close(fd_); }

  absl::Status Write(uint64_t offset, absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        return errno == ENOSPC ? absl::ResourceExhaustedError(absl::StrCat(path_, ": disk full"))
                               : absl::ErrnoToStatus(errno, path_);
      }
      offset += static_cast<uint64_t>(written);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  absl::Status Sync() {
    return fdatasync(fd_) == 0 ? absl::OkStatus() : absl::ErrnoToStatus(errno, path_);
  }

 private:
  const std::string path_;
  const int fd_;
};

// The parts of one file, from the connections that ask for them.
class PartedDownload {
 public:
  PartedDownload(const std::string& url, const HubFile& file, const DownloadOptions& options,
                 SparseFile& out, PartRecord& record)
      : url_(url), file_(file), options_(options), out_(out), record_(record) {}

  absl::Status Run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.num_connections; ++i) threads.emplace_back([this] { Work(); });
    for (std::thread& thread : threads) thread.join();
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  void Work() {
    HttpTransferOptions http = options_.http;
    http.cancelled = [this] { return Ended(); };
    HttpTransfer transfer(http);
    while (!Ended()) {
      const std::optional<ByteRange> part = record_.Take();
      if (!part.has_value()) return;
      absl::Status status = FetchPart(transfer, *part);
      if (status.ok()) status = out_.Sync();
      if (status.ok()) status = record_.SetDone(*part);
      if (!status.ok()) End(status);
    }
  }

  bool Ended() {
    if (options_.http.cancelled && options_.http.cancelled()) {
      End(absl::CancelledError("interrupted"));
    }
    absl::MutexLock lock(&mutex_);
    return !status_.ok();
  }

  void End(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    status_.Update(status);
  }

  // Again and again, from where the last attempt was cut short.
  absl::Status FetchPart(HttpTransfer& transfer, const ByteRange& part) {
    const bool is_whole = part.length == file_.size;
    ByteRange rest = part;
    absl::Duration wait = options_.first_wait;
    for (int attempt = 1;; ++attempt) {
      const uint64_t before = rest.length;
      std::optional<absl::Duration> retry_after;
      absl::Status status = FetchSome(transfer, rest, retry_after);
      // A connection that ends badly behind the last byte has done its work: the digest decides.
      if (rest.length == 0 && absl::IsUnavailable(status)) return absl::OkStatus();
      if (absl::IsUnimplemented(status) && is_whole) {  // from the beginning again
        rest = part;
        status = absl::UnavailableError(status.message());
      }
      if (rest.length == 0 || !absl::IsUnavailable(status)) return status;
      if (rest.length < before) {
        attempt = 1;
        wait = options_.first_wait;
      }
      if (attempt >= options_.num_attempts) return status;
      if (!Sleep(std::min(retry_after.value_or(wait), kLongestWait))) return status;
      wait *= 2;
    }
  }

  // One attempt: what came of `rest` is no longer in it.
  absl::Status FetchSome(HttpTransfer& transfer, ByteRange& rest,
                         std::optional<absl::Duration>& retry_after) {
    absl::Status written;
    const bool whole = rest.length == file_.size;
    const auto sink = [&](absl::string_view bytes) {
      if (bytes.size() > rest.length) {
        written = absl::DataLossError(absl::StrCat(file_.name, ": more bytes than ", file_.size));
      } else {
        written = out_.Write(rest.offset, bytes);
      }
      if (!written.ok()) return false;
      rest.offset += bytes.size();
      rest.length -= bytes.size();
      options_.on_progress(bytes.size());
      return true;
    };
    const absl::StatusOr<HttpAnswer> answer =
        transfer.Get(url_, whole ? std::nullopt : std::optional(rest), sink);
    if (!written.ok()) return written;
    if (!answer.ok()) return answer.status();
    retry_after = answer->retry_after;
    if (answer->status == 200 && !whole) {
      return absl::UnimplementedError(absl::StrCat(file_.name, ": the server sends no ranges"));
    }
    if (answer->status != 200 && answer->status != 206) return StatusOfAnswer(*answer, file_.name);
    return rest.length == 0 ? absl::OkStatus()
                            : absl::UnavailableError(absl::StrCat(
                                  file_.name, ": cut short, ", rest.length, " bytes are missing"));
  }

  // Returns false when the download has ended before `wait` is over.
  bool Sleep(absl::Duration wait) {
    for (const absl::Time end = absl::Now() + wait; absl::Now() < end;) {
      if (Ended()) return false;
      absl::SleepFor(std::min(end - absl::Now(), absl::Milliseconds(100)));
    }
    return true;
  }

  const std::string& url_;
  const HubFile& file_;
  const DownloadOptions& options_;
  SparseFile& out_;
  PartRecord& record_;
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // the first error
};

void RemoveParts(const std::string& path) {
  std::error_code ignored;
  fs::remove(path + ".parts", ignored);  // first: it says what is in the other
  fs::remove(path + ".part", ignored);
}

absl::Status FetchAll(const std::string& url, const HubFile& file, const std::string& path,
                      const DownloadOptions& options) {
  std::error_code error;
  if (fs::file_size(path + ".part", error) != file.size || error) RemoveParts(path);
  const auto record = PartRecord::Open(path + ".parts", file, options.part_bytes);
  if (!record.ok()) return record.status();
  const auto out = SparseFile::Open(path + ".part", file.size);
  if (!out.ok()) return out.status();
  options.on_progress((*record)->num_done_bytes());
  return PartedDownload(url, file, options, **out, **record).Run();
}

}  // namespace

absl::Status Download(const std::string& url, const HubFile& file, const std::string& folder,
                      const DownloadOptions& options) {
  const std::string path = (fs::path(folder) / file.name).string();
  if (CheckFile(path, file).ok()) {
    options.on_progress(file.size);
    return absl::OkStatus();
  }
  absl::Status status = FetchAll(url, file, path, options);
  if (absl::IsUnimplemented(status)) {
    DownloadOptions whole = options;
    whole.part_bytes = std::max<uint64_t>(file.size, 1);
    whole.num_connections = 1;
    status = FetchAll(url, file, path, whole);
  }
  if (!status.ok()) return status;
  status = CheckFile(path + ".part", file);
  if (status.ok() && std::rename((path + ".part").c_str(), path.c_str()) != 0) {
    status = absl::ErrnoToStatus(errno, path);
  }
  RemoveParts(path);
  return status;
}

}  // namespace sluice
