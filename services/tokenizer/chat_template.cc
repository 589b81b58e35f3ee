#include "services/tokenizer/chat_template.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "services/model/json_fields.h"
#include "services/tokenizer/jinja/error.h"
#include "services/tokenizer/jinja/template.h"
#include "services/tokenizer/text/strings.h"

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

constexpr size_t kShortIdSize = 9;

bool IsShortId(std::string_view id) {
  return id.size() == kShortIdSize && std::all_of(id.begin(), id.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c));
         });
}

std::string ShortId(std::string_view id) {
  constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a: the same in every process
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::string made;
  for (; made.size() < kShortIdSize; hash /= kDigits.size()) made += kDigits[hash % kDigits.size()];
  return made;
}

// Makes the member of this name a short id. Whether it was another.
bool ShortenId(const char* name, nlohmann::ordered_json& object) {
  if (!object.is_object()) return false;
  const auto id = object.find(name);
  if (id == object.end() || !id->is_string() || IsShortId(id->get_ref<const std::string&>())) {
    return false;
  }
  *id = ShortId(id->get_ref<const std::string&>());
  return true;
}

// Whether any was another.
bool ShortenCallIds(nlohmann::ordered_json& variables) {
  const auto messages = variables.find("messages");
  if (messages == variables.end() || !messages->is_array()) return false;
  bool has_changed = false;
  for (nlohmann::ordered_json& message : *messages) {
    has_changed |= ShortenId("tool_call_id", message);
    const auto calls = message.is_object() ? message.find("tool_calls") : message.end();
    if (calls == message.end() || !calls->is_array()) continue;
    for (nlohmann::ordered_json& call : *calls) has_changed |= ShortenId("id", call);
  }
  return has_changed;
}

bool IsRefusal(const absl::Status& status) {
  const auto error = jinja::ErrorOf(status);
  return error.has_value() && error->kind == jinja::Error::Kind::kRaised;
}

}  // namespace

ChatTemplates::ChatTemplates(const TokenizerConfig& config)
    : special_tokens_(config.special_tokens) {
  for (const auto& [name, text] : config.chat_templates) {
    const auto source = config.chat_template_sources.find(name);
    // Clients see the name in messages, so it is the file's own, without folders.
    const std::string file = source == config.chat_template_sources.end()
                                 ? "chat_template"
                                 : std::filesystem::path(source->second).filename().string();
    const Compiled& compiled =
        templates_.emplace(name, jinja::Template::Compile(text, file)).first->second;
    if (compiled.ok()) histories_.emplace(name, TemplateHistory(text, **compiled));
  }
}

ChatTemplates::~ChatTemplates() = default;

std::map<std::string, ChatTemplates::Compiled, std::less<>>::const_iterator ChatTemplates::Find(
    std::string_view name, bool has_tools) const {
  if (!name.empty()) return templates_.find(name);
  const auto chosen = has_tools ? templates_.find(kToolUse) : templates_.end();
  return chosen != templates_.end() ? chosen : templates_.find(kDefault);
}

absl::StatusOr<const jinja::Template*> ChatTemplates::Choose(std::string_view name,
                                                             bool has_tools) const {
  const auto chosen = Find(name, has_tools);
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

absl::StatusOr<jinja::Rendering> ChatTemplates::Render(
    std::string_view name, const nlohmann::ordered_json& variables, const jinja::LocalTime& now,
    const std::function<bool()>* checkpoint) const {
  const auto tools = variables.find("tools");
  const absl::StatusOr<const jinja::Template*> chosen =
      Choose(name, tools != variables.end() && !tools->is_null());
  if (!chosen.ok()) return chosen.status();
  jinja::Context context{.untrusted = &variables, .trusted_member = KnownRoles(), .now = now};
  context.checkpoint = checkpoint;
  for (const auto& [token, text] : special_tokens_) {
    if (!variables.contains(token)) context.trusted[token] = text;
  }
  absl::StatusOr<jinja::Rendering> rendering = (*chosen)->Render(context);
  if (!IsRefusal(rendering.status())) return rendering;
  nlohmann::ordered_json shortened = variables;
  if (!ShortenCallIds(shortened)) return rendering;
  context.untrusted = &shortened;
  absl::StatusOr<jinja::Rendering> again = (*chosen)->Render(context);
  return again.ok() ? again : rendering;
}

void ChatTemplates::AdaptHistory(std::string_view name, nlohmann::ordered_json& variables) const {
  const auto tools = variables.find("tools");
  const auto chosen = Find(name, tools != variables.end() && !tools->is_null());
  if (chosen == templates_.end()) return;
  const auto history = histories_.find(chosen->first);
  const auto messages = variables.find("messages");
  if (history != histories_.end() && messages != variables.end()) history->second.Adapt(*messages);
}

absl::Status CheckChatTemplate(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  const absl::Status status =
      text.ok() ? jinja::Template::Compile(*text, path).status() : text.status();
  return status.ok() ? status
                     : absl::Status(status.code(),
                                    StrCat("--chat_template: ", std::string(status.message())));
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
