// Batches that have not ended: checks their input, runs their lines, and makes files of the results.
// What a batch has come to is its record; every step may be begun again after a restart. Belongs to
// the thread of the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/gateway/batches/file_store.h"
#include "services/gateway/batches/input_check.h"
#include "services/gateway/batches/line_run.h"
#include "services/gateway/batches/record_folder.h"
#include "services/gateway/batches/work_loop.h"
#include "services/gateway/http/exchange.h"

namespace sluice::gateway {

struct BatchRunsOptions {
  int max_running_lines = 32;  // of all batches together
  InputLimits limits;
  std::function<absl::Time()> now;
  absl::Duration retry_pause = absl::Seconds(1);  // LineRunOptions
  http::Handler handler;                          // serves the lines' requests
  // The head of a request for a line of this owner.
  std::function<http::Request(const std::string& owner)> request;
};

class BatchRuns {
 public:
  // The object of the API and, besides, `owner`, `num_lines`, and of one that ends `ends_as`.
  using Batch = nlohmann::json;

  // Borrows all but the options. Goes on with the batches of the folder that have not ended.
  BatchRuns(BatchRunsOptions options, WorkLoop& loop, FileStore& files, RecordFolder& batches);

  // Records a new batch and begins with it.
  absl::Status Begin(const std::string& id, Batch batch);
  // Records that a batch is to end, and has it end. REQUIRES: it has not ended.
  absl::Status Cancel(const std::string& id);
  // Ends the lines under way, and leaves their batches to the next process.
  void Stop() { active_.clear(); }

  size_t num_active() const { return active_.size(); }
  int64_t NumOf(const std::string& owner) const;
  // A batch that reads this file, if any.
  std::optional<std::string> ReaderOf(const std::string& file_id) const;
  LineCounts CountsOf(const std::string& id, const Batch& batch) const;

  static bool HasEnded(const Batch& batch);

 private:
  // Of a batch that has not ended.
  struct Active {
    std::unique_ptr<InputCheck> check;
    std::unique_ptr<LineRun> run;
  };

  void Tick();
  absl::Status SaveStatus(const std::string& id, Batch batch, const std::string& status);
  void AdvanceLater(const std::string& id);
  // Does what comes next of a batch; again later where the disk does not let it.
  void Advance(const std::string& id);
  absl::Status TryAdvance(const std::string& id);
  absl::Status Validate(const std::string& id);
  absl::Status OpenRun(const std::string& id);
  absl::Status End(const std::string& id, const std::string& ends_as);
  absl::Status Adopt(const std::string& id, Batch& batch, const char* part);
  void PumpLater();
  void Pump();
  bool StartOne();
  std::string PartOf(const std::string& id, const char* part) const;

  const BatchRunsOptions options_;
  WorkLoop& loop_;
  FileStore& files_;
  RecordFolder& batches_;
  std::map<std::string, Active> active_;
  std::string last_started_;  // the batch of the line that was started last
  bool is_pump_due_ = false;
};

}  // namespace sluice::gateway
