#include "services/routing/request_keys.h"

#include <string>

namespace sluice {

PromptKeys KeysOf(const v1::GenerateRequest& request) {
  const std::string& adapter = request.adapter();
  if (request.has_token_ids()) {
    PromptKeyBuilder keys("ids", adapter);
    keys.Add(absl::MakeConstSpan(request.token_ids().token_ids().data(),
                                 static_cast<size_t>(request.token_ids().token_ids_size())));
    return keys.Finish();
  }
  if (!request.has_chat()) {
    PromptKeyBuilder keys("text", adapter);
    keys.Add(request.text());
    return keys.Finish();
  }
  // What a template may write first comes first. How the prompt ends is not a part of its beginning.
  PromptKeyBuilder keys("chat", adapter);
  const v1::Chat& chat = request.chat();
  for (const std::string* text :
       {&chat.template_name(), &chat.variables_json(), &chat.tools_json()}) {
    keys.Add(*text);
    keys.EndPiece();
  }
  for (const v1::ChatMessage& message : chat.messages()) {
    for (const std::string* text : {&message.role(), &message.content(), &message.extra_json()}) {
      keys.Add(*text);
      keys.EndPiece();
    }
  }
  return keys.Finish();
}

}  // namespace sluice
