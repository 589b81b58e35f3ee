#include "tests/testing/case_record.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

namespace sluice::testing {
namespace {

std::string running_case;  // read by the signal handler, which runs only while a case does

void AbortCase(int) {
  constexpr char kText[] = ": the case exceeds its time limit\n";
  // Failing to write leaves nothing to do but to abort all the same.
  if (write(STDERR_FILENO, running_case.data(), running_case.size()) < 0) std::abort();
  if (write(STDERR_FILENO, kText, sizeof(kText) - 1) < 0) std::abort();
  std::abort();
}

// Text of the first GTEST_SKIP of `result`, in one line.
std::string SkipReason(const ::testing::TestResult& result) {
  for (int i = 0; i < result.total_part_count(); ++i) {
    if (!result.GetTestPartResult(i).skipped()) continue;
    std::string text = result.GetTestPartResult(i).message();
    if (text.starts_with("Skipped\n")) text.erase(0, 8);  // GoogleTest's own word
    while (text.ends_with('\n')) text.pop_back();
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }
  return "";
}

}  // namespace

CaseRecord::CaseRecord() {
  if (const char* const path = std::getenv("SLUICE_TEST_RECORD")) path_ = path;
  if (const char* const limit = std::getenv("SLUICE_TEST_CASE_SECONDS")) {
    case_seconds_ = static_cast<unsigned>(std::max(0, std::atoi(limit)));
    std::signal(SIGALRM, AbortCase);
  }
}

void CaseRecord::OnTestProgramStart(const ::testing::UnitTest& tests) {
  if (!path_.empty()) std::ofstream(path_, std::ios::trunc);  // what an earlier run left
  Append("cases " + std::to_string(tests.test_to_run_count()));
}

void CaseRecord::OnTestStart(const ::testing::TestInfo& test) {
  running_case = std::string(test.test_suite_name()) + "." + test.name();
  Append("begin " + running_case);
  if (case_seconds_ > 0) alarm(case_seconds_);
}

void CaseRecord::OnTestEnd(const ::testing::TestInfo& test) {
  if (case_seconds_ > 0) alarm(0);
  const ::testing::TestResult& result = *test.result();
  if (result.Skipped()) return Append("skipped " + SkipReason(result));
  Append((result.Passed() ? "passed " : "failed ") + std::to_string(result.elapsed_time()));
}

void CaseRecord::Append(const std::string& line) const {
  if (path_.empty()) return;
  std::ofstream(path_, std::ios::app) << line << '\n';
}

}  // namespace sluice::testing
