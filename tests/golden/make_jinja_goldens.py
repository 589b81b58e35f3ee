"""What Jinja2 makes of small templates, set up as Hugging Face does for chat templates: jinja.json.

    python3 tests/golden/make_jinja_goldens.py      # needs Jinja2 3.1

Each case is a template and either what it renders to or the kind, line and (where it says what is wrong, rather than how
Python happens to put it) message of its error. The same Jinja2 gives the same bytes.
"""
import datetime
import json
import os

import jinja2
import jinja2.exceptions
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = datetime.datetime(2025, 7, 10, 12, 0, 0)

CONTEXT = {
    "i": 7, "n": -3, "f": 2.5, "z": 0, "big": 12345678901234567890, "t": True, "no": False, "nil": None, "s": "Hello World",
    "empty": "", "u": "Größe 😀 ÀÉ ß", "ws": "  \t padded\n ", "lines": "one\ntwo\r\nthree\n\nfive",
    "html": "<a href='x'>\"q\" & b</a>", "l": [3, 1, 2], "ls": ["b", "A", "c", "B"], "e": [], "mixed": [1, "a", None, 2.5, True],
    "d": {"b": 1, "a": 2, "C": 3}, "ed": {}, "nested": {"x": {"y": [10, {"z": "deep"}]}},
    "msgs": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo", "n": 2},
             {"role": "user", "content": "bye's \"q\""}],
    "people": [{"name": "Bob", "age": 30}, {"name": "alice", "age": 25}, {"name": "Carl", "age": 30}],
    "keys": {"items": "shadow", "get": 1, "k": "v"}, "words": "the quick-brown fox jumps over a lazy dog and runs away",
    "floats": [0.1, 1e16, 1e-5, 123456789.123, 1e22, 100.0, -0.0, 5e-324, 1.7976931348623157e308],
}

# Each between {{ and }}.
EXPRESSIONS = r"""
1 + 2 * 3 ** 2 - -1
2 ** 3 ** 2
-2 ** 2
7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 % -3
7 / 2
7.5 // 2, -7.5 // 2, -7.5 % 2, 7.5 % -2
1 / 3
2 ** 0.5
2 ** -1
10 ** 20
1e3, 1.5e-7, 1_000, 0x1F, 0o17, 0b101, 1e400
1 // 0
1 % 0
1 / 0
1.0 // 0
1.0 % 0
not 1 == 2
not true and false or true
1 < 2 < 3, 1 < 2 > 5, 1 == 1.0, true == 1, 'a' < 'b'
1 if t else 2
1 if no else 2
(1 if no) is defined
1 if no
'a' if no else 'b' if no else 'c'
'a' ~ 1 ~ none ~ true ~ 2.0 ~ [1]
'a' + 'b' * 3
'ab' * 0 ~ 'ab' * -1
[1] + [2] , (1,) + (2,), [0] * 3
'a' + 1
1 + 'a'
'a' + none
none + 'a'
[1] + 'a'
(1,) + [1]
{} + {}
'a' - 'b'
'a' * 'b'
'a' * 1.5
nil.x
nil.x.y
nil[0]
missing
missing.x
missing['x']
missing + 1
1 + missing
missing ~ 'x'
missing == missing2, missing == none
missing < 1
missing()
-missing
missing|length
missing is defined, missing is undefined
not missing
missing or 'x'
missing and 'x'
d.missing
d.missing.x
d['missing']
d['missing'].x
l[10]
l[10].x
l.foo
l.foo.x
s.foo.x
s[100].x
i.foo.x
i[0].x
l['a'].x
d[0].x
d[[1]]
1 in l, 5 in l, 5 not in l, 'a' in d, 'el' in s, '' in s
1 in s
'a' in nil
'a' in i
1 in missing
l[0], l[-1], l.0, s[0], s[-1], u[6], u[-1]
l[1:], l[:1], l[::-1], l[::2], l[-2:], s[1:4], s[::-1], s[::2], u[4:8], u[::-1]
l[5:], l[-100:100], s[3:1], s[-3:-1], s[10:2:-2], l[none:none]
l[::0]
nil[1:]
i[1:]
d[1:]
l['a':]
missing[1:]
(1, 2), (1,), ()
[], {}, [[]], {'a': {}}
{'a': 1, "b": 'x', 3: none, none: true}
{[1]: 2}
{1: 'a', 1.0: 'b', true: 'c'}
{'a': 1}['a'], {'a': 1}.a
mixed
floats
msgs
d
big, big + 1
f, -f, +f, 1.0, 100.0, 1e15, 1e16, 1.5e300
s|upper, s|lower, s|capitalize, u|upper, u|lower, 'ß'|upper, u|capitalize
'hello world-foo (bar) [baz] <q>'|title, "it's"|title, "they're bill's"|title
ws|trim, 'xxaxx'|trim('x'), '-=a=-'|trim('-=')
s|replace('o', '0'), s|replace('o', '0', 1), s|replace('', '-'), 'aaa'|replace('aa', 'b')
1|replace(1, 2)
l|join, l|join(', '), msgs|join('|', attribute='role'), s|join('-'), mixed|join(' ')
missing|join(',')
nil|join(',')
i|join
l|first, l|last, e|first, e|last, s|first, s|last
(e|first) is defined
l|length, s|length, u|length, d|length, d|count
i|length
nil|length
l|sort, ls|sort, ls|sort(case_sensitive=true), l|sort(reverse=true), ls|sort(true)
people|sort(attribute='age')|map(attribute='name')|list
people|sort(attribute='age,name')|map(attribute='name')|list
people|sort(attribute='name', reverse=true)|map(attribute='name')|list
mixed|sort
l|min, l|max, ls|min, ls|max, e|min, people|max(attribute='age')
(e|max) is undefined
l|sum, l|sum(start=10), people|sum('age'), people|sum(attribute='age'), e|sum
ls|sum
l|reverse|list, s|reverse, d|reverse|list
i|reverse
ls|unique|list, ls|unique(true)|list, people|unique(attribute='age')|map(attribute='name')|list
l|map('string')|list, ls|map('upper')|join, msgs|map(attribute='content')|list, msgs|map(attribute='n', default=0)|list
l|map('nofilter')|list
l|map()|list
msgs|selectattr('role', 'equalto', 'user')|list|length, msgs|selectattr('n', 'defined')|list|length
msgs|rejectattr('role', 'eq', 'user')|map(attribute='content')|list, msgs|selectattr('n')|list|length
l|select('odd')|list, l|reject('odd')|list, l|select('gt', 1)|list, mixed|select|list, mixed|reject|list
l|select('>', 1)|list, l|select('in', [1, 2])|list, l|select('divisibleby', 2)|list
l|select('notest')|list
nil|map('upper')|list, missing|select|list
i|map('upper')|list
d|items|list, d.items()|list, d.keys()|list, d.values()|list, d|list
d.items(), d.keys(), d.values()
missing|items|list
l|items|list
d|dictsort, d|dictsort(true), d|dictsort(by='value'), d|dictsort(reverse=true), d|dictsort(false, 'value', true)
d|dictsort(by='x')
l|dictsort
[1, 2, 3, 4, 5, 6, 7]|batch(3)|list, [1, 2, 3, 4]|batch(3, '-')|list
[1, 2, 3, 4, 5, 6, 7]|slice(3)|list, [1, 2, 3, 4]|slice(3, '-')|list
people|groupby('age')|list
people|groupby('name')|map('first')|list
people|groupby('x', default=1)|map(attribute='grouper')|list
(people|groupby('age')|first).grouper, (people|groupby('age')|first).list|length
l|list, s|list, d|list, 5|string|list
5|list
'3'|int, '3.7'|int, 'x'|int, 'x'|int(9), '0x1f'|int(base=16), '11'|int(0, 2), 3.9|int, -3.9|int, true|int, nil|int, ' 12 '|int, '1_000'|int
missing|int
'3.5'|float, 'x'|float, 'x'|float(1.5), 3|float, '1e3'|float, nil|float
2.5|round, 3.5|round, 2.567|round(2), 2.567|round(1, 'floor'), 2.561|round(2, 'ceil'), 42|round, 1234.5|round(-2), 1250|round(-2), 2.675|round(2)
2.5|round(0, 'x')
'x'|round
-5|abs, -2.5|abs, 5|abs, true|abs
'x'|abs
nil|default('x'), missing|default('x'), missing|d, empty|default('x'), empty|default('x', true), 0|d(5, true)
s|string, 5|string, nil|string, l|string
s|wordcount, words|wordcount, "it's a-b"|wordcount
words|wordwrap(20)
words|wordwrap(5)
words|wordwrap(5, false)
words|wordwrap(10, wrapstring='|')
'aaaaaaaaaaaa bb'|wordwrap(4)
lines|wordwrap(3)
words|truncate(20), words|truncate(20, true), words|truncate(20, false, '…'), words|truncate(20, leeway=100), 'short'|truncate
words|truncate(2)
s|center(20) ~ '|', s|center(3), 'ab'|center(5) ~ '|', 'abc'|center(6) ~ '|'
lines|indent, lines|indent(2, true), lines|indent('> ', true, true), lines|indent(width=1, blank=true)
5|indent
'%s is %d and %.2f %5s|%-5s|%05d %x %r %%'|format('a', 3, 2.5, 'b', 'c', 42, 255, 'q')
'%(a)s-%(b)03d'|format(a='x', b=7)
'%s'|format
'%d'|format('x')
'%s %s' % ('a', 'b'), '%s' % 'a', '%s' % [1], '%(k)s' % {'k': 'v'}, '%5.1f|%+d|% d|%e' % (2.25, 3, 4, 12345.678)
'%s' % ()
'%s' % (1, 2)
'%c%c' % (65, 'B'), '%o %X %#x %g' % (8, 255, 255, 0.0001)
'{} {}'.format('a', 1), '{0} {1} {0}'.format('a', 'b'), '{x}'.format(x=5), '{{}}'.format(), '{0[a]} {1.b}'.format({'a': 1}, {'b': 2})
'{:>5}|{:<5}|{:^5}|{:05d}|{:,}|{:.2f}|{:x}|{!r}|{:*^7}'.format('a', 'b', 'c', 42, 1234567, 3.14159, 255, 'q', 'm')
'{:5}|{:5}|{:+}|{:%}|{:e}|{:g}|{:.3}|{:b}|{:#x}|{:_}'.format('a', 5, 5, 0.25, 12345.678, 0.0001, 'abcdef', 5, 255, 1234567)
'{}'.format()
'{x}'.format()
'{'.format(1)
'}'.format(1)
'{:d}'.format('a')
'{:{}}|'.format('a', 5)
html|escape, html|e, html|e|e, html|safe, html|forceescape, (html|e) ~ '<', ('<'|safe) + '<', 5|e
html|striptags, '<b>a  b</b> <!-- c --> &lt;d&gt;'|striptags
{'a': 1, 'b': none, 'c': 'x<y'}|xmlattr, {'a': 1}|xmlattr(false)
{'a b': 1}|xmlattr
'a b/c?d=é'|urlencode, {'a b': 'c/d', 'e': 1}|urlencode, [('x', 'y z')]|urlencode
100|filesizeformat, 1|filesizeformat, 1500|filesizeformat, 1500000|filesizeformat, 2048|filesizeformat(true), 1.5e10|filesizeformat
d|tojson, msgs|tojson, mixed|tojson, floats|tojson, u|tojson, html|tojson, (1, 2)|tojson, nil|tojson
msgs|tojson(indent=2)
d|tojson(indent=4, sort_keys=true), d|tojson(sort_keys=true), d|tojson(separators=(',', ':')), u|tojson(ensure_ascii=true)
[]|tojson(indent=2), {}|tojson(indent=2), [[], {}]|tojson(indent=1), d|tojson(indent='\t')
"\u0001\u001f\n\r\t\b\f\"\\/\u007f"|tojson
{1: 2, none: 3, true: 4, 1.5: 5}|tojson
{(1, 2): 3}|tojson
missing|tojson
(l|map('string'))|tojson
d.items()|tojson
nested.x.y[1].z, nested['x']['y'][0], nested.x.y.1.z, nested|attr('x')
(s|attr('upper'))()
nested|map('upper')|list
l|pprint, s|pprint
s.upper(), s.lower(), s.title(), s.capitalize(), s.swapcase(), "it's a dog".title(), s.casefold()
ws.strip(), ws.lstrip(), ws.rstrip(), 'xxaxx'.strip('x'), 'xya'.lstrip('yx'), 'abc'.rstrip('c')
s.split(), s.split('o'), s.split('o', 1), 'a,b,,c'.split(','), ' a  b '.split(), 'a b c d'.split(None, 2), 'a b c d'.split(maxsplit=1), ''.split(','), ''.split()
s.rsplit('o', 1), 'a b c d'.rsplit(None, 1), ' a b c '.rsplit(maxsplit=1), 'a,b,c'.rsplit(',')
s.split('')
s.split(1)
lines.splitlines(), lines.splitlines(true), ''.splitlines(), 'a\n'.splitlines()
s.startswith('He'), s.startswith(('x', 'H')), s.endswith('d'), s.endswith(('a', 'b')), s.startswith('W', 6), s.startswith('')
s.startswith(1)
s.startswith(['a'])
s.replace('o', '0'), s.replace('o', '0', 1), s.replace('', '.'), s.replace('l', '')
s.find('o'), s.rfind('o'), s.find('z'), s.index('o'), s.count('o'), s.count(''), u.find('😀'), s.find('o', 5), s.find('o', 5, 6)
s.index('z')
'-'.join(['a', 'b']), ''.join('abc'), ','.join(d)
'-'.join([1, 2])
s.removeprefix('Hello '), s.removesuffix('ld'), s.removeprefix('x')
'12'.isdigit(), ''.isdigit(), '1a'.isalnum(), 'ab'.isalpha(), ' '.isspace(), 'AB'.isupper(), 'ab1'.islower(), 'Ab Cd'.istitle(), '½'.isnumeric(), '²'.isdigit(), 'a1'.isidentifier(), 'é'.isascii(), 'a\n'.isprintable(), '12'.isdecimal()
'5'.zfill(3), '-5'.zfill(4), 'a'.ljust(3) ~ '|', 'a'.rjust(3), 'a'.center(4, '*'), 'ab'.center(5, '*'), 'a'.ljust(3, '.')
'a=b=c'.partition('='), 'a=b=c'.rpartition('='), 'abc'.partition('='), 'abc'.rpartition('=')
'a\tb'.expandtabs(4), s.nomethod is defined
s.nomethod()
d.get('a'), d.get('x'), d.get('x', 5), d.get('x', default) is undefined
d.update({'x': 1})
d.pop('a')
d.clear()
d.setdefault('x', 1)
l.append(1)
l.pop()
l.sort()
l.insert(0, 1)
l.extend([1])
l.append is defined, d.update is defined, l.append
l.index(1), l.count(1), (1, 2, 1).count(1), l.copy(), d.copy()
l.index(9)
keys.items, keys['items'], keys.get, keys['get'], keys.k
keys['keys'] is callable
s.__class__
s.__class__.x
s.__foo__ is defined
l.__len__()
range(5)|list, range(1, 4)|list, range(10, 0, -3)|list, range(0)|list, range(3), range(5)[1], range(5)[-1], range(10)[2:8:2]|list, 3 in range(5), range(1, 10, 2)
range(0, 5, 0)
range('a')
range(1000000)
dict(a=1, b=2), dict({'x': 1}, y=2), dict([('a', 1)])
namespace(a=1).a, namespace({'b': 2}).b, namespace().x is defined
namespace(a=1)
i is odd, i is even, i is divisibleby 7, i is divisibleby(2), i is defined, i is number, i is integer, f is float, i is float, t is boolean, t is number, t is integer
s is string, s is mapping, d is mapping, l is sequence, s is sequence, d is sequence, i is sequence, nil is none, s is iterable, i is iterable, d is iterable, missing is iterable
s is lower, 'ab' is lower, 'AB' is upper, t is true, no is false, 1 is true, t is sameas true, s is sameas s, nil is sameas none
range is callable, s is callable, s.upper is callable
i is eq 7, i is equalto(7), i is ne 7, i is gt 3, i is lt 3, i is ge 7, i is le 7, i is greaterthan 3, i is lessthan 3, 1 is in [1, 2], 1 is not in [1, 2]
'upper' is filter, 'nope' is filter, 'odd' is test, 'nope' is test
(html|e) is escaped, html is escaped
i is not odd, i is not none, not i is odd
'x' is odd
s is 5
l|upper
i|nofilter
i is notest
'a' 'b' "c"
"a\nb\t\x41\u00e9\\\'\"\101\q"
'\x4'
'\u12'
'unterminated
i.upper()
s()
s.upper(1)
raise_exception('boom: ' ~ s)
raise_exception()
strftime_now('%Y-%m-%d %H:%M:%S %d %B %b %A %a %j %y %I %p %e %U %W %u %w %V %G %% %D %F %T %R')
[1, 2, 3,], (1, 2,), {'a': 1,}
[1 2]
(1
{'a' 1}
{'a': }
1 +
+
a b
'a'.
a.'b'
a..b
f(x=1, 2)
f(**a, *b)
dict(**{'a': 1}), dict(*[[('a', 1)]], **{'b': 2})
dict(**5)
dict(*5)
dict(a=1, a=2)
x is defined is defined
1 if
not
a!b
a ? b
a; b
l|join(d='-'), l|join(x=1)
l|join(1, 2, 3)
s|trim(chars='H')
lines|length, lines.split('\n')|length
"abc"[1:2] ~ 'x'|upper
-1|abs
(-1)|abs
i|string|length
i if s == 'x' else f
s ~ ' ' ~ i + 1
1 ~ 2 + 3
1 - 1 ~ 2
2 * 3 ~ 4
[1, 2] == [1, 2], {'a': 1} == {'a': 1.0}, (1,) == [1], 'a' == 1, none == false, [1, 2] < [1, 3]
[1] < ['a']
none < 1
'a' < 1
{} < {}
'ÄB'|lower ~ 'äb'|upper, 'ŉ'|upper, 'İ'|lower|length
(1, 'a', none)|string, ("it's",)|string, ('"',)|string, ('\'"',)|string, ['\n\t\\\x00\x7f\xa0é\u200b😀']|string
true, false, none, True, False, None
true + true, true * 3, -true
joiner(',') is callable, joiner is callable, cycler(1, 2).next()
cycler()
lipsum is defined or true
self is defined or true
""".strip("\n").split("\n")

TEMPLATES = [
    "a\n{% if true %}\nb\n{% endif %}\nc\n", "a\n  {% if true %}\n  b\n  {% endif %}\nc\n\n", "a {%- if true -%} b {%- endif -%} c",
    "  {%+ if true %}x{% endif +%}\ny", "{{ 1 }}\n{{ 2 -}}\n\n{{- 3 }}\n", "a {{- 1 -}} b", "  {# c #}\nx{# d #}\n y", "a {#- c -#} b",
    "a\n   {#+ c +#}\nb", "{% raw %}{{ x }}{% if %}{% endraw %}\nz", "  {% raw %} a {% endraw %} b", "a {%- raw -%} {{ b }} {%- endraw -%} c",
    "{% raw %}x", "{# x", "{{ 1", "{% if", "{%", "{{", "}}", "%}", "{ { 1 } }", "{% if x %}", "{% endif %}", "{% for %}", "{% foo %}",
    "{% if 1 %}a{% elif 2 %}b{% else %}c{% endif %}", "{% if no %}a{% elif z %}b{% else %}c{% endif %}", "{% if 1: %}a{% endif %}",
    "{% if 1 %}{% endfor %}{% endif %}", "{% for x in l %}{% endif %}", "{% if 1 %}{% else %}{% elif 2 %}{% endif %}",
    "{% for x in l %}{{ x }},{% endfor %}", "{% for x in e %}x{% else %}none{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}", "{% for c in 'héy' %}{{ c }}.{% endfor %}", "{% for x in missing %}x{% else %}e{% endfor %}",
    "{% for x in nil %}x{% endfor %}", "{% for x in i %}x{% endfor %}", "a\n{% for a, b in l %}{% endfor %}", "{% for a, b in [(1,)] %}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, b in ['xy'] %}{{ a }}-{{ b }}{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for x in l %}{{ loop.index }}/{{ loop.length }} {{ loop.index0 }} {{ loop.revindex }} {{ loop.revindex0 }} {{ loop.first }} {{ loop.last }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}", "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }}{% endfor %}", "{% for x in l %}{{ loop.cycle() }}{% endfor %}",
    "{% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.length }}{{ loop.last }}{% else %}no{% endfor %}", "{% for x in l if x > 10 %}{{ x }}{% else %}no{% endfor %}",
    "{% for m in msgs if m.role == 'user' %}{{ loop.index }}{{ m.content }}{% endfor %}", "{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% continue %}{% else %}e{% endfor %}", "{% for x in l %}{% break %}{% else %}e{% endfor %}", "{% for x in l %}{{ x }}{% break %}{% endfor %}!", "{% break %}", "{% continue %}",
    "{% for x in [[1, [2]], [3]] recursive %}{% if x is iterable %}<{{ loop(x) }}>{% else %}{{ x }}@{{ loop.depth }}{{ loop.depth0 }}{% endif %}{% endfor %}",
    "{% for x in l %}{{ loop(x) }}{% endfor %}", "{% for x in range(3) %}{{ x }}{% endfor %}", "{% for x in l|map('string') %}{{ loop.last }}{{ loop.length }}{% endfor %}",
    "{% for x in l %}{{ loop }}{% endfor %}", "{% for loop in l %}{% endfor %}", "{{ loop }}", "{% for x in l recursive %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set x = 1, 2 %}{{ x }}", "{% set (a, b) = [1, 2] %}{{ b }}", "{% set a = b = 1 %}", "{% set 1 = 2 %}", "{% set true = 2 %}",
    "{% set x %}a{{ i }}b{% endset %}{{ x }}|{{ x|length }}", "{% set x | upper | trim %} ab {% endset %}{{ x }}", "{% set x | replace('a', 'b') %}aa{% endset %}{{ x }}",
    "{% set x = 1 %}{% for y in l %}{% set x = x + y %}{{ x }},{% endfor %}{{ x }}", "{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set ns = namespace(x=0) %}{% for y in l %}{% set ns.x = ns.x + y %}{% endfor %}{{ ns.x }}", "{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b = ns.a + 1 %}{{ ns.a }}{{ ns.b }}{{ ns.c }}",
    "{% set ns = {} %}{% set ns.x = 1 %}", "{% set ns.x = 1 %}", "{% set ns = namespace() %}{% set ns.x %}abc{% endset %}{{ ns.x }}", "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}",
    "{% set ns = namespace(l=[]) %}{% for x in l %}{% set ns.l = ns.l + [x] %}{% endfor %}{{ ns.l }}", "{{ namespace(a=1)['a'] }}", "{% set ns = namespace() %}{{ ns.x.y }}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}",
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }}", "{% macro m(a) %}x{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}x{% endmacro %}{{ m(c=2) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro m(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}",
    "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}body{{ i }}{% endcall %}",
    "{% macro m(x) %}[{{ caller(x) }}]{% endmacro %}{% call(y) m(5) %}y={{ y }}{% endcall %}", "{% macro m() %}x{% endmacro %}{% call m() %}b{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}", "{% call 5 %}{% endcall %}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro m() %} x {% endmacro %}{{ m()|trim }}|{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}", "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}", "{% macro m() %}{% set x = 5 %}{% endmacro %}{{ m() }}{{ x }}",
    "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}", "{{ m() }}{% macro m() %}x{% endmacro %}", "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}",
    "{% macro m(caller) %}{{ caller }}{% endmacro %}", "{% macro m(caller=none) %}{{ caller }}{% endmacro %}{{ m() }}", "{% macro m %}{% endmacro %}", "{{ (1).x }}{% macro m() %}",
    "{% filter upper %}abc{{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}aac{% endfilter %}", "{% filter nope %}x{% endfilter %}", "{% filter indent(2) %}a\nb{% endfilter %}",
    "{% if no %}{{ 1|nope }}{% endif %}ok", "{% if t %}{{ 1|nope }}{% endif %}", "{{ 1|nope if no else 2 }}", "{% if 1 is nope %}{% endif %}", "{% for x in e %}{{ x|nope }}{% endfor %}", "{% if no %}{% for x in l %}{{ x|nope }}{% endfor %}{% endif %}",
    "{% autoescape true %}x{% endautoescape %}", "{% autoescape false %}{{ html }}{% endautoescape %}", "{% block a %}x{{ i }}{% endblock %}", "{% block a %}{% endblock a %}y", "{% block a-b %}{% endblock %}",
    "{% generation %}x{{ i }}{% endgeneration %}", "{%- generation -%}\n x {% endgeneration %}\ny", "{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}",
    "{% if no %}{% include 'x' %}{% endif %}ok", "{% do l.append(1) %}", "{% print 1, 2 %}", "{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set _ = c.reset() %}{{ c.next() }}", "{% for g in people|groupby('age') %}{{ g.grouper }}:{{ g.list|length }};{% endfor %}",
    "{% for age, who in people|groupby('age') %}{{ age }}={{ who|map(attribute='name')|join(',') }};{% endfor %}", "{% set xs = l|map('string') %}{{ xs|join }}{{ xs|join }}", "line1\n{{ missing.x }}", "line1\nline2\n{% if missing.x %}{% endif %}",
    "\n\n{{ 1 + 'a' }}", "\n{% set x = nil.a.b %}", "{{ raise_exception('no ' ~ i) }}", "a\n{% for m in msgs %}\n{% if m.role == 'assistant' %}{{ raise_exception('bad role') }}{% endif %}\n{% endfor %}",
    "\n\n{{ foo(", "\n{% if 1 %}\n{% for %}", "a\n{{ 'x }}", "{% if 1 -%}\n\n{{ missing.y }}{% endif %}", "a\r\nb\r{{ 1 }}\r\n", "{{ '\n' }}|", "x\n\n", "x\n\n\n", "\n", "", "{{ 'a\r\nb'|length }}",
    "{{ msgs[0].role }}{{ msgs[0]['content'] }}{{ msgs[-1].content }}", "{%- for m in msgs -%}\n<|{{ m.role }}|>\n{{ m['content'] | trim }}\n{%- endfor -%}", "{% for m in msgs %}{{ '<|' + m['role'] + '|>' + '\\n' }}{% endfor %}",
    "{% if msgs[0]['role'] == 'system' %}s{% else %}n{% endif %}", "{% set ns = namespace(found=false) %}{% for m in msgs[::-1] %}{% if not ns.found and m.role == 'user' %}{% set ns.found = true %}{{ loop.index0 }}{% endif %}{% endfor %}",
    "{% if loop is defined %}a{% endif %}b", "{{ {'a': {'b': {'c': 1}}}.a.b.c }}", "{{ {} }}{{ {}|length }}", "{{ {'a': '}}'} }}", "{{ '%}' }}", "{% if '%}' %}x{% endif %}", "{{ \"{{\" }}{{ '}}' }}", "{{ [[1, 2], [3]][0][1] }}",
    "{{- ' a ' -}}", "a{{+ 1 }}", "  {%- if 1 %}a{% endif %}  {%- if 1 %}b{% endif %}", "{% if 1 %}\n\n  {{ 1 }}\n\n{% endif %}", "x {% if 1 %} y {% endif %} z\n  {% if 1 %}  \n", "\t{% if 1 %}\n\t\tx\n\t{% endif %}\n", "{% for x in l %}\n  {{ x }}\n  {% if not loop.last %}\n,\n  {% endif %}\n{% endfor %}\n",
    "a{# x #}\n\nb", "a\n{# x #}\n{# y #}\nb", "{% set a %}{% endset %}[{{ a }}]", "{% set x = 1 -%}\n  y", "{% set x = 1 +%}\n  y", "{%set x=1%}{{x}}", "{%-set x=1-%}{{-x-}}", "{% if(t) %}a{% endif %}", "{{not t}}", "{% if not(t) %}a{% else %}b{% endif %}", "{{ 1if t else 2 }}",
    "{% set x = {'a': 1,\n'b': 2} %}{{ x.b }}", "{{ 1\n+\n'a' }}", "{{ ns is defined and ns.x }}", "{{ (msgs | selectattr('role', 'equalto', 'system') | list | first) is defined }}", "{{ msgs | map(attribute='role') | unique | join(',') }}",
    "{% set content = msgs[0].content if msgs[0].content is string else 'x' %}{{ content }}", "{{ ('a' in 'abc') and ('x' not in 'abc') }}", "{% macro a() %}{% macro b() %}{{ i }}{% endmacro %}{{ b() }}{% endmacro %}{{ a() }}",
    "{% for x in l %}{% set ns2 = namespace(v=x) %}{{ ns2.v }}{% endfor %}", "{{ range(3)|map('string')|join }}{{ range(10)|sum }}{{ range(5)|select('even')|list }}", "{% for x in range(2) %}{% for y in range(2) %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{% endfor %}",
    "{% set a = [1, 2, 3] %}{% set b = a + [4] %}{{ a }}{{ b }}", "{{ 'x' if missing is defined and missing.y else 'z' }}", "{{ missing.y if missing is defined }}", "{{ [1, 2]|map('add', 1)|list }}", "{% for k, v in d|dictsort %}{{ k }}{{ v }}{% endfor %}", "{% for k, v in nested.x|items %}{{ k }}{{ v }}{% endfor %}",
    "{{ caller }}", "{{ caller() }}", "{{ varargs }}", "{{ loop.index }}", "{% for x in l %}{% else %}{{ loop }}{% endfor %}", "{% set loop = 5 %}{{ loop }}", "{% set d = 5 %}{{ d }}", "{% if d %}{% set d = none %}{% endif %}{{ d }}", "{% for d in l %}{% endfor %}{{ d.a }}",
]


class Generation(jinja2.ext.Extension):
    """Stands for the tracker of what the assistant says."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("written"), [], [], body).set_lineno(line)

    def written(self, caller):
        return caller()


def make_environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    return environment


def kind_of(error):
    if isinstance(error, jinja2.exceptions.SecurityError):
        return "security"
    if isinstance(error, jinja2.exceptions.UndefinedError):
        return "undefined"
    if isinstance(error, (jinja2.exceptions.TemplateSyntaxError, SyntaxError)):
        return "syntax"
    if type(error) is jinja2.exceptions.TemplateError:
        return "raised"
    if isinstance(error, TypeError):
        return "type"
    if isinstance(error, OverflowError) and "Range" in str(error):
        return "limit"
    return "value" if isinstance(error, ValueError) else "runtime"


def line_of(error):
    if isinstance(error, jinja2.exceptions.TemplateSyntaxError):
        return error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


# What Python says of calls that do not fit a function names how that function is written.
UNSTABLE = ("argument", "jinja2", "asyncio", "object at 0x", "format", "Item ", "must be str", "expected", "has no len", "escape",
            "+=")
STABLE_KINDS = ("raised", "undefined", "security")


def case_of(environment, template):
    case = {"template": template}
    try:
        case["expected"] = environment.from_string(template).render(**CONTEXT)
    except Exception as error:
        case["error"] = kind_of(error)
        text = str(error)
        if case["error"] in STABLE_KINDS or case["error"] == "syntax" or not any(word in text for word in UNSTABLE):
            message = error.message if isinstance(error, jinja2.exceptions.TemplateSyntaxError) else text
            case["message"] = message.split(" (<template>")[0]
        line = line_of(error)
        if line is not None:
            case["line"] = line
    return case


def main():
    environment = make_environment()
    templates = ["{{ " + expression + " }}" for expression in EXPRESSIONS] + TEMPLATES
    cases = [case_of(environment, template) for template in dict.fromkeys(templates)]
    cases = [case for case in cases if "0x7" not in case.get("expected", "")]
    with open(os.path.join(HERE, "jinja.json"), "w") as file:
        file.write("{\n\"context\": " + json.dumps(CONTEXT) + ",\n\"cases\": [\n")
        file.write(",\n".join(json.dumps(case) for case in cases) + "\n]\n}\n")
    print(len(cases), "cases,", sum("error" in case for case in cases), "of them errors")


if __name__ == "__main__":
    main()
