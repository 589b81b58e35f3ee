// Files and batches as OpenAI's API has them, in a folder: what was accepted survives any restart of
// this process, of the orchestrator and of the host. Lines of batches run through the paths of this
// process's own API.
//
// Folder: lock, held by the one gateway that uses it; files/ID and files/ID.json; batches/ID.json, and
// batches/ID.output and ID.errors while a batch runs.
//
// Start() and Shutdown() are called from outside; everything else on loop()'s thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/gateway/batches/batch_request.h"
#include "services/gateway/batches/batch_runs.h"
#include "services/gateway/batches/file_store.h"
#include "services/gateway/batches/input_check.h"
#include "services/gateway/batches/record_folder.h"
#include "services/gateway/batches/work_loop.h"
#include "services/gateway/http/exchange.h"

namespace sluice::gateway {

// The tenant that lines are run for where the orchestrator does not ask callers who they are.
inline constexpr char kBatchTenant[] = "batch";

struct BatchOptions {
  std::string folder;  // made where its parent is there
  // File with the API key that lines are sent with, read again for each; empty: none.
  std::string token_file;
  int max_running_lines = 32;                // of all batches together
  uint64_t quota_bytes = uint64_t{1} << 30;  // of the files of one owner
  size_t max_files = 10'000;                 // the same
  // Of an owner. Of more, the oldest that has ended is forgotten; its files stay.
  size_t max_batches = 1000;
  InputLimits limits;
  std::function<absl::Time()> now = [] { return absl::Now(); };
  absl::Duration retry_pause = absl::Seconds(1);  // LineRunOptions
};

// Which part of a list is asked for.
struct PageQuery {
  size_t limit = 20;
  std::string after;    // the id of the last one that was seen
  std::string purpose;  // of files; empty: any
};

class BatchService {
 public:
  // `handler` serves the lines' requests; it is called on loop(). Goes on with what the folder has,
  // once no other process holds it. Errors of the file system and of records.
  static absl::StatusOr<std::unique_ptr<BatchService>> Start(BatchOptions options,
                                                             http::Handler handler);
  ~BatchService() { Shutdown(); }
  // Ends the lines under way; nothing is called on loop() any more.
  void Shutdown();

  http::Loop& loop() { return loop_; }
  // The head of a request for a line of `owner`: with the key and the tenant of batches.
  http::Request LineRequest(const std::string& owner) const;

  // Objects of OpenAI's API. NOT_FOUND for what the owner has not; UNAVAILABLE while another process
  // holds the folder; INVALID_ARGUMENT, FAILED_PRECONDITION and RESOURCE_EXHAUSTED say what is wrong.
  using Answer = absl::StatusOr<nlohmann::json>;
  Answer AddFile(const std::string& owner, const std::string& filename, absl::string_view content);
  Answer GetFile(const std::string& owner, const std::string& id) const;
  Answer ListFiles(const std::string& owner, const PageQuery& query) const;
  Answer DeleteFile(const std::string& owner, const std::string& id);
  // The path of its content.
  absl::StatusOr<std::string> ContentOf(const std::string& owner, const std::string& id) const;
  Answer CreateBatch(const std::string& owner, const BatchRequest& request);
  Answer GetBatch(const std::string& owner, const std::string& id) const;
  Answer ListBatches(const std::string& owner, const PageQuery& query) const;
  Answer CancelBatch(const std::string& owner, const std::string& id);

  // `status` without paths of the server, which only the log states.
  absl::Status ForClient(const absl::Status& status) const;

 private:
  using Batch = BatchRuns::Batch;

  BatchService(BatchOptions options, http::Handler handler)
      : options_(std::move(options)), handler_(std::move(handler)) {}

  absl::Status TakeFolder();
  void TakeFolderLater();
  absl::Status CheckReady() const;

  const Batch* Find(const std::string& owner, const std::string& id) const;
  nlohmann::json Shown(const std::string& id, const Batch& batch) const;
  void ForgetOldest(const std::string& owner);

  const BatchOptions options_;
  const http::Handler handler_;
  int lock_ = -1;  // descriptor of the file `lock`, once it is held
  std::optional<FileStore> files_;
  std::optional<RecordFolder> batches_;
  std::optional<BatchRuns> runs_;  // once the folder is held, as what is above
  WorkLoop loop_;                  // last: its tasks use what is above
};

}  // namespace sluice::gateway
