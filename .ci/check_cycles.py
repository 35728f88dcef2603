#!/usr/bin/env python3
"""Finds import cycles between the top-level modules of each crate of the workspace.

    .ci/check_cycles.py [CRATE_FOLDER...]     default: crates/*; exit 1 if there is a cycle
    .ci/check_cycles.py --self-test

A module depends on another where its code, tests aside, names `crate::OTHER` or reaches it by `super::`; an item that the
crate root re-exports counts as the module it comes from, and an item defined in lib.rs or main.rs as the module `lib` or
`main`. Every cycle is printed with the file and line of each import.
"""

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IDENT = r"[A-Za-z_]\w*"


def blank(match):
    """The same number of lines and characters, without the text."""
    return re.sub(r"[^\n]", " ", match.group())


def code_only(text):
    """Rust source without comments, string and character literals, and code under #[cfg(test)]; line numbers stay."""
    literals = r'//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\[^\n]+?|[^\\\n])\''
    text = re.sub(literals, blank, text, flags=re.DOTALL)
    for attribute in reversed(list(re.finditer(r"#\[cfg\((?:all\()?test\b[^\]]*\]", text))):
        end = item_end(text, attribute.end())
        text = text[: attribute.start()] + re.sub(r"[^\n]", " ", text[attribute.start() : end]) + text[end:]
    return text


def item_end(text, start):
    """Where the item after `start` ends: at its semicolon or its closing brace, whichever comes first outside brackets."""
    depth = 0
    for place in range(start, len(text)):
        character = text[place]
        if character in "{([":
            depth += 1
        elif character in "})]":
            depth -= 1
            if depth == 0 and character == "}":
                return place + 1
        elif character == ";" and depth == 0:
            return place + 1
    return len(text)


def expand(tree):
    """`a::{b, c::{d, e as f}}` as the paths a::b, a::c::d, a::c::e, each with its offset in the text."""
    found = []

    def walk(place, prefix):
        path = list(prefix)
        while place < len(tree):
            rest = tree[place:]
            if space := re.match(r"\s+|::", rest):
                place += space.end()
            elif word := re.match(rf"(?:r#)?({IDENT})\s*as\s+({IDENT})", rest):
                path.append((word.group(1), place, word.group(2)))
                place += word.end()
            elif word := re.match(rf"(?:r#)?({IDENT})|\*", rest):
                path.append((word.group(1) or "*", place, None))
                place += word.end()
            elif rest[0] == "{":
                place += 1
                while place < len(tree) and tree[place] != "}":
                    place = walk(place, path)
                    if place < len(tree) and tree[place] == ",":
                        place += 1
                    place += len(tree[place:]) - len(tree[place:].lstrip())
                return place + 1
            else:
                break
        if len(path) > len(prefix):
            found.append(path)
        return place

    walk(0, [])
    return found


class Crate:
    def __init__(self, folder):
        self.folder, self.name = folder, folder.name
        source = folder / "src"
        root = next((source / name for name in ("lib.rs", "main.rs") if (source / name).exists()), None)
        self.root = root
        self.edges = {}  # (from, to) -> "file:line"
        if root is None:
            return
        self.files = {path: code_only(path.read_text()) for path in sorted(source.rglob("*.rs"))}
        text = self.files[root]
        self.modules = set(re.findall(rf"\bmod\s+({IDENT})\s*[;{{]", text))
        self.exports = {}  # name at the crate root -> module it comes from
        for use in re.finditer(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]+);", text):
            for path in expand(use.group(1)):
                names = [part[0] for part in path if part[0] not in ("self", "crate")]
                if names and names[0] in self.modules:
                    for name in self.public_items(names[0]) if names[-1] == "*" else [path[-1][2] or names[-1]]:
                        self.exports[name] = names[0]
        test_only = self.test_files(source)
        for path, text in self.files.items():
            if path not in test_only:
                self.scan(path, text)

    def module_path(self, file):
        parts = list(file.relative_to(self.root.parent).with_suffix("").parts)
        return [] if file == self.root else parts[:-1] if parts[-1] == "mod" else parts

    def public_items(self, module):
        own = [text for file, text in self.files.items() if self.module_path(file)[:1] == [module]]
        return re.findall(rf"\bpub\s+(?:\w+\s+)*?(?:struct|enum|trait|fn|type|const|static|mod)\s+({IDENT})", "\n".join(own))

    def test_files(self, source):
        """Files that belong to a module declared under #[cfg(test)]."""
        declared = set()
        for file in self.files:
            raw = re.sub(r"//[^\n]*", blank, file.read_text())
            for name in re.findall(rf"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+({IDENT})\s*;", raw):
                declared.add((*self.module_path(file), name))
        prefixes = lambda file: {tuple(self.module_path(file)[: n + 1]) for n in range(len(self.module_path(file)))}
        return {file for file in self.files if prefixes(file) & declared}

    def scan(self, file, text):
        base = self.module_path(file)
        own = base[0] if base else self.root.stem
        inline = [(m.start(), item_end(text, m.start())) for m in re.finditer(rf"\bmod\s+{IDENT}\s*\{{", text)]
        exporting = [m.span() for m in re.finditer(r"\bpub(?:\([^)]*\))?\s+use\s+[^;]+;", text)] if not base else []
        # The whole tree of a `use`, or the path itself anywhere else.
        for head in re.finditer(r"(?<![\w:])((?:crate|super)(?:\s*::\s*super)*)\s*::\s*", text):
            ups = head.group(1).count("super")
            deeper = sum(start < head.start() < end for start, end in inline)
            if ups and ups != len(base) + deeper:
                continue  # stays within the module
            in_use = re.search(r"\buse\s+(?:[^;{]*)$", text[max(0, head.start() - 200) : head.start()])
            if in_use or text[head.end()] == "{":
                tree = text[head.end() : text.find(";", head.end())]
                names = [(path[0][0], head.end() + path[0][1]) for path in expand(tree)]
            else:
                word = re.match(rf"(?:r#)?({IDENT})", text[head.end() :])
                names = [(word.group(1), head.end())] if word else []
            for name, place in names:
                self.add(own, name, file, text, place)
        if not base:
            for head in re.finditer(rf"(?<![\w:])({IDENT})\s*::", text):
                outside = not any(start <= head.start() < end for start, end in exporting)
                if outside and head.group(1) in self.modules:
                    self.add(own, head.group(1), file, text, head.start())

    def add(self, own, name, file, text, place):
        shown = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
        line = f"{shown}:{text.count(chr(10), 0, place) + 1}"
        if name == "*":
            raise SystemExit(f"{line}: a glob import of the crate root hides what is used: name the items")
        target = name if name in self.modules else self.exports.get(name, self.root.stem)
        if target != own:
            self.edges.setdefault((own, target), line)

    def cycles(self):
        """Strongly connected components of two or more modules, each with one shortest cycle through its first module."""
        after = {}
        for start, end in self.edges:
            after.setdefault(start, set()).add(end)

        def path(start, goal):
            queue, came = [start], {start: None}
            while queue:
                module = queue.pop(0)
                for following in sorted(after.get(module, ())):
                    if following == goal:
                        steps = [goal, module]
                        while came[steps[-1]] is not None:
                            steps.append(came[steps[-1]])
                        return steps[::-1]
                    if following not in came:
                        came[following] = module
                        queue.append(following)
            return None

        left, found = sorted(after), []
        while left:
            module = left.pop(0)
            if path(module, module):
                others = {other for other in left if path(module, other) and path(other, module)}
                left = [other for other in left if other not in others]
                found.append(sorted({module} | others))
        return found, path


def check(folders):
    total = 0
    for folder in folders:
        crate = Crate(folder)
        if crate.root is None:
            continue
        components, path = crate.cycles()
        count = sum(map(len, components))
        total += count
        print(f"{crate.name}: {len(crate.modules)} modules, modules in cycles: {count}")
        for component in components:
            print(f"  {', '.join(component)}")
            shown = set()
            for module in component:
                cycle = path(module, module)
                steps = list(zip(cycle, cycle[1:]))
                if frozenset(steps) not in shown:
                    shown.add(frozenset(steps))
                    print("    " + "; ".join(f"{a} -> {b} ({crate.edges[a, b]})" for a, b in steps))
    return total


SELF_TEST = {
    # name: (files, modules in cycles)
    "no-cycle": ({"lib.rs": "mod a; pub mod b; pub use b::Thing;", "a.rs": "use crate::Thing;", "b.rs": "struct Thing;"}, 0),
    "direct": ({"lib.rs": "mod a; mod b;", "a.rs": "use crate::b::X;", "b.rs": "fn f() { crate::a::g(); }"}, 2),
    "reexport": (
        {"lib.rs": "mod a; mod b; mod c; pub use b::{inner::X as Y, Z};", "a.rs": "use crate::{\n c::Q,\n Y};",
         "b.rs": "use super::c;", "c.rs": "fn f(x: crate::a::A) {}"}, 3),
    "glob": ({"lib.rs": "mod a; mod b; pub use b::*;", "a.rs": "use crate::X;", "b.rs": "pub struct X; use crate::a;"}, 2),
    "tests aside": (
        {"lib.rs": "mod a; mod b;", "a.rs": "use crate::b;",
         "b.rs": "#[cfg(test)]\nmod tests { use crate::a; }\n#[cfg(test)] mod more;", "b/more.rs": "use crate::a;"}, 0),
    "text aside": ({"lib.rs": "mod a; mod b;", "a.rs": "use crate::b;", "b.rs": "// crate::a\nconst X: &str = \"crate::a\";"}, 0),
    "super": (
        {"lib.rs": "mod a; mod b;", "a/mod.rs": "mod deep; use super::b;", "a/deep.rs": "use super::own;",
         "b/mod.rs": "mod deep;", "b/deep.rs": "use super::super::a::X; "}, 2),
    "root item": ({"main.rs": "mod a; fn f() { a::g(); }", "a.rs": "use crate::f;"}, 2),
    "three in use": ({"lib.rs": "mod a; mod b; mod c;", "a.rs": "use crate::{b::{X, Y}, c as d};", "b.rs": "", "c.rs": "use crate::a;"}, 2),
}


def self_test():
    for name, (files, expected) in SELF_TEST.items():
        with tempfile.TemporaryDirectory() as scratch:
            for file, text in files.items():
                path = Path(scratch) / "src" / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            found = check([Path(scratch)])
            assert found == expected, f"self-test `{name}`: {found} modules in cycles, expected {expected}"
    print("self-test passed")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        chosen = [Path(name).resolve() for name in sys.argv[1:]] or sorted((ROOT / "crates").iterdir())
        sys.exit(1 if check(chosen) else 0)
