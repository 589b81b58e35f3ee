#include "clients/cli/conversation.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "clients/cli/json.h"

namespace sluice {
namespace {

constexpr char kSystem[] = "system";
constexpr char kUser[] = "user";
constexpr char kAssistant[] = "assistant";

void AddMessage(const std::string& role, const std::string& content, v1::Chat* chat) {
  v1::ChatMessage* message = chat->add_messages();
  message->set_role(role);
  message->set_content(content);
}

bool NeedsSpaceBetween(const std::string& before, const std::string& line) {
  return !before.empty() && !line.empty() && !absl::ascii_isspace(before.back()) &&
         !absl::ascii_isspace(line.front());
}

std::string StringAt(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

Conversation::Conversation(bool has_chat_template, std::string system)
    : has_chat_template_(has_chat_template), system_(std::move(system)) {}

void Conversation::AddLine(const std::string& line) { turns_.push_back({kUser, line}); }

void Conversation::AddAnswer(const std::string& answer) { turns_.push_back({kAssistant, answer}); }

void Conversation::TakeLineBack() { turns_.pop_back(); }

bool Conversation::TakeAnswerBack() {
  if (turns_.empty() || turns_.back().role != kAssistant) return false;
  turns_.pop_back();
  return true;
}

void Conversation::Reset() { turns_.clear(); }

std::string Conversation::Text() const {
  std::string text = system_;
  for (const Turn& turn : turns_) {
    if (turn.role == kUser && NeedsSpaceBetween(text, turn.content)) text += ' ';
    text += turn.content;
  }
  return text;
}

void Conversation::FillPrompt(v1::GenerateRequest* request) const {
  if (!has_chat_template_) return request->set_text(Text());
  v1::Chat* chat = request->mutable_chat();
  if (!system_.empty()) AddMessage(kSystem, system_, chat);
  for (const Turn& turn : turns_) AddMessage(turn.role, turn.content, chat);
}

std::string Conversation::ToJson() const {
  Json messages = Json::array();
  if (!system_.empty()) messages.push_back({{"role", kSystem}, {"content", system_}});
  for (const Turn& turn : turns_) {
    messages.push_back({{"role", turn.role}, {"content", turn.content}});
  }
  return Json({{"messages", messages}}).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::Status Conversation::FromJson(absl::string_view json) {
  const Json file = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  const bool has_messages = file.is_object() && file.contains("messages");
  const Json& messages = has_messages ? file["messages"] : file;
  if (!messages.is_array()) {
    return absl::InvalidArgumentError("holds no conversation: {\"messages\": [..]} was expected");
  }
  std::string system;
  std::vector<Turn> turns;
  for (const Json& message : messages) {
    const Turn turn = {StringAt(message, "role"), StringAt(message, "content")};
    const char* expected = turns.size() % 2 == 0 ? kUser : kAssistant;
    if (turn.role == kSystem && turns.empty() && system.empty()) {
      system = turn.content;
    } else if (turn.role == expected) {
      turns.push_back(turn);
    } else {
      return absl::InvalidArgumentError(absl::StrCat("message ", turns.size(), " has the role \"",
                                                     turn.role, "\"; accepted: ", expected));
    }
  }
  if (turns.size() % 2 != 0) {
    return absl::InvalidArgumentError("ends without an answer");
  }
  system_ = std::move(system);
  turns_ = std::move(turns);
  return absl::OkStatus();
}

}  // namespace sluice
