#!/bin/sh
# Links libam.so with its versioned symbols from the static library.
#
#   link-shared.sh ARCHIVE DIRECTORY
#
# DIRECTORY gets libam.so.1.0 and the links libam.so.1 and libam.so. Cargo's own libam.so
# is the same code without symbol versions: rustc hands the linker a list of symbols that no
# second list can be put beside.
set -eu
if [ $# -ne 2 ] || [ ! -f "$1" ]; then
    echo "usage: link-shared.sh ARCHIVE DIRECTORY, where ARCHIVE is libam.a as cargo built it" >&2
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
"$compiler" -shared -o "$directory/libam.so.1.0" \
    -Wl,-soname,libam.so.1 -Wl,--version-script="$here/am.map" \
    -Wl,--gc-sections -Wl,--strip-debug -Wl,-z,defs -Wl,-z,relro,-z,now -Wl,--as-needed \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
    -lgcc_s -lpthread -ldl -lm -lc
ln -sf libam.so.1.0 "$directory/libam.so.1"
ln -sf libam.so.1 "$directory/libam.so"
