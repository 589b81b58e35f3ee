// One conversation of `sluice chat`: reads user messages and commands, and keeps the history. Not
// thread-safe; client and environment are borrowed.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "clients/cli/client.h"
#include "clients/cli/conversation.h"
#include "clients/cli/environment.h"
#include "clients/cli/line_reader.h"
#include "clients/cli/request_flags.h"

namespace sluice {

class ChatSession {
 public:
  // Tokens that an answer may have where nothing was asked for.
  static constexpr int kDefaultMaxTokens = 128;

  ChatSession(Client& client, RequestFlags flags, Conversation conversation,
              Environment& environment);

  // Until the input ends or /exit; returns the exit status. In a pipe the first failure ends it.
  int Run();

 private:
  // What follows a turn.
  enum class Next { kGoOn, kEnd };

  // `*next` says whether the conversation goes on.
  absl::Status Take(const std::string& line, Next* next);
  absl::Status Command(const std::string& line, Next* next);
  // Streams the answer to `line`. What was written before a failure stays written but is not
  // remembered, except where the user cut it short.
  absl::Status Answer(const std::string& line);
  // Streams an answer to the conversation as it is.
  absl::Status Stream(std::string* answer);
  absl::Status Retry();
  absl::Status Save(const std::string& path) const;
  absl::Status Load(const std::string& path);
  absl::Status Options(const std::string& changes);
  // The same status, with what to do where the context is full.
  absl::Status Advised(const absl::Status& status) const;

  Client& client_;
  RequestFlags flags_;
  Conversation conversation_;
  Environment& environment_;
  const std::unique_ptr<LineReader> reader_;
};

}  // namespace sluice
