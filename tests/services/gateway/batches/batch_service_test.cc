#include "services/gateway/batches/batch_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kLineUrl[] = "/v1/completions";

std::string Lines(int count, int filler = 0) {
  std::string text;
  for (int i = 1; i <= count; ++i) {
    absl::StrAppend(&text, R"({"custom_id": "c)", i, R"(", "method": "POST", "url": ")", kLineUrl,
                    R"(", "body": {"n": )", i, R"(, "prompt": ")", std::string(filler, 'x'),
                    "\"}}\n");
  }
  return text;
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

class BatchServiceTest : public ::testing::Test {
 protected:
  BatchServiceTest()
      : folder_(absl::StrCat(::testing::TempDir(), "/batch_service_",
                             ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
  }
  ~BatchServiceTest() override {
    service_ = nullptr;
    std::filesystem::remove_all(folder_);
  }

  BatchOptions Options() {
    return {.folder = folder_,
            .max_running_lines = 8,
            .now = [this] { return now_ + absl::Seconds(skipped_seconds_.load()); },
            .retry_pause = absl::Milliseconds(1)};
  }

  void Start(BatchOptions options) {
    service_ = nullptr;
    auto service = BatchService::Start(
        std::move(options),
        [this](std::shared_ptr<http::Exchange> exchange) { Handle(std::move(exchange)); });
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
  }
  void Start() { Start(Options()); }

  // On the service's loop.
  void Handle(std::shared_ptr<http::Exchange> exchange) {
    ++num_requests_;
    last_request_ = exchange->request();
    if (num_left_to_answer_ == 0) return held_.push_back(std::move(exchange));
    --num_left_to_answer_;
    exchange->Respond({.status = 200, .body = R"({"ok":true})"});
  }

  template <class Action>
  auto OnLoop(Action action) {
    std::optional<decltype(action())> result;
    absl::Notification done;
    service_->loop().Post([&] {
      result = action();
      done.Notify();
    });
    done.WaitForNotification();
    return *std::move(result);
  }

  std::string Upload(const std::string& content, const std::string& owner = "me") {
    const auto file = OnLoop([&] { return service_->AddFile(owner, "in.jsonl", content); });
    EXPECT_TRUE(file.ok()) << file.status();
    return (*file)["id"];
  }
  BatchService::Answer Create(const std::string& file, const std::string& window = "24h",
                              const std::string& owner = "me") {
    return OnLoop([&] {
      return service_->CreateBatch(owner, {.input_file_id = file,
                                           .endpoint = kLineUrl,
                                           .completion_window = window,
                                           .metadata = {{"name", "test"}}});
    });
  }
  json Get(const std::string& id, const std::string& owner = "me") {
    const auto batch = OnLoop([&] { return service_->GetBatch(owner, id); });
    EXPECT_TRUE(batch.ok()) << batch.status();
    return batch.value_or(json());
  }
  json WaitFor(const std::string& id, const std::string& status) {
    json batch;
    do {
      batch = Get(id);
    } while (batch["status"] != status && batch["status"] != "failed");
    EXPECT_EQ(batch["status"], status) << batch;
    return batch;
  }
  std::vector<json> Results(const json& file_id) {
    std::vector<json> results;
    if (file_id.is_null()) return results;
    const auto path = OnLoop([&] { return service_->ContentOf("me", file_id.get<std::string>()); });
    EXPECT_TRUE(path.ok()) << path.status();
    std::ifstream file(*path);
    for (std::string line; std::getline(file, line);) results.push_back(json::parse(line));
    return results;
  }
  // How many different lines they are of.
  static size_t NumDifferent(const std::vector<json>& results) {
    std::set<std::string> ids;
    for (const json& result : results) ids.insert(result["custom_id"]);
    return ids.size();
  }

  const std::string folder_;
  const absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  std::atomic<int64_t> skipped_seconds_{0};
  // Touched on the service's loop, or while it answers nothing.
  std::atomic<int> num_requests_{0};
  std::atomic<int> num_left_to_answer_{1 << 30};
  http::Request last_request_;
  std::vector<std::shared_ptr<http::Exchange>> held_;
  std::unique_ptr<BatchService> service_;
};

TEST_F(BatchServiceTest, RunsAFileToItsEnd) {
  Start();
  const std::string file = Upload(Lines(20));
  const auto created = Create(file);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ((*created)["object"], "batch");
  EXPECT_EQ((*created)["status"], "validating");
  EXPECT_EQ((*created)["created_at"], 1'800'000'000);
  EXPECT_EQ((*created)["expires_at"], 1'800'000'000 + 24 * 3600);
  EXPECT_FALSE(created->contains("owner"));
  const json batch = WaitFor((*created)["id"], "completed");
  EXPECT_EQ(batch["request_counts"], json({{"total", 20}, {"completed", 20}, {"failed", 0}}));
  EXPECT_EQ(batch["metadata"]["name"], "test");
  EXPECT_TRUE(batch["error_file_id"].is_null());
  const std::vector<json> results = Results(batch["output_file_id"]);
  EXPECT_EQ(results.size(), 20);
  EXPECT_EQ(NumDifferent(results), 20);
  EXPECT_EQ(results[0]["response"]["body"]["ok"], true);
  EXPECT_EQ(last_request_.tenant, kBatchTenant);
  EXPECT_EQ(last_request_.cache_scope, "me");
}

TEST_F(BatchServiceTest, SaysWhatIsWrongWithAFile) {
  Start();
  const auto created = Create(Upload(absl::StrCat(Lines(2), Lines(1), "{\n")));
  ASSERT_TRUE(created.ok());
  json batch;
  do {
    batch = Get((*created)["id"]);
  } while (batch["status"] == "validating");
  EXPECT_EQ(batch["status"], "failed");
  ASSERT_EQ(batch["errors"]["data"].size(), 2);
  EXPECT_EQ(batch["errors"]["data"][0]["code"], "duplicate_custom_id");
  EXPECT_EQ(batch["errors"]["data"][0]["line"], 3);
  EXPECT_EQ(batch["errors"]["data"][1]["code"], "invalid_json_line");
  EXPECT_EQ(num_requests_, 0);
  const json empty = WaitFor((*Create(Upload("\n")))["id"], "failed");
  EXPECT_EQ(empty["errors"]["data"][0]["code"], "empty_file");
}

TEST_F(BatchServiceTest, LimitsWhatIsTaken) {
  BatchOptions options = Options();
  options.limits = {.max_lines = 3, .max_line_bytes = 200};
  options.quota_bytes = 2000;
  Start(options);
  EXPECT_EQ(WaitFor((*Create(Upload(Lines(4))))["id"], "failed")["errors"]["data"][0]["code"],
            "too_many_lines");
  EXPECT_EQ(WaitFor((*Create(Upload(Lines(1, 300))))["id"], "failed")["errors"]["data"][0]["code"],
            "line_too_long");
  const auto beyond = OnLoop([&] { return service_->AddFile("me", "f", std::string(2000, 'x')); });
  EXPECT_THAT(std::string(beyond.status().message()), HasSubstr("--batch_quota_mib"));
  EXPECT_TRUE(OnLoop([&] { return service_->AddFile("other", "f", std::string(1900, 'x')); }).ok());
}

TEST_F(BatchServiceTest, LimitsHowManyThereAre) {
  BatchOptions options = Options();
  options.max_files = 5;
  options.max_batches = 2;
  Start(options);
  const std::string file = Upload(Lines(1));
  std::string first, last;
  for (int i = 0; i < 3; ++i) {
    skipped_seconds_ = i;
    last = (*Create(file))["id"];
    if (i == 0) first = last;
    WaitFor(last, "completed");
  }
  EXPECT_FALSE(OnLoop([&] { return service_->GetBatch("me", first); }).ok()) << "it is forgotten";
  EXPECT_EQ((*OnLoop([&] { return service_->ListBatches("me", {}); }))["data"].size(), 2);
  EXPECT_EQ((*OnLoop([&] { return service_->ListFiles("me", {}); }))["data"].size(), 4);
  Upload(Lines(1));
  const auto beyond = OnLoop([&] { return service_->AddFile("me", "f", "x"); });
  EXPECT_THAT(std::string(beyond.status().message()), HasSubstr("5 files"));
}

TEST_F(BatchServiceTest, ShowsNobodyWhatIsOthers) {
  Start();
  const std::string file = Upload(Lines(2));
  const std::string batch = (*Create(file))["id"];
  WaitFor(batch, "completed");
  EXPECT_FALSE(OnLoop([&] { return service_->GetFile("other", file); }).ok());
  EXPECT_FALSE(OnLoop([&] { return service_->ContentOf("other", file); }).ok());
  EXPECT_FALSE(OnLoop([&] { return service_->DeleteFile("other", file); }).ok());
  EXPECT_FALSE(OnLoop([&] { return service_->GetBatch("other", batch); }).ok());
  EXPECT_FALSE(OnLoop([&] { return service_->CancelBatch("other", batch); }).ok());
  EXPECT_FALSE(Create(file, "24h", "other").ok());
  EXPECT_TRUE((*OnLoop([&] { return service_->ListFiles("other", {}); }))["data"].empty());
  EXPECT_TRUE((*OnLoop([&] { return service_->ListBatches("other", {}); }))["data"].empty());
  EXPECT_EQ((*OnLoop([&] { return service_->ListFiles("me", {}); }))["data"].size(), 2);
}

TEST_F(BatchServiceTest, ListsByPages) {
  Start();
  std::set<std::string> uploaded, seen;
  for (int i = 0; i < 5; ++i) uploaded.insert(Upload(Lines(1)));
  PageQuery query = {.limit = 2};
  for (int page = 0; page < 3; ++page) {
    const auto list = OnLoop([&] { return service_->ListFiles("me", query); });
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_EQ((*list)["has_more"], page < 2);
    EXPECT_EQ((*list)["data"].size(), page < 2 ? 2 : 1);
    for (const json& file : (*list)["data"]) seen.insert(file["id"]);
    query.after = (*list)["last_id"];
  }
  EXPECT_EQ(seen, uploaded);
  query.after = "file-none";
  EXPECT_FALSE(OnLoop([&] { return service_->ListFiles("me", query); }).ok());
}

// The folder is copied while lines run, as a death would leave it, and another process goes on.
TEST_F(BatchServiceTest, GoesOnAfterADeath) {
  num_left_to_answer_ = 7;
  Start();
  const std::string id = (*Create(Upload(Lines(40))))["id"];
  while (num_requests_ < 15) {
  }
  const std::string copy = absl::StrCat(folder_, "_copy");
  std::filesystem::remove_all(copy);
  OnLoop([&] {
    std::filesystem::copy(folder_, copy, std::filesystem::copy_options::recursive);
    return 0;
  });
  service_ = nullptr;
  std::filesystem::remove_all(folder_);
  std::filesystem::rename(copy, folder_);
  // The line that was being written is torn.
  std::ofstream(absl::StrCat(folder_, "/batches/", id, ".output"), std::ios::app)
      << "{\"id\":\"batch_req";
  num_requests_ = 0;
  num_left_to_answer_ = 1 << 30;
  Start();
  const json batch = WaitFor(id, "completed");
  EXPECT_EQ(num_requests_, 33);
  const std::vector<json> results = Results(batch["output_file_id"]);
  EXPECT_EQ(results.size(), 40);
  EXPECT_EQ(NumDifferent(results), 40);
}

// From each state that the end of a batch passes through.
TEST_F(BatchServiceTest, EndsAgainAfterADeath) {
  Start();
  const std::string id = (*Create(Upload(Lines(3))))["id"];
  const json before = WaitFor(id, "completed");
  const std::string output = before["output_file_id"];
  service_ = nullptr;
  const std::string record = absl::StrCat(folder_, "/batches/", id, ".json");
  json saved;
  std::ifstream(record) >> saved;
  saved["status"] = "finalizing";
  saved["output_file_id"] = nullptr;
  const auto write = [&] { std::ofstream(record) << saved; };
  // All was moved; or recorded and not moved; or neither.
  write();
  Start();
  EXPECT_EQ(Results(WaitFor(id, "completed")["output_file_id"]).size(), 3);
  service_ = nullptr;
  write();
  const std::string stored = absl::StrCat(folder_, "/files/", output);
  const std::string part = absl::StrCat(folder_, "/batches/", id, ".output");
  std::filesystem::rename(stored, part);
  Start();
  EXPECT_EQ(Results(WaitFor(id, "completed")["output_file_id"]).size(), 3);
  service_ = nullptr;
  write();
  std::filesystem::rename(stored, part);
  std::filesystem::remove(absl::StrCat(stored, ".json"));
  Start();
  EXPECT_EQ(Results(WaitFor(id, "completed")["output_file_id"]).size(), 3);
}

TEST_F(BatchServiceTest, CancelsAndKeepsWhatIsThere) {
  num_left_to_answer_ = 3;
  Start();
  const std::string file = Upload(Lines(30));
  const std::string id = (*Create(file))["id"];
  while (Get(id)["request_counts"]["completed"] != 3) {
  }
  EXPECT_FALSE(OnLoop([&] { return service_->DeleteFile("me", file); }).ok()) << "it is read";
  EXPECT_EQ((*OnLoop([&] { return service_->CancelBatch("me", id); }))["status"], "cancelling");
  const json batch = WaitFor(id, "cancelled");
  EXPECT_EQ(Results(batch["output_file_id"]).size(), 3);
  EXPECT_FALSE(OnLoop([&] { return service_->CancelBatch("me", id); }).ok());
  EXPECT_TRUE(OnLoop([&] { return service_->DeleteFile("me", file); }).ok());
  EXPECT_FALSE(OnLoop([&] { return service_->GetFile("me", file); }).ok());
}

TEST_F(BatchServiceTest, EndsWhatRunsOutOfTime) {
  num_left_to_answer_ = 2;
  Start();
  const std::string id = (*Create(Upload(Lines(10)), "2h"))["id"];
  while (Get(id)["request_counts"]["completed"] != 2) {
  }
  skipped_seconds_ = 2 * 3600;
  const json batch = WaitFor(id, "expired");
  EXPECT_EQ(Results(batch["output_file_id"]).size(), 2);
  const std::vector<json> errors = Results(batch["error_file_id"]);
  EXPECT_EQ(NumDifferent(errors), 8);
  EXPECT_EQ(errors[0]["error"]["code"], "batch_expired");
}

TEST_F(BatchServiceTest, SharesLinesAmongBatches) {
  num_left_to_answer_ = 0;
  Start();
  const std::string large = (*Create(Upload(Lines(500))))["id"];
  while (num_requests_ < 8) {
  }
  const std::string small = (*Create(Upload(Lines(3))))["id"];
  OnLoop([&] {
    num_left_to_answer_ = 1 << 30;
    for (const auto& exchange : std::exchange(held_, {})) exchange->Respond({.status = 200});
    return 0;
  });
  WaitFor(small, "completed");
  EXPECT_EQ(Get(small)["request_counts"]["completed"], 3);
  WaitFor(large, "completed");
}

TEST_F(BatchServiceTest, WaitsForAFolderThatAnotherProcessHolds) {
  Start();
  auto second = BatchService::Start(Options(), [](const auto&) {});
  ASSERT_TRUE(second.ok()) << second.status();
  const std::unique_ptr<BatchService> first = std::move(service_);
  service_ = *std::move(second);
  EXPECT_EQ(OnLoop([&] { return service_->ListFiles("me", {}); }).status().code(),
            absl::StatusCode::kUnavailable);
  first->Shutdown();
  while (!OnLoop([&] { return service_->ListFiles("me", {}); }).ok()) {
  }
}

// A file of the largest kind passes without being held: neither it nor its results.
TEST_F(BatchServiceTest, HoldsFewOfManyLines) {
  BatchOptions options = Options();
  options.quota_bytes = uint64_t{1} << 32;
  Start(options);
  const std::string id = (*Create(Upload(Lines(50'000, 500))))["id"];
  const int64_t before = ResidentBytes();
  int64_t most = before;
  json batch;
  do {
    batch = Get(id);
    most = std::max(most, ResidentBytes());
  } while (batch["status"] != "completed" && batch["status"] != "failed");
  EXPECT_EQ(batch["request_counts"]["completed"], 50'000) << batch;
  EXPECT_LT(most - before, 16 << 20) << "of lines of 30 MB";
}

TEST(ReadBatchRequestTest, NamesWhatIsWrong) {
  const json good = {
      {"input_file_id", "file-1"}, {"endpoint", kLineUrl}, {"completion_window", "24h"}};
  EXPECT_TRUE(ReadBatchRequest(good, "").ok());
  const std::vector<std::pair<json, std::string>> cases = {
      {{{"endpoint", "/v1/embeddings"}}, "'/v1/embeddings'. Supported values are: "},
      {{{"completion_window", "soon"}}, "'completion_window'"},
      {{{"completion_window", "31d"}}, "'30d'"},
      {{{"completion_window", "0h"}}, "'completion_window'"},
      {{{"metadata", {{"a", 1}}}}, "'metadata'"},
      {{{"input_file_id", nullptr}}, "'input_file_id'"},
      {{{"more", 1}}, "'more'"},
      {{{"output_expires_after", {{"seconds", 1}}}}, "output_expires_after"},
  };
  for (const auto& [change, words] : cases) {
    json body = good;
    body.update(change);
    const absl::Status status = ReadBatchRequest(body, "").status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(words)) << body;
  }
}

TEST_F(BatchServiceTest, ClientsAreNotToldWhereFilesAre) {
  Start();
  const absl::Status told = service_->ForClient(
      absl::ResourceExhaustedError(absl::StrCat("cannot write ", folder_, "/files/f: no space")));
  EXPECT_EQ(told, absl::ResourceExhaustedError("cannot write [location]: no space"));
  const absl::Status asked = absl::InvalidArgumentError("line 3: \"/v1/files\" is no endpoint");
  EXPECT_EQ(service_->ForClient(asked), asked);
}

}  // namespace
}  // namespace sluice::gateway
