#include "clients/cli/cli.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/outcome.h"
#include "clients/cli/terminal_text.h"

namespace sluice {
namespace {

constexpr size_t kSummaryColumn = 17;

using Commands = absl::Span<const Command>;

std::string Overview(Commands commands, const Environment& environment) {
  const size_t width = HelpWidth(environment.columns);
  std::string text = "Usage: sluice COMMAND [flags]\n\nCommands:\n";
  const auto add = [&](const char* name, const char* summary) {
    text += Hanging(absl::StrCat("  ", name), summary, kSummaryColumn, width);
  };
  for (const Command& command : commands) add(command.name, command.summary);
  add("help", "this text, or with a command's name that command's flags");
  add("version", "the version of this program");
  const std::string rest =
      "\nsluice COMMAND --help explains a command's flags. stdout carries the result alone.\n"
      "Exit status: 0 done, 1 failed, 2 wrong command line, 130 ended by Ctrl-C.";
  return absl::StrCat(text, absl::StrJoin(Wrapped(rest, width), "\n"), "\n");
}

const Command* FindCommand(Commands commands, const std::string& name) {
  for (const Command& command : commands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

int UnknownCommand(Commands commands, const std::string& name, Environment& environment) {
  std::string known;
  for (const Command& command : commands) absl::StrAppend(&known, command.name, ", ");
  environment.err << "sluice: unknown command \"" << name << "\"; there are " << known
                  << "help, version" << std::endl;
  return kUsage;
}

int Help(absl::Span<const std::string> arguments, Commands commands, Environment& environment) {
  if (arguments.empty()) {
    environment.out << Overview(commands, environment);
    return Succeed(environment);
  }
  const Command* command = FindCommand(commands, arguments.front());
  if (command == nullptr) return UnknownCommand(commands, arguments.front(), environment);
  return command->run({"--help"}, environment);
}

}  // namespace

int RunCli(absl::Span<const std::string> arguments, absl::Span<const Command> commands,
           Environment& environment) {
  if (arguments.empty()) {
    environment.err << Overview(commands, environment);
    return kUsage;
  }
  const std::string& name = arguments.front();
  if (name == "help" || name == "--help" || name == "-h") {
    return Help(arguments.subspan(1), commands, environment);
  }
  if (name == "version" || name == "--version") {
    environment.out << "sluice " << SLUICE_VERSION << "\n";
    return Succeed(environment);
  }
  const Command* command = FindCommand(commands, name);
  if (command == nullptr) return UnknownCommand(commands, name, environment);
  return command->run(arguments.subspan(1), environment);
}

}  // namespace sluice
