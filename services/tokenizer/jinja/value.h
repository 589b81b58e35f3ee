// The values of a template, as Python has them. A Value is small and cheap to copy; what it refers
// to is shared and, but for namespaces, iterators and other natives, never changes. Not thread-safe
// where it changes; constants of a compiled template are shared by all threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/tokenizer/jinja/text.h"

namespace sluice::jinja {

// Python's integers have no bounds; these have wide ones, and leaving them is an error.
using Int = __int128;

class Run;

// Counts the bytes that values take.
struct Meter {
  size_t bytes = 0;
};

// What a value refers to.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() {
    if (meter_ != nullptr) meter_->bytes -= bytes_;
  }

  // Counts `bytes` in `meter`, which must live longer, until this is destroyed. Called once.
  void ChargeTo(Meter* meter, size_t bytes) {
    meter_ = meter;
    bytes_ = bytes;
    meter->bytes += bytes;
  }

  // How many containers are inside one another: bounded, so that recursion over values is.
  int depth() const { return depth_; }
  void set_depth(int depth) { depth_ = depth; }

 private:
  Meter* meter_ = nullptr;
  size_t bytes_ = 0;
  int depth_ = 0;
};

struct StringObject;
struct SequenceObject;
class DictObject;
struct RangeObject;
class Iterator;
class Native;
struct UndefinedObject;

class Value {
 public:
  enum class Kind : uint8_t {
    kMissing,  // no value at all: an argument that was not given
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kList,
    kTuple,
    kDict,
    kRange,
    kIterator,
    kNative,
  };

  Value() = default;
  static Value None() { return Value(Kind::kNone); }
  static Value Bool(bool value);
  // Numbers, too, know whether they came with the context.
  static Value Integer(Int value, bool is_untrusted = false);
  static Value Float(double value, bool is_untrusted = false);
  // A float that is written as the string `spelling`, rather than as Python would.
  static Value SpelledFloat(double value, const Value& spelling, bool is_untrusted);
  // Without a meter: for constants.
  static Value Constant(std::string text);
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}

  Kind kind() const { return kind_; }
  bool Is(Kind kind) const { return kind_ == kind; }
  bool IsMissing() const { return kind_ == Kind::kMissing; }
  bool IsUndefined() const { return kind_ == Kind::kUndefined; }
  bool IsNone() const { return kind_ == Kind::kNone; }
  bool IsString() const { return kind_ == Kind::kString; }
  bool IsSequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool IsDict() const { return kind_ == Kind::kDict; }
  // As Python has it, bools are integers.
  bool IsInt() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool IsNumber() const { return IsInt() || kind_ == Kind::kFloat; }
  bool IsUntrustedNumber() const { return is_untrusted_; }

  // REQUIRES: the kind of each.
  bool bool_value() const { return int_ != 0; }
  Int int_value() const { return int_; }
  double float_value() const { return float_; }
  // Of a float; nullptr where it is written as Python would.
  const std::string* spelling() const;
  const Text& text() const;
  const std::string& bytes() const { return text().bytes(); }
  const StringObject& string() const;
  const std::vector<Value>& items() const;
  const DictObject& dict() const;
  const RangeObject& range() const;
  const UndefinedObject& undefined() const;
  Iterator& iterator() const;
  Native& native() const;

  double AsDouble() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_); }

  const std::shared_ptr<Object>& object() const { return object_; }
  int depth() const { return object_ == nullptr ? 0 : object_->depth(); }

 private:
  explicit Value(Kind kind) : kind_(kind) {}

  Kind kind_ = Kind::kMissing;
  bool is_untrusted_ = false;
  union {
    Int int_ = 0;
    double float_;
  };
  std::shared_ptr<Object> object_;
};

struct StringObject : Object {
  Text text;
  bool is_markup = false;  // what `escape` and `safe` give: need not be escaped again
  bool is_ascii = false;   // characters are bytes
};

struct SequenceObject : Object {
  std::vector<Value> items;
  bool is_group = false;  // a tuple of the filter groupby: its items are named
};

struct RangeObject : Object {
  Int begin = 0;
  Int end = 0;
  Int step = 1;
  Int size = 0;
};

struct UndefinedObject : Object {
  std::string message;
  bool is_unsafe = false;  // something that the sandbox keeps back
};

// Keys in the order of their first coming.
class DictObject : public Object {
 public:
  using Entry = std::pair<Value, Value>;

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  // nullptr where there is none.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;

  // False where `key` cannot be one. Only while the dict is being made, or of a namespace.
  bool Set(const Value& key, Value value);
  void Clear();

 private:
  const Value* FindIdentity(const std::string& identity) const;
  static constexpr size_t kLinearSize = 8;

  std::vector<Entry> entries_;
  absl::flat_hash_map<std::string, size_t> index_;  // by identity, once there are several
};

// Equal for what Python holds for the same key; nullopt for what cannot be a key.
std::optional<std::string> KeyIdentity(const Value& key);

// What is iterated once.
class Iterator : public Object {
 public:
  // nullopt at the end, and after an error of the run.
  virtual std::optional<Value> Next(Run& run) = 0;
  // How many follow, where that is known without looking.
  virtual std::optional<Int> Remaining() const { return std::nullopt; }
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  // nullptr where not given.
  const Value* Keyword(std::string_view name) const;
};

// Values that templates can call or ask for attributes.
class Native : public Object {
 public:
  virtual std::string TypeName() const = 0;
  virtual bool IsCallable() const { return false; }
  virtual Value Call(Run& run, const Arguments& arguments);
  virtual std::optional<Value> Attribute(Run& run, std::string_view name) { return std::nullopt; }
  virtual std::optional<Int> Length(Run& run) { return std::nullopt; }
  // A list of what it iterates over; nullptr for what is not iterable.
  virtual const Value* Items() const { return nullptr; }
  virtual Text Repr(Run& run);
  // Lets go of all values: what refers to itself would never be freed otherwise.
  virtual void Clear() {}
};

// "str", "NoneType", ...
std::string TypeName(const Value& value);
std::string IntToString(Int value);

}  // namespace sluice::jinja
