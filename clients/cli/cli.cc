#include "clients/cli/cli.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/commands.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/outcome.h"
#include "clients/cli/terminal_text.h"
#include "services/options/help_text.h"

namespace sluice {
namespace {

constexpr size_t kSummaryColumn = 17;

struct Command {
  const char* name;
  const char* summary;
  int (*run)(absl::Span<const std::string>, Environment&);
};

constexpr std::array<Command, 15> kCommands = {{
    {"run", "write from a prompt, the whole pipeline in this process", RunCommand},
    {"up", "serve on this host, one process per service and shard", UpCommand},
    {"generate", "write from a prompt at a running pipeline", GenerateCommand},
    {"chat", "talk with a model, a line at a time", ChatCommand},
    {"chat-template", "the text that a template makes of a conversation", ChatTemplateCommand},
    {"score", "the log-probability of every token of a text", ScoreCommand},
    {"prefer", "which of two answers a model prefers, relative to another", PreferCommand},
    {"tokenize", "texts to token ids", TokenizeCommand},
    {"detokenize", "token ids to texts", DetokenizeCommand},
    {"quantize", "make a model's weights smaller, once and for all", QuantizeCommand},
    {"plan", "what memory a model takes, before it is started", PlanCommand},
    {"bench", "put load on a pipeline and print what it takes", BenchCommand},
    {"status", "what runs where, and how it is", StatusCommand},
    {"top", "a pipeline at work, on one screen", TopCommand},
    {"health", "whether a process serves, for probes", HealthCommand},
}};

std::string Overview(const Environment& environment) {
  const size_t width = HelpWidth(environment.columns);
  std::string text = "Usage: sluice COMMAND [flags]\n\nCommands:\n";
  const auto add = [&](const char* name, const char* summary) {
    text += Hanging(absl::StrCat("  ", name), summary, kSummaryColumn, width);
  };
  for (const Command& command : kCommands) add(command.name, command.summary);
  add("help", "this text, or with a command's name that command's flags");
  add("version", "the version of this program");
  const std::string rest =
      "\nsluice COMMAND --help explains a command's flags. stdout carries the result alone.\n"
      "Exit status: 0 done, 1 failed, 2 wrong command line, 130 ended by Ctrl-C.";
  return absl::StrCat(text, absl::StrJoin(Wrapped(rest, width), "\n"), "\n");
}

const Command* FindCommand(const std::string& name) {
  for (const Command& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

int UnknownCommand(const std::string& name, Environment& environment) {
  std::string known;
  for (const Command& command : kCommands) absl::StrAppend(&known, command.name, ", ");
  environment.err << "sluice: unknown command \"" << name << "\"; there are " << known
                  << "help, version" << std::endl;
  return kUsage;
}

int Help(absl::Span<const std::string> arguments, Environment& environment) {
  if (arguments.empty()) {
    environment.out << Overview(environment);
    return Succeed(environment);
  }
  const Command* command = FindCommand(arguments.front());
  if (command == nullptr) return UnknownCommand(arguments.front(), environment);
  return command->run({"--help"}, environment);
}

}  // namespace

int RunCli(absl::Span<const std::string> arguments, Environment& environment) {
  if (arguments.empty()) {
    environment.err << Overview(environment);
    return kUsage;
  }
  const std::string& name = arguments.front();
  if (name == "help" || name == "--help" || name == "-h") {
    return Help(arguments.subspan(1), environment);
  }
  if (name == "version" || name == "--version") {
    environment.out << "sluice " << SLUICE_VERSION << "\n";
    return Succeed(environment);
  }
  const Command* command = FindCommand(name);
  if (command == nullptr) return UnknownCommand(name, environment);
  return command->run(arguments.subspan(1), environment);
}

}  // namespace sluice
