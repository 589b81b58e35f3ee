#include "services/gateway/api/output_styles.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace sluice::gateway {
namespace {

// Clients choose the variables; more sets of them than this are asked for anew.
constexpr size_t kMaxStyles = 64;

bool IsFinal(const absl::Status& status) {
  return !absl::IsUnavailable(status) && !absl::IsCancelled(status) &&
         !absl::IsDeadlineExceeded(status);
}

}  // namespace

void OutputStyles::Get(const Caller& caller, const std::string& model,
                       const std::string& variables_json, std::function<void(OutputStyle)> done) {
  const Key key(model, variables_json);
  std::optional<OutputStyle> known;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = styles_.find(key); found != styles_.end()) known = found->second;
  }
  if (known.has_value()) return done(*known);
  if (tool_format_.has_value()) {
    return ProbeThought(caller, key, {.tool_format = *tool_format_}, std::move(done));
  }
  v1::ApplyChatTemplateRequest request;
  *request.mutable_messages() = ProbeMessages();
  request.set_tools_json(ProbeTools());
  request.set_add_generation_prompt(false);
  request.set_variables_json(variables_json);
  backend_.ApplyChatTemplate(caller, std::move(request),
                             [this, caller, key, done = std::move(done)](
                                 const absl::StatusOr<v1::ApplyChatTemplateResponse>& prompt) {
                               OutputStyle style;
                               if (prompt.ok()) style.tool_format = FormatOfPrompt(prompt->text());
                               if (!prompt.ok() && !IsFinal(prompt.status())) return done(style);
                               ProbeThought(caller, key, style, done);
                             });
}

void OutputStyles::ProbeThought(const Caller& caller, const Key& key, OutputStyle style,
                                std::function<void(OutputStyle)> done) {
  v1::ApplyChatTemplateRequest request;
  *request.add_messages() = ProbeMessages()[0];
  request.set_variables_json(key.second);
  backend_.ApplyChatTemplate(
      caller, std::move(request),
      [this, key, style, done = std::move(done)](
          const absl::StatusOr<v1::ApplyChatTemplateResponse>& prompt) mutable {
        if (prompt.ok()) {
          style.begins_in_thought =
              absl::EndsWith(absl::StripTrailingAsciiWhitespace(prompt->text()), "<think>");
        }
        if (prompt.ok() || IsFinal(prompt.status())) Keep(key, style);
        done(style);
      });
}

void OutputStyles::Keep(const Key& key, OutputStyle style) {
  absl::MutexLock lock(&mutex_);
  if (styles_.size() < kMaxStyles) styles_[key] = style;
}

}  // namespace sluice::gateway
