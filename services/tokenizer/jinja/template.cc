#include "services/tokenizer/jinja/template.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/ast.h"
#include "services/tokenizer/jinja/json.h"
#include "services/tokenizer/jinja/parser.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

Value MakeContext(Run& run, const Context& context) {
  std::vector<DictObject::Entry> entries;
  const auto add = [&](const nlohmann::ordered_json& json, const Trust& trust) {
    if (!json.is_object()) return;
    for (const auto& [name, value] : json.items()) {
      entries.emplace_back(run.String(name), ValueFromJson(run, value, trust));
      if (run.failed()) return;
    }
  };
  if (context.untrusted != nullptr) add(*context.untrusted, {true, &context.trusted_member});
  add(context.trusted, {});
  return run.failed() ? Value() : run.Dict(std::move(entries));
}

}  // namespace

struct Template::Code {
  Body body;
};

Template::Template(std::string name, const Limits& limits, std::unique_ptr<Code> code)
    : name_(std::move(name)), limits_(limits), code_(std::move(code)) {}

Template::~Template() = default;

absl::StatusOr<std::unique_ptr<const Template>> Template::Compile(std::string_view source,
                                                                  std::string_view name,
                                                                  const Limits& limits) {
  if (source.size() > limits.max_template_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(std::string(name), ": the template has ",
                                                     source.size(), " bytes; accepted: at most ",
                                                     limits.max_template_bytes));
  }
  Error error{Error::Kind::kSyntax, "the template is not UTF-8", {}};
  if (!IsUtf8(source)) return error.ToStatus(name);
  auto code = std::make_unique<Code>();
  if (!Parse(source, limits, &code->body, &error)) return error.ToStatus(name);
  return std::unique_ptr<const Template>(new Template(std::string(name), limits, std::move(code)));
}

absl::StatusOr<Rendering> Template::Render(const Context& context) const {
  Run run(limits_, context.now, context.checkpoint);
  Output output;
  output.is_whole = true;
  run.set_context(MakeContext(run, context));
  if (!run.failed()) {
    Frame frame{run, std::make_shared<Scope>(nullptr), &output};
    ExecuteBody(code_->body, frame);
  }
  if (run.failed()) return run.error().ToStatus(name_);
  return Rendering{output.text.bytes(), output.text.untrusted(), std::move(output.generations)};
}

}  // namespace sluice::jinja
