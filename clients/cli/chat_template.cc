// `sluice chat-template`: what a model's template makes of a conversation.
#include "services/tokenizer/chat_template.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/cli/commands.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/outcome.h"
#include "clients/cli/prompt_input.h"
#include "clients/cli/terminal_text.h"
#include "services/model/json_fields.h"

namespace sluice {
namespace {

struct ChatTemplateFlags {
  // Exactly one of these two.
  std::optional<std::string> tokenizer;
  std::optional<std::string> file;

  std::string context;
  std::string name;
  std::optional<jinja::LocalTime> now;
};

absl::Status ParseTime(const std::string& text, std::optional<jinja::LocalTime>* into) {
  jinja::LocalTime time;
  int end = 0;
  const int fields = std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &time.year, &time.month,
                                 &time.day, &time.hour, &time.minute, &time.second, &end);
  const bool is_time = fields == 6 && static_cast<size_t>(end) == text.size() && time.year >= 1 &&
                       time.month >= 1 && time.month <= 12 && time.day >= 1 && time.day <= 31 &&
                       time.hour >= 0 && time.hour < 24 && time.minute >= 0 && time.minute < 60 &&
                       time.second >= 0 && time.second <= 60;
  if (!is_time) return absl::InvalidArgumentError("a time such as 2025-07-10T12:00:00");
  *into = time;
  return absl::OkStatus();
}

void AddFlags(FlagSet& flags, ChatTemplateFlags* into) {
  flags.Section("Template (exactly one)");
  flags.Add("tokenizer", "DIR", "Folder of a model: its own templates and special tokens.",
            &into->tokenizer);
  flags.Add("template", "FILE", "A template, or a tokenizer_config.json that has some.",
            &into->file);
  flags.Section("Rendering");
  flags.Add("context", "FILE",
            "A JSON object of the template's variables: messages, tools, add_generation_prompt, "
            "bos_token, ...; -: from stdin.",
            &into->context);
  flags.Add("name", "NAME",
            "Which of several templates. Default: tool_use where there are tools and such a "
            "template, else default.",
            &into->name);
  flags.AddParsed("now", "2025-07-10T12:00:00", "What strftime_now shows. Default: the time.",
                  [into](const std::string& text) { return ParseTime(text, &into->now); });
}

absl::Status CheckFlags(const ChatTemplateFlags& flags) {
  if (flags.tokenizer.has_value() == flags.file.has_value()) {
    return absl::InvalidArgumentError("give exactly one of --tokenizer DIR and --template FILE");
  }
  if (flags.context.empty())
    return absl::InvalidArgumentError("give --context FILE, or - for stdin");
  return absl::OkStatus();
}

absl::StatusOr<TokenizerConfig> LoadTemplates(const ChatTemplateFlags& flags) {
  if (flags.tokenizer.has_value()) return LoadTokenizerConfig(*flags.tokenizer);
  absl::StatusOr<std::string> text = ReadTextFile(*flags.file);
  if (!text.ok()) return text.status();
  if (absl::EndsWith(*flags.file, ".json")) return ParseTokenizerConfig(*text, *flags.file);
  TokenizerConfig config;
  config.chat_templates["default"] = *std::move(text);
  config.chat_template_sources["default"] = *flags.file;
  return config;
}

absl::StatusOr<jinja::Rendering> Render(const ChatTemplateFlags& flags, Environment& environment) {
  absl::StatusOr<TokenizerConfig> config = LoadTemplates(flags);
  if (!config.ok()) return config.status();
  const absl::StatusOr<std::string> text = ReadInput(flags.context, environment);
  if (!text.ok()) return text.status();
  const auto context = nlohmann::ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!context.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.context, " holds no JSON object; accepted: one of the variables"));
  }
  return ChatTemplates(*config).Render(flags.name, context, flags.now.value_or(LocalTimeNow()));
}

}  // namespace

int ChatTemplateCommand(absl::Span<const std::string> arguments, Environment& environment) {
  ChatTemplateFlags template_flags;
  FlagSet flags("chat-template", "[flags]",
                "Prints what a chat template makes of a conversation, and nothing more.");
  AddFlags(flags, &template_flags);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (const absl::Status usage = CheckFlags(template_flags); !usage.ok()) {
    return FailUsage(flags.command(), usage, environment);
  }
  const absl::StatusOr<jinja::Rendering> rendering = Render(template_flags, environment);
  if (!rendering.ok()) return Fail(rendering.status(), environment);
  environment.out << (environment.out_is_terminal ? Printable(rendering->text) : rendering->text);
  return Succeed(environment);
}

}  // namespace sluice
