#include "tests/testing/joined_tests.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice::testing {
namespace {

absl::Span<const JoinedTest> all_tests;

std::set<std::string_view> FilesOf(std::string_view program) {
  std::set<std::string_view> files;
  for (const JoinedTest& test : all_tests) {
    if (test.program == program) files.insert(test.file);
  }
  return files;
}

// Patterns of the cases that are in no file of `files`, and how many are in one.
struct OtherCases {
  std::vector<std::string> patterns;
  int num_kept = 0;
};

void AddCases(const ::testing::TestSuite& suite, const std::set<std::string_view>& files,
              OtherCases& others) {
  std::vector<std::string> patterns;
  for (int i = 0; i < suite.total_test_count(); ++i) {
    const ::testing::TestInfo& test = *suite.GetTestInfo(i);
    if (!files.contains(test.file())) {
      patterns.push_back(absl::StrCat(suite.name(), ".", test.name()));
    }
  }
  others.num_kept += suite.total_test_count() - static_cast<int>(patterns.size());
  if (static_cast<int>(patterns.size()) == suite.total_test_count()) {
    patterns = {absl::StrCat(suite.name(), ".*")};
  }
  others.patterns.insert(others.patterns.end(), patterns.begin(), patterns.end());
}

}  // namespace

JoinedTests::JoinedTests(absl::Span<const JoinedTest> tests) { all_tests = tests; }

std::string FilterOfProgram(std::string_view program, std::string_view filter) {
  const std::set<std::string_view> files = FilesOf(program);
  if (files.empty()) return std::string(filter);
  const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
  OtherCases others;
  for (int i = 0; i < tests.total_test_suite_count(); ++i) {
    AddCases(*tests.GetTestSuite(i), files, others);
  }
  if (others.num_kept == 0) return std::string(kNoCases);
  if (others.patterns.empty()) return std::string(filter);
  const bool excludes = filter.find('-') != std::string_view::npos;
  return std::string(filter) + (excludes ? ":" : "-") + absl::StrJoin(others.patterns, ":");
}

}  // namespace sluice::testing
