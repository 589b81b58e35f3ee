#pragma once

#include <gtest/gtest.h>

#include <string>

namespace sluice::testing {

// GoogleTest listener that writes the outcome of each case to the file named by SLUICE_TEST_RECORD,
// line by line, so that the record is complete up to the moment at which a program crashes:
//   cases N                  number of cases to run
//   begin SUITE.CASE
//   passed MS | failed MS | skipped REASON
// It also limits the time of a case to SLUICE_TEST_CASE_SECONDS: the program prints the case's name
// and aborts. Uses SIGALRM. One instance a process.
class CaseRecord : public ::testing::EmptyTestEventListener {
 public:
  CaseRecord();

  void OnTestProgramStart(const ::testing::UnitTest& tests) override;
  void OnTestStart(const ::testing::TestInfo& test) override;
  void OnTestEnd(const ::testing::TestInfo& test) override;

 private:
  // Opens the file for this line alone, so that no case sees one more descriptor than its own.
  void Append(const std::string& line) const;

  std::string path_;  // empty where no record is wanted
  unsigned case_seconds_ = 0;
};

}  // namespace sluice::testing
