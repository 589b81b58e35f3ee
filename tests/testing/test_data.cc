#include "tests/testing/test_data.h"

#include <cstdlib>
#include <filesystem>

namespace sluice::testing {

std::optional<std::string> TestData(std::string_view name) {
  const char* root = std::getenv("SLUICE_TESTDATA");
  const std::filesystem::path path =
      std::filesystem::path(root != nullptr ? root : ProjectPath("../shared")) / name;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path.string();
}

std::string ProjectPath(std::string_view name) {
  const char* root = std::getenv("SLUICE_PROJECT");
  return (std::filesystem::path(root != nullptr ? root : SLUICE_SOURCE_DIR) / name)
      .lexically_normal()
      .string();
}

}  // namespace sluice::testing
