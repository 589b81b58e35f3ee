// The main function of every GoogleTest program of the project. It reads three environment
// variables, which sluice_test (cmake/SluiceTargets.cmake) and tests/testing/suite.py set; without
// them a program behaves as it does with GoogleTest's own main.
//   SLUICE_TEST_RECORD        file that receives the outcome of each case (tests/testing/case_record.h)
//   SLUICE_TEST_FILTERS       folder of files with a --gtest_filter each, named like the record
//   SLUICE_TEST_CASE_SECONDS  time limit of one case; the program aborts when a case exceeds it
// Returns 77, which CTest reports as "skipped", when every case was skipped, and 1 when
// no case is linked or a filter of the environment leaves none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/testing/case_record.h"
#include "tests/testing/joined_tests.h"

namespace {

constexpr int kSkipped = 77;

bool HasFlag(int argc, char** argv, std::string_view prefix) {
  return std::any_of(argv, argv + argc, [&](const char* argument) {
    return std::string_view(argument).starts_with(prefix);
  });
}

// Whether there was one.
bool ReadFilter() {
  const char* const folder = std::getenv("SLUICE_TEST_FILTERS");
  const char* const record = std::getenv("SLUICE_TEST_RECORD");
  if (folder == nullptr || record == nullptr) return false;
  std::ifstream file(std::filesystem::path(folder) / std::filesystem::path(record).filename());
  std::string filter;
  if (!std::getline(file, filter)) return false;
  GTEST_FLAG_SET(filter, filter);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  // InitGoogleMock removes both flags. The child of a "threadsafe" death test has them.
  const bool has_filter = HasFlag(argc, argv, "--gtest_filter");
  const bool is_child = HasFlag(argc, argv, "--gtest_internal_run_death_test");
  testing::InitGoogleMock(&argc, argv);
  const bool filtered = (!has_filter && ReadFilter()) || std::getenv("GTEST_FILTER") != nullptr;
  const std::string program = std::filesystem::path(argv[0]).filename();
  GTEST_FLAG_SET(filter, sluice::testing::FilterOfProgram(program, GTEST_FLAG_GET(filter)));
  ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
  const bool lists = GTEST_FLAG_GET(list_tests);
  if (!is_child && !lists) tests.listeners().Append(new sluice::testing::CaseRecord());
  const int result = RUN_ALL_TESTS();
  if (result != 0 || lists) return result;
  if (tests.total_test_count() == 0 || GTEST_FLAG_GET(filter) == sluice::testing::kNoCases)
    return 1;
  if (tests.test_to_run_count() == 0 && filtered) return 1;
  const int num_skipped = tests.skipped_test_count();
  return num_skipped > 0 && num_skipped == tests.test_to_run_count() ? kSkipped : 0;
}
