#!/bin/sh
# Removes what install.sh put into PREFIX, and the folders that are empty after that.
#
#   uninstall.sh PREFIX
#
# DESTDIR, if set, goes in front of PREFIX.
set -eu
if [ $# -ne 1 ]; then
    echo "usage: uninstall.sh PREFIX" >&2
    exit 1
fi
to=${DESTDIR:-}$1
list=$to/share/viaduct/installed
if [ ! -f "$list" ]; then
    echo "nothing is installed in $to: there is no $list" >&2
    exit 1
fi
{
    cat "$list"
    echo share/viaduct/installed
} | while read -r file; do
    # Only what install.sh can have written: a path below PREFIX.
    case /$file/ in
    */../* | //*)
        echo "uninstall.sh: $list names \`$file\`, which is not a path below $to: left alone" >&2
        continue
        ;;
    esac
    rm -f "$to/$file"
    folder=$(dirname "$file")
    while [ "$folder" != . ] && rmdir "$to/$folder" 2>/dev/null; do
        folder=$(dirname "$folder")
    done
done
