#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/arguments.h"
#include "services/tokenizer/jinja/compare.h"
#include "services/tokenizer/jinja/filters.h"
#include "services/tokenizer/jinja/item_path.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/python_text.h"
#include "services/tokenizer/jinja/tests.h"

namespace sluice::jinja {
namespace {

Value Nothing(Run& run) {
  return MakeGenerator(run, 0, [](Run&) -> std::optional<Value> { return std::nullopt; });
}

Value MapAttribute(Run& run, const Value& value, const Arguments& arguments) {
  Value otherwise;
  for (const auto& [name, argument] : arguments.keywords) {
    if (name == "default") otherwise = argument;
    if (name != "attribute" && name != "default") {
      return run.Fail(Error::Kind::kRuntime,
                      absl::StrCat("Unexpected keyword argument ", ReprString(name)));
    }
  }
  const std::shared_ptr<Iterator> items = Iterate(run, value);
  if (items == nullptr) return Value();
  return MakeGenerator(run, value.depth(),
                       [items, path = ItemPath(run, *arguments.Keyword("attribute")),
                        otherwise](Run& run) -> std::optional<Value> {
                         const std::optional<Value> item = items->Next(run);
                         if (!item.has_value()) return std::nullopt;
                         return path.Follow(run, *item, otherwise);
                       });
}

// The arguments from number `begin` on.
Arguments Rest(const Arguments& arguments, size_t begin) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + begin, arguments.positional.end());
  rest.keywords = arguments.keywords;
  return rest;
}

int DepthWith(const Value& value, const Arguments& arguments) {
  int depth = value.depth();
  for (const Value& argument : arguments.positional) depth = std::max(depth, argument.depth());
  for (const auto& keyword : arguments.keywords) depth = std::max(depth, keyword.second.depth());
  return depth;
}

Value Map(Run& run, const Value& value, const Arguments& arguments) {
  if (!IsTrue(run, value)) return Nothing(run);
  if (arguments.positional.empty()) {
    if (arguments.Keyword("attribute") != nullptr) return MapAttribute(run, value, arguments);
    return run.Fail(Error::Kind::kRuntime, "map requires a filter argument");
  }
  const Value& name = arguments.positional.front();
  const Filter filter = name.IsString() ? FindFilter(name.bytes()) : nullptr;
  if (filter == nullptr) {
    return run.Fail(Error::Kind::kRuntime,
                    absl::StrCat("No filter named ", Repr(run, name).bytes(), "."));
  }
  const std::shared_ptr<Iterator> items = Iterate(run, value);
  if (items == nullptr) return Value();
  return MakeGenerator(
      run, DepthWith(value, arguments),
      [items, filter, rest = Rest(arguments, 1)](Run& run) -> std::optional<Value> {
        const std::optional<Value> item = items->Next(run);
        if (!item.has_value()) return std::nullopt;
        return filter(run, *item, rest);
      });
}

// select, reject, selectattr and rejectattr: the items of which the test says `wanted`.
template <bool wanted, bool has_attribute>
Value Select(Run& run, const Value& value, const Arguments& arguments) {
  constexpr size_t kTestAt = has_attribute ? 1 : 0;
  if (!IsTrue(run, value)) return Nothing(run);
  if (arguments.positional.size() < kTestAt) {
    return run.Fail(Error::Kind::kRuntime, "Missing parameter for attribute name");
  }
  Test test = nullptr;
  const bool has_test = arguments.positional.size() > kTestAt;
  if (has_test) {
    const Value& name = arguments.positional[kTestAt];
    test = name.IsString() ? FindTest(name.bytes()) : nullptr;
    if (test == nullptr) {
      return run.Fail(Error::Kind::kRuntime,
                      absl::StrCat("No test named ", Repr(run, name).bytes(), "."));
    }
  }
  const std::shared_ptr<Iterator> items = Iterate(run, value);
  if (items == nullptr) return Value();
  const ItemPath path(run, has_attribute ? arguments.positional.front() : Value());
  return MakeGenerator(
      run, DepthWith(value, arguments),
      [items, test, path, rest = has_test ? Rest(arguments, kTestAt + 1) : Arguments()](
          Run& run) -> std::optional<Value> {
        while (std::optional<Value> item = items->Next(run)) {
          const Value looked_at = path.Follow(run, *item);
          if (run.failed()) return std::nullopt;
          const bool holds = test == nullptr ? IsTrue(run, looked_at) : test(run, looked_at, rest);
          if (holds == wanted) return item;
        }
        return std::nullopt;
      });
}

constexpr std::array<FilterEntry, 5> kSelectFilters = {{
    {"map", Map},
    {"select", Select<true, false>},
    {"reject", Select<false, false>},
    {"selectattr", Select<true, true>},
    {"rejectattr", Select<false, true>},
}};

}  // namespace

Filter FindSelectFilter(std::string_view name) { return FindIn(kSelectFilters, name); }

}  // namespace sluice::jinja
