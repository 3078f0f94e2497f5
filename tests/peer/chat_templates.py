#!/usr/bin/env python3
"""What Jinja makes of chat templates, for check_chat_templates.c.

chat_templates.py OUT FOLDER [GGUF...]: for every FOLDER/*.jinja, the templates inside the GGUF files, and
every conversation below, write OUT/N.template, OUT/N.json (the variables) and OUT/N.want, which is
absent where Jinja fails. The environment is the one in which the templates are used."""

import glob
import json
import os
import sys

try:
    import gguf
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError as error:
    print(error)
    sys.exit(77)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": 'A city, e.g. "Oslo"'},
                "unit": {"type": "string", "enum": ["c", "f"]},
                "days": {"type": "integer", "default": 3},
            },
            "required": ["city"],
        },
    },
}


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def call(arguments):
    function = {"name": "get_weather", "arguments": arguments}
    return [{"id": "call12345", "type": "function", "function": function}]


SYSTEM, USER, BOT = say("system", " Be brief. "), say("user", "Hello, <w>\u00f6rld's\n"), say("assistant", "Hi!")
THOUGHT = say("assistant", "<think>\nhm\n</think>\n\nok", reasoning_content="hm")
PARTS = say("user", [{"type": "text", "text": "look"}, {"type": "text", "text": "here"}])
RESULT = say("tool", '{"t": 21.5}', tool_call_id="call12345", name="get_weather")
CONVERSATIONS = [
    {"messages": [USER]},
    {"messages": [SYSTEM, USER]},
    {"messages": [SYSTEM, USER, BOT, USER]},
    {"messages": [USER, BOT], "add_generation_prompt": False},
    {"messages": [SYSTEM, USER], "tools": [WEATHER]},
    {"messages": [USER, say("assistant", None, tool_calls=call({"city": "Oslo"})), RESULT, USER], "tools": [WEATHER]},
    {"messages": [USER, say("assistant", "", tool_calls=call('{"city": "Oslo"}')), RESULT], "tools": [WEATHER]},
    {"messages": [USER, THOUGHT, USER], "enable_thinking": False},
    {"messages": [USER, THOUGHT, USER, THOUGHT], "enable_thinking": True},
    {"messages": [PARTS, BOT, USER]},
    {"messages": [BOT, USER]},
    {"messages": []},
    {"messages": [SYSTEM, USER], "date_string": "01 Jan 2025"},
]


def main():
    out, folder, files = sys.argv[1], sys.argv[2], sys.argv[3:]
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters.update(tojson=tojson, from_json=json.loads)
    environment.globals["raise_exception"] = raise_exception
    sources = {os.path.basename(f): open(f, newline="").read() for f in glob.glob(folder + "/*.jinja")}
    for f in files:
        field = gguf.GGUFReader(f).fields.get("tokenizer.chat_template")
        if field:
            sources[os.path.basename(f)] = field.contents()
    n = 0
    for name, source in sorted(sources.items()):
        for conversation in CONVERSATIONS:
            variables = {"add_generation_prompt": True, **conversation}
            base = f"{out}/{n}"
            n += 1
            with open(base + ".name", "w") as f:
                f.write(name)
            with open(base + ".template", "w", newline="") as f:
                f.write(source)
            with open(base + ".json", "w") as f:
                json.dump(variables, f)
            try:
                want = environment.from_string(source).render(bos_token="<s>", eos_token="</s>", **variables)
            except Exception:  # of the template, the sandbox, or Python itself
                continue
            with open(base + ".want", "w", newline="") as f:
                f.write(want)


main()
