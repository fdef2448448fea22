#!/bin/sh
# Installs libvipl: headers, libraries, pkg-config file, reference and examples.
#
#   install.sh ARCHIVE PREFIX
#
# ARCHIVE is libvipl.a as cargo built it. DESTDIR, if set, goes in front of every path written.
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

mkdir -p "$to/include" "$to/lib/pkgconfig" "$to/share/doc/vipl/examples"
cp "$root/include/vipl.h" "$root/include/viplx.h" "$to/include"
"$root/crates/c-programs/link-shared.sh" "$archive" "$here/vipl.map" "$to/lib"
cp "$archive" "$to/lib/libvipl.a"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/vipl.pc.in" \
    >"$to/lib/pkgconfig/vipl.pc"
cp "$root/docs/vipl.md" "$root/docs/shm.md" "$to/share/doc/vipl"
"$here/man-pages.sh" "$root/docs/vipl.md" "$to/share/man/man3"
for example in common.c common.h pingpong.c cqserver.c rdma_immediate.c; do
    cp "$root/examples/c/$example" "$to/share/doc/vipl/examples"
done
