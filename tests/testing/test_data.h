// Finds material outside the project: $SLUICE_TESTDATA, by default ../shared beside the checkout.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::testing {

// The path of `name` (such as "models/stories260K") below the folder of outside material, or
// nothing where it does not exist. A test without its material skips:
// SLUICE_SKIP_WITHOUT("models/stories260K").
std::optional<std::string> TestData(std::string_view name);

// The checkout's own file or folder, such as "models/storyteller"; below $SLUICE_PROJECT where tests
// were carried to another machine.
std::string ProjectPath(std::string_view name);

}  // namespace sluice::testing

// Skips the running test, saying what is missing, where `name` does not exist below
// SLUICE_TESTDATA.
#define SLUICE_SKIP_WITHOUT(name)                     \
  if (!::sluice::testing::TestData(name).has_value()) \
  GTEST_SKIP() << "no " << (name)                     \
               << " below $SLUICE_TESTDATA (default ../shared beside the checkout)"
