#include "services/gateway/batches/batch_service.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "services/common/location_filter.h"
#include "services/gateway/backend/random_id.h"
#include "services/gateway/batches/durable_file.h"
#include "services/gateway/json/object_reader.h"
#include "services/process/log.h"
#include "services/security/read_file.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

constexpr absl::Duration kLookAgain = absl::Seconds(1);
constexpr int64_t kMostActive = 100;  // batches of an owner that have not ended

// When a batch came into a state, by the state's name, in the order of OpenAI's documentation.
constexpr std::array<const char*, 9> kTimes = {"in_progress_at", "expires_at",   "finalizing_at",
                                               "completed_at",   "failed_at",    "expired_at",
                                               "cancelling_at",  "cancelled_at", "created_at"};

absl::Status NotFound(absl::string_view kind, absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("No ", kind, " has the id '", id, "'."));
}

// The objects behind `query.after`, of which `all` has the newest first.
absl::StatusOr<json> PageOf(const std::vector<json>& all, const PageQuery& query) {
  auto begin = all.begin();
  if (!query.after.empty()) {
    begin = std::find_if(all.begin(), all.end(),
                         [&](const json& object) { return object["id"] == query.after; });
    if (begin == all.end()) return NotFound("object of this list", query.after);
    ++begin;
  }
  const auto count = std::min<ptrdiff_t>(all.end() - begin, static_cast<ptrdiff_t>(query.limit));
  const json data(std::vector<json>(begin, begin + count));
  return json{{"object", "list"},
              {"data", data},
              {"first_id", data.empty() ? json(nullptr) : data.front()["id"]},
              {"last_id", data.empty() ? json(nullptr) : data.back()["id"]},
              {"has_more", begin + count != all.end()}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<BatchService>> BatchService::Start(BatchOptions options,
                                                                  http::Handler handler) {
  if (absl::Status made = MakeFolder(options.folder); !made.ok()) return made;
  std::unique_ptr<BatchService> service(new BatchService(std::move(options), std::move(handler)));
  absl::Status taken;
  absl::Notification done;
  service->loop_.Post([&] {
    taken = service->TakeFolder();
    if (absl::IsUnavailable(taken)) service->TakeFolderLater();
    done.Notify();
  });
  done.WaitForNotification();
  if (!taken.ok() && !absl::IsUnavailable(taken)) return taken;
  return service;
}

void BatchService::Shutdown() {
  loop_.Post([this] {
    if (runs_.has_value()) runs_->Stop();
  });
  absl::Notification done;
  loop_.Post([&done] { done.Notify(); });
  if (!loop_.stopped()) done.WaitForNotification();
  loop_.Stop();
  if (lock_ >= 0) close(std::exchange(lock_, -1));
}

// UNAVAILABLE while another process holds it.
absl::Status BatchService::TakeFolder() {
  const std::string path = absl::StrCat(options_.folder, "/lock");
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return FileError("cannot open", path, errno);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const int error_number = errno;
    close(descriptor);
    if (error_number != EWOULDBLOCK) {
      return absl::FailedPreconditionError(FileError("cannot lock", path, error_number).message());
    }
    return absl::UnavailableError(
        absl::StrCat("another gateway holds ", options_.folder, "; try again later"));
  }
  lock_ = descriptor;
  absl::StatusOr<FileStore> files = FileStore::Open(absl::StrCat(options_.folder, "/files"));
  if (!files.ok()) return files.status();
  absl::StatusOr<RecordFolder> batches =
      RecordFolder::Open(absl::StrCat(options_.folder, "/batches"));
  if (!batches.ok()) return batches.status();
  files_ = *std::move(files);
  batches_ = *std::move(batches);
  runs_.emplace(
      BatchRunsOptions{.max_running_lines = options_.max_running_lines,
                       .limits = options_.limits,
                       .now = options_.now,
                       .retry_pause = options_.retry_pause,
                       .handler = handler_,
                       .request = [this](const std::string& owner) { return LineRequest(owner); }},
      loop_, *files_, *batches_);
  Log(LogLevel::kInfo, "gateway", "batches-ready",
      {{"folder", options_.folder}, {"unfinished", runs_->num_active()}});
  return absl::OkStatus();
}

void BatchService::TakeFolderLater() {
  loop_.After(kLookAgain, [this] {
    const absl::Status taken = TakeFolder();
    if (absl::IsUnavailable(taken)) return TakeFolderLater();
    if (!taken.ok()) {
      Log(LogLevel::kError, "gateway", "batches-unusable", {{"status", taken.ToString()}});
    }
  });
}

absl::Status BatchService::CheckReady() const {
  if (runs_.has_value()) return absl::OkStatus();
  return absl::UnavailableError(
      "files and batches are not ready: another gateway holds --batch_dir, or it can't be read");
}

http::Request BatchService::LineRequest(const std::string& owner) const {
  http::Request request;
  request.peer = kBatchTenant;
  request.tenant = kBatchTenant;
  request.cache_scope = owner;
  if (options_.token_file.empty()) return request;
  const absl::StatusOr<std::string> token = ReadRegularFile(options_.token_file);
  // Without it the orchestrator refuses the line, which is tried again.
  if (token.ok()) {
    request.headers.emplace_back("authorization",
                                 absl::StrCat("Bearer ", absl::StripAsciiWhitespace(*token)));
  }
  return request;
}

// ---- Files

BatchService::Answer BatchService::AddFile(const std::string& owner, const std::string& filename,
                                           absl::string_view content) {
  if (absl::Status ready = CheckReady(); !ready.ok()) return ready;
  if (files_->NumBytes(owner) + content.size() > options_.quota_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("The files of this API key would take more than ", options_.quota_bytes,
                     " bytes: delete some, or have the server's operator raise "
                     "--batch_quota_mib."));
  }
  if (files_->NumFiles(owner) >= options_.max_files) {
    return absl::FailedPreconditionError(absl::StrCat("This API key has ", options_.max_files,
                                                      " files, which is the most: delete some."));
  }
  const StoredFile file = {.id = RandomId("file-"),
                           .owner = owner,
                           .filename = filename,
                           .purpose = "batch",
                           .created_at = absl::ToUnixSeconds(options_.now())};
  if (absl::Status added = files_->Add(file, content); !added.ok()) return added;
  return FileJson(*files_->Find(owner, file.id));
}

BatchService::Answer BatchService::GetFile(const std::string& owner, const std::string& id) const {
  if (absl::Status ready = CheckReady(); !ready.ok()) return ready;
  const StoredFile* const file = files_->Find(owner, id);
  if (file == nullptr) return NotFound("file", id);
  return FileJson(*file);
}

BatchService::Answer BatchService::ListFiles(const std::string& owner,
                                             const PageQuery& query) const {
  if (absl::Status ready = CheckReady(); !ready.ok()) return ready;
  std::vector<json> all;
  for (const StoredFile* const file : files_->List(owner)) {
    if (query.purpose.empty() || file->purpose == query.purpose) all.push_back(FileJson(*file));
  }
  return PageOf(all, query);
}

BatchService::Answer BatchService::DeleteFile(const std::string& owner, const std::string& id) {
  if (absl::Status ready = CheckReady(); !ready.ok()) return ready;
  if (files_->Find(owner, id) == nullptr) return NotFound("file", id);
  if (const std::optional<std::string> batch = runs_->ReaderOf(id)) {
    return absl::FailedPreconditionError(
        absl::StrCat("The batch '", *batch, "' reads this file: cancel it first."));
  }
  if (absl::Status removed = files_->Remove(id); !removed.ok()) return removed;
  return json{{"id", id}, {"object", "file"}, {"deleted", true}};
}

absl::StatusOr<std::string> BatchService::ContentOf(const std::string& owner,
                                                    const std::string& id) const {
  if (absl::Status ready = CheckReady(); !ready.ok()) return ready;
  if (files_->Find(owner, id) == nullptr) return NotFound("file", id);
  return files_->PathOf(id);
}

// ---- Batches

BatchService::Answer BatchService::CreateBatch(const std::string& owner,
                                               const BatchRequest& request) {
  if (absl::Status ready = CheckReady(); !ready.ok()) return ready;
  const StoredFile* const file = files_->Find(owner, request.input_file_id);
  if (file == nullptr || file->purpose != "batch") {
    return ParameterError(
        "input_file_id", "invalid_value",
        absl::StrCat("No file of purpose 'batch' has the id '", request.input_file_id, "'."));
  }
  const int64_t num_active = runs_->NumOf(owner);
  if (num_active >= kMostActive) {
    return absl::ResourceExhaustedError(absl::StrCat(
        num_active, " batches of this API key have not ended; accepted: up to ", kMostActive));
  }
  const std::string id = RandomId("batch_");
  const int64_t now = absl::ToUnixSeconds(options_.now());
  Batch batch = {{"id", id},
                 {"object", "batch"},
                 {"endpoint", request.endpoint},
                 {"errors", nullptr},
                 {"input_file_id", request.input_file_id},
                 {"completion_window", request.completion_window},
                 {"output_file_id", nullptr},
                 {"error_file_id", nullptr},
                 {"metadata", request.metadata},
                 {"owner", owner},
                 {"num_lines", 0}};
  for (const char* time : kTimes) batch[time] = nullptr;
  batch["created_at"] = now;
  batch["expires_at"] = now + *HoursOf(request.completion_window) * 3600;
  if (absl::Status begun = runs_->Begin(id, std::move(batch)); !begun.ok()) return begun;
  ForgetOldest(owner);
  return Shown(id, batches_->records().at(id));
}

// Where there are too many. One that stays on a disk that does not let it go is tried again the next time.
void BatchService::ForgetOldest(const std::string& owner) {
  size_t count = 0;
  std::pair<int64_t, std::string> oldest = {std::numeric_limits<int64_t>::max(), ""};
  for (const auto& [id, batch] : batches_->records()) {
    if (batch["owner"] != owner) continue;
    ++count;
    if (BatchRuns::HasEnded(batch)) {
      oldest = std::min(oldest, std::pair(batch.value("created_at", int64_t{0}), id));
    }
  }
  if (count > options_.max_batches && !oldest.second.empty()) {
    batches_->Remove(oldest.second).IgnoreError();
  }
}

BatchService::Answer BatchService::GetBatch(const std::string& owner, const std::string& id) const {
  if (absl::Status ready = CheckReady(); !ready.ok()) return ready;
  const Batch* const batch = Find(owner, id);
  if (batch == nullptr) return NotFound("batch", id);
  return Shown(id, *batch);
}

BatchService::Answer BatchService::ListBatches(const std::string& owner,
                                               const PageQuery& query) const {
  if (absl::Status ready = CheckReady(); !ready.ok()) return ready;
  std::vector<json> all;
  for (const auto& [id, batch] : batches_->records()) {
    if (batch["owner"] == owner) all.push_back(Shown(id, batch));
  }
  std::sort(all.begin(), all.end(), [](const json& a, const json& b) {
    return std::tie(a["created_at"], a["id"]) > std::tie(b["created_at"], b["id"]);
  });
  return PageOf(all, query);
}

absl::Status BatchService::ForClient(const absl::Status& status) const {
  const std::string folder(absl::StripSuffix(options_.folder, "/"));
  absl::Status told = LocationFilter({folder}).ForClient(status);
  if (told.message() != status.message()) {
    Log(LogLevel::kWarning, "gateway", "batch-call-failed", {{"status", status.ToString()}});
  }
  return told;
}

BatchService::Answer BatchService::CancelBatch(const std::string& owner, const std::string& id) {
  if (absl::Status ready = CheckReady(); !ready.ok()) return ready;
  const Batch* const batch = Find(owner, id);
  if (batch == nullptr) return NotFound("batch", id);
  const std::string status = (*batch)["status"];
  if (status == "cancelling") return Shown(id, *batch);
  if (status != "validating" && status != "in_progress") {
    return absl::FailedPreconditionError(
        absl::StrCat("Cannot cancel a batch with status '", status, "'."));
  }
  if (absl::Status cancelled = runs_->Cancel(id); !cancelled.ok()) return cancelled;
  return Shown(id, batches_->records().at(id));
}

const BatchService::Batch* BatchService::Find(const std::string& owner,
                                              const std::string& id) const {
  const auto found = batches_->records().find(id);
  if (found == batches_->records().end() || found->second["owner"] != owner) return nullptr;
  return &found->second;
}

json BatchService::Shown(const std::string& id, const Batch& batch) const {
  json shown = batch;
  for (const char* name : {"owner", "num_lines", "num_completed", "num_failed", "ends_as"}) {
    shown.erase(name);
  }
  const LineCounts counts = runs_->CountsOf(id, batch);
  shown["request_counts"] = {
      {"total", counts.total}, {"completed", counts.completed}, {"failed", counts.failed}};
  return shown;
}

}  // namespace sluice::gateway
