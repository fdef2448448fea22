/*
 * Half of a round trip between two processes, for messages of several sizes: both sides poll.
 *
 *   cc latency.c common.c -lvipl -o latency
 *   ./latency server                    in one shell
 *   ./latency client                    in another
 *
 * On simulated hosts the clock is the simulation's, and the figures are the model's:
 *
 *   viaduct rdma --on sim:giganet-clan -- ./latency server : ./latency client latency host0
 */

#include "common.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Rounds that are not timed come first: at their end both sides are where they are in each. */
#define WARM_UP 10
#define ROUNDS 100

static const VIP_UINT32 sizes[] = {0, 4, 16, 64, 256, 1024, 4096, 16384, 32768};

#define SIZES (sizeof sizes / sizeof *sizes)

static struct nic nic;
static struct memory memory;
static VIP_VI_HANDLE vi;

/* A descriptor for a send, two for receives; then a page's start and room for each of them. */
static VIP_DESCRIPTOR *descriptor_at(int i)
{
    return (VIP_DESCRIPTOR *)(memory.start + i * VIP_DESCRIPTOR_ALIGNMENT);
}

static char *data_at(int i)
{
    return memory.start + 4096 + i * TRANSFER_MAX;
}

static void post_receive(int i)
{
    describe(descriptor_at(i), &memory, data_at(i), TRANSFER_MAX);
    check(VipPostRecv(vi, descriptor_at(i), memory.handle), "VipPostRecv");
}

static void post_send(VIP_UINT32 bytes)
{
    describe(descriptor_at(0), &memory, data_at(0), bytes);
    check(VipPostSend(vi, descriptor_at(0), memory.handle), "VipPostSend");
}

static void take_send(void)
{
    VIP_DESCRIPTOR *descriptor;
    VIP_RETURN code;

    while ((code = VipSendDone(vi, &descriptor)) == VIP_NOT_DONE)
        ;
    check(code, "VipSendDone");
}

/* Which receive it was. */
static int take_receive(VIP_UINT32 bytes)
{
    VIP_DESCRIPTOR *descriptor;
    VIP_RETURN code;

    while ((code = VipRecvDone(vi, &descriptor)) == VIP_NOT_DONE)
        ;
    check(code, "VipRecvDone");
    if (descriptor->CS.Length != bytes)
        stop("a message of another length came");
    return descriptor == descriptor_at(1) ? 1 : 2;
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

/* Plays rounds and says how long one of them took. What came last is posted again while the next
 * message travels. */
static double play(VIP_UINT32 bytes, int rounds, int is_server, int *taken)
{
    double before = now_us();
    int round;

    for (round = 0; round < rounds; round++) {
        if (is_server)
            *taken = take_receive(bytes);
        post_send(bytes);
        if (*taken)
            post_receive(*taken);
        *taken = 0;
        take_send();
        if (!is_server)
            *taken = take_receive(bytes);
    }
    return (now_us() - before) / rounds;
}

int main(int argc, char **argv)
{
    int is_server = argc >= 2 && strcmp(argv[1], "server") == 0;
    const char *port = argc >= 3 ? argv[2] : "latency";
    const char *host = argc >= 4 ? argv[3] : NULL;
    int taken = 0;
    unsigned i;

    if (argc < 2 || (!is_server && strcmp(argv[1], "client") != 0))
        stop("usage: latency server|client [port [host]]");
    open_nic(&nic);
    get_memory(&nic, 4096 + 3 * TRANSFER_MAX, VIP_FALSE, &memory);
    vi = make_vi(&nic, NULL, NULL);

    /* Two receives are there before anybody can send: one is posted again only after a send. */
    post_receive(1);
    post_receive(2);
    if (is_server)
        accept_client(&nic, vi, port);
    else
        connect_to(&nic, vi, host, port);

    if (!is_server)
        printf("  bytes  half a round trip, us\n");
    for (i = 0; i < SIZES; i++) {
        double us;

        play(sizes[i], WARM_UP, is_server, &taken);
        us = play(sizes[i], ROUNDS, is_server, &taken);
        if (!is_server)
            printf("%7u  %.3f\n", sizes[i], us / 2);
    }

    if (is_server)
        wait_for_leave(vi);
    check(VipDisconnect(vi), "VipDisconnect");
    check(VipDestroyVi(vi), "VipDestroyVi");
    free_memory(&nic, &memory);
    close_nic(&nic);
    return 0;
}
