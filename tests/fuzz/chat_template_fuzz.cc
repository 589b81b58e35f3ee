// Fuzzes chat templates: any template with any context ends in a status or a text, within the
// limits. The input is a template, a zero byte, and a context as JSON (the template's own context
// where there is none).
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kernels/check.h"
#include "services/tokenizer/jinja/template.h"

namespace {

using Json = nlohmann::ordered_json;

const Json& DefaultContext() {
  static const Json& context = *new Json(Json::parse(R"({
    "messages": [{"role": "user", "content": "héllo <s>"}, {"role": "assistant", "content": [1, 2.5]}],
    "tools": [{"name": "f", "parameters": {"x": null, "y": true}}], "add_generation_prompt": true,
    "s": "a b\tc\n", "l": [3, 1, 2], "d": {"b": 1, "a": [2]}, "i": 7, "f": -0.5, "n": null})"));
  return context;
}

Json ReadContext(std::string_view text) {
  if (text.size() > 4096) return DefaultContext();
  Json context = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return context.is_object() ? context : DefaultContext();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t split = input.find('\0');
  const sluice::jinja::Limits limits{.max_steps = 100'000,
                                     .max_output_bytes = 1 << 20,
                                     .max_value_bytes = 16 << 20,
                                     .max_stack_bytes = 256 << 10};
  const auto made = sluice::jinja::Template::Compile(input.substr(0, split), "fuzz", limits);
  if (!made.ok()) return 0;
  const Json variables =
      split == input.npos ? DefaultContext() : ReadContext(input.substr(split + 1));
  sluice::jinja::Context context;
  context.untrusted = &variables;
  context.trusted = {{"bos_token", "<s>"}};
  const auto rendering = (*made)->Render(context);
  if (!rendering.ok()) {
    SLUICE_CHECK(sluice::jinja::ErrorOf(rendering.status()).has_value());
    return 0;
  }
  SLUICE_CHECK(rendering->text.size() <= limits.max_output_bytes);
  size_t end = 0;
  for (const sluice::jinja::TextRange& range : rendering->untrusted) {
    SLUICE_CHECK((range.begin > end || end == 0) && range.begin < range.end);
    end = range.end;
  }
  SLUICE_CHECK(end <= rendering->text.size());
  return 0;
}
