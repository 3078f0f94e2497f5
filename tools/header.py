"""Read the public header: functions with typed parameters, enums, structs, handle types."""

import re
from dataclasses import dataclass


@dataclass
class Param:
    type: str  # as written, spaces normalised: "const int64_t *"
    name: str


@dataclass
class Function:
    name: str
    ret: str
    params: list


@dataclass
class Header:
    functions: list
    enums: dict  # constant -> value
    structs: dict  # name -> [(type, field)] ; function pointers have type "callback"
    handles: list
    scalars: dict  # typedef -> base type
    version: str


def normalise(text):
    text = re.sub(r"\s+", " ", text.strip())
    return re.sub(r"\s*\*\s*", " *", text).replace("* *", "**").strip()


def split_top(text):
    """Split at commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return parts + [text[start:]]


def parse_param(text):
    text = normalise(text)
    callback = re.match(r"(.*)\(\s*\*\s*(\w+)\)\s*\((.*)\)$", text)
    if callback:
        return Param("callback", callback.group(2))
    m = re.match(r"(.*?)(\w+)$", text)
    return Param(normalise(m.group(1)), m.group(2))


def parse_struct(body):
    fields = []
    for field in body.split(";"):
        field = normalise(field)
        if not field:
            continue
        if "(*" in field.replace("( *", "(*"):
            fields.append(("callback", re.search(r"\(\s*\*\s*(\w+)\)", field).group(1)))
            continue
        first, *rest = field.split(",")
        p = parse_param(first)
        fields.append((p.type, p.name))
        fields += [(p.type, normalise(r)) for r in rest]
    return fields


def read(path):
    raw = open(path, encoding="utf-8").read()
    text = re.sub(r"/\*.*?\*/", " ", raw, flags=re.S)
    version = re.search(r'MLSYS_VERSION_STRING "([^"]+)"', text).group(1)
    functions = []
    for m in re.finditer(
        r"^MLSYS_API\s+([^;]*?)(mlsys_\w+)\(((?:[^()]|\([^()]*\))*)\);", text, re.M
    ):
        params = [] if m.group(3).strip() == "void" else [parse_param(p) for p in split_top(m.group(3))]
        functions.append(Function(m.group(2), normalise(m.group(1)), params))
    enums = {}
    for body in re.findall(r"enum \{([^}]*)\}", text):
        for item in body.split(","):
            if "=" in item:
                name, value = item.split("=")
                enums[name.strip()] = int(value)
    structs = {
        name: parse_struct(body)
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\n\} (\w+);", text, re.S)
    }
    handles = re.findall(r"typedef struct \w+_s \*(\w+);", text)
    scalars = dict(
        (name, base) for base, name in re.findall(r"typedef (u?int\d+_t) (mlsys_\w+);", text)
    )
    assert len(functions) == raw.count("\nMLSYS_API "), "a declaration was not understood"
    return Header(functions, enums, structs, handles, scalars, version)
