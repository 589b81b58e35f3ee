// The output of a response: items (a message, thoughts, calls of functions) that grow, one after the
// other, and the events that tell a stream's reader so. Belongs to the exchange's loop.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "services/gateway/tool_calls/tool_call.h"

namespace sluice::gateway::openai {

class ResponseItems {
 public:
  // Takes an event's type and its other members.
  using Send = std::function<void(const char* type, nlohmann::json fields)>;

  // `send` may be empty: nobody is told.
  explicit ResponseItems(Send send) : send_(std::move(send)) {}

  // Each goes on with the open item where it is of that kind, else ends it and begins another.
  void AddText(const std::string& text);
  void AddThought(const std::string& text);
  void AddCall(const ToolCallPiece& piece);

  // Ends the open item, with "completed" or "incomplete", and returns them all. At least one: an
  // empty text is a message.
  nlohmann::json Finish(const char* status);

 private:
  enum class Kind { kNone, kMessage, kThought, kCall };

  void Begin(Kind kind, nlohmann::json item);
  void End(const char* status);
  void EndText(nlohmann::json& item, const char* done);
  void EndCall(nlohmann::json& item);
  void Grow(const char* event, const std::string& text, nlohmann::json fields);
  // The open item's part with this text.
  nlohmann::json Part(const std::string& text) const;
  // Sends an event about the open item.
  void Tell(const char* type, nlohmann::json fields);

  const Send send_;
  nlohmann::json items_ = nlohmann::json::array();
  Kind open_ = Kind::kNone;  // what the last item is, while it grows
  std::string text_;         // of the open item: text, or arguments
};

}  // namespace sluice::gateway::openai
