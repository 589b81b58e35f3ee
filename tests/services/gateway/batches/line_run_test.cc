#include "services/gateway/batches/line_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/test_loop.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

constexpr char kUrl[] = "/v1/completions";

std::string ReadFileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class LineRunTest : public ::testing::Test {
 protected:
  LineRunTest()
      : folder_(absl::StrCat(::testing::TempDir(), "/line_run_",
                             ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~LineRunTest() override { std::filesystem::remove_all(folder_); }

  void WriteInput(int num_lines) {
    std::ofstream file(Path("input"));
    for (int i = 1; i <= num_lines; ++i) {
      file
          << json({{"custom_id", absl::StrCat("c", i)}, {"url", kUrl}, {"body", {{"n", i}}}}).dump()
          << (i % 3 == 0 ? "\n\n" : "\n");
    }
    num_lines_ = num_lines;
  }

  std::string Path(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  LineRunOptions Options() {
    return {.id = "r",
            .input = Path("input"),
            .endpoint = kUrl,
            .output = Path("output"),
            .errors = Path("errors"),
            .num_lines = num_lines_,
            .request = [] { return http::Request(); },
            .handler =
                [this](std::shared_ptr<http::Exchange> exchange) {
                  ++num_requests_;
                  waiting_.push_back(std::move(exchange));
                },
            .on_change = [] {}};
  }

  std::unique_ptr<LineRun> Open(LineRunOptions options) {
    auto run = LineRun::Open(loop_, std::move(options));
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *std::move(run) : nullptr;
  }

  // Answers the request that has waited longest.
  void AnswerOne(int status = 200) {
    const std::shared_ptr<http::Exchange> exchange = std::move(waiting_.front());
    waiting_.pop_front();
    const int n = json::parse(exchange->request().body)["n"];
    exchange->Respond({.status = status, .body = json({{"n", n}}).dump()});
    loop_.RunOne();
  }

  // Starts and answers all lines, `status` with which by the body's number.
  void RunAll(LineRun& run, const std::map<int, int>& statuses = {}) {
    while (run.counts().unfinished() > 0) {
      while (run.num_running() < 4 && run.StartNext()) {
      }
      const int n = json::parse(waiting_.front()->request().body)["n"];
      const auto status = statuses.find(n);
      AnswerOne(status == statuses.end() ? 200 : status->second);
    }
  }

  // The custom ids of the results in a file, which has each once.
  std::set<std::string> IdsIn(const std::string& name) const {
    std::set<std::string> ids;
    std::ifstream file(Path(name));
    for (std::string line; std::getline(file, line);) {
      EXPECT_TRUE(ids.insert(json::parse(line)["custom_id"]).second) << line;
    }
    return ids;
  }

  const std::string folder_;
  int num_lines_ = 0;
  int num_requests_ = 0;
  std::deque<std::shared_ptr<http::Exchange>> waiting_;
  sluice::testing::TestLoop loop_;
};

TEST_F(LineRunTest, PutsAnswersAndErrorsIntoTheirFiles) {
  WriteInput(10);
  const std::unique_ptr<LineRun> run = Open(Options());
  RunAll(*run, {{3, 400}, {7, 404}});
  EXPECT_FALSE(run->StartNext());
  EXPECT_EQ(run->counts().completed, 8);
  EXPECT_EQ(run->counts().failed, 2);
  EXPECT_EQ(IdsIn("output").size(), 8);
  EXPECT_EQ(IdsIn("errors"), (std::set<std::string>{"c3", "c7"}));
  const json first =
      json::parse(ReadFileText(Path("errors")).substr(0, ReadFileText(Path("errors")).find('\n')));
  EXPECT_EQ(first["response"]["status_code"], 400);
  EXPECT_EQ(first["response"]["body"]["n"], 3);
}

// Whatever of the files a death leaves, no line is there twice in the end, and none is missing.
TEST_F(LineRunTest, GoesOnFromWhateverADeathLeaves) {
  WriteInput(9);
  {
    const std::unique_ptr<LineRun> run = Open(Options());
    RunAll(*run, {{2, 400}, {5, 400}});
  }
  const std::string output = ReadFileText(Path("output")), errors = ReadFileText(Path("errors"));
  for (size_t cut = 0; cut <= output.size(); cut += 37) {
    std::ofstream(Path("output"), std::ios::binary) << output.substr(0, cut);
    std::ofstream(Path("errors"), std::ios::binary) << errors.substr(0, cut % (errors.size() + 1))
                                                    << (cut % 2 == 0 ? "" : std::string(9, '\0'));
    const std::unique_ptr<LineRun> run = Open(Options());
    RunAll(*run, {{2, 400}, {5, 400}});
    EXPECT_EQ(IdsIn("output").size(), 7) << cut;
    EXPECT_EQ(IdsIn("errors"), (std::set<std::string>{"c2", "c5"})) << cut;
  }
}

TEST_F(LineRunTest, DoesNotRunAgainWhatHasAResult) {
  WriteInput(8);
  {
    const std::unique_ptr<LineRun> run = Open(Options());
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(run->StartNext());
    AnswerOne();
    AnswerOne();
    AnswerOne();
  }
  waiting_.clear();
  const std::unique_ptr<LineRun> run = Open(Options());
  EXPECT_EQ(run->counts().completed, 3);
  num_requests_ = 0;
  RunAll(*run);
  EXPECT_EQ(num_requests_, 5);
  EXPECT_EQ(IdsIn("output").size(), 8);
}

TEST_F(LineRunTest, TriesAgainWhatTheServerCanNotAnswerForNow) {
  WriteInput(2);
  const std::unique_ptr<LineRun> run = Open(Options());
  ASSERT_TRUE(run->StartNext());
  for (const int status : {503, 429, 401, 503, 504}) {
    AnswerOne(status);
    EXPECT_EQ(run->num_running(), 1);
    loop_.RunOne();  // the pause
    ASSERT_EQ(waiting_.size(), 1);
  }
  AnswerOne(200);
  EXPECT_EQ(run->counts().completed, 1);
  // One that fails by itself is given up.
  ASSERT_TRUE(run->StartNext());
  for (int i = 0; i < 2; ++i) {
    AnswerOne(500);
    loop_.RunOne();
  }
  AnswerOne(500);
  EXPECT_EQ(run->counts().failed, 1);
}

TEST_F(LineRunTest, StopsWithoutResultsOfWhatIsUnderWay) {
  WriteInput(4);
  const std::unique_ptr<LineRun> run = Open(Options());
  ASSERT_TRUE(run->StartNext());
  ASSERT_TRUE(run->StartNext());
  bool left = false;
  waiting_.back()->set_on_closed([&left] { left = true; });
  AnswerOne();
  run->Stop();
  EXPECT_TRUE(left);
  EXPECT_FALSE(run->StartNext());
  EXPECT_EQ(run->num_running(), 0);
  ASSERT_TRUE(run->FailUnfinished("batch_expired", "too late").ok());
  EXPECT_EQ(IdsIn("output"), (std::set<std::string>{"c1"}));
  EXPECT_EQ(IdsIn("errors"), (std::set<std::string>{"c2", "c3", "c4"}));
}

TEST_F(LineRunTest, TakesNoFileOfOthersForItsResults) {
  WriteInput(3);
  LineRunOptions options = Options();
  options.errors = options.output;
  options.owns_results = false;
  for (const char* text : {"my notes\n", "my notes", "{\"id\":\"batch_req_other_1\"}\n"}) {
    std::ofstream(Path("output"), std::ios::binary) << text;
    EXPECT_EQ(LineRun::Open(loop_, options).status().code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_EQ(ReadFileText(Path("output")), text);
  }
  std::ofstream(Path("output"), std::ios::binary) << "{\"id\":\"batch_req_r_";
  RunAll(*Open(options), {{2, 400}});
  EXPECT_EQ(IdsIn("output").size(), 3) << "both kinds in one file";
}

}  // namespace
}  // namespace sluice::gateway
