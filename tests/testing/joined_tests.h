// Test programs that are one executable. Where files are compiled together
// (cmake/SluiceCompileTogether.cmake), the test programs of a folder are links to one executable,
// which runs the cases of the program that it is called as.
#pragma once

#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace sluice::testing {

struct JoinedTest {
  const char* program;  // name of a test program
  const char* file;     // path of one of its sources, as the compiler was given it
};

// Makes the tests of this executable known: a static object of it is in a generated source.
class JoinedTests {
 public:
  // `tests` must outlive the process's main().
  explicit JoinedTests(absl::Span<const JoinedTest> tests);
};

constexpr std::string_view kNoCases = "-*";  // a filter that selects nothing

// `filter`, a --gtest_filter, without the cases that are not in the sources of `program`. Returns
// `filter` itself when the executable knows no program of this name, and kNoCases when the program
// has no case.
std::string FilterOfProgram(std::string_view program, std::string_view filter);

}  // namespace sluice::testing
