/*
 * What every peer written in C shares: arguments, cores, the second process, the measurement and
 * the line that it prints. Step by step the same as bench/src/protocol.rs.
 *
 *     PROGRAM KIND TEST BYTES untouched|touched MILLISECONDS CORE,CORE
 *
 * A program includes this file, defines the six operations `end_*` that are declared below, and
 * calls `peer_measure` on both sides.
 */
#ifndef VIADUCT_BENCH_PEER_H
#define VIADUCT_BENCH_PEER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PEER_WINDOW = 64,            /* messages of a window of the rate test */
    PEER_DEPTH = 4,              /* messages on their way in the bandwidth test */
    PEER_ANSWER = PEER_WINDOW,   /* the slot of the message that answers a window or a batch */
    PEER_SLOTS = PEER_WINDOW + 1,
    PEER_STEERING_BYTES = 8,     /* messages that steer a measurement */
    PEER_BATCHES = 61,
    PEER_WARM_UP_MAX = 1000,
    PEER_WARM_UP_MIN = 10,
    PEER_WARM_UP_BYTES = 4 << 20,
    PEER_EXPONENT_MAX = 24,
    PEER_RATE_EXPONENT_MIN = 6,     /* a batch is whole windows */
    PEER_BANDWIDTH_EXPONENT_MIN = 4 /* a batch is long beside its first message and its answer */
};

#define PEER_ONES 0x0101010101010101ull

struct peer_plan {
    const char *kind;
    const char *test;
    size_t bytes;
    int touched;
    int milliseconds;
    int cores[2];
};

/* The operations of one end; see `trait End` in bench/src/protocol.rs. */
static void end_post(int slot, size_t bytes);
static void end_settle(int slot);
static void end_expect(int slot, size_t bytes);
static void end_receive(int slot, size_t bytes);
static uint64_t end_sum(int slot, size_t bytes);
static void end_release(int slot);

static struct peer_plan peer_plan;
/* A buffer to send from and one to receive into for each slot, each from the start of a page. */
static char *peer_sending[PEER_SLOTS];
static char *peer_receiving[PEER_SLOTS];
static size_t peer_stride;
static int peer_slots;

static void __attribute__((noreturn, format(printf, 1, 2))) peer_fail(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    exit(1);
}

/* Bytes of the memory of all messages: two buffers a slot in use, the answer's included. */
static size_t peer_bytes(void)
{
    return 2 * peer_stride * (peer_slots + 1);
}

/* Has the messages lie in this memory, which starts with a page. */
static void peer_place(char *memory)
{
    memset(memory, 0, peer_bytes());
    for (int slot = 0; slot <= PEER_ANSWER; slot++) {
        if (slot >= peer_slots && slot != PEER_ANSWER)
            continue;
        int place = 2 * (slot == PEER_ANSWER ? peer_slots : slot);
        peer_sending[slot] = memory + place * peer_stride;
        peer_receiving[slot] = memory + (place + 1) * peer_stride;
    }
}

/* Makes the buffers, for so many slots and the answer. */
static void peer_allocate(size_t bytes, int slots)
{
    peer_stride = (bytes + 4095) / 4096 * 4096;
    peer_slots = slots;
    char *memory = aligned_alloc(4096, peer_bytes());
    if (!memory)
        peer_fail("no memory for messages of %zu bytes", bytes);
    peer_place(memory);
}

/* Reads the arguments, makes the buffers, and ends the process when whoever started it dies. */
static void peer_begin(int count, char **arguments)
{
    if (count != 7)
        peer_fail("%s KIND TEST BYTES untouched|touched MILLISECONDS CORE,CORE", arguments[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    peer_plan.kind = arguments[1];
    peer_plan.test = arguments[2];
    peer_plan.bytes = strtoull(arguments[3], NULL, 10);
    peer_plan.touched = strcmp(arguments[4], "touched") == 0;
    peer_plan.milliseconds = atoi(arguments[5]);
    if (sscanf(arguments[6], "%d,%d", &peer_plan.cores[0], &peer_plan.cores[1]) != 2)
        peer_fail("two cores with a comma, not `%s`", arguments[6]);
    if (peer_plan.bytes == 0 || peer_plan.bytes % 8 != 0)
        peer_fail("BYTES is a multiple of 8 from 8, not %s", arguments[3]);
    peer_allocate(peer_plan.bytes, strcmp(peer_plan.test, "rate") == 0 ? PEER_WINDOW : PEER_DEPTH);
}

/* Keeps this process on the core of its side, 0 or 1. */
static void peer_pin(int side)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(peer_plan.cores[side], &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0)
        peer_fail("core %d: %s", peer_plan.cores[side], strerror(errno));
}

static pid_t peer_second;

/* When the second process fails, the first would spin for ever. */
static void peer_second_ended(int signal_number)
{
    (void)signal_number;
    int status;
    if (waitpid(peer_second, &status, WNOHANG) == peer_second) {
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            _exit(1);
        peer_second = 0;
    }
}

/* Starts the second process. Returns the side; `link` is a socket to the other, for set-up. */
static inline int peer_fork(int *link)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        peer_fail("socketpair: %s", strerror(errno));
    signal(SIGCHLD, peer_second_ended);
    fflush(NULL);
    pid_t second = fork();
    if (second < 0)
        peer_fail("fork: %s", strerror(errno));
    int side = second == 0;
    if (side == 1) {
        signal(SIGCHLD, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    peer_second = second;
    close(pair[!side]);
    *link = pair[side];
    peer_pin(side);
    return side;
}

static inline void peer_tell(int link, const void *bytes, size_t count)
{
    if (write(link, bytes, count) != (ssize_t)count)
        peer_fail("the other process is gone");
}

static inline void peer_hear(int link, void *bytes, size_t count)
{
    if (recv(link, bytes, count, MSG_WAITALL) != (ssize_t)count)
        peer_fail("the other process is gone");
}

/* Waits until both sides are here: nothing is on its way any more. */
static inline void peer_meet(int link)
{
    char byte = 0;
    peer_tell(link, &byte, 1);
    peer_hear(link, &byte, 1);
}

/* Waits for the end of the second process. */
static inline void peer_end(void)
{
    signal(SIGCHLD, SIG_DFL);
    int status = 0;
    if (peer_second > 0 && waitpid(peer_second, &status, 0) > 0 && status != 0)
        peer_fail("the second process failed");
}

static inline double peer_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Reads all of a message: the sum of its eight-byte words. */
static inline uint64_t peer_sum(const void *message, size_t bytes)
{
    const uint64_t *words = message;
    uint64_t sum = 0;
    for (size_t index = 0; index < bytes / 8; index++)
        sum += words[index];
    return sum;
}

/* Sends; with an `index`, from 1, after writing the whole message. */
static inline void peer_send(int slot, size_t bytes, size_t index)
{
    if (index > 0)
        memset(peer_sending[slot], (uint8_t)index, bytes);
    end_post(slot, bytes);
}

/* Waits for a message; with an `index`, from 1, reads all of it and checks it. */
static inline void peer_take(int slot, size_t bytes, size_t index)
{
    end_receive(slot, bytes);
    if (index > 0) {
        uint64_t sum = end_sum(slot, bytes);
        uint64_t expected = PEER_ONES * (uint8_t)index * (bytes / 8);
        if (sum != expected)
            peer_fail("message %zu of %zu bytes came with the sum %#llx, not %#llx", index, bytes,
                      (unsigned long long)sum, (unsigned long long)expected);
    }
    end_release(slot);
}

static inline void peer_expect_window(size_t window)
{
    for (size_t slot = 0; slot < window; slot++)
        end_expect((int)slot, peer_plan.bytes);
}

static inline size_t peer_least(size_t left, size_t right)
{
    return left < right ? left : right;
}

static inline void peer_latency(int side, size_t messages, int touched)
{
    size_t bytes = peer_plan.bytes;
    if (side == 0) {
        for (size_t index = 1; index <= messages; index++) {
            end_expect(0, bytes);
            peer_send(0, bytes, touched ? index : 0);
            peer_take(0, bytes, touched ? index : 0);
            end_settle(0);
        }
        return;
    }
    end_expect(0, bytes);
    for (size_t index = 1; index <= messages; index++) {
        peer_take(0, bytes, touched ? index : 0);
        if (index < messages)
            end_expect(0, bytes);
        peer_send(0, bytes, touched ? index : 0);
        end_settle(0);
    }
}

static inline void peer_rate(int side, size_t messages, int touched)
{
    size_t bytes = peer_plan.bytes;
    if (side == 1)
        peer_expect_window(peer_least(messages, PEER_WINDOW));
    while (messages > 0) {
        size_t window = peer_least(messages, PEER_WINDOW);
        messages -= window;
        if (side == 0) {
            end_expect(PEER_ANSWER, PEER_STEERING_BYTES);
            for (size_t slot = 0; slot < window; slot++)
                peer_send((int)slot, bytes, touched ? slot + 1 : 0);
            for (size_t slot = 0; slot < window; slot++)
                end_settle((int)slot);
            peer_take(PEER_ANSWER, PEER_STEERING_BYTES, 0);
        } else {
            for (size_t slot = 0; slot < window; slot++)
                peer_take((int)slot, bytes, touched ? slot + 1 : 0);
            peer_expect_window(peer_least(messages, PEER_WINDOW));
            peer_send(PEER_ANSWER, PEER_STEERING_BYTES, 0);
            end_settle(PEER_ANSWER);
        }
    }
}

static inline void peer_bandwidth(int side, size_t messages, int touched)
{
    size_t bytes = peer_plan.bytes;
    if (side == 0) {
        end_expect(PEER_ANSWER, PEER_STEERING_BYTES);
        for (size_t index = 0; index < messages; index++) {
            int slot = (int)(index % PEER_DEPTH);
            if (index >= PEER_DEPTH)
                end_settle(slot);
            peer_send(slot, bytes, touched ? index + 1 : 0);
        }
        for (size_t index = messages - peer_least(messages, PEER_DEPTH); index < messages; index++)
            end_settle((int)(index % PEER_DEPTH));
        peer_take(PEER_ANSWER, PEER_STEERING_BYTES, 0);
        return;
    }
    peer_expect_window(peer_least(messages, PEER_DEPTH));
    for (size_t index = 0; index < messages; index++) {
        int slot = (int)(index % PEER_DEPTH);
        peer_take(slot, bytes, touched ? index + 1 : 0);
        if (index + PEER_DEPTH < messages)
            end_expect(slot, bytes);
    }
    peer_send(PEER_ANSWER, PEER_STEERING_BYTES, 0);
    end_settle(PEER_ANSWER);
}

static inline void peer_batch(int side, size_t messages, int touched)
{
    if (strcmp(peer_plan.test, "latency") == 0)
        peer_latency(side, messages, touched);
    else if (strcmp(peer_plan.test, "rate") == 0)
        peer_rate(side, messages, touched);
    else if (strcmp(peer_plan.test, "bandwidth") == 0)
        peer_bandwidth(side, messages, touched);
    else
        peer_fail("TEST is latency, rate or bandwidth, not `%s`", peer_plan.test);
}

static inline int peer_compare(const void *left, const void *right)
{
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

/* Measures on side 0 and prints the line; answers on side 1. */
static inline void peer_measure(int side, const char *version)
{
    size_t bytes = peer_plan.bytes;
    size_t warm_up = peer_least(PEER_WARM_UP_BYTES / bytes, PEER_WARM_UP_MAX);
    if (warm_up < PEER_WARM_UP_MIN)
        warm_up = PEER_WARM_UP_MIN;
    peer_batch(side, warm_up / 2, 1);
    double begin = peer_seconds();
    peer_batch(side, warm_up - warm_up / 2, peer_plan.touched);
    double message_s = (peer_seconds() - begin) / (double)(warm_up - warm_up / 2);

    /* The first process tells how long a batch is, as an exponent, and hears it back. */
    int exponent = 0;
    end_expect(0, PEER_STEERING_BYTES);
    if (side == 0) {
        double wanted = peer_plan.milliseconds * 1e-3 / PEER_BATCHES / (message_s + 1e-9);
        if (strcmp(peer_plan.test, "rate") == 0)
            exponent = PEER_RATE_EXPONENT_MIN;
        if (strcmp(peer_plan.test, "bandwidth") == 0)
            exponent = PEER_BANDWIDTH_EXPONENT_MIN;
        while (exponent < PEER_EXPONENT_MAX && (double)(2ull << exponent) <= wanted)
            exponent++;
        peer_send(0, PEER_STEERING_BYTES, (size_t)exponent + 1);
        end_settle(0);
        peer_take(0, PEER_STEERING_BYTES, (size_t)exponent + 1);
    } else {
        end_receive(0, PEER_STEERING_BYTES);
        exponent = (int)(end_sum(0, PEER_STEERING_BYTES) / PEER_ONES) - 1;
        end_release(0);
        peer_send(0, PEER_STEERING_BYTES, (size_t)exponent + 1);
        end_settle(0);
    }

    double seconds[PEER_BATCHES];
    size_t messages = (size_t)1 << exponent;
    for (int batch = 0; batch < PEER_BATCHES; batch++) {
        begin = peer_seconds();
        peer_batch(side, messages, peer_plan.touched);
        seconds[batch] = (peer_seconds() - begin) / (double)messages;
    }
    if (side == 1)
        return;
    qsort(seconds, PEER_BATCHES, sizeof *seconds, peer_compare);
    double median = seconds[(PEER_BATCHES - 1) / 2];
    double high = seconds[((PEER_BATCHES - 1) * 99 + 99) / 100];
    printf("{\"test\":\"%s\",\"version\":\"%s\",\"rows\":[{\"bytes\":%zu,", peer_plan.test, version,
           bytes);
    if (strcmp(peer_plan.test, "latency") == 0)
        printf("\"half_rtt_us\":{\"min\":%.5f,\"median\":%.5f,\"p99\":%.5f}}]}\n",
               seconds[0] * 5e5, median * 5e5, high * 5e5);
    else
        printf("\"messages_s\":%.1f,\"mbyte_s\":%.3f}]}\n", 1.0 / median,
               (double)bytes / median / 1e6);
    fflush(stdout);
}

#endif
