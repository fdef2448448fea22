#!/bin/sh
# Links libvipl.so with its versioned symbols from the static library.
#
#   link-shared.sh ARCHIVE DIRECTORY
#
# DIRECTORY gets libvipl.so.1.0 and the links libvipl.so.1 and libvipl.so. Cargo's own libvipl.so
# is the same code without symbol versions: rustc hands the linker a list of symbols that no
# second list can be put beside.
set -eu
if [ $# -ne 2 ] || [ ! -f "$1" ]; then
    echo "usage: link-shared.sh ARCHIVE DIRECTORY, where ARCHIVE is libvipl.a as cargo built it" >&2
    exit 1
fi
archive=$1
directory=$2
here=$(cd "$(dirname "$0")" && pwd)
compiler=${CC:-cc}
command -v "$compiler" >/dev/null || {
    echo "link-shared.sh: no C compiler ($compiler): install gcc or clang, or name one in CC" >&2
    exit 1
}

mkdir -p "$directory"
"$compiler" -shared -o "$directory/libvipl.so.1.0" \
    -Wl,-soname,libvipl.so.1 -Wl,--version-script="$here/vipl.map" \
    -Wl,--gc-sections -Wl,--strip-debug -Wl,-z,defs -Wl,-z,relro,-z,now -Wl,--as-needed \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
    -lgcc_s -lpthread -ldl -lm -lc
ln -sf libvipl.so.1.0 "$directory/libvipl.so.1"
ln -sf libvipl.so.1 "$directory/libvipl.so"
