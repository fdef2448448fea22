#!/bin/sh
# Makes the man pages of libvipl from its reference: one page for each function, and an overview.
#
#   man-pages.sh REFERENCE DIRECTORY
#
# REFERENCE is docs/vipl.md: a function's section begins with `### Vip...` and ends at the next
# heading. DIRECTORY gets man3/Vip....3, and man7/vipl.7 with the sections that describe no function
# and the list of those that do.
set -eu
if [ $# -ne 2 ] || [ ! -f "$1" ]; then
    echo "usage: man-pages.sh REFERENCE DIRECTORY, where REFERENCE is docs/vipl.md" >&2
    exit 1
fi
mkdir -p "$2/man3" "$2/man7"
awk -v directory="$2" '
function text(line) {
    gsub(/\\/, "\\e", line)
    gsub(/`/, "", line)
    gsub(/\*\*/, "", line)
    # A link is its words: a terminal has nothing to click on.
    while (match(line, /\[[^]]*\]\([^)]*\)/)) {
        link = substr(line, RSTART, RLENGTH)
        sub(/^\[/, "", link)
        sub(/\]\([^)]*\)$/, "", link)
        line = substr(line, 1, RSTART - 1) link substr(line, RSTART + RLENGTH)
    }
    gsub(/-/, "\\-", line)
    # A line that begins with a dot or an apostrophe would be a request.
    if (line ~ /^[.\047]/) line = "\\&" line
    return line
}
# A row of a table: its first cell, and the others behind it. The first row holds the names.
function row(line, count, cell, i) {
    count = split(line, cell, /[ ]*\|[ ]*/)
    if (is_head) { is_head = 0; return }
    print ".TP\n.B " text(cell[2]) >page
    line = text(cell[3])
    for (i = 4; i < count; i++) line = line ": " text(cell[i])
    print line >page
}
function heading() {
    title = $0
    sub(/^#+ */, "", title)
    return title
}
function finish() {
    if (page == overview || page == "") return
    print ".SH SEE ALSO" >page
    print ".BR vipl (7)," >page
    print "the reference, share/doc/vipl/vipl.md, and the headers vipl.h and viplx.h." >page
    close(page)
}
BEGIN {
    overview = directory "/man7/vipl.7"
    page = overview
    part = "text"
    print ".TH VIPL 7 \"\" libvipl \"VI Provider Library\"" >overview
    print ".SH NAME\nvipl \\- the VI Provider Library, between the processes of one machine" >overview
    print ".SH SYNOPSIS\n.nf\n.B #include <vipl.h>\n.B #include <viplx.h>\n.fi" >overview
    print ".PP\ncc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs vipl)" >overview
    print ".SH DESCRIPTION" >overview
}
/^# / { next }
# A fence of code: what is in it is kept as it is, headings included.
/^```/ && part == "code" { print ".fi\n.RE" >page; part = "text"; next }
/^```/ && part == "text" { print ".PP\n.RS\n.nf" >page; part = "code"; next }
part == "code" { print text($0) >page; next }
/^### Vip/ {
    finish()
    name = $2
    functions[++count_of_functions] = name
    page = directory "/man3/" name ".3"
    header = name ~ /^Vipx/ ? "viplx.h" : "vipl.h"
    print ".TH " toupper(name) " 3 \"\" libvipl \"VI Provider Library\"" >page
    print ".SH NAME\n" name " \\- a function of the VI Provider Library" >page
    print ".SH SYNOPSIS\n.nf\n.B #include <" header ">" >page
    part = "synopsis"
    next
}
/^##/ {
    finish()
    page = overview
    part = "text"
    # A heading is written when text follows: a group of functions alone has none.
    pending = ($1 == "##" ? ".SH " toupper(text(heading())) : ".SS " text(heading()))
    next
}
/^```/ {
    if (part == "synopsis") { part = "declaration"; print ".PP" >page }
    else { part = "text"; print ".fi\n.SH DESCRIPTION" >page }
    next
}
part == "declaration" { print text($0) >page; next }
part == "synopsis" { next }
$0 != "" && page == overview && pending != "" { print pending >page; pending = "" }
/^\|---/ { next }
/^\|/ {
    if (!in_table) {
        in_table = 1
        is_head = 1
        if ($2 == "returns" && page != overview) print ".SH RETURN VALUE\nVIP_SUCCESS, or" >page
    }
    row($0)
    next
}
{ in_table = 0 }
/^$/ { if (pending == "") print ".PP" >page; next }
/^- / { print ".IP \\(bu 2\n" text(substr($0, 3)) >page; next }
/^[0-9]+\. / { print ".IP " $1 " 4\n" text(substr($0, length($1) + 2)) >page; next }
{ sub(/^ +/, ""); print text($0) >page }
END {
    finish()
    print ".SH FUNCTIONS" >overview
    for (i = 1; i <= count_of_functions; i++)
        print ".BR " functions[i] (i < count_of_functions ? " (3)," : " (3).") >overview
    print ".SH SEE ALSO\n.BR viaduct (1),\nthe reference, share/doc/vipl/vipl.md, and shm.md beside it." >overview
}
' "$1"
