# Makes of a table of symbols (faces/ibverbs/symbols) what the linker needs: with `-v to=map` its
# version script, with `-v to=assembler` the functions that answer that something is not supported,
# and names under a version that the compiler's language cannot give.

/^#/ || /^$/ { next }

/^\[.*\]$/ {
    nodes_now = substr($0, 2, length($0) - 2)
    many = split(nodes_now, each, " ")
    for (i = 1; i <= many; i++)
        if (!(each[i] in known)) {
            known[each[i]] = 1
            nodes[++node_count] = each[i]
        }
    next
}

NF == 2 {
    for (i = 1; i <= many; i++) {
        entry_node[++entries] = each[i]
        entry_kind[entries] = $1
        entry_name[entries] = $2
        versions[$2]++
        last[$2] = entries
    }
    next
}

{
    print "symbols.awk: line " NR " is no `KIND NAME`: " $0 > "/dev/stderr"
    failed = 1
    exit 1
}

function define(name, kind) {
    print "    .globl " name
    if (kind == "variable") {
        print "    .type " name ", @object\n    .size " name ", 1\n    .set " name ", .Lfalse"
    } else if (kind == "jump") {
        print "    .type " name ", @function\n    .set " name ", .Ljump_" jumps[name]
    } else if (kind in answers) {
        print "    .type " name ", @function\n    .set " name ", .L" kind
    } else {
        print "symbols.awk: no kind `" kind "`, of " name > "/dev/stderr"
        failed = 1
        exit 1
    }
}

END {
    if (failed)
        exit 1
    if (to == "map") {
        for (n = 1; n <= node_count; n++) {
            print nodes[n] " {"
            first = 1
            for (i = 1; i <= entries; i++)
                if (entry_node[i] == nodes[n]) {
                    if (first)
                        print "    global:"
                    first = 0
                    print "        " entry_name[i] ";"
                }
            if (n == 1)
                print "    local: *;"
            print "};"
        }
        exit
    }
    answers["status"] = answers["pointer"] = answers["minus"] = answers["no"] = answers["nothing"] = 1
    print "    .section .rodata\n    .type .Lfalse, @object\n.Lfalse:\n    .byte 0\n    .text"
    # 95 is EOPNOTSUPP.
    error = "    subq $8, %rsp\n    call __errno_location@PLT\n    movl $95, (%rax)\n    addq $8, %rsp"
    print ".Lstatus:\n" error "\n    movl $95, %eax\n    ret"
    print ".Lpointer:\n" error "\n    xorl %eax, %eax\n    ret"
    print ".Lminus:\n" error "\n    movq $-1, %rax\n    ret"
    print ".Lno:\n    xorl %eax, %eax\n    ret"
    print ".Lnothing:\n    ret"
    for (i = 1; i <= entries; i++) {
        name = entry_name[i]
        kind = entry_kind[i]
        if (kind == "own")
            continue
        if (kind == "jump" && !(name in jumped)) {
            jumped[name] = 1
            print ".Ljump_" name ":\n    jmp viaduct_" name
        }
        if (versions[name] == 1) {
            jumps[name] = name
            define(name, kind)
            continue
        }
        # The newest of a name with several versions is what programs are linked with, the others
        # wait for those that ask.
        alias = "viaduct_" ++aliases "_" name
        jumps[alias] = name
        define(alias, kind)
        print "    .symver " alias ", " name (last[name] == i ? "@@" : "@") entry_node[i]
    }
    print "    .section .note.GNU-stack, \"\", @progbits"
}
