#include "services/tokenizer/chat_json.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/tokenizer/jinja/spelled_number.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Builds a value event by event. Its member functions are nlohmann-json's SAX interface.
class Builder {
 public:
  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(Json::number_integer_t value) { return Add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return Add(value); }
  bool number_float(Json::number_float_t, const Json::string_t& spelling) {
    return Add(jinja::SpelledNumber(spelling));
  }
  bool string(Json::string_t& value) { return Add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return Open(Json::object()); }
  bool start_array(size_t) { return Open(Json::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(Json::string_t& name) {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception&) { return false; }

  Json Take() { return std::move(root_); }

 private:
  struct Container {
    Json* value = nullptr;
    absl::flat_hash_map<std::string, size_t> members;  // by name: where each is in an object
  };

  // Where the next value stands. A member that is there twice has the last value.
  Json* Place() {
    if (open_.empty()) return &root_;
    Container& container = open_.back();
    Json& holder = *container.value;
    if (!holder.is_object()) {
      holder.push_back(nullptr);
      return &holder.back();
    }
    auto& members = holder.get_ref<Json::object_t&>();
    const auto [at, is_new] = container.members.try_emplace(key_, members.size());
    if (is_new) AppendMember(holder, key_, nullptr);
    return &(members.begin() + static_cast<ptrdiff_t>(at->second))->second;
  }
  bool Add(Json value) {
    *Place() = std::move(value);
    return true;
  }
  bool Open(Json value) {
    Json* const place = Place();
    *place = std::move(value);
    open_.push_back({.value = place, .members = {}});
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Container> open_;  // nothing is added beside one of them before it is closed
  std::string key_;
};

}  // namespace

std::optional<Json> ParseChatJson(const std::string& text) {
  Builder builder;
  if (!Json::sax_parse(text, &builder)) return std::nullopt;
  return builder.Take();
}

void AppendMember(Json& object, const std::string& name, Json value) {
  // The object's own ways of adding look through all members first.
  Json::object_t::Container& members = object.get_ref<Json::object_t&>();
  members.emplace_back(name, std::move(value));
}

}  // namespace sluice
