#include "services/tokenizer/decoders/strip_decoder.h"

#include <optional>
#include <string>
#include <utility>

#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

struct StripOptions {
  std::string content;  // one character
  int start = 0;
  int stop = 0;
};

class StripStage : public DecodeStage {
 public:
  StripStage(const StripOptions& options, std::unique_ptr<DecodeStage> next)
      : options_(options), next_(std::move(next)), to_strip_(options.start) {}

  void Append(std::string_view fragment) override {
    const std::string& content = options_.content;
    while (to_strip_ > 0 && !fragment.empty()) {
      if (fragment.substr(0, content.size()) != content) {
        to_strip_ = 0;
        break;
      }
      --to_strip_;
      fragment.remove_prefix(content.size());
    }
    size_t end = fragment.size();
    int num_last = 0;
    while (num_last < options_.stop && fragment.substr(0, end).ends_with(content)) {
      end -= content.size();
      ++num_last;
    }
    if (end > 0) {
      PassOn(num_held_);
      next_->Append(fragment.substr(0, end));
      num_held_ = num_last;
    } else {
      num_held_ += num_last;
      PassOn(num_held_ - options_.stop);
    }
  }

  void EndToken() override {
    to_strip_ = options_.start;
    num_held_ = 0;
    next_->EndToken();
  }

  void Finish() override { next_->Finish(); }

 private:
  // Passes on so many of the characters held back.
  void PassOn(int count) {
    for (; count > 0; --count, --num_held_) next_->Append(options_.content);
  }

  const StripOptions& options_;
  std::unique_ptr<DecodeStage> next_;
  int to_strip_;      // characters that may still be taken from the beginning
  int num_held_ = 0;  // characters at the end so far
};

class StripDecoder : public Decoder {
 public:
  explicit StripDecoder(StripOptions options) : options_(std::move(options)) {}

  std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const override {
    return std::make_unique<StripStage>(options_, std::move(next));
  }

 private:
  const StripOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> StripDecoderFromJson(const JsonPlace& place) {
  constexpr int kMaxCount = 1 << 20;
  JsonFields fields = place.Fields();
  StripOptions options;
  options.content = fields.String("content").value_or("");
  if (options.content.empty() || ReadUtf8(options.content, 0).length != options.content.size()) {
    fields.Reject("content", "a character");
  }
  options.start = fields.Int("start", 0, kMaxCount);
  options.stop = fields.Int("stop", 0, kMaxCount);
  if (!fields.status().ok()) return fields.status();
  return std::make_unique<StripDecoder>(std::move(options));
}

}  // namespace sluice
