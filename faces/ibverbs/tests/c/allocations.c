/* Makes and destroys objects, and prints what the library asked `malloc` for meanwhile: on a
   simulated host a program's addresses follow from that, and its times from these.

   What the first thread asks for from then on lies one behind the other, and nothing is used
   again: the library's other threads, which run when they like here, do not move it. */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS = 64, ROUNDS = 20000, POOL_BYTES = 1 << 25, HEADER_BYTES = 16 };

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void __libc_free(void *old);

static _Alignas(16) char pool[POOL_BYTES];
static size_t used;
static _Thread_local int is_observed;
static uint64_t asked;

static int is_of_pool(const void *at)
{
    return (const char *)at >= pool && (const char *)at < pool + POOL_BYTES;
}

static void *take(size_t bytes)
{
    asked = (asked ^ bytes) * 0x100000001b3;
    char *at = pool + used;
    used += HEADER_BYTES + (bytes + 15) / 16 * 16;
    if (used > POOL_BYTES)
        abort();
    memcpy(at, &bytes, sizeof bytes);
    return at + HEADER_BYTES;
}

void *malloc(size_t bytes)
{
    return is_observed ? take(bytes) : __libc_malloc(bytes);
}

/* What is taken of the pool was never used, and is zero. */
void *calloc(size_t count, size_t bytes)
{
    return is_observed ? take(count * bytes) : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    if (!old)
        return malloc(bytes);
    if (!is_of_pool(old))
        return __libc_realloc(old, bytes);
    size_t before;
    memcpy(&before, (char *)old - HEADER_BYTES, sizeof before);
    void *new = malloc(bytes);
    return memcpy(new, old, before < bytes ? before : bytes);
}

void free(void *old)
{
    if (!is_of_pool(old))
        __libc_free(old);
}

int main(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_context *context = devices && *devices ? ibv_open_device(*devices) : NULL;
    if (!context)
        return 1;
    struct ibv_td *domains[OBJECTS] = { 0 };
    struct ibv_td_init_attr none = { 0 };
    uint32_t drawn = 1;
    is_observed = 1;
    for (int round = 0; round < ROUNDS; round++) {
        drawn = drawn * 1664525 + 1013904223;
        struct ibv_td **domain = &domains[drawn >> 16 & (OBJECTS - 1)];
        if (*domain) {
            if (ibv_dealloc_td(*domain))
                return 2;
            *domain = NULL;
        } else if (!(*domain = ibv_alloc_td(context, &none))) {
            return 3;
        }
    }
    is_observed = 0;
    printf("%016llx\n", (unsigned long long)asked);
    return 0;
}
