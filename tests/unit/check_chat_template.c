/* The template language: results as Jinja 3 gives them, errors with their line, limits. */
#include "model/chat_template.h"
#include "support/skip.h"
#include "support/vocab.h"

#include <check.h>

static mlsi_alloc memory;

/* Upper and lower case beyond ASCII. */
static bool lacks_utf8proc(mlsys_status st) {
    return st == MLSYS_E_UNSUPPORTED && strstr(mlsys_last_error(), "utf8proc");
}

/* NULL and the status when it fails; otherwise the text, from malloc. */
static char *render(const char *source, const char *json, const mlsi_jinja_limits *limits,
                    mlsys_status *st) {
    mlsi_jinja *j;
    mlsi_arena arena;
    mlsi_text text;
    mlsi_jinja_value globals;
    char *out = NULL;
    *st = mlsi_jinja_create(&memory, "t", source, strlen(source), &j);
    if (*st != MLSYS_OK) return NULL;
    mlsi_arena_init(&arena, &memory);
    mlsi_text_init(&text, &memory);
    if (!json) json = "{}";
    *st = mlsi_jinja_from_json(&arena, json, strlen(json), &globals);
    if (*st == MLSYS_OK) *st = mlsi_jinja_render(j, globals, limits, &text);
    if (*st == MLSYS_OK) out = strndup(text.data, (size_t)text.len);
    mlsi_text_free(&text);
    mlsi_arena_free(&arena);
    mlsi_jinja_free(j);
    return out;
}

static const struct {
    const char *source, *json, *want;
} rows[] = {
    {"plain text", NULL, "plain text"},
    {"", NULL, ""},
    {"a\n", NULL, "a"},
    {"a\n\n", NULL, "a\n"},
    {"{{ x }}", "{\"x\": \"v\"}", "v"},
    {"{{ x }}|{{ y.z }}|{{ y['z'] }}|{{ y.w }}|", "{\"x\": null, \"y\": {\"z\": 1}}", "None|1|1||"},
    {"{{ 'a' 'b' ~ 1 ~ none ~ true ~ 1.5 ~ [1,'x'] ~ {'k': 'v'} }}", NULL,
     "ab1NoneTrue1.5[1, 'x']{'k': 'v'}"},
    {"{{ '\\n\\t\\\\\\'\\x41\\u00e4\\q' }}", NULL, "\n\t\\'A\xc3\xa4\\q"},
    {"{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 1.0 }}",
     NULL, "5.0 3 -4 2 1024 1.0"},
    {"{{ 7 // 2.0 }} {{ -7.5 % 2 }} {{ 1 / 3 }} {{ 10 / 5 }} {{ 3.0 * 2 }} {{ 100000.0 * 10 ** 12 "
     "}}",
     NULL, "3.0 0.5 0.3333333333333333 2.0 6.0 1e+17"},
    {"{{ 'ab' * 3 }} {{ [1] * 2 }} {{ 'a' + 'b' }} {{ [1] + [2] }} {{ (1,) + (2, 3) }}", NULL,
     "ababab [1, 1] ab [1, 2] (1, 2, 3)"},
    {"{{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' == 'a' }} {{ [1, 2] == [1, 2] }} {{ {'a': 1} == {'a': "
     "1} }} {{ none == false }}",
     NULL, "True True True True True False"},
    {"{{ 1 < 2 }} {{ 'a' < 'b' }} {{ 2 >= 2 }} {{ 1 != 2 }} {{ 'b' in 'abc' }} {{ 4 not in [1, 2] "
     "}} {{ 'k' in {'k': 1} }}",
     NULL, "True True True True True True True"},
    {"{{ a or 'd' }} {{ 'x' and 'y' }} {{ not a }} {{ '' or 0 or none }} {{ 1 if a else 2 }} {{ 1 "
     "if a }}|",
     "{\"a\": \"\"}", "d y True None 2 |"},
    {"{{ not a is defined }} {{ a is not defined }} {{ x is none }} {{ x is not none }} {{ 3 is "
     "divisibleby 3 }} {{ 3 is odd }} {{ 'a' is string }}",
     "{\"x\": null}", "True True True False True True True"},
    {"{{ x is mapping }} {{ [] is iterable }} {{ 'a' is sequence }} {{ 1 is number }} {{ true is "
     "boolean }} {{ 1.5 is float }} {{ x is iterable }} {{ 1 is integer }} {{ true is integer }} "
     "{{ true is true }} {{ 0 is false }}",
     "{\"x\": {}}", "True True True True True True True True False True False"},
    {"{{ s[0] }} {{ s[-1] }} {{ s[1:3] }} {{ s[::-1] }} {{ s[:-1] }} {{ s[10:] }}| {{ l[1:] }} {{ "
     "l[::2] }} {{ l[-2:] }} {{ l[5] }}|",
     "{\"s\": \"h\xc3\xa4\xc3\x9f\xc3\xb6\", \"l\": [1, 2, 3, 4]}",
     "h \xc3\xb6 \xc3\xa4\xc3\x9f \xc3\xb6\xc3\x9f\xc3\xa4h h\xc3\xa4\xc3\x9f | [2, 3, 4] [1, 3] "
     "[3, 4] |"},
    {"{% if a %}A{% elif b %}B{% else %}C{% endif %}", "{\"a\": 0, \"b\": 1}", "B"},
    {"{% for i in l %}{{ loop.index }}/{{ loop.length }}:{{ i }}{% if not loop.last %}, {% endif "
     "%}{% else %}none{% endfor %}",
     "{\"l\": [\"x\", \"y\"]}", "1/2:x, 2/2:y"},
    {"{% for i in [] %}x{% else %}empty{% endfor %}", NULL, "empty"},
    {"{% for i in l if i > 1 %}{{ loop.index0 }}{{ i }}{{ loop.first }}{{ loop.revindex }}{{ "
     "loop.previtem }}{{ loop.nextitem }};{% endfor %}",
     "{\"l\": [1, 2, 3]}", "02True23;13False12;"},
    {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% "
     "for (a, b) in [(1, 2)] %}{{ b }}{% endfor %}",
     "{\"d\": {\"b\": 1, \"a\": 2}}", "b=1;a=2;ba2"},
    {"{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% "
     "endif %}{{ i }}{% endfor %}",
     NULL, "02"},
    {"{% for i in range(2) %}{% for j in range(2) %}{{ i }}{{ j }}{{ loop.index }} {% endfor %}{{ "
     "loop.index }};{% endfor %}",
     NULL, "001 012 1;101 112 2;"},
    {"{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}", NULL, "21"},
    {"{% set ns = namespace(n=0, s='') %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% set ns.s "
     "= ns.s ~ i %}{% endfor %}{{ ns.n }} {{ ns.s }} {{ ns.absent is defined }}",
     NULL, "3 12 False"},
    {"{% set a, b = 1, 2 %}{{ b }}{{ a }}{% set t = 1, 2 %}{{ t }}", NULL, "21(1, 2)"},
    {"{% set x %}a{{ 1 }}b{% endset %}[{{ x }}]{% set y | upper %}q{% endset %}{{ y }}", NULL,
     "[a1b]Q"},
    {"{% macro m(a, b='B', c=none) %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, 2) "
     "}}{{ m(1, c=3) }}{{ m() }}",
     NULL, "<1BNone><12None><1B3><BNone>"},
    {"{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", NULL,
     "3210"},
    {"{% filter upper | replace('B', 'x') %}ab{{ 1 }}{% endfilter %}", NULL, "Ax1"},
    {"{% generation %}g{% endgeneration %}", NULL, "g"},
    {"{{ ' a b '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xa'.lstrip('x') }}|{{ 'a\\n'.rstrip() "
     "}}|{{ 'aBc'.upper() }}{{ 'AbC'.lower() }}",
     NULL, "a b|a|a|a|ABCabc"},
    {"{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b "
     "c'.split(none, 1) }} {{ 'a-b-c'.rsplit('-', 1) }} {{ 'abc'.split('x') }}",
     NULL, "['a', 'b', '', 'c'] ['a', 'b'] ['a', 'b,c'] ['a', 'b c'] ['a-b', 'c'] ['abc']"},
    {"{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'aXbX'.replace('X', '--') "
     "}} {{ 'h\xc3\xa4h'.find('h') }} {{ 'abab'.count('ab') }} {{ 'x'.find('q') }}",
     NULL, "True True a--b-- 0 2 -1"},
    {"{{ '\xc3\xa4rger stra\xc3\x9f"
     "e'.title() }} {{ '\xc3\xa9"
     "A'.capitalize() }} {{ '\xc3\x84\xc3\x89'.lower() }} {{ '\xc3\xa4\xc3\xa9'.upper() }} {{ "
     "'12'.isdigit() }} {{ 'a\\nb\\r\\nc'.splitlines() }}",
     NULL,
     "\xc3\x84rger Stra\xc3\x9f"
     "e \xc3\x89"
     "a \xc3\xa4\xc3\xa9 \xc3\x84\xc3\x89 True ['a', 'b', 'c']"},
    {"{{ d.get('a') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d.keys() | list }} {{ d.values() | "
     "list }}",
     "{\"d\": {\"a\": 1, \"b\": 2}}", "1 None 5 ['a', 'b'] [1, 2]"},
    {"{{ s | trim }}|{{ l | length }}|{{ l | first }}{{ l | last }}|{{ l | join('-') }}|{{ l | "
     "join }}|{{ s | length }}",
     "{\"s\": \" x \", \"l\": [3, 1, 2]}", "x|3|32|3-1-2|312|3"},
    {"{{ q | default('d') }} {{ '' | default('d') }}| {{ '' | default('d', true) }} {{ none | "
     "default('d') }} {{ false | d('x', boolean=true) }}",
     NULL, "d | d None x"},
    {"{{ l | sort }} {{ l | sort(reverse=true) }} {{ ['b', 'A', 'c'] | sort }} {{ l | unique | "
     "list }} {{ l | max }} {{ l | min }} {{ l | sum }} {{ l | reverse | list }}",
     "{\"l\": [3, 1, 2, 1]}",
     "[1, 1, 2, 3] [3, 2, 1, 1] ['A', 'b', 'c'] [3, 1, 2] 3 1 7 [1, 2, 1, 3]"},
    {"{{ m | map(attribute='n') | list }} {{ m | selectattr('n', 'gt', 1) | list | length }} {{ m "
     "| rejectattr('n', 'equalto', 1) | map(attribute='n') | join(',') }} {{ [0, 1, ''] | select | "
     "list }} {{ ['a', 'b'] | map('upper') | join }}",
     "{\"m\": [{\"n\": 1}, {\"n\": 2}]}", "[1, 2] 1 2 [1] AB"},
    {"{{ d | dictsort }} {{ d | items | list }} {{ '3' | int + 1 }} {{ 'x' | int(7) }} {{ '2.5' | "
     "float }} {{ 3.7 | int }} {{ -3 | abs }}",
     "{\"d\": {\"b\": 1, \"a\": 2}}", "[('a', 2), ('b', 1)] [('b', 1), ('a', 2)] 4 7 2.5 3 3"},
    {"{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 1 | string }}", NULL,
     "a\n    b\n\n    c|  a\n  b|1"},
    {"{{ x | tojson }}",
     "{\"x\": {\"a\": [1, 2.5, null, true], \"s\": \"q\\\"\\\\\\n\xc3\xa4\\u0001<>&'\", \"e\": [], "
     "\"o\": {}}}",
     "{\"a\": [1, 2.5, null, true], \"s\": \"q\\\"\\\\\\n\xc3\xa4\\u0001<>&'\", \"e\": [], \"o\": "
     "{}}"},
    {"{{ x | tojson(indent=2) }} {{ x | tojson(ensure_ascii=true) }} {{ x | "
     "tojson(separators=(',', ':')) }} {{ x | tojson(sort_keys=true) }}",
     "{\"x\": {\"b\": \"\xc3\xa4\xf0\x9f\xa6\x99\", \"a\": [1, {}]}}",
     "{\n  \"b\": \"\xc3\xa4\xf0\x9f\xa6\x99\",\n  \"a\": [\n    1,\n    {}\n  ]\n} {\"b\": "
     "\"\\u00e4\\ud83e\\udd99\", \"a\": [1, {}]} {\"b\":\"\xc3\xa4\xf0\x9f\xa6\x99\",\"a\":[1,{}]} "
     "{\"a\": [1, {}], \"b\": \"\xc3\xa4\xf0\x9f\xa6\x99\"}"},
    {"{{ [none, true, 1.0, 'it\\'s', \"q\\\"\", 'a\\nb', (1,), {'k': [1]}] }}", NULL,
     "[None, True, 1.0, \"it's\", 'q\"', 'a\\nb', (1,), {'k': [1]}]"},
    {"{{ 1.0 }} {{ 0.1 + 0.2 }} {{ 1e5 if false else 100000.0 * 1000000000000.0 }} {{ 1.5 * 2 }}",
     NULL, "1.0 0.30000000000000004 1e+17 3.0"},
    {"{{ range(3) | list }} {{ range(1, 10, 4) | list }} {{ range(3, 0, -1) | list }} {{ "
     "dict(a=1).a }}",
     NULL, "[0, 1, 2] [1, 5, 9] [3, 2, 1] 1"},
    {"{{ (a.b).c if a.b is defined else 'no' }} {{ l.0 }} {{ l[0]['x'].y }}",
     "{\"a\": {}, \"l\": [{\"x\": {\"y\": 1}}]}", "no {'x': {'y': 1}} 1"},
    {"{# comment #}a{#- strip -#} b", NULL, "ab"},
    {"  {% if true %}\n  x\n  {% endif %}\n y", NULL, "  x\n y"},
    {"a\n  {%- if true -%}  \n b {%- endif %}\nc", NULL, "abc"},
    {"a {{- ' b ' -}} c", NULL, "a b c"},
    {"{% if true %}\n\nx{% endif %}\n", NULL, "\nx"},
    {"  {%+ if true %}x{% endif +%}\ny", NULL, "  x\ny"},
    {"x\n\t {# c #}\ny", NULL, "x\ny"},
    {"{{ '{{' }}{{ '%}' }}", NULL, "{{%}"},
    {"{{ {'a': {'b': 1}}['a']['b'] }}{{ {'x': 1}|length }}", NULL, "11"},
    {"{% for m in messages[1:] %}{{ m.role }}{% endfor %}{% set messages = messages[1:] %}{{ "
     "messages | length }}",
     "{\"messages\": [{\"role\": \"a\"}, {\"role\": \"b\"}]}", "b1"},
    {"{% for x in '\xc3\xa4"
     "b' %}{{ x }},{% endfor %}{{ loop is defined }}",
     NULL, "\xc3\xa4,b,False"},
    {"{{ -x ** 2 }} {{ (-x) ** 2 }} {{ +x }} {{ - 1 - -1 }}", "{\"x\": 3}", "9 9 3 0"},
    {"{% set x = [] %}{% if not x %}empty{% endif %}{{ x }}{{ {} }}{{ () }}", NULL, "empty[]{}()"},
    {"{%- set a = 1 -%}\n\n{{ a }}\n", NULL, "1"},
    {"{% if a is defined and a is not none and a %}y{% else %}n{% endif %}", "{\"a\": \"x\"}", "y"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

START_TEST(results_are_jinjas) {
    mlsys_status st;
    mlsi_alloc_init(&memory, NULL);
    char *got = render(rows[_i].source, rows[_i].json, NULL, &st);
    if (lacks_utf8proc(st)) TEST_SKIP("%s: built without utf8proc", rows[_i].source);
    ck_assert_msg(st == MLSYS_OK, "%s: %s", rows[_i].source, mlsys_last_error());
    ck_assert_str_eq(got, rows[_i].want);
    free(got);
    ck_assert_uint_eq(memory.live_bytes, 0);
}
END_TEST

START_TEST(every_allocation_may_fail) {
    for (int row = 0; row < ROWS; row += 5) {
        mlsys_status st = MLSYS_E_NOMEM;
        for (int64_t n = 0; st != MLSYS_OK; n++) {
            vocab_budget b = {n};
            mlsys_hooks hooks = vocab_limited_hooks(&b);
            mlsi_alloc_init(&memory, &hooks);
            free(render(rows[row].source, rows[row].json, NULL, &st));
            if (lacks_utf8proc(st)) break;
            if (st != MLSYS_OK && st != MLSYS_E_NOMEM)
                ck_abort_msg("row %d, allocation %lld: status %d: %s", row, (long long)n, st,
                             mlsys_last_error());
            if (memory.live_bytes) ck_abort_msg("row %d, allocation %lld: leak", row, (long long)n);
        }
    }
}
END_TEST

/* ---- errors ---------------------------------------------------------------------------------- */

static const struct {
    const char *source;
    mlsys_status st;
    const char *text;
} refused[] = {
    {"{% if a %}", MLSYS_E_FORMAT, "line 1: endif of line 1 expected, found the end"},
    {"\n\n{% endfor %}", MLSYS_E_FORMAT, "line 3: \"endfor\" without its beginning"},
    {"{% for a in b %}\n{% endif %}", MLSYS_E_FORMAT, "line 2: endfor of line 1 expected"},
    {"{{ a", MLSYS_E_FORMAT, "line 1: the tag does not end"},
    {"{{ 'a }}", MLSYS_E_FORMAT, "the string does not end"},
    {"{# a", MLSYS_E_FORMAT, "the comment does not end"},
    {"{{ }}", MLSYS_E_FORMAT, "an expression expected"},
    {"{{ a b }}", MLSYS_E_FORMAT, "\"}}\" expected, found \"b\""},
    {"{{ a[ }}", MLSYS_E_FORMAT, "line 1"},
    {"{{ (1 }}", MLSYS_E_FORMAT, "line 1"},
    {"{{ a.'b' }}", MLSYS_E_FORMAT, "a name expected behind"},
    {"{{ ? }}", MLSYS_E_FORMAT, "0x3f has no place"},
    {"{{ 99999999999999999999 }}", MLSYS_E_FORMAT, "is too large"},
    {"{% set 1 = 2 %}", MLSYS_E_FORMAT, "a name expected"},
    {"{% break %}", MLSYS_E_FORMAT, "break outside a loop"},
    {"{{ '\\u12' }}", MLSYS_E_FORMAT, "broken escape"},
    {"{% include 'x' %}", MLSYS_E_UNSUPPORTED,
     "line 1: the statement \"include\" is not supported"},
    {"\n{% raw %}{% endraw %}", MLSYS_E_UNSUPPORTED, "line 2: the statement \"raw\""},
    {"{% call m() %}{% endcall %}", MLSYS_E_UNSUPPORTED, "statement \"call\""},
    {"{{ a | frobnicate }}", MLSYS_E_UNSUPPORTED, "the filter \"frobnicate\" is not supported"},
    {"{{ a is frobnicated }}", MLSYS_E_UNSUPPORTED, "the test \"frobnicated\" is not supported"},
    {"{{ 1 < 2 < 3 }}", MLSYS_E_UNSUPPORTED, "chained comparisons"},
    {"{{ f(*a) }}", MLSYS_E_UNSUPPORTED, "arguments from a list"},
    {"{% for a in b recursive %}{% endfor %}", MLSYS_E_UNSUPPORTED, "recursive loops"},
    {"\n{{ raise_exception('no ' ~ 1) }}", MLSYS_E_ARG,
     "line 2: the template refuses the conversation: no 1"},
    {"{{ nothing.here }}", MLSYS_E_FORMAT, "\"nothing\", which is undefined"},
    {"{{ nothing() }}", MLSYS_E_UNSUPPORTED, "the function \"nothing\" is not known"},
    {"{{ strftime_now('%Y') }}", MLSYS_E_UNSUPPORTED, "\"strftime_now\""},
    {"{{ 'a'.encode() }}", MLSYS_E_UNSUPPORTED, "the method \"encode\" of a string"},
    {"{{ [1].append(2) }}", MLSYS_E_UNSUPPORTED, "the method \"append\" of a list"},
    {"{{ {}.update(a=1) }}", MLSYS_E_UNSUPPORTED, "the method \"update\" of a dict"},
    {"{{ ''.__class__.mro }}", MLSYS_E_FORMAT, "undefined"},
    {"{{ 'a' + 1 }}", MLSYS_E_FORMAT, "a string + an integer has no meaning"},
    {"{{ 'a' + x }}", MLSYS_E_FORMAT, "\"x\", which is undefined"},
    {"{{ 1 / 0 }}", MLSYS_E_FORMAT, "division by zero"},
    {"{{ 1 % 0 }}", MLSYS_E_FORMAT, "division by zero"},
    {"{{ 'a' < 1 }}", MLSYS_E_FORMAT, "has no meaning"},
    {"{{ 1 in none }}", MLSYS_E_FORMAT, "in none has no meaning"},
    {"{{ '%s' % 1 }}", MLSYS_E_UNSUPPORTED, "formatting with %"},
    {"{{ 9223372036854775807 + 1 }}", MLSYS_E_UNSUPPORTED, "an integer overflows"},
    {"{{ (-9223372036854775807 - 1) // -1 }}", MLSYS_E_UNSUPPORTED, "an integer overflows"},
    {"{{ -(-9223372036854775807 - 1) }}", MLSYS_E_UNSUPPORTED, "an integer overflows"},
    {"{{ 10 ** 100 }}", MLSYS_E_UNSUPPORTED, "an integer overflows"},
    {"{% for a in 1 %}{% endfor %}", MLSYS_E_FORMAT, "an integer has no items"},
    {"{% for a, b in [1] %}{% endfor %}", MLSYS_E_FORMAT, "no items"},
    {"{% for a, b in [(1, 2, 3)] %}{% endfor %}", MLSYS_E_FORMAT, "3 values for 2 names"},
    {"{% set d = {} %}{% set d.a = 1 %}", MLSYS_E_FORMAT, "only a namespace"},
    {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", MLSYS_E_FORMAT, "the macro m does not take"},
    {"{{ 1() }}", MLSYS_E_FORMAT, "an integer is not a function"},
    {"{{ nothing | tojson }}", MLSYS_E_FORMAT, "tojson of undefined"},
    {"{{ namespace() | tojson }}", MLSYS_E_FORMAT, "tojson of a namespace"},
    {"{{ [1, 'a'] | sort }}", MLSYS_E_FORMAT, "have no order"},
    {"{{ range(0, 5, 0) }}", MLSYS_E_FORMAT, "step 0"},
    {"{{ 'a'[::0] }}", MLSYS_E_FORMAT, "slice"},
    {"{{ {[1]: 2} }}", MLSYS_E_UNSUPPORTED, "a list as a key"},
    {"{{ 'a' | trim(q=1, r=2) | replace('a') }}", MLSYS_E_UNSUPPORTED, "replace takes two strings"},
    {"{{ '{\"a\": }' | from_json }}", MLSYS_E_FORMAT, "line 1: json: byte 6"},
};

START_TEST(what_is_wrong_is_named) {
    mlsys_status st;
    mlsi_alloc_init(&memory, NULL);
    char *got = render(refused[_i].source, NULL, NULL, &st);
    ck_assert_msg(st == refused[_i].st, "%s: status %d: %s", refused[_i].source, st,
                  got ? got : mlsys_last_error());
    ck_assert_msg(strstr(mlsys_last_error(), refused[_i].text) != NULL, "%s: %s",
                  refused[_i].source, mlsys_last_error());
    ck_assert_msg(!strncmp(mlsys_last_error(), "t: line ", 8), "%s", mlsys_last_error());
    ck_assert_uint_eq(memory.live_bytes, 0);
}
END_TEST

/* ---- limits: each of these would run for ever, or fill the memory, or the stack ---------------
 */

#define DOUBLE                                                                                     \
    "{% set a = [a, a] %}{% set a = [a, a] %}{% set a = [a, a] %}{% set a = [a, a] %}"             \
    "{% set a = [a, a] %}{% set a = [a, a] %}{% set a = [a, a] %}{% set a = [a, a] %}{% set a = "  \
    "[a, a] %}{% set a = [a, a] %}"
#define BOTH                                                                                       \
    "{% set b = [b, b] %}{% set b = [b, b] %}{% set b = [b, b] %}{% set b = [b, b] %}"             \
    "{% set b = [b, b] %}{% set b = [b, b] %}{% set b = [b, b] %}{% set b = [b, b] %}{% set b = "  \
    "[b, b] %}{% set b = [b, b] %}"
static const char *const endless[] = {
    "{% for i in range(1000000000000) %}x{% endfor %}",
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor "
    "%}",
    "{{ 'x' * 1000000000000 }}",
    "{{ 'x' * 9223372036854775807 }}",
    "{{ [0] * 1000000000000 }}",
    "{% set a = [1] %}" DOUBLE DOUBLE DOUBLE DOUBLE "{{ a }}",
    "{% set a = [1] %}" DOUBLE DOUBLE DOUBLE DOUBLE "{{ a | tojson }}",
    "{% set a = [1] %}{% set b = [1] %}" DOUBLE DOUBLE DOUBLE DOUBLE BOTH BOTH BOTH BOTH
    "{{ a == b }}",
    "{% for i in range(30) %}{{ ('ab' * 1000000) | replace('a', 'b' * 1000000) }}{% endfor %}",
    "{{ ('a' * 10000000) | replace('a', 'b' * 1000) }}",
    "{{ ('\\n' * 10000000) | indent(1000, true, true) }}",
    "{{ (range(100000) | list) | join('x' * 100000) }}",
    "{{ range(1000000) | unique | list }}",
};

START_TEST(endless_templates_end) {
    mlsys_status st;
    mlsi_alloc_init(&memory, NULL);
    free(render(endless[_i], NULL, NULL, &st));
    ck_assert_msg(st == MLSYS_E_UNSUPPORTED, "%s: status %d: %s", endless[_i], st,
                  mlsys_last_error());
    ck_assert_uint_eq(memory.live_bytes, 0);
    ck_assert_uint_lt(memory.peak_bytes, (uint64_t)1 << 31);
}
END_TEST

START_TEST(deep_templates_end) {
    enum { N = 100000 };
    static const struct {
        const char *start, *unit, *end;
    } deep[] = {{"{{ ", "(", "1 }}"},       {"{{ ", "[", "1 }}"},     {"{{ ", "not ", "1 }}"},
                {"{{ ", "-", "1 }}"},       {"{{ ", "1 if ", "1 }}"}, {"", "{% if 1 %}", ""},
                {"{{ 1", "+1", " }}"},      {"{{ a", ".a", " }}"},    {"{{ ", "{1:", "1 }}"},
                {"{{ 'a'", "|trim", " }}"}, {"{{ a", "()", " }}"}};
    char *source = malloc(N * 12 + 100);
    mlsi_alloc_init(&memory, NULL);
    for (size_t i = 0; i < sizeof deep / sizeof deep[0]; i++) {
        mlsys_status st;
        size_t n = (size_t)sprintf(source, "%s", deep[i].start), len = strlen(deep[i].unit);
        for (int k = 0; k < N; k++, n += len)
            memcpy(source + n, deep[i].unit, len);
        strcpy(source + n, deep[i].end);
        free(render(source, NULL, NULL, &st));
        ck_assert_msg(st == MLSYS_E_UNSUPPORTED || st == MLSYS_E_FORMAT, "%zu: status %d", i, st);
        ck_assert_uint_eq(memory.live_bytes, 0);
    }
    free(source);
}
END_TEST

START_TEST(limits_are_the_callers) {
    const mlsi_jinja_limits few = {.steps = 100}, little = {.memory = 1000};
    mlsys_status st;
    mlsi_alloc_init(&memory, NULL);
    free(render("{% for i in range(200) %}{{ i }}{% endfor %}", NULL, &few, &st));
    ck_assert_int_eq(st, MLSYS_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "too many steps"));
    free(render("{{ 'x' * 1001 }}", NULL, &little, &st));
    ck_assert_int_eq(st, MLSYS_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "too much memory"));
}
END_TEST

/* ---- chat ------------------------------------------------------------------------------------ */

START_TEST(chat) {
    static const char source[] =
        "{{ bos_token }}{% for m in messages %}{% if loop.first and m.role != 'system' %}[SYS]"
        "default{% endif %}[{{ m['role'] | upper }}]{{ m.content }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}[ASSISTANT]{% endif %}{{ extra }}";
    const mlsi_chat_message messages[] = {{{"user", 4}, {"h\0i", 3}},
                                          {{"assistant", 9}, {"yes", 3}}};
    mlsi_chat_template *c;
    mlsi_text text;
    mlsi_alloc_init(&memory, NULL);
    ck_assert_int_eq(mlsi_chat_template_create(&memory, test_bytes_of(source), test_bytes_of("<s>"),
                                               test_bytes_of("</s>"), &c),
                     MLSYS_OK);
    mlsi_text_init(&text, &memory);
    ck_assert_int_eq(mlsi_chat_template_render(c, messages, 2, true, "{\"extra\": [1]}", &text),
                     MLSYS_OK);
    static const char want[] = "<s>[SYS]default[USER]h\0i</s>[ASSISTANT]yes</s>[ASSISTANT][1]";
    ck_assert_int_eq(text.len, sizeof want - 1);
    ck_assert_mem_eq(text.data, want, sizeof want);
    ck_assert_int_eq(mlsi_chat_template_render(c, messages, 0, true, "[1]", &text), MLSYS_E_ARG);
    ck_assert_int_eq(mlsi_chat_template_render(c, messages, 0, true, "{\"a\"}", &text),
                     MLSYS_E_FORMAT);
    ck_assert_int_eq(text.len, sizeof want - 1); /* as before */
    ck_assert_int_eq(mlsi_chat_template_render(c, messages, 0, false, NULL, &text), MLSYS_OK);
    ck_assert_str_eq(text.data + sizeof want - 1, "<s>");
    mlsi_text_free(&text);
    mlsi_chat_template_free(c);
    ck_assert_uint_eq(memory.live_bytes, 0);
}
END_TEST

START_TEST(json) {
    static const char *const bad[] = {
        "",      "{",           "[1,]",        "{\"a\":1,}", "01",  "1.",       "+1",
        "'a'",   "\"a",         "\"\n\"",      "\"\\x\"",    "nul", "1 2",      "[1 2]",
        "{1:2}", "\"\\ud800\"", "\"\\udc00\"", "-",          "[",   "{\"a\" 1}"};
    static const char *const good[] = {"0",
                                       "-1.5e3",
                                       "\"\\ud83e\\udd99\"",
                                       " [ ] ",
                                       "{}",
                                       "[[],{}]",
                                       "{\"a\":{\"b\":[null,true,false]}}",
                                       "123456789012345678901"};
    mlsi_arena arena;
    mlsi_jinja_value v;
    mlsi_alloc_init(&memory, NULL);
    mlsi_arena_init(&arena, &memory);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(mlsi_jinja_from_json(&arena, bad[i], strlen(bad[i]), &v) == MLSYS_E_FORMAT,
                      "%s", bad[i]);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ck_assert_msg(mlsi_jinja_from_json(&arena, good[i], strlen(good[i]), &v) == MLSYS_OK,
                      "%s: %s", good[i], mlsys_last_error());
    mlsi_arena_free(&arena);
}
END_TEST

int main(void) {
    Suite *s = suite_create("chat_template");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 20);
    tcase_add_loop_test(tc, results_are_jinjas, 0, ROWS);
    tcase_add_test(tc, every_allocation_may_fail);
    tcase_add_loop_test(tc, what_is_wrong_is_named, 0, sizeof refused / sizeof refused[0]);
    tcase_add_loop_test(tc, endless_templates_end, 0, sizeof endless / sizeof endless[0]);
    tcase_add_test(tc, deep_templates_end);
    tcase_add_test(tc, limits_are_the_callers);
    tcase_add_test(tc, chat);
    tcase_add_test(tc, json);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
