#include "services/constraint/grammar/text_grammars.h"

#include "absl/status/status.h"
#include "services/constraint/json/message.h"
#include "services/constraint/regex/pattern.h"

namespace sluice {

absl::StatusOr<RuleId> AddRegex(std::string_view pattern, GrammarBuilder& builder) {
  const auto expr = CompilePattern(pattern, PatternMatch::kWhole, builder.space());
  if (!expr.ok()) return expr.status();
  const RuleId rule = builder.AddRule("text");
  const NodeId end = builder.AddNode();
  builder.Accept(end);
  builder.AddText(builder.StartOf(rule), *expr, Spelling::kPlain, end);
  return rule;
}

absl::StatusOr<RuleId> AddChoices(absl::Span<const std::string> choices, GrammarBuilder& builder) {
  if (choices.empty()) return absl::InvalidArgumentError("no choice is given");
  const RuleId rule = builder.AddRule("choice");
  const NodeId end = builder.AddNode();
  builder.Accept(end);
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].empty()) return absl::InvalidArgumentError(Message("choice ", i, " is empty"));
    builder.AddBytes(builder.StartOf(rule), choices[i], end);
  }
  return rule;
}

absl::StatusOr<std::unique_ptr<Grammar>> RegexGrammar(std::string_view pattern,
                                                      const GrammarLimits& limits,
                                                      const ExprLimits& expr_limits) {
  GrammarBuilder builder(limits, expr_limits);
  const auto rule = AddRegex(pattern, builder);
  if (!rule.ok()) return rule.status();
  return builder.Build(*rule);
}

absl::StatusOr<std::unique_ptr<Grammar>> ChoiceGrammar(absl::Span<const std::string> choices,
                                                       const GrammarLimits& limits) {
  GrammarBuilder builder(limits);
  const auto rule = AddChoices(choices, builder);
  if (!rule.ok()) return rule.status();
  return builder.Build(*rule);
}

}  // namespace sluice
