#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/tokenizer/jinja/arguments.h"
#include "services/tokenizer/jinja/compare.h"
#include "services/tokenizer/jinja/filters.h"
#include "services/tokenizer/jinja/item_path.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {
namespace {

struct Keyed {
  Value key;
  Value item;
};

// Stable, also in reverse.
void Sort(Run& run, bool is_reversed, std::vector<Keyed>* items) {
  StableSort(run, items, [&](const Keyed& a, const Keyed& b) {
    return is_reversed ? Less(run, b.key, a.key) : Less(run, a.key, b.key);
  });
}

Value ItemsOf(Run& run, std::vector<Keyed> keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& one : keyed) items.push_back(std::move(one.item));
  return run.failed() ? Value() : run.List(std::move(items));
}

Value WithCase(Run& run, const Value& key, bool is_case_sensitive) {
  return is_case_sensitive ? key : IgnoringCase(run, key);
}

Value SortItems(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0);
  const bool is_case_sensitive = bound.Flag(1, false);
  std::vector<ItemPath> paths;
  if (bound[2].IsString()) {
    const std::vector<std::string> names = absl::StrSplit(bound[2].bytes(), ',');
    for (const std::string& name : names) paths.emplace_back(run, run.String(name));
  } else {
    paths.emplace_back(run, bound[2]);
  }
  std::vector<Keyed> items;
  for (const Value& item : ToVector(run, value)) {
    std::vector<Value> keys;
    keys.reserve(paths.size());
    for (const ItemPath& path : paths) {
      keys.push_back(WithCase(run, path.Follow(run, item), is_case_sensitive));
    }
    if (run.failed()) return Value();
    items.push_back({keys.size() == 1 ? keys.front() : run.List(std::move(keys)), item});
  }
  Sort(run, bound.Flag(0, false), &items);
  return ItemsOf(run, std::move(items));
}

Value SortDict(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0);
  const std::string by = bound.String(1, "key").bytes();
  if (run.failed()) return Value();
  if (by != "key" && by != "value") {
    return run.Fail(Error::Kind::kRuntime, "You can only sort by either \"key\" or \"value\"");
  }
  if (value.IsUndefined()) return run.FailUndefined(value);
  if (!value.IsDict()) {
    return run.Fail(Error::Kind::kRuntime,
                    absl::StrCat("'", TypeName(value), "' object has no attribute 'items'"));
  }
  std::vector<Keyed> items;
  for (const auto& [key, item] : value.dict().entries()) {
    if (!run.Step()) return Value();
    items.push_back(
        {WithCase(run, by == "key" ? key : item, bound.Flag(0, false)), run.Tuple({key, item})});
  }
  Sort(run, bound.Flag(2, false), &items);
  return ItemsOf(run, std::move(items));
}

template <bool is_max>
Value Extreme(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, is_max ? "do_max" : "do_min", arguments, {"case_sensitive", "attribute"},
                    0);
  const ItemPath path(run, bound[1]);
  Keyed best;
  for (const Value& item : ToVector(run, value)) {
    const Value key = WithCase(run, path.Follow(run, item), bound.Flag(0, false));
    if (run.failed()) return Value();
    const bool is_better = best.item.IsMissing() || (is_max ? Order(run, key, best.key, ">") == 1
                                                            : Less(run, key, best.key));
    if (is_better) best = {key, item};
  }
  if (run.failed()) return Value();
  return best.item.IsMissing() ? run.Undefined("No aggregated item, sequence was empty.")
                               : best.item;
}

Value Unique(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_unique", arguments, {"case_sensitive", "attribute"}, 0);
  const ItemPath path(run, bound[1]);
  std::set<std::string> seen;
  std::vector<Value> items;
  for (const Value& item : ToVector(run, value)) {
    const Value key = WithCase(run, path.Follow(run, item), bound.Flag(0, false));
    if (run.failed()) return Value();
    std::optional<std::string> identity = KeyIdentity(key);
    if (!identity.has_value()) {
      return run.TypeError(absl::StrCat("unhashable type: '", TypeName(key), "'"));
    }
    if (!run.StepBytes(identity->size())) return Value();
    if (seen.insert(*std::move(identity)).second) items.push_back(item);
  }
  const Value list = run.List(std::move(items));
  if (run.failed()) return Value();
  return MakeGenerator(run, list.depth(),
                       [iterator = Iterate(run, list)](Run& run) { return iterator->Next(run); });
}

Value MakeGroup(Run& run, Value grouper, std::vector<Value> items) {
  const Value list = run.List(std::move(items));
  const Value group = run.Tuple({std::move(grouper), list});
  if (!run.failed()) static_cast<SequenceObject&>(*group.object()).is_group = true;
  return group;
}

Value GroupBy(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const ItemPath path(run, bound[0]);
  const bool is_case_sensitive = bound.Flag(2, false);
  std::vector<Keyed> items;
  for (const Value& item : ToVector(run, value)) {
    items.push_back({WithCase(run, path.Follow(run, item, bound[1]), is_case_sensitive), item});
    if (run.failed()) return Value();
  }
  Sort(run, false, &items);
  std::vector<Value> groups;
  std::vector<Value> group;
  for (size_t i = 0; i < items.size() && !run.failed(); ++i) {
    group.push_back(items[i].item);
    if (i + 1 < items.size() && Equal(run, items[i].key, items[i + 1].key)) continue;
    const Value grouper = path.Follow(run, group.front(), bound[1]);
    groups.push_back(MakeGroup(run, grouper, std::exchange(group, {})));
  }
  return run.failed() ? Value() : run.List(std::move(groups));
}

constexpr std::array<FilterEntry, 6> kOrderFilters = {{
    {"sort", SortItems},
    {"dictsort", SortDict},
    {"min", Extreme<false>},
    {"max", Extreme<true>},
    {"unique", Unique},
    {"groupby", GroupBy},
}};

}  // namespace

Filter FindOrderFilter(std::string_view name) { return FindIn(kOrderFilters, name); }

}  // namespace sluice::jinja
