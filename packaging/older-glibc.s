# Functions that programs for glibc 2.28 have in themselves, or by another name: those of that age are
# called. For x86-64. With `--defsym has_paths=1` without those that take a path, for a library that
# has its own.

    .macro forward name, older
    .section .text.\name, "ax", @progbits
    .globl \name
    .hidden \name
    .type \name, @function
    .symver \older, \older@GLIBC_2.2.5
\name:
    # One argument more, in front: which structure is meant.
    movq %rcx, %r8
    movq %rdx, %rcx
    movq %rsi, %rdx
    movq %rdi, %rsi
    movl $1, %edi
    jmp \older@PLT
    .size \name, . - \name
    .endm

    forward fstat64, __fxstat64

    .ifndef has_paths
    forward stat64, __xstat64
    forward lstat64, __lxstat64

    .section .text.fstatat64, "ax", @progbits
    .globl fstatat64
    .hidden fstatat64
    .type fstatat64, @function
    .symver __fxstatat64, __fxstatat64@GLIBC_2.4
fstatat64:
    movq %rcx, %r8
    movq %rdx, %rcx
    movq %rsi, %rdx
    movq %rdi, %rsi
    movl $1, %edi
    jmp __fxstatat64@PLT
    .size fstatat64, . - fstatat64
    .endif

    .section .text.gettid, "ax", @progbits
    .globl gettid
    .hidden gettid
    .type gettid, @function
gettid:
    movl $186, %eax
    syscall
    ret
    .size gettid, . - gettid

    .section .note.GNU-stack, "", @progbits
