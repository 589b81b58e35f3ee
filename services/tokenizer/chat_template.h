// The chat templates of a model: a conversation into the text that the model was trained on, as
// Hugging Face's apply_chat_template does. Immutable once made; every member function may be called
// from any thread at any time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/tokenizer/jinja/local_time.h"
#include "services/tokenizer/jinja/rendering.h"
#include "services/tokenizer/template_history.h"
#include "services/tokenizer/tokenizer_config.h"

namespace sluice {

namespace jinja {
class Template;
}

class ChatTemplates {
 public:
  // Compiles them all. One that does not compile only fails where it is asked for.
  explicit ChatTemplates(const TokenizerConfig& config);
  ~ChatTemplates();

  bool empty() const { return templates_.empty(); }

  // Renders with the variables that a request came with: a JSON object of `messages`, `tools`,
  // `add_generation_prompt`, .... Special tokens (`bos_token`, ...) are those of the model unless
  // the variables have them. The template is the one of `name`; without a name "tool_use" where
  // there are tools and there is such a one, else "default".
  //
  // The result's untrusted bytes are those made of the variables, but for the roles that every
  // model knows ("user", ...).
  //
  // Where the template refuses the conversation and ids of calls are not nine letters and digits,
  // which Mistral's templates insist on, each such id becomes one that is, the same for the same
  // id.
  //
  // FAILED_PRECONDITION where there is no such template, or it does not compile (with file, line
  // and column); INVALID_ARGUMENT and RESOURCE_EXHAUSTED as of jinja::Template::Render.
  // `checkpoint` as jinja::Context's.
  absl::StatusOr<jinja::Rendering> Render(std::string_view name,
                                          const nlohmann::ordered_json& variables,
                                          const jinja::LocalTime& now,
                                          const std::function<bool()>* checkpoint = nullptr) const;

  // Rewrites the `messages` of variables to what the template that Render() would choose reads of
  // earlier turns, see TemplateHistory. Hugging Face's apply_chat_template leaves that to its
  // caller.
  void AdaptHistory(std::string_view name, nlohmann::ordered_json& variables) const;

 private:
  using Compiled = absl::StatusOr<std::unique_ptr<const jinja::Template>>;

  absl::StatusOr<const jinja::Template*> Choose(std::string_view name, bool has_tools) const;
  // Of templates_; its end where there is no such template.
  std::map<std::string, Compiled, std::less<>>::const_iterator Find(std::string_view name,
                                                                    bool has_tools) const;

  std::map<std::string, Compiled, std::less<>> templates_;
  std::map<std::string, TemplateHistory, std::less<>> histories_;  // of those that compile
  const std::map<std::string, std::string> special_tokens_;
};

// Whether the file holds a template that compiles. Errors of reading it, naming the option
// --chat_template; INVALID_ARGUMENT with file, line and column. OK for an empty path.
absl::Status CheckChatTemplate(const std::string& path);

// The time that templates are shown: that of this host's clock and zone.
jinja::LocalTime LocalTimeNow();

}  // namespace sluice
