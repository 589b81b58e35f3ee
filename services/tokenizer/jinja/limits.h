// What one template may take. A plain value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::jinja {

struct Limits {
  // Nesting of a template's statements and expressions; chains such as a + b + c nest, too.
  int max_syntax_depth = 400;
  size_t max_template_bytes = size_t{4} << 20;
  // Work: about one for each expression evaluated, item visited and 64 bytes copied. Ten million
  // take about a second.
  int64_t max_steps = 20'000'000;
  // Macros (and recursive loops) inside one another.
  int max_call_depth = 200;
  // Containers inside one another.
  int max_value_depth = 256;
  // What range() may count.
  int64_t max_range = 100'000;
  size_t max_output_bytes = size_t{32} << 20;
  // All values alive at a time, about.
  size_t max_value_bytes = size_t{128} << 20;
  // Stack below Compile or Render.
  size_t max_stack_bytes = size_t{1} << 20;
};

}  // namespace sluice::jinja
