#include "services/tokenizer/decoders/replace_decoder.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/tokenizer/decoders/whole_token_stage.h"
#include "services/tokenizer/regex/regex_json.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

// A string to look for in a text that comes in pieces, as Knuth, Morris and Pratt (1977) do.
class Literal {
 public:
  explicit Literal(std::string text) : text_(std::move(text)), fallback_(text_.size() + 1, 0) {
    for (size_t i = 1, length = 0; i < text_.size(); ++i) {
      while (length > 0 && text_[length] != text_[i]) length = fallback_[length];
      if (text_[length] == text_[i]) ++length;
      fallback_[i + 1] = length;
    }
  }

  const std::string& text() const { return text_; }
  // Of a prefix so long: the length of the longest shorter one that it ends with.
  size_t Fallback(size_t length) const { return fallback_[length]; }

 private:
  std::string text_;
  std::vector<size_t> fallback_;
};

class LiteralStage : public DecodeStage {
 public:
  LiteralStage(const Literal& pattern, const std::string& content,
               std::unique_ptr<DecodeStage> next)
      : pattern_(pattern), content_(content), next_(std::move(next)) {}

  void Append(std::string_view fragment) override {
    out_.clear();
    for (const char byte : fragment) Take(byte);
    Flush();
  }

  void EndToken() override {
    out_.assign(pattern_.text(), 0, matched_);
    matched_ = 0;
    Flush();
    next_->EndToken();
  }

  void Finish() override { next_->Finish(); }

 private:
  void Take(char byte) {
    const std::string& text = pattern_.text();
    while (matched_ > 0 && text[matched_] != byte) {
      const size_t shorter = pattern_.Fallback(matched_);
      out_.append(text, 0, matched_ - shorter);
      matched_ = shorter;
    }
    if (text[matched_] != byte) {
      out_.push_back(byte);
    } else if (++matched_ == text.size()) {
      out_ += content_;
      matched_ = 0;
    }
  }

  void Flush() {
    if (!out_.empty()) next_->Append(out_);
  }

  const Literal& pattern_;
  const std::string& content_;
  std::unique_ptr<DecodeStage> next_;
  size_t matched_ = 0;  // bytes of the pattern that the token ends with so far; held back
  std::string out_;
};

class LiteralDecoder : public Decoder {
 public:
  LiteralDecoder(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const override {
    return std::make_unique<LiteralStage>(pattern_, content_, std::move(next));
  }

  std::string TokenBytes(std::string_view token) const override {
    const std::string& pattern = pattern_.text();
    std::string bytes;
    size_t at = 0;
    for (size_t found; (found = token.find(pattern, at)) != token.npos;) {
      bytes.append(token, at, found - at).append(content_);
      at = found + pattern.size();
    }
    return bytes.append(token, at);
  }

 private:
  const Literal pattern_;
  const std::string content_;
};

// `text` with the matches replaced. Matching that runs into a limit leaves the rest as it is.
std::string ReplaceMatches(const Regex& regex, std::string_view text, std::string_view content,
                           RegexScratch& scratch) {
  std::string out;
  size_t at = 0;
  RegexMatches matches(regex, text, scratch);
  for (ByteRange match; !text.empty() && matches.Next(&match); at = match.end) {
    out.append(text, at, match.begin - at).append(content);
  }
  return out.append(text, at);
}

class RegexStage : public WholeTokenStage {
 public:
  RegexStage(const Regex& regex, const std::string& content, std::unique_ptr<DecodeStage> next)
      : WholeTokenStage(std::move(next)), regex_(regex), content_(content) {}

 private:
  void TakeToken(std::string* token) override {
    Emit(ReplaceMatches(regex_, *token, content_, scratch_));
    EmitEnd();
  }

  const Regex& regex_;
  const std::string& content_;
  RegexScratch scratch_;
};

class RegexDecoder : public Decoder {
 public:
  RegexDecoder(Regex regex, std::string content)
      : regex_(std::move(regex)), content_(std::move(content)) {}

  std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const override {
    return std::make_unique<RegexStage>(regex_, content_, std::move(next));
  }

  std::string TokenBytes(std::string_view token) const override {
    if (FirstInvalidUtf8(token) != token.npos) return std::string(token);
    RegexScratch scratch;
    return ReplaceMatches(regex_, token, content_, scratch);
  }

 private:
  const Regex regex_;
  const std::string content_;
};

}  // namespace

std::unique_ptr<Decoder> MakeReplaceDecoder(std::string pattern, std::string content) {
  return std::make_unique<LiteralDecoder>(std::move(pattern), std::move(content));
}

absl::StatusOr<std::unique_ptr<Decoder>> ReplaceDecoderFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  std::optional<std::string> content = fields.String("content");
  if (!content.has_value()) fields.Reject("content", "a string");
  if (!fields.status().ok()) return fields.status();
  const JsonPlace literal = place.Member("pattern").Member("String");
  if (literal.value->is_string() && !literal.value->get_ref<const std::string&>().empty()) {
    return MakeReplaceDecoder(literal.value->get<std::string>(), *std::move(content));
  }
  absl::StatusOr<Regex> regex = RegexFromJson(place.Member("pattern"));
  if (!regex.ok()) return regex.status();
  return std::make_unique<RegexDecoder>(*std::move(regex), *std::move(content));
}

}  // namespace sluice
