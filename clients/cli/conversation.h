// The history of `sluice chat`, and the prompt for the next answer. With a chat template, messages
// of user and assistant; without one, a single text that user and model extend alternately. Not
// thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

class Conversation {
 public:
  // `system` is what the model is told before the first turn, also after Reset(); empty: nothing.
  explicit Conversation(bool has_chat_template, std::string system = "");

  // Adds a turn of the user's. Without a template, a space parts it from the text before it unless
  // one of the two has white space there.
  void AddLine(const std::string& line);
  // Adds what the model wrote after the last line.
  void AddAnswer(const std::string& answer);
  // Takes the last line back: it got no answer.
  void TakeLineBack();
  // Takes the last answer back, so that another can be had. False where the model has not answered.
  bool TakeAnswerBack();
  void Reset();

  // Whether the conversation has any message.
  bool empty() const { return turns_.empty(); }

  // Sets the request's prompt. REQUIRES: a line was added since the last answer.
  void FillPrompt(v1::GenerateRequest* request) const;

  // {"messages": [{"role": .., "content": ..}, ..]}, as clients of chat APIs have it.
  std::string ToJson() const;
  // The reverse: takes the place of what was said. INVALID_ARGUMENT for anything but a
  // conversation that ends with an answer, or is empty.
  absl::Status FromJson(absl::string_view json);

 private:
  struct Turn {
    std::string role;
    std::string content;
  };

  std::string Text() const;

  const bool has_chat_template_;
  std::string system_;
  std::vector<Turn> turns_;  // of "user" and "assistant"
};

}  // namespace sluice
