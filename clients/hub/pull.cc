#include "clients/hub/pull.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "clients/hub/file_hash.h"
#include "clients/hub/http_transfer.h"
#include "clients/hub/hub_listing.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestListing = size_t{32} << 20;
constexpr int kAttemptsWhereThere = 2;                 // at the listing
constexpr const char* kCommitFile = ".sluice-commit";  // in a folder that was pulled

// Whether what follows "http://" names this machine, with or without a port and a path.
bool IsThisHost(absl::string_view rest) {
  const absl::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  if (absl::StartsWith(authority, "[::1]")) return authority.size() == 5 || authority[5] == ':';
  const std::string host(authority.substr(0, authority.rfind(':')));
  in_addr address;
  return host == "localhost" ||
         (inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127);
}

absl::Status CheckEndpoint(const PullOptions& options) {
  const std::string& endpoint = options.endpoint;
  const bool plain = absl::StartsWith(endpoint, "http://");
  if (!plain && !absl::StartsWith(endpoint, "https://")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", endpoint, "\" is no hub; accepted: a URL that begins with https:// or http://"));
  }
  const absl::string_view host = absl::string_view(endpoint).substr(plain ? 7 : 8);
  if (!plain || IsThisHost(host) || options.download.http.token.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(endpoint, " is not encrypted, and a token is set: use https://"));
}

// "org/name" with each part encoded.
std::string EncodedName(const HubModel& model) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(model.name, '/');
  return absl::StrCat(PercentEncoded(parts.first), "/", PercentEncoded(parts.second));
}

// What is behind a refusal of the list, in the words of who reads it.
absl::Status Explained(const absl::Status& status, const PullOptions& options) {
  const std::string revision = options.model.revision_or_main();
  if (absl::IsNotFound(status)) {
    return absl::NotFoundError(absl::StrCat(options.endpoint, " has no model ", options.model.name,
                                            " with a revision ", revision));
  }
  if (!absl::IsPermissionDenied(status)) return status;
  const bool has_token = !options.download.http.token.empty();
  return absl::PermissionDeniedError(absl::StrCat(
      options.endpoint, " does not give ", options.model.name,
      has_token ? " to the owner of this token" : " without a token",
      ": it is private, gated, or does not exist",
      has_token ? "" : "; accepted: --token_file FILE or HF_TOKEN", " (", status.message(), ")"));
}

absl::StatusOr<std::string> GetOnce(HttpTransfer& transfer, const std::string& url,
                                    const std::string& what,
                                    std::optional<absl::Duration>& retry_after) {
  std::string text;
  const auto sink = [&text](absl::string_view bytes) {
    text.append(bytes.data(), bytes.size());
    return text.size() <= kLongestListing;
  };
  const absl::StatusOr<HttpAnswer> answer = transfer.Get(url, std::nullopt, sink);
  if (absl::IsAborted(answer.status())) {
    return absl::DataLossError(absl::StrCat(what, ": longer than 32 MiB"));
  }
  if (!answer.ok()) return answer.status();
  retry_after = answer->retry_after;
  if (answer->status != 200) return StatusOfAnswer(*answer, what);
  return text;
}

absl::StatusOr<HubListing> GetListing(const PullOptions& options, int num_attempts) {
  const std::string url =
      absl::StrCat(options.endpoint, "/api/models/", EncodedName(options.model), "/revision/",
                   PercentEncoded(options.model.revision_or_main()), "?blobs=true");
  HttpTransfer transfer(options.download.http);
  absl::Duration wait = options.download.first_wait;
  for (int attempt = 1;; ++attempt, wait *= 2) {
    std::optional<absl::Duration> retry_after;
    const absl::StatusOr<std::string> text =
        GetOnce(transfer, url, options.model.name, retry_after);
    if (text.ok()) return ParseHubListing(*text);
    const auto& cancelled = options.download.http.cancelled;
    if (!absl::IsUnavailable(text.status()) || attempt >= num_attempts ||
        (cancelled && cancelled())) {
      return Explained(text.status(), options);
    }
    absl::SleepFor(std::min(retry_after.value_or(wait), absl::Seconds(10)));
  }
}

// Held by the one pull that fills a folder, at a file beside it.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& path)
      : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {}
  ~FolderLock() {
    if (fd_ >= 0) close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool Take() { return fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) == 0; }
  bool is_open() const { return fd_ >= 0; }

 private:
  const int fd_;
};

absl::Status TakeLock(FolderLock& lock, const PullOptions& options) {
  if (!lock.is_open()) {
    return absl::UnavailableError(absl::StrCat("cannot write beside ", options.folder));
  }
  if (lock.Take()) return absl::OkStatus();
  options.on_wait();
  while (!lock.Take()) {
    const auto& cancelled = options.download.http.cancelled;
    if (cancelled && cancelled()) return absl::CancelledError("interrupted");
    absl::SleepFor(absl::Milliseconds(200));
  }
  return absl::OkStatus();
}

uint64_t BytesOf(const std::vector<HubFile>& files) {
  uint64_t bytes = 0;
  for (const HubFile& file : files) bytes += file.size;
  return bytes;
}

// A file or folder that belongs to a folder: no model's name begins like it.
fs::path Beside(const fs::path& folder, const char* kind) {
  return folder.parent_path() / absl::StrCat(".", folder.filename().string(), kind);
}

// The commit that a folder was pulled of; "" where it was not.
std::string PulledCommit(const fs::path& folder) {
  std::string commit;
  std::ifstream(folder / kCommitFile) >> commit;
  return commit;
}

bool IsUpToDate(const fs::path& folder, const std::string& commit,
                const std::vector<HubFile>& files) {
  return PulledCommit(folder) == commit &&
         std::all_of(files.begin(), files.end(), [&](const HubFile& file) {
           std::error_code error;
           return fs::file_size(folder / file.name, error) == file.size && !error;
         });
}

// Bytes on disk of the part of a file that has come.
uint64_t BytesOfParts(const fs::path& folder, const HubFile& file) {
  struct stat status;
  if (stat((folder / (file.name + ".part")).c_str(), &status) != 0) return 0;
  return std::min(static_cast<uint64_t>(status.st_blocks) * 512, file.size);
}

// Bytes that a folder has of the whole file, whether they are right or not.
uint64_t BytesThere(const fs::path& folder, const HubFile& file) {
  std::error_code error;
  const uint64_t size = fs::file_size(folder / file.name, error);
  return error ? 0 : std::min(size, file.size);
}

absl::Status CheckSpaceFor(const fs::path& partial, const std::vector<HubFile>& files) {
  uint64_t needed = BytesOf(files);
  for (const HubFile& file : files) {
    needed -= std::max(BytesThere(partial, file), BytesOfParts(partial, file));
  }
  std::error_code error;
  const fs::space_info space = fs::space(partial, error);
  if (error || space.available >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s: the model needs %.1f GB more, the disk has %.1f GB", partial.string(),
      static_cast<double>(needed) / 1e9, static_cast<double>(space.available) / 1e9));
}

// Names of the files in the folder of a model, of `commit` alone.
std::set<std::string> NamesOf(const fs::path& folder, const std::string& commit) {
  std::set<std::string> names;
  std::error_code error;
  if (PulledCommit(folder) != commit) return names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error)) names.insert(entry.path().filename());
  }
  return names;
}

// Takes over from the folder as it is what need not come again: files that are wanted and have the
// right size, their digests being looked at later, and what was pulled of the same commit.
void LinkFrom(const fs::path& folder, const fs::path& partial, const std::vector<HubFile>& files,
              const std::set<std::string>& kept) {
  std::set<std::string> names = kept;
  for (const HubFile& file : files) {
    if (BytesThere(folder, file) == file.size) names.insert(file.name);
  }
  for (const std::string& name : names) {
    std::error_code error;
    if (!fs::exists(partial / name, error)) {
      fs::create_hard_link(folder / name, partial / name, error);
    }
  }
}

// What earlier pulls, of other files or another commit, left behind.
void RemoveOthers(const fs::path& partial, const std::vector<HubFile>& files,
                  std::set<std::string> kept) {
  for (const HubFile& file : files) kept.insert(file.name);
  kept.insert(kCommitFile);
  std::error_code error;
  std::vector<fs::path> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(partial, error)) {
    if (!kept.contains(entry.path().filename())) others.push_back(entry.path());
  }
  for (const fs::path& other : others) fs::remove_all(other, error);
}

absl::Status Publish(const fs::path& partial, const fs::path& folder) {
  std::error_code error;
  const fs::path old = Beside(folder, ".old");
  fs::remove_all(old, error);
  const bool replaces = fs::exists(folder, error);
  if (replaces) fs::rename(folder, old, error);
  if (!error) fs::rename(partial, folder, error);
  if (error) {
    const std::string reason = error.message();
    if (replaces && !fs::exists(folder, error)) fs::rename(old, folder, error);
    return absl::UnavailableError(absl::StrCat(folder.string(), ": ", reason));
  }
  fs::remove_all(old, error);
  return absl::OkStatus();
}

absl::Status Fill(const PullOptions& options, const HubListing& listing,
                  const std::vector<HubFile>& files, const fs::path& partial) {
  if (const absl::Status space = CheckSpaceFor(partial, files); !space.ok()) return space;
  options.on_expect(BytesOf(files));
  for (const HubFile& file : files) {
    const std::string url =
        absl::StrCat(options.endpoint, "/", EncodedName(options.model), "/resolve/", listing.commit,
                     "/", PercentEncoded(file.name));
    const absl::Status status = Download(url, file, partial.string(), options.download);
    if (!status.ok()) return status;
  }
  std::ofstream commit(partial / kCommitFile);
  commit << listing.commit << "\n";
  return commit.flush() ? absl::OkStatus()
                        : absl::UnavailableError(absl::StrCat(partial.string(), ": not writable"));
}

}  // namespace

absl::StatusOr<PullResult> Pull(const PullOptions& options) {
  if (const absl::Status endpoint = CheckEndpoint(options); !endpoint.ok()) return endpoint;
  const std::string there = options.patterns.empty() ? PulledCommit(options.folder) : "";
  if (!there.empty() && there == options.model.revision) {
    return PullResult{.commit = there, .was_there = true};
  }
  // Who has the model already, and no network, does not wait for the hub for long.
  const int attempts = there.empty() ? options.download.num_attempts : kAttemptsWhereThere;
  const absl::StatusOr<HubListing> listing = GetListing(options, attempts);
  if (!there.empty() && absl::IsUnavailable(listing.status())) {
    return PullResult{
        .commit = there, .was_there = true, .not_asked = std::string(listing.status().message())};
  }
  if (!listing.ok()) return listing.status();
  const absl::StatusOr<std::vector<HubFile>> files = ChooseFiles(*listing, options.patterns);
  if (!files.ok()) {
    return absl::Status(files.status().code(),
                        absl::StrCat(options.model.name, ": ", files.status().message()));
  }
  const fs::path folder = options.folder;
  const fs::path partial = Beside(folder, ".partial");
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_empty(folder, error) && PulledCommit(folder).empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.folder,
                     " exists and was not made by sluice pull; accepted: a new or empty folder"));
  }
  fs::create_directories(partial, error);
  if (error) return absl::UnavailableError(absl::StrCat(partial.string(), ": ", error.message()));
  FolderLock lock(Beside(folder, ".lock"));
  if (const absl::Status taken = TakeLock(lock, options); !taken.ok()) return taken;

  PullResult result{.commit = listing->commit, .num_bytes = BytesOf(*files)};
  for (const HubFile& file : *files) result.files.push_back(file.name);
  result.was_there = IsUpToDate(options.folder, listing->commit, *files);
  if (result.was_there) {
    fs::remove(partial, error);  // if it is empty
    return result;
  }
  fs::create_directories(partial, error);
  const std::set<std::string> kept = NamesOf(options.folder, listing->commit);
  LinkFrom(options.folder, partial, *files, kept);
  if (const absl::Status filled = Fill(options, *listing, *files, partial); !filled.ok()) {
    return filled;
  }
  RemoveOthers(partial, *files, kept);
  if (const absl::Status published = Publish(partial, options.folder); !published.ok()) {
    return published;
  }
  return result;
}

}  // namespace sluice
