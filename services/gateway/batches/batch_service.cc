#include "services/gateway/batches/batch_service.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "services/common/location_filter.h"
#include "services/gateway/backend/random_id.h"
#include "services/gateway/batches/batch_line.h"
#include "services/gateway/batches/durable_file.h"
#include "services/gateway/json/object_reader.h"
#include "services/process/log.h"
#include "services/security/read_file.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

constexpr absl::Duration kTick = absl::Seconds(1);
constexpr absl::Duration kAgain = absl::Seconds(5);  // after an error of the disk
constexpr int kLinesOfAStep = 256;  // that are checked before others have their turn
constexpr uint64_t kMostRunningBytes = uint64_t{64} << 20;
constexpr size_t kMostActive = 100;  // batches of an owner that have not ended
constexpr size_t kMostMetadata = 16;
constexpr int64_t kLongestWindow = 30 * 24;  // hours

// When a batch came into a state, by the state's name, in the order of OpenAI's documentation.
constexpr std::array<const char*, 9> kTimes = {"in_progress_at", "expires_at",   "finalizing_at",
                                               "completed_at",   "failed_at",    "expired_at",
                                               "cancelling_at",  "cancelled_at", "created_at"};

bool HasEnded(const json& batch) {
  const std::string status = batch.value("status", "");
  return status == "completed" || status == "failed" || status == "expired" ||
         status == "cancelled";
}

absl::Status NotFound(absl::string_view kind, absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("No ", kind, " has the id '", id, "'."));
}

// Hours of "24h" or "7d".
std::optional<int64_t> HoursOf(absl::string_view window) {
  int64_t number = 0;
  if (window.size() < 2 || !absl::SimpleAtoi(window.substr(0, window.size() - 1), &number)) {
    return std::nullopt;
  }
  if (window.back() == 'd') number *= 24;
  if ((window.back() != 'h' && window.back() != 'd') || number < 1 || number > kLongestWindow) {
    return std::nullopt;
  }
  return number;
}

void CheckMetadata(const json& metadata, ObjectReader& reader) {
  const bool fits = metadata.size() <= kMostMetadata &&
                    std::all_of(metadata.begin(), metadata.end(), [](const json& value) {
                      return value.is_string() && value.get_ref<const std::string&>().size() <= 512;
                    });
  if (!fits) {
    reader.Fail("metadata", "invalid_value",
                "'metadata' has at most 16 members, which are texts of up to 512 bytes.");
  }
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

absl::StatusOr<BatchRequest> ReadBatchRequest(const json& body, absl::string_view) {
  ObjectReader reader(body);
  BatchRequest request;
  request.input_file_id = reader.String("input_file_id").value_or("");
  request.endpoint = reader.String("endpoint").value_or("");
  request.completion_window = reader.String("completion_window").value_or("24h");
  if (const json* metadata = reader.Object("metadata")) {
    request.metadata = *metadata;
    CheckMetadata(*metadata, reader);
  }
  reader.Refuse({"output_expires_after"}, "results stay until they are deleted");
  if (!request.endpoint.empty() && !IsBatchEndpoint(request.endpoint)) {
    reader.Fail("endpoint", "invalid_value",
                absl::StrCat("Unsupported value: 'endpoint' is '", request.endpoint,
                             "'. Supported values are: ", BatchEndpointsText(), "."));
  }
  if (!HoursOf(request.completion_window).has_value()) {
    reader.Fail("completion_window", "invalid_value",
                "'completion_window' is a number of hours or days, such as '24h' or '7d', up to "
                "'30d'.");
  }
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  for (const auto& [name, value] : {std::pair("input_file_id", &request.input_file_id),
                                    std::pair("endpoint", &request.endpoint)}) {
    if (!value->empty()) continue;
    return ParameterError(name, "missing_required_parameter",
                          absl::StrCat("Missing required parameter: '", name, "'."));
  }
  return request;
}

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
  loop_.Post([this] { active_.clear(); });
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
  for (const auto& [id, batch] : batches_->records()) {
    if (HasEnded(batch)) continue;
    active_[id];
    loop_.Post([this, id = id] { Advance(id); });
  }
  Log(LogLevel::kInfo, "gateway", "batches-ready",
      {{"folder", options_.folder}, {"unfinished", active_.size()}});
  Tick();
  return absl::OkStatus();
}

void BatchService::TakeFolderLater() {
  loop_.After(kTick, [this] {
    const absl::Status taken = TakeFolder();
    if (absl::IsUnavailable(taken)) return TakeFolderLater();
    if (!taken.ok()) {
      Log(LogLevel::kError, "gateway", "batches-unusable", {{"status", taken.ToString()}});
    }
  });
}

absl::Status BatchService::CheckReady() const {
  if (batches_.has_value()) return absl::OkStatus();
  return absl::UnavailableError(
      "files and batches are not ready: another gateway holds --batch_dir, or it can't be read");
}

// Ends what has run out of time, and gives others what a batch without lines to start leaves.
void BatchService::Tick() {
  loop_.After(kTick, [this] { Tick(); });
  std::vector<std::string> expired;
  for (const auto& [id, active] : active_) {
    const Batch& batch = batches_->records().at(id);
    const bool runs = batch["status"] == "in_progress" && active.run != nullptr;
    if (runs && absl::ToUnixSeconds(options_.now()) >= batch.value("expires_at", int64_t{0})) {
      expired.push_back(id);
    }
  }
  for (const std::string& id : expired) {
    LineRun& run = *active_.at(id).run;
    run.Stop();
    absl::Status status = run.FailUnfinished(
        "batch_expired", "The line was not run before the completion window ended.");
    if (status.ok()) status = End(id, "expired");
    if (!status.ok()) {
      Log(LogLevel::kError, "gateway", "batch-stuck",
          {{"batch", id}, {"status", status.ToString()}});
    }
  }
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
  for (const auto& [batch, active] : active_) {
    if (batches_->records().at(batch)["input_file_id"] != id) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("The batch '", batch, "' reads this file: cancel it first."));
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
  const auto num_active = std::count_if(active_.begin(), active_.end(), [&](const auto& entry) {
    return batches_->records().at(entry.first)["owner"] == owner;
  });
  if (static_cast<size_t>(num_active) >= kMostActive) {
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
  if (absl::Status saved = SaveStatus(id, std::move(batch), "validating"); !saved.ok())
    return saved;
  active_[id];
  loop_.Post([this, id] { Advance(id); });
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
    if (HasEnded(batch)) {
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
  if (absl::Status saved = SaveStatus(id, *batch, "cancelling"); !saved.ok()) return saved;
  if (LineRun* run = active_[id].run.get()) run->Stop();
  loop_.Post([this, id] { Advance(id); });
  return Shown(id, batches_->records().at(id));
}

const BatchService::Batch* BatchService::Find(const std::string& owner,
                                              const std::string& id) const {
  const auto found = batches_->records().find(id);
  if (found == batches_->records().end() || found->second["owner"] != owner) return nullptr;
  return &found->second;
}

LineCounts BatchService::CountsOf(const std::string& id, const Batch& batch) const {
  const auto active = active_.find(id);
  if (active != active_.end() && active->second.run != nullptr) return active->second.run->counts();
  return {.total = batch.value("num_lines", int64_t{0}),
          .completed = batch.value("num_completed", int64_t{0}),
          .failed = batch.value("num_failed", int64_t{0})};
}

json BatchService::Shown(const std::string& id, const Batch& batch) const {
  json shown = batch;
  for (const char* name : {"owner", "num_lines", "num_completed", "num_failed", "ends_as"}) {
    shown.erase(name);
  }
  const LineCounts counts = CountsOf(id, batch);
  shown["request_counts"] = {
      {"total", counts.total}, {"completed", counts.completed}, {"failed", counts.failed}};
  return shown;
}

absl::Status BatchService::SaveStatus(const std::string& id, Batch batch,
                                      const std::string& status) {
  const LineCounts counts = CountsOf(id, batch);
  batch["num_completed"] = counts.completed;
  batch["num_failed"] = counts.failed;
  batch["status"] = status;
  if (const std::string time = absl::StrCat(status, "_at"); batch.contains(time)) {
    batch[time] = absl::ToUnixSeconds(options_.now());
  }
  absl::Status saved = batches_->Save(id, std::move(batch));
  if (saved.ok()) {
    Log(LogLevel::kInfo, "gateway",
        absl::StrCat("batch-", absl::StrReplaceAll(status, {{"_", "-"}})),
        {{"batch", id},
         {"lines", counts.total},
         {"completed", counts.completed},
         {"failed", counts.failed}});
  }
  return saved;
}

// ---- How a batch goes on

void BatchService::Advance(const std::string& id) {
  if (active_.count(id) == 0) return;
  const absl::Status status = TryAdvance(id);
  if (status.ok()) return;
  Log(LogLevel::kError, "gateway", "batch-stuck",
      {{"batch", id}, {"status", status.ToString()}, {"again_in", absl::FormatDuration(kAgain)}});
  loop_.After(kAgain, [this, id] { Advance(id); });
}

absl::Status BatchService::TryAdvance(const std::string& id) {
  const Batch batch = batches_->records().at(id);
  const std::string status = batch["status"];
  if (status == "validating") return Validate(id);
  if (status == "finalizing") return End(id, batch.value("ends_as", "completed"));
  if (status == "cancelling") {
    absl::Status opened = batch.value("num_lines", int64_t{0}) > 0 ? OpenRun(id) : absl::OkStatus();
    if (!opened.ok()) return opened;
    if (LineRun* run = active_[id].run.get()) run->Stop();
    return End(id, "cancelled");
  }
  return OpenRun(id);
}

absl::Status BatchService::Validate(const std::string& id) {
  Batch batch = batches_->records().at(id);
  std::unique_ptr<InputCheck>& check = active_[id].check;
  if (check == nullptr) {
    absl::StatusOr<LineFile> file = LineFile::Open(files_->PathOf(batch["input_file_id"]));
    if (!file.ok()) return file.status();
    check = std::make_unique<InputCheck>(*std::move(file), batch["endpoint"], options_.limits);
  }
  if (check->Step(kLinesOfAStep)) {
    loop_.Post([this, id] { Advance(id); });
    return absl::OkStatus();
  }
  batch["num_lines"] = check->num_lines();
  if (!check->errors().empty()) {
    batch["errors"] = {{"object", "list"}, {"data", check->errors()}};
    absl::Status saved = SaveStatus(id, std::move(batch), "failed");
    if (saved.ok()) active_.erase(id);
    return saved;
  }
  if (absl::Status saved = SaveStatus(id, std::move(batch), "in_progress"); !saved.ok())
    return saved;
  check = nullptr;
  return OpenRun(id);
}

absl::Status BatchService::OpenRun(const std::string& id) {
  if (active_[id].run != nullptr) return absl::OkStatus();
  const Batch& batch = batches_->records().at(id);
  absl::StatusOr<std::unique_ptr<LineRun>> run = LineRun::Open(
      loop_,
      {.id = id.substr(id.find('_') + 1),
       .input = files_->PathOf(batch["input_file_id"]),
       .endpoint = batch["endpoint"],
       .output = PartOf(id, "output"),
       .errors = PartOf(id, "errors"),
       .num_lines = batch.value("num_lines", int64_t{0}),
       .request = [this, owner = batch["owner"].get<std::string>()] { return LineRequest(owner); },
       .handler = handler_,
       .on_change = [this] { PumpLater(); },
       .retry_pause = options_.retry_pause});
  if (!run.ok()) return run.status();
  active_[id].run = *std::move(run);
  PumpLater();
  return absl::OkStatus();
}

// May be begun again at any point.
absl::Status BatchService::End(const std::string& id, const std::string& ends_as) {
  Batch batch = batches_->records().at(id);
  if (LineRun* run = active_[id].run.get()) {
    if (absl::Status flushed = run->Flush(); !flushed.ok()) return flushed;
  }
  batch["ends_as"] = ends_as;
  if (batch["status"] != "finalizing") {
    if (absl::Status saved = SaveStatus(id, batch, "finalizing"); !saved.ok()) return saved;
    batch = batches_->records().at(id);
  }
  active_[id].run = nullptr;
  for (const char* part : {"output", "errors"}) {
    if (absl::Status adopted = Adopt(id, batch, part); !adopted.ok()) return adopted;
  }
  absl::Status saved = SaveStatus(id, std::move(batch), ends_as);
  if (saved.ok()) active_.erase(id);
  return saved;
}

// Makes a file of the owner's of a part that has results.
absl::Status BatchService::Adopt(const std::string& id, Batch& batch, const char* part) {
  const std::string path = PartOf(id, part);
  const std::string file_id = absl::StrCat("file-", id.substr(id.find('_') + 1), "-", part);
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size == 0) return RemoveFile(path);
  if (error && files_->Find(batch["owner"], file_id) == nullptr) return absl::OkStatus();
  absl::Status adopted = files_->Adopt({.id = file_id,
                                        .owner = batch["owner"],
                                        .filename = absl::StrCat(id, "_", part, ".jsonl"),
                                        .purpose = "batch_output",
                                        .created_at = absl::ToUnixSeconds(options_.now())},
                                       path);
  const bool is_output = absl::string_view(part) == "output";
  if (adopted.ok()) batch[is_output ? "output_file_id" : "error_file_id"] = file_id;
  return adopted;
}

void BatchService::PumpLater() {
  if (std::exchange(is_pump_due_, true)) return;
  loop_.Post([this] {
    is_pump_due_ = false;
    Pump();
  });
}

// Starts as many lines as may run, of each batch in its turn; ends batches that have no more.
void BatchService::Pump() {
  while (StartOne()) {
  }
  std::vector<std::string> finished;
  for (const auto& [id, active] : active_) {
    if (active.run != nullptr && active.run->counts().unfinished() == 0) finished.push_back(id);
  }
  for (const std::string& id : finished) {
    if (batches_->records().at(id)["status"] != "in_progress") continue;
    if (const absl::Status status = End(id, "completed"); !status.ok()) {
      Log(LogLevel::kError, "gateway", "batch-stuck",
          {{"batch", id}, {"status", status.ToString()}});
      loop_.After(kAgain, [this, id] { Advance(id); });
    }
  }
}

bool BatchService::StartOne() {
  int num_running = 0;
  uint64_t num_bytes = 0;
  std::vector<std::string> ids;  // from the one behind last_started_ on
  for (const auto& [id, active] : active_) {
    if (active.run == nullptr) continue;
    num_running += active.run->num_running();
    num_bytes += active.run->num_running_bytes();
    ids.push_back(id);
  }
  if (num_running >= options_.max_running_lines || num_bytes >= kMostRunningBytes) return false;
  std::rotate(ids.begin(), std::upper_bound(ids.begin(), ids.end(), last_started_), ids.end());
  for (const std::string& id : ids) {
    if (batches_->records().at(id)["status"] != "in_progress") continue;
    if (!active_.at(id).run->StartNext()) continue;
    last_started_ = id;
    return true;
  }
  return false;
}

std::string BatchService::PartOf(const std::string& id, const char* part) const {
  return absl::StrCat(batches_->path(), "/", id, ".", part);
}

}  // namespace sluice::gateway
