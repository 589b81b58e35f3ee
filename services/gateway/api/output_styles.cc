#include "services/gateway/api/output_styles.h"

#include <openssl/sha.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice::gateway {
namespace {

// Clients choose the variables; of more sets of them than this the oldest are asked for anew.
constexpr size_t kMaxStyles = 1024;

// Whether the template itself is at fault, and will be every time. Anything else, such as a server
// that is full or a token that is refused, says nothing about the template.
bool IsFinal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
         absl::IsUnimplemented(status) || absl::IsNotFound(status);
}

}  // namespace

OutputStyles::Key OutputStyles::KeyOf(const std::string& model, const std::string& variables_json) {
  const std::string text = absl::StrCat(model.size(), " ", model, variables_json);
  Key key;
  SHA256(reinterpret_cast<const uint8_t*>(text.data()), text.size(), key.data());
  return key;
}

void OutputStyles::Get(const Caller& caller, const std::string& model,
                       const std::string& variables_json, Callback done) {
  const Key key = KeyOf(model, variables_json);
  std::optional<OutputStyle> known;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = styles_.find(key); found != styles_.end()) known = found->second;
  }
  if (known.has_value()) return done(*known);
  if (tool_format_.has_value()) {
    return ProbeThought(caller, key, variables_json, {.tool_format = *tool_format_},
                        std::move(done));
  }
  v1::ApplyChatTemplateRequest request;
  *request.mutable_messages() = ProbeMessages();
  request.set_tools_json(ProbeTools());
  request.set_add_generation_prompt(false);
  request.set_variables_json(variables_json);
  backend_.ApplyChatTemplate(caller, std::move(request),
                             [this, caller, key, variables_json, done = std::move(done)](
                                 const absl::StatusOr<v1::ApplyChatTemplateResponse>& prompt) {
                               OutputStyle style;
                               if (prompt.ok()) style.tool_format = FormatOfPrompt(prompt->text());
                               if (!prompt.ok() && !IsFinal(prompt.status()))
                                 return done(prompt.status());
                               ProbeThought(caller, key, variables_json, style, done);
                             });
}

void OutputStyles::ProbeThought(const Caller& caller, const Key& key,
                                const std::string& variables_json, OutputStyle style,
                                Callback done) {
  v1::ApplyChatTemplateRequest request;
  *request.add_messages() = ProbeMessages()[0];
  request.set_variables_json(variables_json);
  backend_.ApplyChatTemplate(
      caller, std::move(request),
      [this, key, style, done = std::move(done)](
          const absl::StatusOr<v1::ApplyChatTemplateResponse>& prompt) mutable {
        if (!prompt.ok() && !IsFinal(prompt.status())) return done(prompt.status());
        if (prompt.ok()) ReadReasoningFormat(prompt->text(), style);
        Keep(key, style);
        done(style);
      });
}

void OutputStyles::Keep(const Key& key, OutputStyle style) {
  absl::MutexLock lock(&mutex_);
  if (!styles_.insert_or_assign(key, style).second) return;
  kept_.push_back(key);
  if (kept_.size() <= kMaxStyles) return;
  styles_.erase(kept_.front());
  kept_.pop_front();
}

}  // namespace sluice::gateway
