#include "clients/cli/json.h"

#include <charconv>
#include <cmath>

namespace sluice {

Json JsonOf(float value) {
  if (!std::isfinite(value)) return nullptr;
  // As a double, 0.1f would print as 0.10000000149011612.
  char digits[64];
  const char* end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  double shortest = 0;
  std::from_chars(digits, end, shortest);
  return shortest;
}

Json JsonOf(const google::protobuf::RepeatedPtrField<v1::TokenLogprob>& top) {
  Json list = Json::array();
  for (const v1::TokenLogprob& token : top) {
    list.push_back({{"token_id", token.token_id()}, {"logprob", JsonOf(token.logprob())}});
  }
  return list;
}

std::string DumpLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sluice
