// What has been said in `sluice chat`, and the prompt it makes for the next answer. With a chat
// template, turns of user and assistant; without one, a single text that user and model take turns
// to extend. Not thread-safe.
#pragma once

#include <string>

#include "sluice/v1/generation.pb.h"

namespace sluice {

class Conversation {
 public:
  explicit Conversation(bool has_chat_template) : has_chat_template_(has_chat_template) {}

  // Adds a line of the user's. Without a template, a space parts it from the text before it unless
  // one of the two has white space there.
  void AddLine(const std::string& line);
  // Adds what the model wrote after the last line.
  void AddAnswer(const std::string& answer);
  // Takes the last line back: it got no answer.
  void TakeLineBack();
  void Reset();

  // Sets the request's prompt. REQUIRES: a line was added since the last answer.
  void FillPrompt(v1::GenerateRequest* request) const;

 private:
  const bool has_chat_template_;
  v1::Chat turns_;          // with a template
  std::string text_;        // without one
  size_t before_line_ = 0;  // bytes of text_ before the last line
};

}  // namespace sluice
