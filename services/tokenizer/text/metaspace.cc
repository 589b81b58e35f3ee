#include "services/tokenizer/text/metaspace.h"

#include <optional>

#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

using Prepend = MetaspaceOptions::Prepend;

std::optional<Prepend> PrependFromName(std::string_view name) {
  if (name == "always") return Prepend::kAlways;
  if (name == "never") return Prepend::kNever;
  if (name == "first") return Prepend::kFirst;
  return std::nullopt;
}

}  // namespace

absl::StatusOr<MetaspaceOptions> MetaspaceFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  MetaspaceOptions options;
  options.replacement = fields.String("replacement").value_or("");
  if (options.replacement.empty() ||
      ReadUtf8(options.replacement, 0).length != options.replacement.size()) {
    fields.Reject("replacement", "a character");
  }
  const auto prepend = PrependFromName(fields.String("prepend_scheme").value_or("always"));
  if (!prepend.has_value()) fields.Reject("prepend_scheme", "always, never or first");
  options.prepend = prepend.value_or(Prepend::kAlways);
  // What files from before prepend_scheme say.
  if (!fields.Bool("add_prefix_space").value_or(true)) {
    if (fields.Has("prepend_scheme") && options.prepend != Prepend::kNever) {
      fields.Reject("add_prefix_space", "true, or \"prepend_scheme\": \"never\" beside it");
    }
    options.prepend = Prepend::kNever;
  }
  options.split = fields.Bool("split").value_or(true);
  if (!fields.status().ok()) return fields.status();
  return options;
}

}  // namespace sluice
