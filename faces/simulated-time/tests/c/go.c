/* Not written in Go, but with the note that its linker leaves. */
#include <stdio.h>

struct note {
    unsigned name_bytes, text_bytes, kind;
    char name[4], text[8];
};

__attribute__((section(".note.go.buildid"), used, aligned(4))) static const struct note note = {
    4, 8, 4, "Go\0", "1234567"};

int main(void)
{
    puts("runs");
    return 0;
}
