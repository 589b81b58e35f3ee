#include "services/tokenizer/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {
namespace {

std::optional<std::string> TupleIdentity(const std::vector<Value>& items) {
  std::string identity = "t";
  for (const Value& item : items) {
    const std::optional<std::string> part = KeyIdentity(item);
    if (!part.has_value()) return std::nullopt;
    absl::StrAppend(&identity, part->size(), ":", *part);
  }
  return identity;
}

std::string FloatIdentity(double value) {
  if (std::floor(value) == value && std::fabs(value) < 1e30) {
    return "n" + IntToString(static_cast<Int>(value));
  }
  return absl::StrCat("f", absl::Hex(std::bit_cast<uint64_t>(value)));
}

}  // namespace

Value Value::Bool(bool value) {
  Value made(Kind::kBool);
  made.int_ = value ? 1 : 0;
  return made;
}

Value Value::Integer(Int value, bool is_untrusted) {
  Value made(Kind::kInt);
  made.int_ = value;
  made.is_untrusted_ = is_untrusted;
  return made;
}

Value Value::Float(double value, bool is_untrusted) {
  Value made(Kind::kFloat);
  made.float_ = value;
  made.is_untrusted_ = is_untrusted;
  return made;
}

Value Value::SpelledFloat(double value, const Value& spelling, bool is_untrusted) {
  Value made = Float(value, is_untrusted);
  made.object_ = spelling.object_;
  return made;
}

Value Value::Constant(std::string text) {
  auto object = std::make_shared<StringObject>();
  object->text = Text(std::move(text));
  object->is_ascii = std::all_of(object->text.bytes().begin(), object->text.bytes().end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  return Value(Kind::kString, std::move(object));
}

const std::string* Value::spelling() const {
  return kind_ == Kind::kFloat && object_ != nullptr ? &string().text.bytes() : nullptr;
}
const Text& Value::text() const { return string().text; }
const StringObject& Value::string() const { return static_cast<const StringObject&>(*object_); }
const std::vector<Value>& Value::items() const {
  return static_cast<const SequenceObject&>(*object_).items;
}
const DictObject& Value::dict() const { return static_cast<const DictObject&>(*object_); }
const RangeObject& Value::range() const { return static_cast<const RangeObject&>(*object_); }
const UndefinedObject& Value::undefined() const {
  return static_cast<const UndefinedObject&>(*object_);
}
Iterator& Value::iterator() const { return static_cast<Iterator&>(*object_); }
Native& Value::native() const { return static_cast<Native&>(*object_); }

std::optional<std::string> KeyIdentity(const Value& key) {
  switch (key.kind()) {
    case Value::Kind::kString:
      return "s" + key.bytes();
    case Value::Kind::kBool:
    case Value::Kind::kInt:
      return "n" + IntToString(key.int_value());
    case Value::Kind::kFloat:
      return FloatIdentity(key.float_value());
    case Value::Kind::kNone:
      return "0";
    case Value::Kind::kUndefined:
      return "u";
    case Value::Kind::kTuple:
      return TupleIdentity(key.items());
    case Value::Kind::kList:
    case Value::Kind::kDict:
    case Value::Kind::kMissing:
      return std::nullopt;
    default:
      return absl::StrCat("o", absl::Hex(reinterpret_cast<uintptr_t>(key.object().get())));
  }
}

const Value* DictObject::FindIdentity(const std::string& identity) const {
  if (!index_.empty()) {
    const auto found = index_.find(identity);
    return found == index_.end() ? nullptr : &entries_[found->second].second;
  }
  for (const Entry& entry : entries_) {
    if (KeyIdentity(entry.first) == identity) return &entry.second;
  }
  return nullptr;
}

const Value* DictObject::Find(const Value& key) const {
  if (key.IsString()) return Find(std::string_view(key.bytes()));
  const std::optional<std::string> identity = KeyIdentity(key);
  return identity.has_value() ? FindIdentity(*identity) : nullptr;
}

const Value* DictObject::Find(std::string_view key) const {
  if (!index_.empty()) return FindIdentity("s" + std::string(key));
  for (const Entry& entry : entries_) {
    if (entry.first.IsString() && entry.first.bytes() == key) return &entry.second;
  }
  return nullptr;
}

bool DictObject::Set(const Value& key, Value value) {
  const std::optional<std::string> identity = KeyIdentity(key);
  if (!identity.has_value()) return false;
  if (const Value* found = FindIdentity(*identity); found != nullptr) {
    *const_cast<Value*>(found) = std::move(value);
    return true;
  }
  entries_.emplace_back(key, std::move(value));
  if (!index_.empty()) {
    index_.emplace(*identity, entries_.size() - 1);
  } else if (entries_.size() > kLinearSize) {
    for (size_t i = 0; i < entries_.size(); ++i) index_.emplace(*KeyIdentity(entries_[i].first), i);
  }
  return true;
}

void DictObject::Clear() {
  entries_.clear();
  index_.clear();
}

const Value* Arguments::Keyword(std::string_view name) const {
  for (const auto& [keyword, value] : keywords) {
    if (keyword == name) return &value;
  }
  return nullptr;
}

Value Native::Call(Run& run, const Arguments&) {
  return run.TypeError(absl::StrCat("'", TypeName(), "' object is not callable"));
}

Text Native::Repr(Run&) { return Text(absl::StrCat("<", TypeName(), ">")); }

std::string TypeName(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kMissing:
    case Value::Kind::kUndefined:
      return "Undefined";
    case Value::Kind::kNone:
      return "NoneType";
    case Value::Kind::kBool:
      return "bool";
    case Value::Kind::kInt:
      return "int";
    case Value::Kind::kFloat:
      return "float";
    case Value::Kind::kString:
      return value.string().is_markup ? "Markup" : "str";
    case Value::Kind::kList:
      return "list";
    case Value::Kind::kTuple:
      return "tuple";
    case Value::Kind::kDict:
      return "dict";
    case Value::Kind::kRange:
      return "range";
    case Value::Kind::kIterator:
      return "generator";
    case Value::Kind::kNative:
      return value.native().TypeName();
  }
  return "";
}

std::string IntToString(Int value) {
  if (value == 0) return "0";
  const bool is_negative = value < 0;
  auto rest = static_cast<unsigned __int128>(value);
  if (is_negative) rest = -rest;
  std::string digits;
  for (; rest > 0; rest /= 10)
    digits.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
  if (is_negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace sluice::jinja
