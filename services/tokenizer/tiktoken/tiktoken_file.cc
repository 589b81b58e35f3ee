#include "services/tokenizer/tiktoken/tiktoken_file.h"

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "services/tokenizer/text/byte_alphabet.h"
#include "services/tokenizer/text/strings.h"

namespace sluice {
namespace {

struct Line {
  std::string token;
  TokenId rank = kNoToken;
};

bool ParseLine(std::string_view line, Line* parsed) {
  const size_t space = line.find(' ');
  return space != line.npos &&
         absl::Base64Unescape(ToAbsl(line.substr(0, space)), &parsed->token) &&
         !parsed->token.empty() &&
         absl::SimpleAtoi(ToAbsl(line.substr(space + 1)), &parsed->rank) && parsed->rank >= 0 &&
         parsed->rank < Vocabulary::kMaxIds;
}

// Takes the first line off `text`.
std::string_view TakeLine(std::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

bool LooksLikeTiktoken(std::string_view bytes) {
  bytes = bytes.substr(0, 1 << 16);
  Line line;
  return ParseLine(TakeLine(&bytes), &line);
}

absl::StatusOr<Vocabulary> ParseTiktokenFile(std::string_view bytes, std::string_view source) {
  Vocabulary vocabulary;
  const auto num_lines = std::count(bytes.begin(), bytes.end(), '\n') + 1;
  vocabulary.Reserve(std::min<size_t>(num_lines, Vocabulary::kMaxIds), bytes.size());
  Line parsed;
  std::string spelling;
  for (int number = 1; !bytes.empty(); ++number) {
    const std::string_view line = TakeLine(&bytes);
    if (line.empty()) continue;
    if (!ParseLine(line, &parsed)) {
      return absl::InvalidArgumentError(StrCat(source, ": line ", number, " is ",
                                               Quoted(line.substr(0, 60)),
                                               "; accepted: a token in base64 and its rank"));
    }
    spelling.clear();
    AppendInAlphabet(parsed.token, &spelling);
    if (vocabulary.Add(spelling, parsed.rank) != Vocabulary::AddResult::kAdded) {
      return absl::InvalidArgumentError(
          StrCat(source, ": line ", number, " is ", Quoted(line.substr(0, 60)),
                 "; accepted: a token and a rank that no other line has"));
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (vocabulary.Find(ByteToAlphabet(static_cast<uint8_t>(byte))) == kNoToken) {
      return absl::InvalidArgumentError(
          StrCat(source, ": has no token for the byte ", byte, "; accepted: one for every byte"));
    }
  }
  return vocabulary;
}

}  // namespace sluice
