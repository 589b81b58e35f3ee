#include "clients/cli/chat_session.h"

#include <array>
#include <cerrno>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/outcome.h"
#include "clients/cli/prompt_input.h"
#include "clients/cli/terminal_text.h"
#include "clients/cli/text_input.h"
#include "services/options/help_text.h"

namespace sluice {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 8> kChatCommands = {
    {{"/reset", "forgets the conversation"},
     {"/retry", "takes the last answer back and asks for another"},
     {"/save FILE", "writes the conversation as JSON"},
     {"/load FILE", "goes on with one that was written so"},
     {"/options", "shows what answers are asked for with"},
     {"/options NAME=VALUE ..",
      "changes it, by the names of this command's flags: temperature=0.2"},
     {"/help", "this list"},
     {"/exit", "ends, as Ctrl-D does"}}};
constexpr size_t kMeaningColumn = 25;

std::string CommandsText(int columns) {
  std::string text;
  for (const auto& [command, meaning] : kChatCommands) {
    text += Hanging(command, meaning, kMeaningColumn, HelpWidth(columns));
  }
  return text;
}

std::unique_ptr<LineReader> ReaderFor(Environment& environment) {
  if (environment.in_is_terminal && environment.make_line_editor) {
    if (std::unique_ptr<LineReader> editor = environment.make_line_editor()) return editor;
  }
  return MakeStreamReader(environment.in, environment.in_is_terminal ? &environment.err : nullptr);
}

bool IsBlank(const std::string& line) {
  return line.find_first_not_of(" \t\r\n") == std::string::npos;
}

}  // namespace

ChatSession::ChatSession(Client& client, RequestFlags flags, Conversation conversation,
                         Environment& environment)
    : client_(client),
      flags_(std::move(flags)),
      conversation_(std::move(conversation)),
      environment_(environment),
      reader_(ReaderFor(environment)) {
  if (!flags_.max_tokens.has_value()) flags_.max_tokens = kDefaultMaxTokens;
}

int ChatSession::Run() {
  std::string line;
  bool interrupted = false;
  while (true) {
    const LineReader::Result result = reader_->Read(&line);
    if (result == LineReader::Result::kEnd) break;
    if (result == LineReader::Result::kInterrupted) {
      if (interrupted) return 128 + 2;  // as SIGINT would have it
      interrupted = true;
      environment_.err << "(Ctrl-C once more ends)" << std::endl;
      continue;
    }
    interrupted = false;
    Next next = Next::kGoOn;
    const absl::Status status = Take(line, &next);
    if (next == Next::kEnd) break;
    if (status.ok()) continue;
    const int exit = Fail(Advised(status), environment_);
    // At a terminal the next turn may do better; Ctrl-C ended only the answer.
    if (!environment_.in_is_terminal) return exit;
    environment_.interrupt.Clear();
  }
  return Succeed(environment_);
}

absl::Status ChatSession::Take(const std::string& line, Next* next) {
  if (IsBlank(line)) return absl::OkStatus();
  if (absl::StartsWith(line, "/")) return Command(line, next);
  if (const absl::Status status = CheckUtf8(line); !status.ok()) return status;
  return Answer(line);
}

absl::Status ChatSession::Command(const std::string& line, Next* next) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
  const std::string argument(absl::StripAsciiWhitespace(parts.second));
  const std::string& name = parts.first;
  if (name == "/exit") {
    *next = Next::kEnd;
  } else if (name == "/help") {
    environment_.err << CommandsText(environment_.columns) << std::flush;
  } else if (name == "/reset") {
    conversation_.Reset();
  } else if (name == "/retry") {
    return Retry();
  } else if (name == "/save") {
    return Save(argument);
  } else if (name == "/load") {
    return Load(argument);
  } else if (name == "/options") {
    return Options(argument);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown command ", name,
                     "; there are /reset, /retry, /save, /load, /options, /help and /exit"));
  }
  return absl::OkStatus();
}

absl::Status ChatSession::Answer(const std::string& line) {
  // Ctrl-C ends the answer alone, also before the call has begun.
  const Interrupt::Handler handler(environment_.interrupt, [] {});
  conversation_.AddLine(line);
  std::string answer;
  const absl::Status status = Stream(&answer);
  if (status.ok() || environment_.interrupt.requested()) {
    conversation_.AddAnswer(answer);
  } else {
    conversation_.TakeLineBack();
  }
  return status;
}

absl::Status ChatSession::Stream(std::string* answer) {
  v1::GenerateRequest request = WithoutPrompt(flags_);
  conversation_.FillPrompt(&request);
  bool context_is_full = false;
  const absl::Status status = client_.Generate(
      request, flags_.timeout.value_or(absl::InfiniteDuration()),
      [&](const v1::GenerateResponse& event) {
        const std::string& text = event.chunk().text();
        *answer += text;
        environment_.out << (environment_.out_is_terminal ? Printable(text) : text) << std::flush;
        for (const v1::FinishedSequence& sequence : event.finished().sequences()) {
          context_is_full = sequence.length_limit() == v1::LENGTH_LIMIT_CONTEXT ||
                            sequence.length_limit() == v1::LENGTH_LIMIT_KV_CACHE;
        }
      });
  const bool interrupted = environment_.in_is_terminal && environment_.interrupt.requested();
  if (!answer->empty() || status.ok() || interrupted) environment_.out << std::endl;
  if (context_is_full) environment_.err << "(the context is full: /reset begins anew)" << std::endl;
  return status;
}

absl::Status ChatSession::Retry() {
  if (!conversation_.TakeAnswerBack()) {
    return absl::FailedPreconditionError("there is no answer to take back");
  }
  std::string answer;
  const absl::Status status = Stream(&answer);
  conversation_.AddAnswer(answer);
  return status;
}

absl::Status ChatSession::Save(const std::string& path) const {
  if (path.empty()) return absl::InvalidArgumentError("/save needs the name of a file");
  std::ofstream file(path, std::ios::binary);
  file << conversation_.ToJson();
  file.close();
  return file ? absl::OkStatus() : absl::ErrnoToStatus(errno == 0 ? EIO : errno, path);
}

absl::Status ChatSession::Load(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("/load needs the name of a file");
  if (path == "-") return absl::InvalidArgumentError("/load reads files alone");
  const absl::StatusOr<std::string> text = ReadInput(path, environment_);
  if (!text.ok()) return text.status();
  const absl::Status status = conversation_.FromJson(*text);
  return status.ok() ? status
                     : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::Status ChatSession::Options(const std::string& changes) {
  RequestFlags changed = flags_;
  FlagSet flags("/options", "", "");
  AddSamplingFlags(flags, &changed);
  std::vector<std::string> arguments;
  for (absl::string_view change : absl::StrSplit(changes, ' ', absl::SkipEmpty())) {
    arguments.push_back(absl::StrCat(absl::StartsWith(change, "--") ? "" : "--", change));
  }
  if (absl::Status status = flags.Parse(arguments); !status.ok()) return status;
  flags_ = std::move(changed);
  environment_.err << OptionsText(WithoutPrompt(flags_)) << std::endl;
  return absl::OkStatus();
}

absl::Status ChatSession::Advised(const absl::Status& status) const {
  const bool is_full = absl::IsInvalidArgument(status) && !conversation_.empty() &&
                       absl::StrContains(status.message(), "context of");
  if (!is_full) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; /reset forgets what was said so far"));
}

}  // namespace sluice
