// JSON in: contexts. JSON out: the filter tojson.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "services/tokenizer/jinja/run.h"
#include "services/tokenizer/jinja/template.h"

namespace sluice::jinja {

// Whether what comes of a JSON value is marked as coming with the context.
struct Trust {
  bool is_untrusted = false;
  // What is not: members of this name with one of these values. May be nullptr.
  const Context::TrustedMember* exception = nullptr;
};

// A binary value is a number (spelled_number.h).
Value ValueFromJson(Run& run, const nlohmann::ordered_json& json, const Trust& trust);

struct JsonLayout {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // one level's; nullopt for a single line
  Text item_separator = Text(", ");
  Text key_separator = Text(": ");
};

// As Python's json.dumps.
Text JsonDump(Run& run, const Value& value, const JsonLayout& layout);

}  // namespace sluice::jinja
