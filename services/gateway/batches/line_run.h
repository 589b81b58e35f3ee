// Runs the lines of a file through the paths of the API and appends what comes to files of results,
// each line once, whatever becomes of this process: what a file of results has is not run again.
// Belongs to a loop: called and calling back there alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/gateway/batches/batch_line.h"
#include "services/gateway/batches/durable_file.h"
#include "services/gateway/batches/line_file.h"
#include "services/gateway/batches/local_exchange.h"
#include "services/gateway/http/exchange.h"

namespace sluice::gateway {

struct LineRunOptions {
  std::string id;        // of lines: batch_line.h
  std::string input;     // path of the file of lines, each of which InputCheck has accepted
  std::string endpoint;  // see ReadBatchLine()
  // Paths of the results: of lines that were answered with 200, and of the others. The same path
  // where both are to go into one file.
  std::string output;
  std::string errors;
  // Nobody else writes the result files: all that follows their last whole result is cut off. False:
  // only the beginning of a result is, and anything else ends Open with DATA_LOSS.
  bool owns_results = true;
  int64_t num_lines = 0;  // of the input, empty ones left out
  // The request of a line, without its body: whose it is.
  std::function<http::Request()> request;
  http::Handler handler;
  // Called when a line has its result, or may be started again.
  std::function<void()> on_change;
  // Between two attempts of a line that the server can not run for now; twice as long each time.
  absl::Duration retry_pause = absl::Seconds(1);
  absl::Duration longest_retry_pause = absl::Seconds(30);
};

struct LineCounts {
  int64_t total = 0, completed = 0, failed = 0;
  int64_t unfinished() const { return total - completed - failed; }
};

class LineRun {
 public:
  // Reads which lines have results; cuts what was not written to its end. DATA_LOSS for a file of
  // results that is of another run.
  static absl::StatusOr<std::unique_ptr<LineRun>> Open(http::Loop& loop, LineRunOptions options);
  ~LineRun() { Stop(); }
  LineRun(const LineRun&) = delete;
  LineRun& operator=(const LineRun&) = delete;

  // Starts a line that has no result; false where all of them run or wait.
  bool StartNext();
  // Lines under way.
  int num_running() const { return static_cast<int>(running_.size()); }
  // Of lines under way.
  uint64_t num_running_bytes() const { return num_running_bytes_; }
  const LineCounts& counts() const { return counts_; }
  // Ends the lines under way, which stay without a result, and starts none any more.
  void Stop();
  // Gives all lines that have no result an error. REQUIRES: it was stopped.
  absl::Status FailUnfinished(absl::string_view code, absl::string_view message);
  // The results are on the disk.
  absl::Status Flush();

 private:
  struct Running {
    BatchLine line;
    int num_attempts = 0;
    std::shared_ptr<LocalExchange> exchange;  // null while it waits for the next attempt
  };

  LineRun(http::Loop& loop, LineRunOptions options, LineFile input)
      : loop_(loop), options_(std::move(options)), input_(std::move(input)) {}

  absl::StatusOr<AppendFile> OpenResults(const std::string& path, bool of_errors);
  std::optional<FileLine> NextUnfinished();
  void Attempt(int64_t number);
  void OnResponse(int64_t number, const http::Response& response);
  void RetryLater(int64_t number, const http::Response& response);
  absl::Status Keep(int64_t number, bool is_answer, const std::string& text);

  http::Loop& loop_;
  const LineRunOptions options_;
  LineFile input_;
  std::vector<bool> finished_;  // by number of the line
  std::optional<AppendFile> output_, errors_;
  LineCounts counts_;
  std::map<int64_t, Running> running_;
  uint64_t num_running_bytes_ = 0;
  bool is_stopped_ = false;
  // What is posted to the loop looks whether the run is still there.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sluice::gateway
