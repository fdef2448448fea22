#!/bin/sh
# Makes a machine without RDMA hardware run RDMA programs, and shows that it does.
#
#   check.sh PREFIX [COMMAND...]
#
# Builds Viaduct into PREFIX if it is not there, has rping talk to itself over two processes, then
# runs COMMAND with the same libraries. It fails if rping or COMMAND fails, or if nothing crossed an
# RDMA adapter: a program that falls back to TCP does not pass. Packages that are missing are
# installed with apt-get where there is one, by sudo if need be; nothing else needs rights.
set -eu

# The inner half, which the launcher runs: a server, and a client that waits for it.
if [ "${1-}" = --rping ]; then
    work=$(mktemp -d)
    rping -s -a 127.0.0.1 -C 10 -V >"$work/server" 2>&1 &
    server=$!
    trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
    # A client is rejected until the server listens; any other failure is one.
    until rping -c -a 127.0.0.1 -C 10 -V >"$work/client" 2>&1; do
        if ! grep -q REJECTED "$work/client" || ! kill -0 "$server" 2>/dev/null; then
            echo "check.sh: rping failed:" >&2
            cat "$work/client" "$work/server" >&2
            exit 1
        fi
    done
    wait "$server" || {
        echo "check.sh: the server of rping failed:" >&2
        cat "$work/server" >&2
        exit 1
    }
    exit 0
fi

if [ $# -lt 1 ]; then
    echo "usage: check.sh PREFIX [COMMAND...], where PREFIX is the folder that viaduct is installed in" >&2
    exit 1
fi
prefix=$1
shift
case $prefix in
/*) ;;
*) prefix=$(pwd)/$prefix ;;
esac
case $0 in
/*) script=$0 ;;
*) script=$(pwd)/$0 ;;
esac
source=${script%/*}/../..
viaduct=$prefix/bin/viaduct

missing=
need() { # need PROGRAM PACKAGE
    command -v "$1" >/dev/null || missing="$missing $2"
}
need rping rdmacm-utils
if [ ! -x "$viaduct" ]; then
    need cc build-essential
    need make build-essential
    command -v cargo >/dev/null || {
        echo "check.sh: no cargo, which builds Viaduct: https://rustup.rs installs it" >&2
        exit 1
    }
fi
if [ -n "$missing" ]; then
    command -v apt-get >/dev/null || {
        echo "check.sh: install what Debian calls$missing, then run this again" >&2
        exit 1
    }
    as_root=
    [ "$(id -u)" = 0 ] || as_root=sudo
    $as_root apt-get update -q
    # shellcheck disable=SC2086 # the packages are words of their own
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
fi
[ -x "$viaduct" ] || make -C "$source" install PREFIX="$prefix"

# Ports and names of its own: other programs of this machine are not met.
meeting=$(mktemp -d)
trap 'rm -rf "$meeting"' EXIT
VIADUCT_RENDEZVOUS=$meeting "$viaduct" rdma --require-rdma --stats -- sh "$script" --rping
echo "check.sh: rping passed: RDMA programs run on this machine"
[ $# -eq 0 ] || "$viaduct" rdma --require-rdma --stats -- "$@"
