#!/bin/sh
# Links the libraries that take the place of those of rdma-core, and libvipl as programs on simulated
# hosts load it.
#
#   link-verbs.sh BINARIES DIRECTORY [PART...]
#
# BINARIES holds what cargo built: libibverbs.a, librdmacm.a, librdma_paths.a, libsimulated_time.a,
# libvipl.a. PART is ibverbs, rdmacm (which needs ibverbs in DIRECTORY), paths, time, vipl or
# stand-ins; all six if none is named. DIRECTORY gets libibverbs.so.1, librdmacm.so.1,
# libviaduct-rdma-paths.so, libviaduct-time.so, libvipl.so.1, stand-ins for the libraries of providers, and links without a version. Programs of any distribution load them: nothing newer than
# glibc 2.28 is asked for, whatever this machine has.
set -eu
newest=28 # the minor number of that glibc
if [ $# -lt 2 ] || [ ! -d "$1" ]; then
    echo "usage: link-verbs.sh BINARIES DIRECTORY [ibverbs|rdmacm|paths|time|vipl|stand-ins]..., where BINARIES is a folder of built files" >&2
    exit 1
fi
here=$(cd "$(dirname "$0")" && pwd)
faces=$(cd "$here/../faces" && pwd)
binaries=$1
directory=$2
shift 2
[ $# -gt 0 ] || set -- stand-ins ibverbs rdmacm paths time vipl
compiler=${CC:-cc}
for tool in "$compiler" objcopy nm readelf awk; do
    command -v "$tool" >/dev/null || {
        echo "link-verbs.sh: no $tool: install gcc or clang, and binutils" >&2
        exit 1
    }
done
case $("$compiler" -dumpmachine) in
x86_64*linux*) ;;
*)
    echo "link-verbs.sh: the libraries for RDMA programs are for Linux on x86-64, this compiler is for $("$compiler" -dumpmachine)" >&2
    exit 1
    ;;
esac
mkdir -p "$directory"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shared NAME SONAME ARGUMENT...: a library in DIRECTORY, put in place in one step: programs may run.
shared() {
    output=$1
    soname=$2
    shift 2
    "$compiler" -shared -o "$work/$output" -Wl,-soname,"$soname" \
        -Wl,--version-script="$work/$output.map" -Wl,--gc-sections -Wl,--strip-debug -Wl,-z,defs \
        -Wl,-z,relro,-z,now -Wl,-z,nodelete "$@"
}

place() { # place FILE [LINK]
    mv -f "$work/$1" "$directory/$1"
    [ $# -eq 1 ] || ln -sf "$1" "$directory/$2"
}

tables() { # tables SYMBOLS LIBRARY
    awk -v to=map -f "$here/symbols.awk" "$1" >"$work/$2.map"
    awk -v to=assembler -f "$here/symbols.awk" "$1" >"$work/$2.s"
}

# Names that this machine's C library gives in a version after glibc 2.28, with an older one of it.
older() { # older LIBRARY
    nm -D -u --with-symbol-versions "$1" | awk -v newest="$newest" '
        match($0, /[A-Za-z_0-9]+@GLIBC_2\.[0-9]+/) {
            split(substr($0, RSTART, RLENGTH), part, "@GLIBC_2.")
            if (part[2] > newest + 0) print part[1]
        }' >"$work/newer"
    [ -s "$work/newer" ] || return 0
    for name in libc.so.6 libm.so.6; do
        nm -D --with-symbol-versions "$("$compiler" -print-file-name=$name)"
    done | awk -v newest="$newest" -v wanted="$work/newer" '
        BEGIN { while ((getline name < wanted) > 0) ask[name] = 1 }
        match($NF, /@+GLIBC_2\.[0-9]+(\.[0-9]+)?$/) {
            name = substr($NF, 1, RSTART - 1)
            version = substr($NF, RSTART)
            sub(/^@+/, "", version)
            split(version, part, ".")
            if (name in ask && part[2] <= newest + 0 && (!(name in has) || part[2] >= has[name])) {
                has[name] = part[2]
                best[name] = version
            }
        }
        END {
            for (name in ask) {
                if (name in best) print name, name "@" best[name]
                else print "link-verbs.sh: " name " is not in glibc 2." newest > "/dev/stderr"
            }
        }' >"$work/redefined"
    [ "$(wc -l <"$work/redefined")" = "$(sort -u "$work/newer" | wc -l)" ]
}

file() { # file NAME OTHERWISE: a library of this machine
    found=$("$compiler" -print-file-name="$1")
    case $found in
    /*) echo "$found" ;;
    *) echo "$2" ;;
    esac
}

# rust NAME SONAME ARCHIVE ARGUMENT...: a library of code that cargo built.
rust() {
    output=$1
    soname=$2
    archive=$binaries/$3
    shift 3
    [ -f "$archive" ] || {
        echo "link-verbs.sh: there is no $archive: cargo builds it" >&2
        exit 1
    }
    cp "$archive" "$work/all.a"
    : >"$work/redefined"
    for _ in 1 2; do
        # Threads and dlopen have libraries of their own in old versions of glibc, which new ones
        # have too, for programs that name them.
        shared "$output" "$soname" "$@" \
            -Wl,--whole-archive "$work/all.a" -Wl,--no-whole-archive \
            -Wl,--no-as-needed "$(file libpthread.so.0 -lpthread)" "$(file libdl.so.2 -ldl)" \
            -Wl,--as-needed -lgcc_s -lm -lc
        older "$work/$output" || exit 1
        [ -s "$work/newer" ] || break
        objcopy --redefine-syms="$work/redefined" "$work/all.a"
    done
    [ ! -s "$work/newer" ] || {
        echo "link-verbs.sh: $output still needs a newer glibc than 2.$newest for: $(tr '\n' ' ' <"$work/newer")" >&2
        exit 1
    }
}

for part in "$@"; do
    case $part in
    stand-ins)
        for name in libmlx5 libefa libhns libmana; do
            tables "$faces/ibverbs/symbols/$name.symbols" "$name.so.1"
            shared "$name.so.1" "$name.so.1" -nostartfiles "$work/$name.so.1.s"
            place "$name.so.1" "$name.so"
        done
        ;;
    ibverbs)
        tables "$faces/ibverbs/symbols/libibverbs.symbols" libibverbs.so.1
        rust libibverbs.so.1 libibverbs.so.1 libibverbs.a "$work/libibverbs.so.1.s" \
            "$here/older-glibc.s"
        place libibverbs.so.1 libibverbs.so
        ;;
    rdmacm)
        tables "$faces/rdmacm/symbols/librdmacm.symbols" librdmacm.so.1
        rust librdmacm.so.1 librdmacm.so.1 librdmacm.a "$work/librdmacm.so.1.s" \
            "$here/older-glibc.s" -Wl,--no-as-needed "$directory/libibverbs.so.1"
        place librdmacm.so.1 librdmacm.so
        ;;
    paths)
        cp "$faces/rdma-paths/paths.map" "$work/libviaduct-rdma-paths.so.map"
        rust libviaduct-rdma-paths.so libviaduct-rdma-paths.so librdma_paths.a \
            -Wa,--defsym,has_paths=1 "$here/older-glibc.s"
        place libviaduct-rdma-paths.so
        ;;
    time)
        cp "$faces/simulated-time/time.map" "$work/libviaduct-time.so.map"
        rust libviaduct-time.so libviaduct-time.so libsimulated_time.a "$here/older-glibc.s"
        place libviaduct-time.so
        ;;
    vipl)
        cp "$faces/vipl/vipl.map" "$work/libvipl.so.1.map"
        rust libvipl.so.1 libvipl.so.1 libvipl.a "$here/older-glibc.s"
        place libvipl.so.1 libvipl.so
        ;;
    *)
        echo "link-verbs.sh: no part \`$part\`: it is ibverbs, rdmacm, paths, time, vipl or stand-ins" >&2
        exit 1
        ;;
    esac
done
