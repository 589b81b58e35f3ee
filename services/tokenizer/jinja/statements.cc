#include "services/tokenizer/jinja/statements.h"

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/compare.h"
#include "services/tokenizer/jinja/globals.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/macro.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {

void Write(Frame& frame, const Text& text) {
  Run& run = frame.run;
  if (!run.StepBytes(text.size())) return;
  const size_t size = frame.out->text.size() + text.size();
  if (size > run.limits().max_output_bytes) {
    run.Fail(Error::Kind::kLimit, absl::StrCat("the template writes too much: accepted are ",
                                               run.limits().max_output_bytes, " bytes"));
    return;
  }
  frame.out->text.Append(text);
}

Flow ExecuteBody(const Body& body, Frame& frame) {
  for (const auto& statement : body) {
    if (const Flow flow = statement->Execute(frame); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Text CaptureIn(const Body& body, Run& run, std::shared_ptr<Scope> scope) {
  Output output;
  Frame frame{run, std::move(scope), &output};
  ExecuteBody(body, frame);
  return std::move(output.text);
}

Text Capture(const Body& body, Frame& frame) {
  return CaptureIn(body, frame.run, std::make_shared<Scope>(frame.scope));
}

bool Target::CheckNamespaces(Frame& frame) const {
  if (is_tuple) {
    for (const Target& part : parts) {
      if (!part.CheckNamespaces(frame)) return false;
    }
    return true;
  }
  if (attribute.empty()) return true;
  const Value* found = frame.scope->Find(name);
  if (found == nullptr) found = frame.run.context().dict().Find(std::string_view(name));
  if (found != nullptr && FindNamespace(*found) != nullptr) return true;
  frame.run.set_place(place);
  frame.run.Fail(Error::Kind::kRuntime, "cannot assign attribute on non-namespace object");
  return false;
}

void Target::Assign(Frame& frame, const Value& value) const {
  Run& run = frame.run;
  if (run.failed()) return;
  if (!is_tuple && attribute.empty()) return frame.scope->Set(name, value);
  if (!is_tuple) {
    const Value* found = frame.scope->Find(name);
    Namespace* target = found == nullptr ? nullptr : FindNamespace(*found);
    if (target != nullptr) return target->Set(run, attribute, value);
    run.TypeError("cannot assign attribute on non-namespace object");
    return;
  }
  run.set_place(place);
  if (!IsIterable(value)) {
    run.TypeError(absl::StrCat("cannot unpack non-iterable ", TypeName(value), " object"));
    return;
  }
  const std::vector<Value> items = ToVector(run, value);
  if (items.size() < parts.size()) {
    run.ValueError(absl::StrCat("not enough values to unpack (expected ", parts.size(), ", got ",
                                items.size(), ")"));
  } else if (items.size() > parts.size()) {
    run.ValueError(absl::StrCat("too many values to unpack (expected ", parts.size(), ")"));
  }
  for (size_t i = 0; i < parts.size() && !run.failed(); ++i) parts[i].Assign(frame, items[i]);
}

Flow WriteText::DoExecute(Frame& frame) const {
  At(frame);
  Write(frame, text_);
  return Flow::kNext;
}

Flow WriteValue::DoExecute(Frame& frame) const {
  const Value value = value_->Evaluate(frame);
  Run& run = At(frame);
  if (run.failed()) return Flow::kBreak;
  if (value.IsString()) {
    Write(frame, value.text());
  } else {
    Write(frame, Str(run, value));
  }
  return Flow::kNext;
}

Flow If::DoExecute(Frame& frame) const {
  for (const Branch& branch : branches_) {
    if (branch.test == nullptr) return ExecuteBody(branch.body, frame);
    const Value value = branch.test->Evaluate(frame);
    if (frame.run.failed()) return Flow::kBreak;
    if (IsTrue(frame.run, value)) return ExecuteBody(branch.body, frame);
  }
  return Flow::kNext;
}

Flow Set::DoExecute(Frame& frame) const {
  if (!target_.CheckNamespaces(frame)) return Flow::kBreak;
  const Value value = value_->Evaluate(frame);
  At(frame);
  target_.Assign(frame, value);
  return Flow::kNext;
}

Flow SetBlock::DoExecute(Frame& frame) const {
  const Text written = Capture(body_, frame);
  Run& run = At(frame);
  const Value value =
      filter_ == nullptr ? run.String(written) : filter_->EvaluateOn(frame, written);
  if (!run.failed() && target_.CheckNamespaces(frame)) target_.Assign(frame, value);
  return Flow::kNext;
}

Flow FilterBlock::DoExecute(Frame& frame) const {
  const Text written = Capture(body_, frame);
  if (frame.run.failed()) return Flow::kBreak;
  const Value value = filter_->EvaluateOn(frame, written);
  Run& run = At(frame);
  if (!run.failed()) Write(frame, Str(run, value));
  return Flow::kNext;
}

Flow With::DoExecute(Frame& frame) const {
  Frame inner{frame.run, std::make_shared<Scope>(frame.scope), frame.out};
  for (const Variable& variable : variables_) {
    variable.target.Assign(inner, variable.value->Evaluate(frame));
  }
  return ExecuteBody(body_, inner);
}

Flow DefineMacro::DoExecute(Frame& frame) const {
  Value macro = MakeMacro(At(frame), code_, frame.scope);
  if (!frame.run.failed()) frame.scope->Set(code_.name, std::move(macro));
  return Flow::kNext;
}

Flow CallBlock::DoExecute(Frame& frame) const {
  Value caller = MakeMacro(At(frame), code_, frame.scope);
  if (frame.run.failed()) return Flow::kBreak;
  const Value value = call_->EvaluateWithCaller(frame, std::move(caller));
  Run& run = At(frame);
  if (!run.failed()) Write(frame, Str(run, value));
  return Flow::kNext;
}

Flow Generation::DoExecute(Frame& frame) const {
  const Text written = Capture(body_, frame);
  const size_t begin = frame.out->text.size();
  Write(frame, written);
  if (frame.out->is_whole && !frame.run.failed()) {
    frame.out->generations.push_back({begin, frame.out->text.size()});
  }
  return Flow::kNext;
}

Flow Load::DoExecute(Frame& frame) const {
  At(frame).TypeError("no loader for this environment specified");
  return Flow::kBreak;
}

}  // namespace sluice::jinja
