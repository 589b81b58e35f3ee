#include "tests/gpu/emulator/ptx/tokens.h"

#include <cctype>

namespace sluice::cuda::emulator {
namespace {

bool IsOfWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' ||
         c == '.' || c == ':';
}

// A label's colon is a token of its own, `shared::cta` is one word.
size_t EndOfWord(absl::string_view text, size_t at) {
  while (at < text.size() && IsOfWord(text[at])) {
    if (text[at] != ':') {
      ++at;
    } else if (text.substr(at, 2) == "::") {
      at += 2;
    } else {
      break;
    }
  }
  return at;
}

}  // namespace

std::vector<Token> TokensOf(absl::string_view ptx) {
  std::vector<Token> tokens;
  int line = 1;
  for (size_t at = 0; at < ptx.size();) {
    const char c = ptx[at];
    if (c == '\n') ++line;
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at;
    } else if (ptx.substr(at, 2) == "//") {
      at = ptx.find('\n', at);
      if (at == absl::string_view::npos) break;
    } else if (c == '"') {
      const size_t end = ptx.find('"', at + 1);
      if (end == absl::string_view::npos) break;
      tokens.push_back({ptx.substr(at, end + 1 - at), line});
      at = end + 1;
    } else {
      const size_t end = IsOfWord(c) && c != ':' ? EndOfWord(ptx, at) : at + 1;
      tokens.push_back({ptx.substr(at, end - at), line});
      at = end;
    }
  }
  return tokens;
}

}  // namespace sluice::cuda::emulator
