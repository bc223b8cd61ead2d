#!/usr/bin/env python3
"""Packs files into a C++ source: `extern const packed_file SYMBOL[]; extern const size_t SYMBOL_count;`
(see schemas/packed.hpp). Names are relative to --root; order is by name, so builds repeat."""
import argparse
import pathlib


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--symbol", required=True)
    parser.add_argument("--root", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    lines = ['#include "schemas/packed.hpp"', "namespace parley {"]
    entries = []
    for index, path in enumerate(sorted(args.files, key=lambda p: p.relative_to(args.root).as_posix())):
        data = path.read_bytes()
        body = ",".join(str(byte) for byte in data)
        lines.append(f"static const unsigned char file_{index}[] = {{{body}{',' if body else ''}0}};")
        name = path.relative_to(args.root).as_posix()
        entries.append(f'{{"{name}", {{reinterpret_cast<const char*>(file_{index}), {len(data)}}}}}')
    if not entries:
        entries.append('{"", {}}')
    lines.append(f"extern const packed_file {args.symbol}[];")
    lines.append(f"const packed_file {args.symbol}[] = {{" + ",\n".join(entries) + "};")
    lines.append(f"extern const std::size_t {args.symbol}_count;")
    lines.append(f"const std::size_t {args.symbol}_count = {len(args.files)};")
    lines.append("}  // namespace parley")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
