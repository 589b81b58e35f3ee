#include "services/tokenizer/jinja/html.h"

#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {
namespace {

std::string_view Entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '\'':
      return "&#39;";
    case '"':
      return "&#34;";
    default:
      return {};
  }
}

}  // namespace

Text EscapeHtml(Run& run, const Text& text) {
  Text escaped;
  if (!run.CheckMemory(text.size() * 5) || !run.StepBytes(text.size())) return escaped;
  size_t done = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view entity = Entity(text.bytes()[at]);
    if (entity.empty()) continue;
    escaped.AppendPart(text, done, at);
    escaped.Append(entity, text.IsUntrustedAt(at));
    done = at + 1;
  }
  escaped.AppendPart(text, done, text.size());
  return escaped;
}

Text Escaped(Run& run, const Value& value) {
  if (value.IsString() && value.string().is_markup) return value.text();
  return EscapeHtml(run, Str(run, value));
}

}  // namespace sluice::jinja
