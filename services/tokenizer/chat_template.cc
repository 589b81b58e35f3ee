#include "services/tokenizer/chat_template.h"

#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "services/tokenizer/jinja/template.h"
#include "services/tokenizer/strings.h"

namespace sluice {
namespace {

constexpr char kDefault[] = "default";
constexpr char kToolUse[] = "tool_use";

// Templates write control tokens around them ("<|" + role + "|>"), and whoever sends a message
// chooses its role anyway.
const jinja::Context::TrustedMember& KnownRoles() {
  static const auto& roles = *new jinja::Context::TrustedMember{
      "role", {"system", "user", "assistant", "tool", "developer", "function", "ipython"}};
  return roles;
}

}  // namespace

ChatTemplates::ChatTemplates(const TokenizerConfig& config)
    : special_tokens_(config.special_tokens) {
  for (const auto& [name, text] : config.chat_templates) {
    const auto source = config.chat_template_sources.find(name);
    const std::string file =
        source == config.chat_template_sources.end() ? "chat_template" : source->second;
    templates_.emplace(name, jinja::Template::Compile(text, file));
  }
}

ChatTemplates::~ChatTemplates() = default;

absl::StatusOr<const jinja::Template*> ChatTemplates::Choose(std::string_view name,
                                                             bool has_tools) const {
  auto chosen = templates_.end();
  if (!name.empty()) {
    chosen = templates_.find(name);
  } else {
    if (has_tools) chosen = templates_.find(kToolUse);
    if (chosen == templates_.end()) chosen = templates_.find(kDefault);
  }
  if (chosen == templates_.end()) {
    std::string names;
    for (const auto& entry : templates_) StrAppend(&names, names.empty() ? "" : ", ", entry.first);
    return absl::FailedPreconditionError(StrCat("there is no chat template ",
                                                Quoted(name.empty() ? kDefault : name),
                                                "; there are: ", names.empty() ? "none" : names));
  }
  const Compiled& compiled = chosen->second;
  if (!compiled.ok()) {
    return absl::FailedPreconditionError(
        StrCat("the chat template does not compile: ", compiled.status().message()));
  }
  return compiled->get();
}

absl::StatusOr<jinja::Rendering> ChatTemplates::Render(std::string_view name,
                                                       const nlohmann::ordered_json& variables,
                                                       const jinja::LocalTime& now) const {
  const auto tools = variables.find("tools");
  const absl::StatusOr<const jinja::Template*> chosen =
      Choose(name, tools != variables.end() && !tools->is_null());
  if (!chosen.ok()) return chosen.status();
  jinja::Context context{.untrusted = &variables, .trusted_member = KnownRoles(), .now = now};
  for (const auto& [token, text] : special_tokens_) {
    if (!variables.contains(token)) context.trusted[token] = text;
  }
  return (*chosen)->Render(context);
}

jinja::LocalTime LocalTimeNow() {
  const std::time_t now = std::time(nullptr);
  std::tm time{};
  localtime_r(&now, &time);
  return {.year = time.tm_year + 1900,
          .month = time.tm_mon + 1,
          .day = time.tm_mday,
          .hour = time.tm_hour,
          .minute = time.tm_min,
          .second = time.tm_sec};
}

}  // namespace sluice
