#!/usr/bin/env python3
"""Holds the files of a library, and the tests of a folder, to names of their own.

In the preset `release` files of a library or of a folder's tests are compiled together
(cmake/SluiceCompileTogether.cmake): what two of them define in unnamed namespaces under one name meets there. Functions
may share a name when they take other arguments, and what only names something that exists (`using`) may be there twice
if it names the same.
"""

import re
import sys
import unittest

import includes_test

TEMPLATE = re.compile(r"template <.*?>\s*(?=\w)", re.DOTALL)
TYPE = re.compile(r"(?:class|struct|enum class|enum) (\w+)[^;(]*\{")
ALIAS = re.compile(r"(?:using|namespace) (\w+) = ([^;]+);")
FUNCTION = re.compile(r"[\w:<>,&*\s]+?\b(\w+)\((.*?)\)[^()]*\{", re.DOTALL)
VARIABLE = re.compile(r"[\w:<>,&*\s]+?\b(\w+)(?:\[[^\]]*\])*\s*(?:=|\{|;)")
QUALIFIED = re.compile(r"[\w:<>,&*\s]+?\b\w+::~?\w+\(")


def parameters(text):
    """The types of a function's parameters: what is left without their names and defaults."""
    types, depth, start = [], 0, 0
    for at, char in enumerate(text + ","):
        depth += (char in "<([{") - (char in ">)]}")
        if char == "," and depth == 0:
            types.append(re.sub(r"\s+", " ", re.sub(r"(?<=[\s&*>])\w+$", "", text[start:at].split("=")[0].strip())).strip())
            start = at + 1
    return tuple(types)


def definitions(text):
    """(name, what tells it from others of the name) of all that a file defines in unnamed namespaces."""
    for space in re.findall(r"^namespace \{$(.*?)^\}  // namespace$", text, re.DOTALL | re.MULTILINE):
        for match in re.finditer(r"^(?=[A-Za-z])", space, re.MULTILINE):
            rest = space[match.start():]
            template = TEMPLATE.match(rest)
            if template:
                rest = rest[template.end():]
            elif re.search(r"^template <.*>\n\Z", space[: match.start()], re.MULTILINE):
                continue  # the second line of a template, which was read with its first
            if found := TYPE.match(rest):
                yield found[1], ("type",)
            elif found := ALIAS.match(rest):
                yield found[1], ("alias", found[2])
            elif QUALIFIED.match(rest):
                continue  # a member, of a class in this file
            elif found := FUNCTION.match(rest):
                yield found[1], ("function", template[0] if template else "", *parameters(found[2]))
            elif not rest.startswith("using ") and (found := VARIABLE.match(rest)):
                yield found[1], ("variable",)


def clashes(files):
    """The names that two of the files, given as {path: text}, define so that they can't be compiled together."""
    seen = {}
    for path, text in sorted(files.items()):
        for name, kind in definitions(text):
            for other_path, other in seen.get(name, ()):
                same_alias = kind[0] == "alias" and kind == other
                overload = kind[0] == other[0] == "function" and kind != other
                if other_path != path and not same_alias and not overload:
                    yield f"{name} is in {other_path} and in {path}"
            seen.setdefault(name, []).append((path, kind))


class NamesTest(unittest.TestCase):
    def test_the_files_of_a_library_have_names_of_their_own(self):
        found, count = [], 0
        for target in includes_test.targets_of(includes_test.ROOT):
            if target.name in ("sluice_kernels", "sluice_kernels_cpu"):
                continue  # compiled alone: their files include themselves
            files = {str(source.relative_to(includes_test.ROOT)): source.read_text()
                     for source in target.sources if source.suffix == ".cc" and source.exists()}
            count += sum(1 for text in files.values() for _ in definitions(text))
            found += clashes(files)
        self.assertGreater(count, 1000)
        self.assertEqual([], found)

    def test_the_tests_of_a_folder_have_names_of_their_own(self):
        folders = {}
        for source in sorted((includes_test.ROOT / "tests").rglob("*_test.cc")):
            folder = next(one for one in source.parents if (one / "CMakeLists.txt").exists())
            folders.setdefault(folder, {})[str(source.relative_to(includes_test.ROOT))] = source.read_text()
        self.assertGreater(len(folders), 30)
        alone = includes_test.ROOT / "tests/kernels/cuda"  # its programs are not joined
        found = [clash for folder, files in folders.items() if folder != alone for clash in clashes(files)]
        self.assertEqual([], found)

    def test_notices_what_is_there_twice(self):
        def file(body):
            return f"namespace sluice {{\nnamespace {{\n\n{body}\n\n}}  // namespace\n}}  // namespace sluice\n"

        one = file("constexpr int kMost = 3;\n\nclass Reader {\n};\n\nint Sum(int a, int b) {\n  return a + b;\n}")
        for body, found in (
                ("constexpr size_t kMost = 4;", ["kMost is in a.cc and in b.cc"]),
                ("struct Reader {\n};", ["Reader is in a.cc and in b.cc"]),
                ("int Sum(int first,\n        int second = 2) {\n}", ["Sum is in a.cc and in b.cc"]),
                ("bool Reader(int a) {\n}", ["Reader is in a.cc and in b.cc"]),
                ("float Sum(float a, float b) {\n}", []),
                ("template <int n>\nint Sum(int a, int b) {\n}", []),
        ):
            self.assertEqual(found, list(clashes({"a.cc": one, "b.cc": file(body)})), body)
        alias = file("using Kind = Node::Kind;")
        self.assertEqual([], list(clashes({"a.cc": alias, "b.cc": alias})))
        self.assertEqual(1, len(list(clashes({"a.cc": alias, "b.cc": file("using Kind = Leaf::Kind;")}))))


if __name__ == "__main__":
    sys.exit(unittest.main())
