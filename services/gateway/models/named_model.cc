#include "services/gateway/models/named_model.h"

#include <cstddef>
#include <nlohmann/json.hpp>

namespace sluice::gateway {
namespace {

using nlohmann::json;

// Told what a text holds, in its order; ends the reading by false. nlohmann chooses the names.
class ModelFinder : public nlohmann::json_sax<json> {
 public:
  const std::string& model() const { return model_; }

  bool null() override { return Value(); }
  bool boolean(bool /*value*/) override { return Value(); }
  bool number_integer(number_integer_t /*value*/) override { return Value(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return Value(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return Value(); }
  bool binary(binary_t& /*value*/) override { return Value(); }
  bool string(string_t& value) override {
    if (is_next_) model_ = value;
    return Value();
  }
  bool start_object(size_t /*size*/) override { return Begin(); }
  bool start_array(size_t /*size*/) override { return Begin(); }
  bool end_object() override { return --depth_ > 0; }
  bool end_array() override { return --depth_ > 0; }
  bool key(string_t& name) override {
    is_next_ = depth_ == 1 && name == "model";
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const json::exception& /*error*/) override {
    return false;
  }

 private:
  bool Value() { return !is_next_; }
  bool Begin() {
    ++depth_;
    return !is_next_;
  }

  int depth_ = 0;
  bool is_next_ = false;  // the next value is the model's
  std::string model_;
};

}  // namespace

std::string ModelNamedIn(absl::string_view body) {
  ModelFinder finder;
  json::sax_parse(body.begin(), body.end(), &finder);
  return finder.model();
}

}  // namespace sluice::gateway
