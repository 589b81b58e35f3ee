#!/usr/bin/env python3
"""Prints figures of the structure of the sources, as a table or as JSON.

usage: numbers.py [--json] [FOLDER]

FOLDER is a checkout (default: the one that contains this script). To compare two commits, check each out into a
folder of its own (git worktree add) and run the script on both. The figures are counts of text: they need no build.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

CODE = (".h", ".cc", ".cu", ".proto", ".py", ".cmake", ".sh")
ROOMS = ("protos", "kernels", "services", "orchestrator", "clients", "deploy", "models", "tests")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
FLAG = re.compile(r"\bABSL_FLAG\(\s*[^,]+(?:<[^>]*>)?\s*,\s*(\w+)\s*,|\b(?:Text|Texts|Switch|Integer|Number|Duration)Option\(\s*\"(\w+)\"")
CLASS = re.compile(r"^(?:template\s*<[^\n]*>\s*)?(class|struct)\s+(?:\w+\(.*?\)\s*)?(\w+)[^;{]*\{", re.MULTILINE)

# The types that one thing passes through between scheduler and client, by the thing. A name counts where a header or
# proto of the product defines it.
DATA_PATH = {
    "output row": ("Row", "RowRequest", "SamplerRow", "SamplerTask", "SampleRow", "SampledRow", "SampledToken",
                   "RowResult", "AcceptedRow", "TokenEvent", "PositionLogprobs"),
    "segment": ("Segment", "PlannedSegment", "ShardSegment", "AttentionSegment"),
    "step": ("Step", "PlannedStep", "StepInFlight", "Committed"),
}

# Words by which a file knows a weight format or a family.
FORMATS = {"int8": r"\bk?Int8\b|\bINT8\b|\bint8\b", "int4": r"\bk?Int4\b|\bINT4\b|\bint4\b",
           "fp8": r"\bk?Fp8\w*\b|\bFP8\b|\bfp8\b|F8_E4M3", "fp8-w8a8": r"[Ww]8[Aa]8|kFp8Pairs"}
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "smollm3", "phi3", "gemma", "gemma2", "granite", "olmo2", "cohere",
            "starcoder2", "stablelm", "glm4", "internlm2", "gpt2", "gpt_neox")


def files_of(root):
    """Tracked code files and their text, by path."""
    names = subprocess.run(["git", "-C", root, "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")
    found = {}
    for name in names:
        path = root / name
        if name.endswith(CODE + ("CMakeLists.txt",)) and path.is_file():
            found[name] = path.read_text(errors="replace")
    return found


def is_product(name):
    return name.split("/")[0] in ROOMS[:5]


def lines_by_room(files):
    rooms = collections.Counter()
    for name, text in files.items():
        room = name.split("/")[0]
        rooms[room if room in ROOMS else "other"] += text.count("\n")
    return dict(rooms)


def folder_circles(files):
    """Sets of folders that include each other, directly or by way of others."""
    edges = collections.defaultdict(set)
    for name, text in files.items():
        if not is_product(name) or not name.endswith((".h", ".cc", ".cu")):
            continue
        folder = str(pathlib.PurePath(name).parent)
        for include in INCLUDE.findall(text):
            target = str(pathlib.PurePath(include).parent)
            if include in files and target != folder:
                edges[folder].add(target)

    def reached(start):
        seen, todo = set(), [start]
        while todo:
            for target in edges[todo.pop()]:
                if target not in seen:
                    seen.add(target)
                    todo.append(target)
        return seen

    reach = {folder: reached(folder) for folder in list(edges)}
    circles = {frozenset(other for other in reach[folder] if folder in reach.get(other, ())) for folder in reach
               if folder in reach[folder]}
    return sorted(sorted(circle) for circle in circles)


def body_of(text, begin):
    """The text between the brace at `begin` and its counterpart."""
    depth = 0
    for i in range(begin, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return text[begin + 1:i]
    return text[begin + 1:]


def public_methods(kind, body):
    """How many member functions a class's body declares as public. A count of text: near enough to compare."""
    flat, depth = [], 0
    for c in re.sub(r"//[^\n]*", "", body):
        if c == "{":
            depth += 1
            if depth == 1:
                flat.append(";")
        elif c == "}":
            depth -= 1
        elif depth == 0:
            flat.append(c)
    visible = kind == "struct"
    count = 0
    for statement in "".join(flat).split(";"):
        for part in re.split(r"\b(public|protected|private)\s*:(?!:)", statement):
            if part in ("public", "protected", "private"):
                visible = part == "public"
            elif visible and re.search(r"\w+\s*\(", part) and not re.search(r"=\s*delete|\busing\b|\bfriend\b|\bSLUICE_\w+\(", part):
                count += 1
    return count


def widest_classes(files, number=8):
    found = []
    for name, text in files.items():
        if is_product(name) and name.endswith(".h"):
            for match in CLASS.finditer(text):
                found.append((public_methods(match.group(1), body_of(text, match.end() - 1)), match.group(2), name))
    return sorted(found, reverse=True)[:number]


def naming(files, pattern, product_only=True):
    wanted = re.compile(pattern)
    return sum(1 for name, text in files.items() if (not product_only or is_product(name) or name.startswith("deploy"))
               and wanted.search(text))


def files_by_option(files):
    options = sorted({option for name, text in files.items() if is_product(name) for pair in FLAG.findall(text) for option in pair if option})
    # One word, such as "model", is said of other things, too.
    return {option: naming(files, rf"\b{option}\b" if "_" in option else rf'FLAGS_{option}\b|--{option}\b|"{option}"')
            for option in options}


def data_path(files):
    headers = [text for name, text in files.items() if is_product(name) and name.endswith((".h", ".proto"))]
    counts = {}
    for thing, names in DATA_PATH.items():
        definition = [re.compile(rf"^\s*(?:struct|class|message)\s+{name}\b[^;]*\{{", re.MULTILINE) for name in names]
        counts[thing] = sum(len(one.findall(text)) for one in definition for text in headers)
    return counts


def twins(files, window=10):
    """Pairs of C++ files that share `window` lines or more in a row, comments, includes and brackets aside; and how many."""
    places = collections.defaultdict(list)
    for name, text in files.items():
        if not name.endswith((".h", ".cc", ".cu")):
            continue
        squeezed = (re.sub(r"\s+", "", line) for line in text.split("\n"))
        lines = [line for line in squeezed if len(line) > 3 and not line.startswith(("//", "#"))]
        for i in range(len(lines) - window + 1):
            places["\n".join(lines[i:i + window])].append(name)
    counts = collections.Counter(tuple(sorted(found)[:2]) for found in places.values() if len(found) > 1)
    return [{"lines": count + window - 1, "files": list(pair)} for pair, count in counts.most_common()]


def numbers_of(root):
    files = files_of(root)
    options = files_by_option(files)
    return {
        "lines": lines_by_room(files),
        "folder_circles": folder_circles(files),
        "widest_classes": [{"public_methods": count, "class": name, "file": file}
                           for count, name, file in widest_classes(files)],
        "types_on_the_data_path": data_path(files),
        "twins": twins(files),
        "files_by_option": options,
        "files_by_format": {name: naming(files, pattern) for name, pattern in FORMATS.items()},
        "files_by_family": {name: naming(files, rf"\b{name}\b") for name in FAMILIES},
    }


def show(numbers):
    total = sum(numbers["lines"].values())
    print(f"lines                    {total:,}")
    for room, lines in sorted(numbers["lines"].items(), key=lambda item: -item[1]):
        print(f"  {room:<22} {lines:,}")
    print(f"folder circles           {len(numbers['folder_circles'])}")
    for circle in numbers["folder_circles"]:
        print(f"  {' '.join(circle)}")
    print("public methods of a class")
    for row in numbers["widest_classes"]:
        print(f"  {row['public_methods']:<4} {row['class']}, {row['file']}")
    print("definitions of types on the data path")
    for thing, count in numbers["types_on_the_data_path"].items():
        print(f"  {thing:<22} {count}")
    print(f"pairs of files with ten lines alike  {len(numbers['twins'])}")
    for row in numbers["twins"][:8]:
        print(f"  {row['lines']:<4} {' '.join(row['files'])}")
    options = sorted(numbers["files_by_option"].items(), key=lambda item: -item[1])
    print(f"options                  {len(options)}, named in the median by {options[len(options) // 2][1]} files")
    for option, count in options[:8]:
        print(f"  {option:<22} {count}")
    for title, key in (("files by weight format", "files_by_format"), ("files by family", "files_by_family")):
        print(title)
        for name, count in numbers[key].items():
            print(f"  {name:<22} {count}")


def main():
    parser = argparse.ArgumentParser(description="Prints figures of the structure of the sources.")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    flags = parser.parse_args()
    numbers = numbers_of(flags.folder.resolve())
    if flags.json:
        json.dump(numbers, sys.stdout, indent=1)
        print()
    else:
        show(numbers)


if __name__ == "__main__":
    main()
