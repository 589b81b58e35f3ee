#include "clients/hub/hub_token.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr size_t kLongestToken = 4096;

std::optional<std::string> TextOfFile(const std::string& path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  std::string text(kLongestToken + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

absl::StatusOr<std::string> Checked(std::string token, const std::string& source) {
  absl::StripAsciiWhitespace(&token);
  const bool sound = !token.empty() && token.size() <= kLongestToken &&
                     std::all_of(token.begin(), token.end(), [](char c) {
                       return absl::ascii_isgraph(static_cast<unsigned char>(c));
                     });
  if (sound) return token;
  return absl::InvalidArgumentError(absl::StrCat(
      source,
      token.empty() ? ": is empty" : ": is longer than a token, or has a character that none has"));
}

std::vector<std::string> UsualFiles(const ReadVariable& variable) {
  std::vector<std::string> files;
  const auto add = [&](const char* name, const char* behind) {
    if (const std::string value = variable(name); !value.empty()) {
      files.push_back(absl::StrCat(value, behind));
    }
  };
  add("HF_TOKEN_PATH", "");
  add("HF_HOME", "/token");
  add("HOME", "/.cache/huggingface/token");
  return files;
}

}  // namespace

absl::StatusOr<std::string> HubToken(const std::string& file, const ReadVariable& variable) {
  if (!file.empty()) {
    std::optional<std::string> text = TextOfFile(file);
    if (!text.has_value()) return absl::NotFoundError(absl::StrCat(file, ": cannot be read"));
    return Checked(*std::move(text), file);
  }
  if (std::string token = variable("HF_TOKEN"); !token.empty()) return Checked(token, "HF_TOKEN");
  for (const std::string& path : UsualFiles(variable)) {
    if (std::optional<std::string> text = TextOfFile(path)) return Checked(*std::move(text), path);
  }
  return "";
}

}  // namespace sluice
