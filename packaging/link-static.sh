#!/bin/sh
# Makes the static library that is installed from the one that cargo built.
#
#   link-static.sh ARCHIVE SYMBOLS DIRECTORY
#
# For libvipl.a DIRECTORY gets libvipl.a: one object with what the library's functions use, without
# debug information and intermediate code, a tenth of the size. Only the names in SYMBOLS, the
# linker's version script, can be seen outside, so that two such libraries fit into one program.
set -eu
if [ $# -ne 3 ] || [ ! -f "$1" ] || [ ! -f "$2" ]; then
    echo "usage: link-static.sh ARCHIVE SYMBOLS DIRECTORY, where ARCHIVE is libNAME.a as cargo built it" >&2
    exit 1
fi
archive=$1
symbols=$2
directory=$3
for tool in ld objcopy ar; do
    command -v "$tool" >/dev/null || {
        echo "link-static.sh: no $tool: install binutils" >&2
        exit 1
    }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^ *\([A-Za-z_][A-Za-z0-9_]*\);$/\1/p' "$symbols" >"$work/names"
# shellcheck disable=SC2046 # the names are words of their own
ld -r --gc-sections $(sed 's/^/-u /' "$work/names") -o "$work/all.o" \
    --whole-archive "$archive" --no-whole-archive
objcopy --strip-unneeded --remove-section=.llvmbc --remove-section=.llvmcmd \
    --keep-global-symbols="$work/names" "$work/all.o" "$work/$(basename "$archive" .a).o"
mkdir -p "$directory"
rm -f "$directory/$(basename "$archive")"
ar rcsD "$directory/$(basename "$archive")" "$work/$(basename "$archive" .a).o"
