#!/bin/sh
# Installs libam: header, libraries, pkg-config file, description and example.
#
#   install.sh ARCHIVE PREFIX
#
# ARCHIVE is libam.a as cargo built it. DESTDIR, if set, goes in front of every path written.
set -eu
if [ $# -ne 2 ]; then
    echo "usage: install.sh ARCHIVE PREFIX" >&2
    exit 1
fi
archive=$1
prefix=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
to=${DESTDIR:-}$prefix

mkdir -p "$to/include" "$to/lib/pkgconfig" "$to/share/doc/am/examples"
cp "$root/include/am.h" "$to/include"
"$root/crates/c-programs/link-shared.sh" "$archive" "$here/am.map" "$to/lib"
cp "$archive" "$to/lib/libam.a"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/am.pc.in" >"$to/lib/pkgconfig/am.pc"
cp "$root/docs/virtual-networks.md" "$root/docs/shm.md" "$to/share/doc/am"
cp "$root/examples/c/am_pingpong.c" "$to/share/doc/am/examples"
