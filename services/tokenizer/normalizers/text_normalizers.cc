#include "services/tokenizer/normalizers/text_normalizers.h"

#include <optional>
#include <string>
#include <utility>

#include "services/tokenizer/regex/regex_json.h"
#include "services/tokenizer/text/byte_alphabet.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/object_pool.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string text) : text_(std::move(text)) {}

  void Normalize(MappedText* text) const override {
    const std::string_view old = text->text();
    if (old.empty()) return;
    TextRewriter rewriter(*text);
    rewriter.Put(text_, 0, ReadUtf8(old, 0).length);
    rewriter.Keep(0, old.size());
    rewriter.Replace(text);
  }

 private:
  const std::string text_;
};

class AppendNormalizer : public Normalizer {
 public:
  explicit AppendNormalizer(std::string text) : text_(std::move(text)) {}

  void Normalize(MappedText* text) const override {
    const std::string_view old = text->text();
    if (old.empty()) return;
    TextRewriter rewriter(*text);
    rewriter.Keep(0, old.size());
    rewriter.Put(text_, old.size() - ReadUtf8Before(old, old.size()).length, old.size());
    rewriter.Replace(text);
  }

 private:
  const std::string text_;
};

class ReplaceStringNormalizer : public Normalizer {
 public:
  ReplaceStringNormalizer(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void Normalize(MappedText* text) const override {
    const std::string_view old = text->text();
    size_t found = old.find(pattern_);
    if (found == old.npos) return;
    TextRewriter rewriter(*text);
    size_t kept = 0;
    for (; found != old.npos; found = old.find(pattern_, kept)) {
      if (!text->Pass(1 + found - kept)) return;
      rewriter.Keep(kept, found);
      rewriter.Put(content_, found, found + pattern_.size());
      kept = found + pattern_.size();
    }
    rewriter.Keep(kept, old.size());
    rewriter.Replace(text);
  }

 private:
  const std::string pattern_;  // not empty
  const std::string content_;
};

class ReplaceRegexNormalizer : public Normalizer {
 public:
  ReplaceRegexNormalizer(Regex regex, std::string content)
      : regex_(std::move(regex)), content_(std::move(content)), scratches_(kMaxIdleScratches) {}

  // Matching that runs into a limit leaves the rest of the text as it is.
  void Normalize(MappedText* text) const override {
    const std::string_view old = text->text();
    if (old.empty()) return;
    const auto scratch = scratches_.Borrow([] { return std::make_unique<RegexScratch>(); });
    RegexMatches matches(regex_, old, *scratch);
    ByteRange match;
    if (!matches.Next(&match)) return;
    TextRewriter rewriter(*text);
    size_t kept = 0;
    do {
      if (!text->Pass(1 + match.end - kept)) return;
      rewriter.Keep(kept, match.begin);
      rewriter.Put(content_, match.begin, match.end);
      kept = match.end;
    } while (matches.Next(&match));
    rewriter.Keep(kept, old.size());
    rewriter.Replace(text);
  }

 private:
  static constexpr size_t kMaxIdleScratches = 16;

  const Regex regex_;
  const std::string content_;
  mutable ObjectPool<RegexScratch> scratches_;  // synchronises itself
};

class ByteLevelNormalizer : public Normalizer {
 public:
  void Normalize(MappedText* text) const override {
    const std::string_view old = text->text();
    if (old.empty()) return;
    TextRewriter rewriter(*text);
    for (size_t i = 0; i < old.size(); ++i) {
      if (!text->Pass(1)) return;
      rewriter.Put(ByteToAlphabet(static_cast<uint8_t>(old[i])), i, i + 1);
    }
    rewriter.Replace(text);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Normalizer>> PrependNormalizerFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  std::string text = fields.RequiredString("prepend");
  if (!fields.status().ok()) return fields.status();
  return std::make_unique<PrependNormalizer>(std::move(text));
}

absl::StatusOr<std::unique_ptr<Normalizer>> AppendNormalizerFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  std::string text = fields.RequiredString("append");
  if (!fields.status().ok()) return fields.status();
  return std::make_unique<AppendNormalizer>(std::move(text));
}

absl::StatusOr<std::unique_ptr<Normalizer>> ReplaceNormalizerFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  std::string content = fields.RequiredString("content");
  if (!fields.status().ok()) return fields.status();
  const JsonPlace literal = place.Member("pattern").Member("String");
  if (literal.value->is_string() && !literal.value->get_ref<const std::string&>().empty()) {
    return std::make_unique<ReplaceStringNormalizer>(literal.value->get<std::string>(),
                                                     std::move(content));
  }
  absl::StatusOr<Regex> regex = RegexFromJson(place.Member("pattern"));
  if (!regex.ok()) return regex.status();
  return std::make_unique<ReplaceRegexNormalizer>(*std::move(regex), std::move(content));
}

std::unique_ptr<Normalizer> MakeByteLevelNormalizer() {
  return std::make_unique<ByteLevelNormalizer>();
}

}  // namespace sluice
