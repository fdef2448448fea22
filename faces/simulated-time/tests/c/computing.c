/* What computing takes, where it counts: each role prints how far its clock has gone on, and what
 * the system says that its thread has computed. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, strerror(errno)); \
            exit(1); \
        } \
    } while (0)

static long long nanoseconds(struct timespec time)
{
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static long long now(void)
{
    struct timespec time;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return nanoseconds(time);
}

/* Not by the name of the function, which shows simulated time. */
static long long processor(void)
{
    struct timespec time;
    CHECK(syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &time) == 0);
    return nanoseconds(time);
}

static volatile long computed;

static void compute(long long ns)
{
    for (long long begin = processor(); processor() - begin < ns;) {
        for (int at = 0; at < 1000; at++) {
            computed++;
        }
    }
}

/* So many pieces of computing, with a call between each and the next. */
static void pieces(int count, long long ns)
{
    long long sum = 0, start = now();
    for (int at = 0; at < count; at++) {
        long long begin = processor();
        compute(ns);
        sum += processor() - begin;
        now();
    }
    printf("clock %lld computed %lld\n", now() - start, sum);
}

/* Reads of the processor's counter, which are dear for the machine and cheap for the program. Of 100
 * batches of 100 the one whose clock has gone on least: what else a machine does comes on top. */
static void counter(void)
{
    long long least = -1, took = 0;
    for (int batch = 0; batch < 100; batch++) {
        long long begin = processor(), start = now();
        for (int at = 0; at < 100; at++) {
            __rdtsc();
        }
        long long clock = now() - start, computed = processor() - begin;
        if (least < 0 || clock < least) {
            least = clock;
            took = computed;
        }
    }
    printf("clock %lld computed %lld\n", least, took);
}

/* A child computes before it writes: whoever looks at memory meanwhile waits, and computes not. */
static void waits(void)
{
    volatile int *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    CHECK(both != MAP_FAILED);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int round = 0; round < 20; round++) {
            while (*both != 2 * round) {
            }
            usleep(10);
            *both = 2 * round + 1;
        }
        exit(0);
    }
    long long start = now();
    for (int round = 0; round < 20; round++) {
        while (*both != 2 * round + 1) {
        }
        usleep(5);
        *both = 2 * round + 2;
    }
    printf("clock %lld\n", now() - start);
    fflush(stdout);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* One that counts while it waits is not seen to wait: the other goes on while it computes. */
static void counts(void)
{
    volatile int *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    CHECK(both != MAP_FAILED);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        usleep(100);
        *both = 1;
        exit(0);
    }
    long long start = now();
    while (*both == 0) {
        computed++;
    }
    printf("clock %lld\n", now() - start);
    fflush(stdout);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int count, char **words)
{
    const char *role = count > 1 ? words[1] : "";
    if (strcmp(role, "pieces") == 0) {
        pieces(atoi(words[2]), atoll(words[3]));
    } else if (strcmp(role, "counter") == 0) {
        counter();
    } else if (strcmp(role, "waits") == 0) {
        waits();
    } else if (strcmp(role, "counts") == 0) {
        counts();
    } else {
        fprintf(stderr, "no role %s\n", role);
        return 1;
    }
    return 0;
}
