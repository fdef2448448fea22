#!/bin/sh
# Runs examples/rdma-in-ci/check.sh in a root of its own, as a user without rights.
#
#   fresh-root.sh BINARIES
#
# BINARIES holds what cargo built, as for install.sh. The root has a shell, rping, the few programs
# that check.sh calls, the libraries that these need, and what install.sh puts there: no RDMA
# device, no file of this machine's /etc, /sys or home folders. It is entered with namespaces of the
# user's own, and by nobody where this is run as root. Ends with 77 where the system lets nobody make
# such namespaces, which some containers forbid.
set -eu
if [ $# -ne 1 ] || [ ! -f "$1/viaduct" ]; then
    echo "usage: fresh-root.sh BINARIES, where BINARIES is a folder of built files" >&2
    exit 1
fi
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/.." && pwd)
binaries=$(cd "$1" && pwd)

enter="unshare --user --map-root-user --mount"
[ "$(id -u)" != 0 ] || enter="setpriv --reuid=65534 --regid=65534 --clear-groups $enter"
if ! $enter true 2>/dev/null; then
    echo "fresh-root.sh: not run: this system lets no user make namespaces" >&2
    exit 77
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/usr/lib64" "$root/proc" "$root/dev" "$root/tmp" \
    "$root/checkout/examples/rdma-in-ci"
for link in bin lib lib64; do ln -s "usr/$link" "$root/$link"; done
libraries() { # libraries FILE: the loader and the libraries of it, where this machine has them
    ldd "$1" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
}
for program in sh rping mktemp rm grep cat id env; do
    found=$(command -v "$program") || {
        echo "fresh-root.sh: no $program (rping: Debian's rdmacm-utils)" >&2
        exit 1
    }
    cp -L "$found" "$root/usr/bin/$program"
    libraries "$found"
done
DESTDIR=$root "$here/install.sh" "$binaries" /opt/viaduct viaduct rdma
for file in bin/viaduct lib/viaduct/rdma/libibverbs.so.1 lib/viaduct/rdma/librdmacm.so.1; do
    libraries "$root/opt/viaduct/$file"
done
cp "$source/examples/rdma-in-ci/check.sh" "$root/checkout/examples/rdma-in-ci"
chmod -R a+rX "$root"
chmod 1777 "$root/tmp"

check() { # check [COMMAND...]
    # shellcheck disable=SC2016 # what is in quotes is for the shell inside
    $enter sh -eu -c '
        mount --rbind /proc "$1/proc"
        mount --rbind /dev "$1/dev"
        root=$1
        shift
        PATH=$PATH:/usr/sbin exec chroot "$root" /usr/bin/env -i PATH=/usr/bin "$@"
    ' enter "$root" /usr/bin/sh /checkout/examples/rdma-in-ci/check.sh /opt/viaduct "$@"
}

check sh /checkout/examples/rdma-in-ci/check.sh --rping
# A program that moves nothing does not pass.
code=0
check sh -c 'exit 0' || code=$?
[ "$code" = 3 ] || {
    echo "fresh-root.sh: a program that used no RDMA ended with $code, not 3" >&2
    exit 1
}
echo "fresh-root.sh: passed"
