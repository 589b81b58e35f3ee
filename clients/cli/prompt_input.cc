#include "clients/cli/prompt_input.h"

#include <cerrno>
#include <fstream>
#include <istream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;
constexpr char kStdin[] = "-";

absl::StatusOr<std::string> ReadAll(std::istream& in, const std::string& name) {
  std::string text;
  char bytes[1 << 16];
  while (in.read(bytes, sizeof(bytes)), in.gcount() > 0) {
    text.append(bytes, static_cast<size_t>(in.gcount()));
    if (text.size() > kMostBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(name, " has more than ", kMostBytes, " bytes"));
    }
  }
  return text;
}

// What an editor or `echo` ends a file with is not meant as part of the text.
std::string WithoutLastLineBreak(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (!text.empty() && text.back() == '\r') text.pop_back();
  return text;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return absl::ErrnoToStatus(errno, path);
  absl::StatusOr<std::string> text = ReadAll(file, path);
  // A folder opens like a file, and then has nothing to read.
  if (file.bad()) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  return text;
}

absl::StatusOr<std::string> ReadInput(const std::string& path, Environment& environment) {
  return path == kStdin ? ReadAll(environment.in, "stdin") : ReadFile(path);
}

absl::Status ReadPrompt(Environment& environment, std::optional<std::string>* positional,
                        RequestFlags* flags) {
  std::optional<std::string> path = flags->prompt_file;
  if (*positional == kStdin) {
    if (path.has_value()) return absl::OkStatus();  // two prompts, which ToRequest refuses
    positional->reset();
    path = kStdin;
  }
  const bool has_prompt = positional->has_value() || flags->prompt || flags->token_ids ||
                          flags->source || flags->source_ids;
  if (!path.has_value() && !has_prompt && !environment.in_is_terminal) path = kStdin;
  if (!path.has_value() || has_prompt) return absl::OkStatus();
  absl::StatusOr<std::string> text = ReadInput(*path, environment);
  if (!text.ok()) return text.status();
  std::string prompt = WithoutLastLineBreak(*std::move(text));
  // An empty stdin is nobody's prompt; ToRequest says that there is none.
  if (prompt.empty() && !flags->prompt_file.has_value()) return absl::OkStatus();
  flags->prompt = std::move(prompt);
  flags->prompt_file.reset();
  return absl::OkStatus();
}

}  // namespace sluice
