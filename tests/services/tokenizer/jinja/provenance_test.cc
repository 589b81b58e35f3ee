// Which bytes of a rendering are said to be made of what is untrusted: shown in brackets.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "services/tokenizer/jinja/template.h"

namespace sluice::jinja {
namespace {

using Json = nlohmann::ordered_json;

std::string Marked(const std::string& text) {
  const Json variables = {
      {"u", " us er "},    {"w", "a,b"},          {"n", 42},       {"l", {"x", "y"}},
      {"d", {{"k", "v"}}}, {"q", "it's \"q\"\n"}, {"html", "a<b"}, {"e", ""}};
  const auto made = Template::Compile(text, "test");
  EXPECT_TRUE(made.ok()) << made.status();
  Context context;
  context.untrusted = &variables;
  context.trusted = {{"bos", "<s>"}};
  const auto rendering = (*made)->Render(context);
  EXPECT_TRUE(rendering.ok()) << rendering.status();
  std::string marked = rendering->text;
  for (size_t i = rendering->untrusted.size(); i-- > 0;) {
    marked.insert(rendering->untrusted[i].end, "]");
    marked.insert(rendering->untrusted[i].begin, "[");
  }
  return marked;
}

TEST(Provenance, FollowsEveryByteOfTheContext) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a{{ u }}b", "a[ us er ]b"},
      {"{{ bos }}{{ 'x' ~ u ~ 'y' }}", "<s>x[ us er ]y"},
      {"{{ ('x' + u + 'y')[2:5] }}", "[us ]"},
      {"{{ ('x' + w + 'y')[::-1] }}", "y[b,a]x"},
      {"{{ u.strip() }}|{{ u|trim }}", "[us er]|[us er]"},
      {"{{ ('<' + w + '>').split(',') | join('+') }}", "<[a]+[b]>"},
      {"{{ ('<' + w + '>').replace(',', '-') }}", "<[a]-[b]>"},
      {"{{ '<_>'.replace('_', w) }}", "<[a,b]>"},
      {"{{ ('<' + w)|upper }}{{ w.title() }}", "<[A,BA,B]"},
      {"{{ l|join('-') }}", "[x]-[y]"},
      {"{% for c in 'a' ~ w %}{{ c }};{% endfor %}", "a;[a];[,];[b];"},
      {"{% for x in l %}<{{ x }}>{% endfor %}", "<[x]><[y]>"},
      {"{% set s %}<{{ w }}>{% endset %}{{ s }}", "<[a,b]>"},
      {"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(w) }}", "<[a,b]>"},
      {"{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}{{ w }}!{% endcall %}",
       "<[a,b]!>"},
      {"{% filter upper %}<{{ w }}>{% endfilter %}", "<[A,B]>"},
      {"{% set ns = namespace(x='<') %}{% set ns.x = ns.x + w %}{{ ns.x }}", "<[a,b]"},
      {"{{ d }}{{ l }}", "{'[k]': '[v]'}['[x]', '[y]']"},
      {"{{ d|tojson }}{{ q|tojson }}", "{\"[k]\": \"[v]\"}\"[it's \\\"q\\\"\\n]\""},
      {"{{ n }}{{ n + 1 }}{{ 5 }}{{ [n] }}{{ n|tojson }}", "[4243]5[[42]][42]"},
      {"{{ '%s-%d' % (w, n) }}{{ '{}:{:>4}'.format(w, 'z') }}", "[a,b]-[42a,b]:   z"},
      {"{{ '<%s>'|format(w) }}", "<[a,b]>"},
      {"{{ html|e }}{{ '<'|e }}", "[a&lt;b]&lt;"},
      {"{{ w|indent(2, true) }}", "  [a,b]"},
      {"{{ w|length }}{{ w == 'a,b' }}{{ loop is defined }}", "3TrueFalse"},
      {"{{ e }}{{ 'x' if w else 'y' }}", "x"},
      {"{{ w or 'x' }}{{ missing|default(w) }}{{ missing|default('z') }}", "[a,ba,b]z"},
      {"{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", "[k]=[v]"},
      {"{{ (l + ['t'])|map('upper')|join }}", "[XY]T"},
      {"{{ ['b' ~ w, 'a']|sort|first }}{{ w[0] }}{{ w[-1:] }}", "a[ab]"},
      {"{{ w.partition(',')|join('|') }}{{ 'a,b'.partition(',')|join }}", "[a]|[,]|[b]a,b"},
      {"{{ '-'.join(l) }}{{ w.center(7, '*') }}", "[x]-[y]**[a,b]**"},
      {"{{ w|truncate(3, true, '', 0) }}{{ w|urlencode }}", "[a,ba%2Cb]"},
      {"{{ '7'|int }}{{ (w ~ '')|replace('a,b', '7')|int }}", "77"},
      {"{{ ('x ' ~ w)|wordwrap(3) }}", "x\n[a,b]"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(Marked(text), expected) << text;
}

TEST(Provenance, TheExceptionIsAMemberOfAGivenValue) {
  const auto made = Template::Compile("{{ m.role }}{{ m.other }}{{ role }}", "test");
  const Json variables = {{"m", {{"role", "user"}, {"other", "user"}}}, {"role", "evil"}};
  Context context;
  context.untrusted = &variables;
  context.trusted_member = {"role", {"user"}};
  const auto rendering = (*made)->Render(context);
  ASSERT_TRUE(rendering.ok());
  EXPECT_EQ(rendering->text, "useruserevil");
  EXPECT_EQ(rendering->untrusted, (std::vector<TextRange>{{4, 12}}));
}

TEST(Generations, AreWhereTheirBlocksWrote) {
  const auto made = Template::Compile(
      "a{% generation %}bc{% endgeneration %}d{% for x in [1, 2] %}{% generation %}{{ x }}"
      "{% endgeneration %}-{% endfor %}",
      "test");
  const auto rendering = (*made)->Render({});
  ASSERT_TRUE(rendering.ok());
  EXPECT_EQ(rendering->text, "abcd1-2-");
  EXPECT_EQ(rendering->generations, (std::vector<TextRange>{{1, 3}, {4, 5}, {6, 7}}));
}

}  // namespace
}  // namespace sluice::jinja
