#pragma once

#include <gtest/gtest.h>

#include <fstream>

namespace sluice::testing {

// GoogleTest listener that writes the outcome of each case to the file named by SLUICE_TEST_RECORD, line
// by line, so that the record is complete up to the moment at which a program crashes:
//   cases N                  number of cases to run
//   begin SUITE.CASE
//   passed MS | failed MS | skipped REASON
// It also limits the time of a case to SLUICE_TEST_CASE_SECONDS: the program prints the case's name and
// aborts. Uses SIGALRM. One instance a process.
class CaseRecord : public ::testing::EmptyTestEventListener {
 public:
  CaseRecord();

  void OnTestProgramStart(const ::testing::UnitTest& tests) override;
  void OnTestStart(const ::testing::TestInfo& test) override;
  void OnTestEnd(const ::testing::TestInfo& test) override;

 private:
  std::ofstream file_;  // not open where no record is wanted
  unsigned case_seconds_ = 0;
};

}  // namespace sluice::testing
