#include "services/gateway/batches/batch_runs.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "services/gateway/batches/durable_file.h"
#include "services/process/log.h"

namespace sluice::gateway {
namespace {

constexpr absl::Duration kTick = absl::Seconds(1);
constexpr absl::Duration kAgain = absl::Seconds(5);  // after an error of the disk
constexpr int kLinesOfAStep = 256;  // that are checked before others have their turn
constexpr uint64_t kMostRunningBytes = uint64_t{64} << 20;

}  // namespace

bool BatchRuns::HasEnded(const Batch& batch) {
  const std::string status = batch.value("status", "");
  return status == "completed" || status == "failed" || status == "expired" ||
         status == "cancelled";
}

BatchRuns::BatchRuns(BatchRunsOptions options, WorkLoop& loop, FileStore& files,
                     RecordFolder& batches)
    : options_(std::move(options)), loop_(loop), files_(files), batches_(batches) {
  for (const auto& [id, batch] : batches_.records()) {
    if (HasEnded(batch)) continue;
    active_[id];
    AdvanceLater(id);
  }
  Tick();
}

absl::Status BatchRuns::Begin(const std::string& id, Batch batch) {
  absl::Status saved = SaveStatus(id, std::move(batch), "validating");
  if (!saved.ok()) return saved;
  active_[id];
  AdvanceLater(id);
  return absl::OkStatus();
}

absl::Status BatchRuns::Cancel(const std::string& id) {
  absl::Status saved = SaveStatus(id, batches_.records().at(id), "cancelling");
  if (!saved.ok()) return saved;
  if (LineRun* run = active_[id].run.get()) run->Stop();
  AdvanceLater(id);
  return absl::OkStatus();
}

int64_t BatchRuns::NumOf(const std::string& owner) const {
  return std::count_if(active_.begin(), active_.end(), [&](const auto& entry) {
    return batches_.records().at(entry.first)["owner"] == owner;
  });
}

std::optional<std::string> BatchRuns::ReaderOf(const std::string& file_id) const {
  for (const auto& [id, active] : active_) {
    if (batches_.records().at(id)["input_file_id"] == file_id) return id;
  }
  return std::nullopt;
}

LineCounts BatchRuns::CountsOf(const std::string& id, const Batch& batch) const {
  const auto active = active_.find(id);
  if (active != active_.end() && active->second.run != nullptr) return active->second.run->counts();
  return {.total = batch.value("num_lines", int64_t{0}),
          .completed = batch.value("num_completed", int64_t{0}),
          .failed = batch.value("num_failed", int64_t{0})};
}

absl::Status BatchRuns::SaveStatus(const std::string& id, Batch batch, const std::string& status) {
  const LineCounts counts = CountsOf(id, batch);
  batch["num_completed"] = counts.completed;
  batch["num_failed"] = counts.failed;
  batch["status"] = status;
  if (const std::string time = absl::StrCat(status, "_at"); batch.contains(time)) {
    batch[time] = absl::ToUnixSeconds(options_.now());
  }
  absl::Status saved = batches_.Save(id, std::move(batch));
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

// Ends what has run out of time, and gives others what a batch without lines to start leaves.
void BatchRuns::Tick() {
  loop_.After(kTick, [this] { Tick(); });
  std::vector<std::string> expired;
  for (const auto& [id, active] : active_) {
    const Batch& batch = batches_.records().at(id);
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

// ---- How a batch goes on

void BatchRuns::AdvanceLater(const std::string& id) {
  loop_.Post([this, id] { Advance(id); });
}

void BatchRuns::Advance(const std::string& id) {
  if (active_.count(id) == 0) return;
  const absl::Status status = TryAdvance(id);
  if (status.ok()) return;
  Log(LogLevel::kError, "gateway", "batch-stuck",
      {{"batch", id}, {"status", status.ToString()}, {"again_in", absl::FormatDuration(kAgain)}});
  loop_.After(kAgain, [this, id] { Advance(id); });
}

absl::Status BatchRuns::TryAdvance(const std::string& id) {
  const Batch batch = batches_.records().at(id);
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

absl::Status BatchRuns::Validate(const std::string& id) {
  Batch batch = batches_.records().at(id);
  std::unique_ptr<InputCheck>& check = active_[id].check;
  if (check == nullptr) {
    absl::StatusOr<LineFile> file = LineFile::Open(files_.PathOf(batch["input_file_id"]));
    if (!file.ok()) return file.status();
    check = std::make_unique<InputCheck>(*std::move(file), batch["endpoint"], options_.limits);
  }
  if (check->Step(kLinesOfAStep)) {
    AdvanceLater(id);
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

absl::Status BatchRuns::OpenRun(const std::string& id) {
  if (active_[id].run != nullptr) return absl::OkStatus();
  const Batch& batch = batches_.records().at(id);
  absl::StatusOr<std::unique_ptr<LineRun>> run = LineRun::Open(
      loop_,
      {.id = id.substr(id.find('_') + 1),
       .input = files_.PathOf(batch["input_file_id"]),
       .endpoint = batch["endpoint"],
       .output = PartOf(id, "output"),
       .errors = PartOf(id, "errors"),
       .num_lines = batch.value("num_lines", int64_t{0}),
       .request = [this,
                   owner = batch["owner"].get<std::string>()] { return options_.request(owner); },
       .handler = options_.handler,
       .on_change = [this] { PumpLater(); },
       .retry_pause = options_.retry_pause});
  if (!run.ok()) return run.status();
  active_[id].run = *std::move(run);
  PumpLater();
  return absl::OkStatus();
}

// May be begun again at any point.
absl::Status BatchRuns::End(const std::string& id, const std::string& ends_as) {
  Batch batch = batches_.records().at(id);
  if (LineRun* run = active_[id].run.get()) {
    if (absl::Status flushed = run->Flush(); !flushed.ok()) return flushed;
  }
  batch["ends_as"] = ends_as;
  if (batch["status"] != "finalizing") {
    if (absl::Status saved = SaveStatus(id, batch, "finalizing"); !saved.ok()) return saved;
    batch = batches_.records().at(id);
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
absl::Status BatchRuns::Adopt(const std::string& id, Batch& batch, const char* part) {
  const std::string path = PartOf(id, part);
  const std::string file_id = absl::StrCat("file-", id.substr(id.find('_') + 1), "-", part);
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size == 0) return RemoveFile(path);
  if (error && files_.Find(batch["owner"], file_id) == nullptr) return absl::OkStatus();
  absl::Status adopted = files_.Adopt({.id = file_id,
                                       .owner = batch["owner"],
                                       .filename = absl::StrCat(id, "_", part, ".jsonl"),
                                       .purpose = "batch_output",
                                       .created_at = absl::ToUnixSeconds(options_.now())},
                                      path);
  const bool is_output = absl::string_view(part) == "output";
  if (adopted.ok()) batch[is_output ? "output_file_id" : "error_file_id"] = file_id;
  return adopted;
}

void BatchRuns::PumpLater() {
  if (std::exchange(is_pump_due_, true)) return;
  loop_.Post([this] {
    is_pump_due_ = false;
    Pump();
  });
}

// Starts as many lines as may run, of each batch in its turn; ends batches that have no more.
void BatchRuns::Pump() {
  while (StartOne()) {
  }
  std::vector<std::string> finished;
  for (const auto& [id, active] : active_) {
    if (active.run != nullptr && active.run->counts().unfinished() == 0) finished.push_back(id);
  }
  for (const std::string& id : finished) {
    if (batches_.records().at(id)["status"] != "in_progress") continue;
    if (const absl::Status status = End(id, "completed"); !status.ok()) {
      Log(LogLevel::kError, "gateway", "batch-stuck",
          {{"batch", id}, {"status", status.ToString()}});
      loop_.After(kAgain, [this, id] { Advance(id); });
    }
  }
}

bool BatchRuns::StartOne() {
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
    if (batches_.records().at(id)["status"] != "in_progress") continue;
    if (!active_.at(id).run->StartNext()) continue;
    last_started_ = id;
    return true;
  }
  return false;
}

std::string BatchRuns::PartOf(const std::string& id, const char* part) const {
  return absl::StrCat(batches_.path(), "/", id, ".", part);
}

}  // namespace sluice::gateway
