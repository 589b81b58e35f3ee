#include "tests/gpu/emulator/ptx/parser.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/gpu/emulator/ptx/tokens.h"

namespace sluice::cuda::emulator {
namespace {

bool IsNumber(absl::string_view word) {
  return !word.empty() && (word[0] == '-' || (word[0] >= '0' && word[0] <= '9'));
}

// 12, -3, 0x1F, 0f3F800000, 0d3FF0000000000000.
uint64_t BitsOfNumber(absl::string_view word) {
  const std::string text(word);
  if (absl::StartsWith(text, "0f") || absl::StartsWith(text, "0F") ||
      absl::StartsWith(text, "0d") || absl::StartsWith(text, "0D")) {
    return std::strtoull(text.c_str() + 2, nullptr, 16);
  }
  if (text[0] == '-') return static_cast<uint64_t>(std::strtoll(text.c_str(), nullptr, 0));
  return std::strtoull(text.c_str(), nullptr, 0);
}

size_t BytesOfType(absl::string_view type) {
  const size_t digits = type.find_first_of("0123456789");
  if (digits == absl::string_view::npos) return 1;
  return std::max(1, std::atoi(std::string(type.substr(digits)).c_str()) / 8);
}

// Reads one text. A failure is kept, and nothing is read after it.
class Parser {
 public:
  explicit Parser(absl::string_view text) : tokens_(TokensOf(text)) {}

  absl::StatusOr<Module> Parse() {
    while (!AtEnd() && status_.ok()) TopLevel();
    if (!status_.ok()) return status_;
    return std::move(module_);
  }

 private:
  struct Scope {
    std::map<std::string, Register, std::less<>> names;
    std::map<std::string, Register, std::less<>> families;  // %r<10>: the first of ten
  };

  bool AtEnd() const { return at_ >= tokens_.size(); }
  absl::string_view Peek(size_t ahead = 0) const {
    return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead].text : absl::string_view();
  }
  int line() const { return AtEnd() ? 0 : tokens_[at_].line; }
  absl::string_view Take() {
    if (AtEnd()) {
      Fail("the text ends too early");
      return "";
    }
    return tokens_[at_++].text;
  }
  bool TakeIf(absl::string_view word) {
    if (Peek() != word) return false;
    ++at_;
    return true;
  }
  void Expect(absl::string_view word) {
    if (!TakeIf(word)) Fail(absl::StrCat("expected ", word, " and not ", Peek()));
  }
  void SkipTo(absl::string_view word) {
    while (!AtEnd() && Take() != word) {
    }
  }
  void Fail(absl::string_view why) {
    status_.Update(absl::InvalidArgumentError(absl::StrCat("PTX, line ", line(), ": ", why)));
    at_ = tokens_.size();
  }

  void TopLevel();
  void ReadFunction(bool is_kernel);
  // `(.param .b64 a, ...)`: the space that parameters of a kernel take is counted, those of functions
  // are registers.
  std::vector<Register> ReadParameters(bool is_kernel);
  void ReadBody();
  void ReadDeclaration();
  void ReadInstruction();
  void ReadOperands(Instruction& instruction);
  void ReadCall(Instruction& instruction);
  void ReadOperand(Instruction& instruction);
  void ReadAddress(Instruction& instruction);
  void Append(Instruction& instruction, Register operand, int64_t offset = 0);

  Register NewRegister() { return function_.num_registers++; }
  Register Constant(uint64_t bits);
  // A register, variable or special register by its name.
  Register Named(absl::string_view name);
  std::optional<Register> FamilyMember(const Scope& scope, absl::string_view name) const;

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  absl::Status status_;
  Module module_;
  std::map<std::string, uint64_t, std::less<>> variables_;  // of the module: their addresses
  Function function_;
  std::vector<Scope> scopes_;
  std::map<uint64_t, Register> constants_;
  std::map<std::string, int, std::less<>> labels_;
  std::vector<std::pair<size_t, std::string>> branches_;  // by instruction, the label gone to
  // Registers that stand for variables of the space .param, within functions.
  std::vector<Register> parameter_variables_;
};

void Parser::TopLevel() {
  const absl::string_view word = Take();
  if (word == ".version" || word == ".target" || word == ".address_size") {
    Take();
    while (TakeIf(",")) Take();
  } else if (word == ".visible" || word == ".weak") {
    // Of no consequence here.
  } else if (word == ".entry" || word == ".func") {
    ReadFunction(word == ".entry");
  } else if (word == ".extern" && Peek() == ".shared") {
    absl::string_view name;
    while (!AtEnd() && Peek() != "[" && Peek() != ";") name = Take();
    variables_[std::string(name)] = kSharedBase;
    SkipTo(";");
  } else {
    Fail(absl::StrCat("nothing is known of ", word));
  }
}

void Parser::ReadFunction(bool is_kernel) {
  function_ = Function();
  scopes_.assign(1, Scope());
  constants_.clear();
  labels_.clear();
  branches_.clear();
  parameter_variables_.clear();
  if (!is_kernel && Peek() == "(") function_.results = ReadParameters(false);
  function_.name = std::string(Take());
  if (Peek() == "(") function_.parameters = ReadParameters(is_kernel);
  while (!AtEnd() && Peek() != "{" && Peek() != ";") {
    if (Take() == ".maxntid") function_.max_threads = static_cast<int>(BitsOfNumber(Peek()));
  }
  if (TakeIf(";")) return;  // announced, and written down elsewhere
  ReadBody();
  for (const auto& [instruction, label] : branches_) {
    const auto found = labels_.find(label);
    if (found == labels_.end()) return Fail(absl::StrCat("there is no label ", label));
    function_.instructions[instruction].target = found->second;
  }
  module_.functions[function_.name] = std::move(function_);
}

std::vector<Register> Parser::ReadParameters(bool is_kernel) {
  std::vector<Register> parameters;
  Expect("(");
  while (!AtEnd() && !TakeIf(")")) {
    size_t alignment = 0, bytes = 0;
    absl::string_view name;
    while (!AtEnd() && Peek() != "," && Peek() != ")") {
      const absl::string_view word = Take();
      if (word == ".align") {
        alignment = BitsOfNumber(Take());
      } else if (word == "[") {
        bytes *= BitsOfNumber(Take());
        Expect("]");
      } else if (word[0] == '.') {
        if (word != ".param" && word != ".reg") bytes = BytesOfType(word);
      } else {
        name = word;
      }
    }
    TakeIf(",");
    if (is_kernel) {
      alignment = std::max(alignment, std::min<size_t>(bytes, 8));
      const size_t begin = (function_.parameter_bytes + alignment - 1) / alignment * alignment;
      scopes_.back().names[std::string(name)] = Constant(kParameterBase + begin);
      function_.parameter_bytes = begin + bytes;
    } else {
      parameters.push_back(scopes_.back().names[std::string(name)] = NewRegister());
      parameter_variables_.push_back(parameters.back());
    }
  }
  return parameters;
}

void Parser::ReadBody() {
  Expect("{");
  int depth = 1;
  while (!AtEnd() && depth > 0) {
    if (TakeIf("{")) {
      ++depth;
      scopes_.emplace_back();
    } else if (TakeIf("}")) {
      --depth;
      if (depth > 0) scopes_.pop_back();
    } else if (Peek() == ".reg" || Peek() == ".param") {
      ReadDeclaration();
    } else if (Peek() == ".pragma") {
      SkipTo(";");
    } else if (Peek(1) == ":") {
      labels_[std::string(Take())] = static_cast<int>(function_.instructions.size());
      Take();
    } else if (!TakeIf(";")) {
      ReadInstruction();
    }
  }
}

void Parser::ReadDeclaration() {
  const bool is_parameter = Take() == ".param";
  while (!AtEnd() && Peek()[0] == '.') Take();
  do {
    const std::string name(Take());
    if (TakeIf("<")) {
      const auto count = static_cast<Register>(BitsOfNumber(Take()));
      Expect(">");
      scopes_.back().families[name] = function_.num_registers;
      function_.num_registers += count;
      continue;
    }
    const Register variable = scopes_.back().names[name] = NewRegister();
    if (is_parameter) parameter_variables_.push_back(variable);
  } while (TakeIf(","));
  Expect(";");
}

void Parser::ReadInstruction() {
  Instruction instruction;
  instruction.line = line();
  const size_t begin = at_;
  if (TakeIf("@")) {
    instruction.has_guard = true;
    instruction.guard_wanted = !TakeIf("!");
    instruction.guard = Named(Take());
  }
  instruction.parts = absl::StrSplit(Take(), '.');
  ReadOperands(instruction);
  for (size_t i = begin; i < at_ && i < tokens_.size(); ++i) {
    absl::StrAppend(&instruction.text, i > begin ? " " : "", tokens_[i].text);
  }
  Expect(";");
  // Variables of the space .param are registers in functions: to load or store one is to move it.
  const bool moves = instruction.Has("param") && instruction.registers.size() == 2 &&
                     std::find_first_of(instruction.registers.begin(), instruction.registers.end(),
                                        parameter_variables_.begin(),
                                        parameter_variables_.end()) != instruction.registers.end();
  if (moves) instruction.parts = {"mov", instruction.parts.back()};
  function_.instructions.push_back(std::move(instruction));
}

void Parser::ReadOperands(Instruction& instruction) {
  if (instruction.parts[0] == "call") return ReadCall(instruction);
  if (instruction.parts[0] == "bra") {
    branches_.emplace_back(function_.instructions.size(), std::string(Take()));
    return;
  }
  while (!AtEnd() && Peek() != ";") {
    ReadOperand(instruction);
    if (!TakeIf(",") && !TakeIf("|") && Peek() != ";") {
      return Fail(absl::StrCat("expected the end of an operand and not ", Peek()));
    }
  }
}

// call.uni (result), name, (arguments);
void Parser::ReadCall(Instruction& instruction) {
  for (int part = 0; !AtEnd() && Peek() != ";"; TakeIf(",")) {
    if (TakeIf("(")) {
      while (!AtEnd() && !TakeIf(")")) {
        Append(instruction, Named(Take()));
        if (part == 0) ++instruction.num_results;
        TakeIf(",");
      }
    } else {
      instruction.callee = std::string(Take());
      part = 1;
    }
  }
}

void Parser::ReadOperand(Instruction& instruction) {
  if (TakeIf("[")) return ReadAddress(instruction);
  if (!TakeIf("{")) {
    const bool is_negative = TakeIf("-");
    const absl::string_view word = Take();
    Append(instruction, IsNumber(word)
                            ? Constant(is_negative ? ~BitsOfNumber(word) + 1 : BitsOfNumber(word))
                            : Named(word));
    return;
  }
  const size_t before = instruction.registers.size();
  do {
    Append(instruction, Named(Take()));
  } while (TakeIf(","));
  Expect("}");
  const auto size = static_cast<int>(instruction.registers.size() - before);
  instruction.operand_sizes.resize(instruction.operand_sizes.size() + 1 - size);
  instruction.operand_sizes.back() = size;
}

void Parser::ReadAddress(Instruction& instruction) {
  const Register base = Named(Take());
  int64_t offset = 0;
  if (TakeIf("+")) {
    const bool is_negative = TakeIf("-");
    offset = static_cast<int64_t>(BitsOfNumber(Take()));
    if (is_negative) offset = -offset;
  }
  Expect("]");
  Append(instruction, base, offset);
}

void Parser::Append(Instruction& instruction, Register operand, int64_t offset) {
  instruction.registers.push_back(operand);
  instruction.offsets.push_back(offset);
  instruction.operand_sizes.push_back(1);
}

Register Parser::Constant(uint64_t bits) {
  const auto [found, is_new] = constants_.try_emplace(bits, kSink);
  if (is_new) {
    found->second = NewRegister();
    function_.constants.emplace_back(found->second, bits);
  }
  return found->second;
}

Register Parser::Named(absl::string_view name) {
  if (name == "_") return kSink;
  if (IsNumber(name)) return Constant(BitsOfNumber(name));
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->names.find(name); found != scope->names.end()) {
      return found->second;
    }
    if (const auto found = FamilyMember(*scope, name); found.has_value()) return *found;
  }
  if (const auto found = variables_.find(name); found != variables_.end()) {
    return Constant(found->second);
  }
  if (name.empty() || name[0] != '%') {
    Fail(absl::StrCat("there is no ", name));
    return kSink;
  }
  const auto [found, is_new] = function_.special.try_emplace(std::string(name), kSink);
  if (is_new) found->second = NewRegister();
  return found->second;
}

std::optional<Register> Parser::FamilyMember(const Scope& scope, absl::string_view name) const {
  const size_t digits = name.find_first_of("0123456789");
  if (digits == absl::string_view::npos) return std::nullopt;
  const auto family = scope.families.find(name.substr(0, digits));
  if (family == scope.families.end()) return std::nullopt;
  return family->second + static_cast<Register>(BitsOfNumber(name.substr(digits)));
}

}  // namespace

bool Instruction::Has(const char* part) const {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

absl::StatusOr<Module> ParsePtx(absl::string_view ptx) { return Parser(ptx).Parse(); }

}  // namespace sluice::cuda::emulator
