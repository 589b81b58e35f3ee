#include "services/gateway/json/object_writer.h"

#include "absl/strings/str_cat.h"
#include "services/gateway/json/json_text.h"

namespace sluice::gateway {

ObjectWriter& ObjectWriter::Add(absl::string_view name, const nlohmann::json& value) {
  return AddText(name, ToJson(value));
}

ObjectWriter& ObjectWriter::AddText(absl::string_view name, absl::string_view json) {
  absl::StrAppend(&members_, members_.empty() ? "" : ",", ToJson(std::string(name)), ":", json);
  return *this;
}

std::string ObjectWriter::Text() const { return absl::StrCat("{", members_, "}"); }

}  // namespace sluice::gateway
