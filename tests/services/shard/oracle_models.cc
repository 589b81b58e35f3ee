#include "tests/services/shard/oracle_models.h"

#include <stdlib.h>  // mkdtemp

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

// Debian's interpreter: the one that its python3-numpy belongs to.
constexpr char kPython[] = "/usr/bin/python3";

// Runs a shell command; its output, or std::runtime_error where it fails.
std::string OutputOf(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string output;
  std::array<char, 4096> chunk;
  while (const size_t size = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
    output.append(chunk.data(), size);
  }
  if (pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  return output;
}

std::string Script() {
  return absl::StrJoin({std::string(kPython), ProjectPath("tests/golden/oracle_models.py"),
                        TestData("oracle").value()},
                       " ");
}

template <typename Element>
std::vector<Element> ReadRaw(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<Element> values(bytes.size() / sizeof(Element));
  std::copy_n(bytes.data(), values.size() * sizeof(Element),
              reinterpret_cast<char*>(values.data()));
  return values;
}

OracleModel Read(const std::string& folder) {
  OracleModel model = {.folder = folder,
                       .ids = ReadRaw<int32_t>(folder + "/ids.i32"),
                       .logits = ReadRaw<double>(folder + "/logits.f64"),
                       .prefix_logits = ReadRaw<double>(folder + "/prefixes.f64")};
  if (model.prefix_logits.empty()) model.prefix_logits = model.logits;
  return model;
}

}  // namespace

std::optional<std::string> CarriedOracleModels() {
  const char* const folder = std::getenv("SLUICE_ORACLE_MODELS");
  if (folder == nullptr) return std::nullopt;
  return folder;
}

std::string ReasonWithoutOracle() {
  if (CarriedOracleModels().has_value()) return "";
  if (!TestData("oracle").has_value()) {
    return "no oracle below $SLUICE_TESTDATA (default ../shared beside the checkout)";
  }
  if (std::system((std::string(kPython) + " -c 'import numpy' 2>/dev/null").c_str()) != 0) {
    return std::string(kPython) + " has no numpy (Debian: python3-numpy)";
  }
  return "";
}

std::vector<std::string> OraclePresets() {
  const std::string output = OutputOf(Script() + " --list");
  return absl::StrSplit(output, '\n', absl::SkipWhitespace());
}

OracleModels::OracleModels(const std::vector<std::string>& items) {
  const std::optional<std::string> carried = CarriedOracleModels();
  if (carried.has_value()) {
    for (const std::string& item : items) {
      const std::string folder = *carried + "/" + absl::StrReplaceAll(item, {{":", "-"}});
      if (std::filesystem::exists(folder)) models_[item] = Read(folder);
    }
    return;
  }
  std::string pattern = (std::filesystem::temp_directory_path() / "sluice-oracle-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
  folder_ = pattern;
  OutputOf(absl::StrJoin({Script(), folder_, absl::StrJoin(items, " ")}, " "));
  for (const std::string& item : items) {
    const std::vector<std::string> parts = absl::StrSplit(item, ':');
    models_[item] = Read(folder_ + "/" + parts[0] + "-" + parts[1]);
  }
}

OracleModels::~OracleModels() {
  if (folder_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace sluice::testing
