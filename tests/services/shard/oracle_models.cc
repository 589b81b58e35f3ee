#include "tests/services/shard/oracle_models.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
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

// As a word of a shell command.
std::string Quoted(const std::string& path) {
  return absl::StrCat("'", absl::StrReplaceAll(path, {{"'", "'\\''"}}), "'");
}

std::string Script() {
  return absl::StrCat(kPython, " ", Quoted(ProjectPath("tests/golden/oracle_models.py")), " ",
                      Quoted(TestData("oracle").value()));
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

std::string FolderOf(const std::string& item, const std::string& folder) {
  return absl::StrCat(folder, "/", absl::StrReplaceAll(item, {{":", "-"}}));
}

}  // namespace

OracleModel ReadOracleModel(const std::string& folder) {
  OracleModel model = {.folder = folder,
                       .ids = ReadRaw<int32_t>(folder + "/ids.i32"),
                       .logits = ReadRaw<double>(folder + "/logits.f64"),
                       .prefix_logits = ReadRaw<double>(folder + "/prefixes.f64"),
                       .adapted_logits = ReadRaw<double>(folder + "/adapted.f64"),
                       .adapted2_logits = ReadRaw<double>(folder + "/adapted2.f64")};
  model.source_positions = static_cast<int32_t>(ReadRaw<int32_t>(folder + "/source.i32").size());
  if (model.prefix_logits.empty()) model.prefix_logits = model.logits;
  return model;
}

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
  if (std::system(absl::StrCat(kPython, " -c 'import numpy' 2>/dev/null").c_str()) != 0) {
    return absl::StrCat(kPython, " has no numpy (Debian: python3-numpy)");
  }
  return "";
}

std::vector<std::string> OraclePresets() {
  const std::string output = OutputOf(Script() + " --list");
  return absl::StrSplit(output, '\n', absl::SkipWhitespace());
}

std::map<std::string, OracleModel> OracleModels(const std::vector<std::string>& items) {
  std::map<std::string, OracleModel> models;
  if (const auto carried = CarriedOracleModels(); carried.has_value()) {
    for (const std::string& item : items) {
      const std::string folder = FolderOf(item, *carried);
      if (std::filesystem::exists(folder)) models[item] = ReadOracleModel(folder);
    }
    return models;
  }
  const std::string output = OutputOf(absl::StrCat(
      Script(), " --keep ", Quoted(SLUICE_MADE_ORACLE_MODELS), " ", absl::StrJoin(items, " ")));
  const std::string folder(absl::StripTrailingAsciiWhitespace(output));
  for (const std::string& item : items) models[item] = ReadOracleModel(FolderOf(item, folder));
  return models;
}

}  // namespace sluice::testing
