// A Jinja2 template as Hugging Face's chat templates use it: trim_blocks, lstrip_blocks, an
// immutable sandbox, `generation` blocks, break and continue, and their tojson, raise_exception and
// strftime_now. Immutable once compiled; rendered by any thread at any time.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "services/tokenizer/jinja/error.h"
#include "services/tokenizer/jinja/limits.h"
#include "services/tokenizer/jinja/local_time.h"
#include "services/tokenizer/jinja/rendering.h"

namespace sluice::jinja {

// The variables of a rendering, JSON objects. What came with a request is untrusted: the result
// says which of its bytes were made of it.
struct Context {
  // Borrowed; nullptr for none.
  const nlohmann::ordered_json* untrusted = nullptr;
  // These win over untrusted ones of the same name.
  nlohmann::ordered_json trusted = nlohmann::ordered_json::object();
  // Members of untrusted objects that are trusted all the same, where they have one of these
  // values.
  struct TrustedMember {
    std::string name;
    std::vector<std::string> values;
  };
  TrustedMember trusted_member;
  // What strftime_now shows.
  LocalTime now;
  // Called every few hundred microseconds, so that others are served meanwhile. Where it returns
  // false the rendering ends with an error. Borrowed, null for none.
  const std::function<bool()>* checkpoint = nullptr;
};

class Template {
 public:
  // `name` is what errors call it. INVALID_ARGUMENT with line and column for what is no template;
  // RESOURCE_EXHAUSTED where it is larger or deeper than the limits.
  static absl::StatusOr<std::unique_ptr<const Template>> Compile(std::string_view source,
                                                                 std::string_view name,
                                                                 const Limits& limits = {});
  ~Template();

  // INVALID_ARGUMENT for what the template refuses or does wrong, RESOURCE_EXHAUSTED for what goes
  // beyond the limits: both with line and column, see ErrorOf.
  absl::StatusOr<Rendering> Render(const Context& context) const;

 private:
  struct Code;
  Template(std::string name, const Limits& limits, std::unique_ptr<Code> code);

  const std::string name_;
  const Limits limits_;
  const std::unique_ptr<const Code> code_;
};

}  // namespace sluice::jinja
