// Writes a JSON object member by member. Values may be JSON texts that are taken over as they are,
// so that their order and the spelling of their numbers are kept. Compact.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice::gateway {

class ObjectWriter {
 public:
  ObjectWriter& Add(absl::string_view name, const nlohmann::json& value);
  // REQUIRES: `json` is a JSON text.
  ObjectWriter& AddText(absl::string_view name, absl::string_view json);

  bool empty() const { return members_.empty(); }
  // The object, "{}" without members.
  std::string Text() const;

 private:
  std::string members_;
};

}  // namespace sluice::gateway
