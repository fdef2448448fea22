#!/bin/sh
# Installs the command and the C libraries from a folder of built files.
#
#   install.sh BINARIES PREFIX [PART...]
#
# BINARIES holds what cargo built: viaduct, libvipl.a, libam.a, and for rdma libibverbs.a, librdmacm.a
# and librdma_paths.a. PART is viaduct, vipl, am or rdma; all four if none is named. DESTDIR, if set,
# goes in front of every path written. What was installed is listed in PREFIX/share/viaduct/installed,
# by which uninstall.sh removes it.
set -eu
if [ $# -lt 2 ] || [ ! -d "$1" ]; then
    echo "usage: install.sh BINARIES PREFIX [viaduct|vipl|am|rdma]..., where BINARIES is a folder of built files" >&2
    exit 1
fi
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
binaries=$(cd "$1" && pwd)
prefix=$2
to=${DESTDIR:-}$prefix
shift 2
[ $# -gt 0 ] || set -- viaduct vipl am rdma
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)

# Everything is put together in a folder of its own first: a part that cannot be made leaves
# nothing half installed, and the folder says which files there are.
staged=$(mktemp -d)
trap 'rm -rf "$staged"' EXIT

put() { # put FOLDER FILE...
    folder=$staged/$1
    shift
    mkdir -p "$folder"
    cp "$@" "$folder"
}

built() { # built FILE
    [ -f "$binaries/$1" ] || {
        echo "install.sh: no $1 in $binaries: make install builds it" >&2
        exit 1
    }
}

library() { # library NAME FACE
    built "lib$1.a"
    "$here/link-shared.sh" "$binaries/lib$1.a" "$root/faces/$2/$1.map" "$staged/lib"
    "$here/link-static.sh" "$binaries/lib$1.a" "$root/faces/$2/$1.map" "$staged/lib"
    mkdir -p "$staged/lib/pkgconfig"
    sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$root/faces/$2/$1.pc.in" \
        >"$staged/lib/pkgconfig/$1.pc"
}

for part in "$@"; do
    case $part in
    viaduct)
        built viaduct
        put bin "$binaries/viaduct"
        mkdir -p "$staged/share/man/man1"
        "$binaries/viaduct" manual "$staged/share/man/man1"
        mkdir -p "$staged/share/bash-completion/completions" "$staged/share/zsh/site-functions" \
            "$staged/share/fish/vendor_completions.d"
        "$binaries/viaduct" completions bash >"$staged/share/bash-completion/completions/viaduct"
        "$binaries/viaduct" completions zsh >"$staged/share/zsh/site-functions/_viaduct"
        "$binaries/viaduct" completions fish >"$staged/share/fish/vendor_completions.d/viaduct.fish"
        ;;
    vipl)
        library vipl vipl
        put include "$root/include/vipl.h" "$root/include/viplx.h"
        put share/doc/vipl "$root/docs/vipl.md" "$root/docs/shm.md"
        for example in common.c common.h pingpong.c latency.c cqserver.c rdma_immediate.c; do
            put share/doc/vipl/examples "$root/examples/c/$example"
        done
        "$here/man-pages.sh" "$root/docs/vipl.md" "$staged/share/man"
        ;;
    am)
        library am libam
        put include "$root/include/am.h"
        put share/doc/am "$root/docs/virtual-networks.md" "$root/docs/shm.md"
        put share/doc/am/examples "$root/examples/c/am_pingpong.c"
        ;;
    rdma)
        # Apart from the libraries of the system, so that no program loads them by accident.
        "$here/link-verbs.sh" "$binaries" "$staged/lib/viaduct/rdma"
        put share/doc/viaduct "$root/docs/rdma.md"
        ;;
    *)
        echo "install.sh: no part \`$part\`: it is viaduct, vipl, am or rdma" >&2
        exit 1
        ;;
    esac
done

mkdir -p "$to/share/viaduct"
list=$to/share/viaduct/installed
{
    [ ! -f "$list" ] || cat "$list"
    (cd "$staged" && find . ! -type d | sed 's|^\./||')
} | LC_ALL=C sort -u >"$staged/installed"
(cd "$staged" && find . ! -type d ! -path ./installed | sed 's|^\./||') | while read -r file; do
    mkdir -p "$to/$(dirname "$file")"
    # A program that runs keeps its file: the name gets a new one.
    rm -f "$to/$file"
    cp -P "$staged/$file" "$to/$file"
done
cp "$staged/installed" "$list"
