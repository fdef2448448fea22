#!/bin/sh
# Links a C library with its versioned symbols from the static one.
#
#   link-shared.sh ARCHIVE SYMBOLS DIRECTORY
#
# For libvipl.a DIRECTORY gets libvipl.so.1.0 and the links libvipl.so.1 and libvipl.so. SYMBOLS is
# the linker's version script. Cargo's own libvipl.so is the same code without symbol versions:
# rustc hands the linker a list of symbols that no second list can be put beside.
set -eu
if [ $# -ne 3 ] || [ ! -f "$1" ] || [ ! -f "$2" ]; then
    echo "usage: link-shared.sh ARCHIVE SYMBOLS DIRECTORY, where ARCHIVE is libNAME.a as cargo built it" >&2
    exit 1
fi
archive=$1
symbols=$2
directory=$3
library=$(basename "$archive" .a).so
compiler=${CC:-cc}
command -v "$compiler" >/dev/null || {
    echo "link-shared.sh: no C compiler ($compiler): install gcc or clang, or name one in CC" >&2
    exit 1
}

mkdir -p "$directory"
"$compiler" -shared -o "$directory/$library.1.0" \
    -Wl,-soname,"$library.1" -Wl,--version-script="$symbols" \
    -Wl,--gc-sections -Wl,--strip-debug -Wl,-z,defs -Wl,-z,relro,-z,now -Wl,--as-needed \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
    -lgcc_s -lpthread -ldl -lm -lc
ln -sf "$library.1.0" "$directory/$library.1"
ln -sf "$library.1" "$directory/$library"
