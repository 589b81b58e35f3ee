#include "clients/cli/conversation.h"

#include "absl/strings/ascii.h"

namespace sluice {
namespace {

void AddTurn(const std::string& role, const std::string& content, v1::Chat* turns) {
  v1::ChatMessage* message = turns->add_messages();
  message->set_role(role);
  message->set_content(content);
}

}  // namespace

void Conversation::AddLine(const std::string& line) {
  if (has_chat_template_) return AddTurn("user", line, &turns_);
  before_line_ = text_.size();
  const bool parted = text_.empty() || line.empty() || absl::ascii_isspace(text_.back()) ||
                      absl::ascii_isspace(line.front());
  if (!parted) text_ += ' ';
  text_ += line;
}

void Conversation::AddAnswer(const std::string& answer) {
  if (has_chat_template_) return AddTurn("assistant", answer, &turns_);
  text_ += answer;
}

void Conversation::TakeLineBack() {
  if (has_chat_template_) {
    turns_.mutable_messages()->RemoveLast();
  } else {
    text_.resize(before_line_);
  }
}

void Conversation::Reset() {
  turns_.Clear();
  text_.clear();
}

void Conversation::FillPrompt(v1::GenerateRequest* request) const {
  if (has_chat_template_) {
    *request->mutable_chat() = turns_;
  } else {
    request->set_text(text_);
  }
}

}  // namespace sluice
