#include "services/tokenizer/decoders/word_decoders.h"

#include <optional>
#include <string>
#include <utility>

#include "services/tokenizer/decoders/whole_token_stage.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

// As Rust's str::replace has it: an empty pattern stands before every character and at the end.
// REQUIRES: valid UTF-8 where `pattern` is empty.
std::string ReplaceAll(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  size_t at = 0;
  if (pattern.empty()) {
    out = content;
    while (at < text.size()) {
      const uint32_t length = ReadUtf8(text, at).length;
      out.append(text, at, length).append(content);
      at += length;
    }
    return out;
  }
  for (size_t found; (found = text.find(pattern, at)) != text.npos;) {
    out.append(text, at, found - at).append(content);
    at = found + pattern.size();
  }
  return out.append(text, at);
}

// Takes back the spaces that tokenizing English put in.
void CleanUp(std::string* text) {
  constexpr std::pair<std::string_view, std::string_view> kReplacements[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [pattern, content] : kReplacements) *text = ReplaceAll(*text, pattern, content);
}

class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const override {
    return std::make_unique<Stage>(*this, std::move(next));
  }

  std::string TokenBytes(std::string_view token) const override {
    if (token.substr(0, prefix_.size()) == prefix_)
      return std::string(token.substr(prefix_.size()));
    return " " + std::string(token);
  }

 private:
  class Stage : public WholeTokenStage {
   public:
    Stage(const WordPieceDecoder& decoder, std::unique_ptr<DecodeStage> next)
        : WholeTokenStage(std::move(next)), decoder_(decoder) {}

   private:
    void TakeToken(std::string* token) override {
      if (!is_first_) *token = decoder_.TokenBytes(*token);
      is_first_ = false;
      if (decoder_.cleanup_) CleanUp(token);
      Emit(*token);
      EmitEnd();
    }

    const WordPieceDecoder& decoder_;
    bool is_first_ = true;
  };

  const std::string prefix_;
  const bool cleanup_;
};

class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}

  std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const override {
    return std::make_unique<Stage>(suffix_, std::move(next));
  }

  std::string TokenBytes(std::string_view token) const override {
    if (suffix_.empty()) return std::string(token);
    return ReplaceAll(token, suffix_, " ");
  }

 private:
  class Stage : public WholeTokenStage {
   public:
    Stage(const std::string& suffix, std::unique_ptr<DecodeStage> next)
        : WholeTokenStage(std::move(next)), suffix_(suffix) {}

   private:
    void TakeToken(std::string* token) override {
      EndHeld(" ");
      const size_t suffix = token->find(suffix_);
      Emit(std::string_view(*token).substr(0, suffix));
      held_ = suffix == token->npos ? "" : token->substr(suffix);
      is_first_ = false;
    }

    void TakeEnd() override { EndHeld(""); }

    // The suffixes in what is held back become `content`.
    void EndHeld(std::string_view content) {
      if (is_first_) return;
      if (!held_.empty() || suffix_.empty()) Emit(ReplaceAll(held_, suffix_, content));
      EmitEnd();
    }

    const std::string& suffix_;
    bool is_first_ = true;
    std::string held_;  // the last token from its first suffix on
  };

  const std::string suffix_;
};

struct CtcOptions {
  std::string pad_token;
  std::string word_delimiter_token;
  bool cleanup = false;
};

class CtcDecoder : public Decoder {
 public:
  explicit CtcDecoder(CtcOptions options) : options_(std::move(options)) {}

  std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const override {
    return std::make_unique<Stage>(*this, std::move(next));
  }

  std::string TokenBytes(std::string_view token) const override {
    if (FirstInvalidUtf8(token) != token.npos) return std::string(token);
    std::string text = ReplaceAll(token, options_.pad_token, "");
    if (!options_.cleanup) return text;
    CleanUp(&text);
    return ReplaceAll(text, options_.word_delimiter_token, " ");
  }

 private:
  class Stage : public WholeTokenStage {
   public:
    Stage(const CtcDecoder& decoder, std::unique_ptr<DecodeStage> next)
        : WholeTokenStage(std::move(next)), decoder_(decoder) {}

   private:
    void TakeToken(std::string* token) override {
      if (last_ == *token) return;
      last_ = *token;
      const std::string text = decoder_.TokenBytes(*token);
      if (text.empty()) return;
      Emit(text);
      EmitEnd();
    }

    const CtcDecoder& decoder_;
    std::optional<std::string> last_;
  };

  const CtcOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> WordPieceDecoderFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  std::string prefix = fields.RequiredString("prefix");
  const bool cleanup = fields.RequiredBool("cleanup");
  if (!fields.status().ok()) return fields.status();
  return std::make_unique<WordPieceDecoder>(std::move(prefix), cleanup);
}

absl::StatusOr<std::unique_ptr<Decoder>> BpeDecoderFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  std::string suffix = fields.RequiredString("suffix");
  if (!fields.status().ok()) return fields.status();
  return std::make_unique<BpeDecoder>(std::move(suffix));
}

absl::StatusOr<std::unique_ptr<Decoder>> CtcDecoderFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  CtcOptions options;
  options.pad_token = fields.RequiredString("pad_token");
  options.word_delimiter_token = fields.RequiredString("word_delimiter_token");
  options.cleanup = fields.RequiredBool("cleanup");
  if (!fields.status().ok()) return fields.status();
  return std::make_unique<CtcDecoder>(std::move(options));
}

}  // namespace sluice
