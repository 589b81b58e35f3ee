// What a hostile template runs into, and how soon.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "services/tokenizer/jinja/template.h"

namespace sluice::jinja {
namespace {

std::string Repeated(const std::string& text, int count) {
  std::string repeated;
  for (int i = 0; i < count; ++i) repeated += text;
  return repeated;
}

absl::Status RunTemplate(const std::string& text, const Limits& limits = {}) {
  const auto made = Template::Compile(text, "hostile", limits);
  if (!made.ok()) return made.status();
  return (*made)->Render({}).status();
}

TEST(Limits, RefuseWhatTakesTooMuch) {
  const std::vector<std::string> templates = {
      "{{ 'a' * 10**9 }}",
      "{{ [0] * 10**9 }}",
      "{{ [[0] * 1000] * 10**12 }}",
      "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% "
      "endfor %}",
      "{% set s = 'a' * 10**6 %}{% for i in range(1000) %}{{ s }}{% endfor %}",
      "{% set s = 'a' * 10**6 %}{{ ([s] * 1000)|join }}",
      "{% set s = 'a' * 10**6 %}{{ s.replace('a', s) }}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{{ range(10**9) }}",
      "{% set s = 'a' * 10**6 %}{% for i in range(99999) %}{{ s.find('a' * 500000 ~ 'b') }}{{ "
      "s.strip(s) }}{% endfor %}",
      "{% set s = 'a' * 10**6 %}{% for i in range(99999) %}{% for j in range(999) %}{{ s in {s: 1} "
      "}}{{ s.startswith(s) }}"
      "{{ s|int }}{% endfor %}{% endfor %}",
      "{{ 'a'|center(10**10) }}",
      "{{ '%1000000000000d' % 1 }}",
      "{{ '{:1000000000000}'.format('a') }}",
      "{{ 'a'.ljust(10**15) }}",
      "{{ 'a\n'|indent(10**12) }}",
      "{{ 10 ** 100 }}",
      "{{ [1]|tojson(indent=10**9) }}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{% for i in [1] %}{% if 1 %}{{ m() }}{% endif %}{% endfor %}{% endmacro %}{{ "
      "m() }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}",
      "{% set ns = namespace(l=1) %}{% for i in range(1000) %}{% set ns.l = ns.l|list|map('list') "
      "if i else [1] %}{% endfor %}{{ ns.l|list }}",
      "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
      "{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}{{ ns.l }}",
      "{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}{{ ns.l|tojson }}",
      "{% set ns = namespace(l=[], m=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
      "{{ " + Repeated("[", 100000) + " }}",
      "{{ " + Repeated("(", 300) + "1" + Repeated(")", 300) + " }}",
      "{{ " + Repeated("-", 100000) + "1 }}",
      "{{ " + Repeated("not ", 100000) + "1 }}",
      "{{ 1" + Repeated(" + 1", 100000) + " }}",
      "{{ x" + Repeated(".a", 100000) + " }}",
      "{{ x" + Repeated("|list", 100000) + " }}",
      "{{ x" + Repeated("()", 100000) + " }}",
      "{{ 1" + Repeated(" if 1 else 1", 100000) + " }}",
      Repeated("{% if 1 %}", 100000),
      Repeated("{% for x in [1] %}", 1000) + Repeated("{% endfor %}", 1000),
      "{% for " + Repeated("(", 100000),
  };
  for (const std::string& text : templates) {
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status = RunTemplate(text, {.max_steps = 500'000});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_FALSE(status.ok()) << text.substr(0, 100);
    EXPECT_LT(seconds.count(), 20) << text.substr(0, 100);
  }
}

TEST(Limits, AreExhaustionWithAPlace) {
  const absl::Status status = RunTemplate("ab\n {{ 'a' * 10**9 }}");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorOf(status)->place.line, 2);
  EXPECT_EQ(RunTemplate("{% for x in range(100) %}{% endfor %}", {.max_steps = 50}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RunTemplate("abc", {.max_output_bytes = 2}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RunTemplate("abc", {.max_template_bytes = 2}).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(Limits, LeaveOrdinaryTemplatesAlone) {
  EXPECT_EQ(RunTemplate("{{ 1" + Repeated(" + 1", 300) + " }}"), absl::OkStatus());
  EXPECT_EQ(
      RunTemplate("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(50) }}"),
      absl::OkStatus());
  EXPECT_EQ(RunTemplate("{% for i in range(100000) %}{{ i }},{% endfor %}"), absl::OkStatus());
}

// What refers to itself must not outlive the run: seen by the leak checker of sanitizer builds.
TEST(Limits, NothingThatRefersToItselfIsKept) {
  EXPECT_EQ(
      RunTemplate("{% set ns = namespace() %}{% set ns.self = ns %}{% for x in [1] %}"
                  "{% set ns.loop = loop %}{% macro m() %}{{ ns }}{% endmacro %}{% set ns.m = m %}"
                  "{% set ns.g = [ns]|map('string') %}{% endfor %}"),
      absl::OkStatus());
}

TEST(Limits, ARenderingEndsWhereItsCheckpointSaysSo) {
  const auto made = Template::Compile(
      "{% for a in range(9999) %}{% for b in range(99) %}{{ b }}{% endfor %}{% endfor %}", "t");
  ASSERT_TRUE(made.ok());
  int num_asked = 0;
  const std::function<bool()> checkpoint = [&num_asked] { return ++num_asked < 3; };
  const auto rendering = (*made)->Render({.checkpoint = &checkpoint});
  EXPECT_FALSE(rendering.ok());
  EXPECT_EQ(num_asked, 3) << "after the third nothing more is done";
}

}  // namespace
}  // namespace sluice::jinja
