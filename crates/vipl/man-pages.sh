#!/bin/sh
# Makes a man page of each function from the reference.
#
#   man-pages.sh REFERENCE DIRECTORY
#
# REFERENCE is docs/vipl.md: a function's section begins with `### Vip...` and ends at the next
# heading. DIRECTORY gets Vip....3.
set -eu
if [ $# -ne 2 ] || [ ! -f "$1" ]; then
    echo "usage: man-pages.sh REFERENCE DIRECTORY, where REFERENCE is docs/vipl.md" >&2
    exit 1
fi
mkdir -p "$2"
awk -v directory="$2" '
function text(line) {
    gsub(/\\/, "\\e", line)
    gsub(/`/, "", line)
    gsub(/-/, "\\-", line)
    # A line that begins with a dot or an apostrophe would be a request.
    if (line ~ /^[.\047]/) line = "\\&" line
    return line
}
function finish() {
    if (page == "") return
    print ".SH SEE ALSO" >page
    print "The reference, share/doc/vipl/vipl.md, and the headers vipl.h and viplx.h." >page
    close(page)
    page = ""
}
/^##/ { finish() }
/^### Vip/ {
    name = $2
    page = directory "/" name ".3"
    header = name ~ /^Vipx/ ? "viplx.h" : "vipl.h"
    print ".TH " toupper(name) " 3 \"\" libvipl \"VI Provider Library\"" >page
    print ".SH NAME\n" name " \\- a function of the VI Provider Library" >page
    print ".SH SYNOPSIS\n.nf\n.B #include <" header ">" >page
    part = "synopsis"
    next
}
page == "" { next }
/^```/ {
    if (part == "synopsis") { part = "code"; print ".PP" >page }
    else { part = "text"; print ".fi\n.SH DESCRIPTION" >page }
    next
}
part == "code" { print text($0) >page; next }
part == "synopsis" { next }
/^\|---/ { next }
/^\|/ {
    count = split($0, cell, /[ ]*\|[ ]*/)
    if (cell[2] == "returns") { print ".SH RETURN VALUE\nVIP_SUCCESS, or" >page; next }
    print ".TP\n.B " text(cell[2]) >page
    line = text(cell[3])
    for (i = 4; i < count; i++) line = line ": " text(cell[i])
    print line >page
    next
}
/^$/ { print ".PP" >page; next }
{ print text($0) >page }
END { finish() }
' "$1"
