/*
 * One message goes to and fro between two processes of this machine.
 *
 *   cc pingpong.c common.c -lvipl -o pingpong
 *   ./pingpong server          in one shell
 *   ./pingpong client          in another
 */

#include "common.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS 1000
#define BYTES 64

/* Descriptors begin at a multiple of 64 bytes: each has a page's worth of room around it here. */
#define RECV_DESCRIPTOR 0
#define SEND_DESCRIPTOR 64
#define RECV_DATA 128
#define SEND_DATA 192

static struct nic nic;
static struct memory memory;
static VIP_VI_HANDLE vi;

static void post_receive(void)
{
    VIP_DESCRIPTOR *descriptor = (VIP_DESCRIPTOR *)(memory.start + RECV_DESCRIPTOR);

    describe(descriptor, &memory, memory.start + RECV_DATA, BYTES);
    check(VipPostRecv(vi, descriptor, memory.handle), "VipPostRecv");
}

/* Takes the message that came: round must be in each of its bytes. */
static void receive(int round)
{
    VIP_DESCRIPTOR *descriptor;
    int i;

    /* VipRecvDone is the same without waiting. */
    check(VipRecvWait(vi, VIP_INFINITE, &descriptor), "VipRecvWait");
    if (descriptor->CS.Length != BYTES)
        stop("a message of another length came");
    for (i = 0; i < BYTES; i++)
        if ((unsigned char)memory.start[RECV_DATA + i] != (unsigned char)round)
            stop("a message with other bytes came");
}

static void transmit(int round)
{
    VIP_DESCRIPTOR *descriptor = (VIP_DESCRIPTOR *)(memory.start + SEND_DESCRIPTOR);

    memset(memory.start + SEND_DATA, round, BYTES);
    describe(descriptor, &memory, memory.start + SEND_DATA, BYTES);
    check(VipPostSend(vi, descriptor, memory.handle), "VipPostSend");
    check(VipSendWait(vi, VIP_INFINITE, &descriptor), "VipSendWait");
}

int main(int argc, char **argv)
{
    int is_server = argc >= 2 && strcmp(argv[1], "server") == 0;
    const char *port = argc >= 3 ? argv[2] : "pingpong";
    const char *host = argc >= 4 ? argv[3] : NULL;
    int round;

    if (argc < 2 || (!is_server && strcmp(argv[1], "client") != 0))
        stop("usage: pingpong server|client [port [host]]");
    open_nic(&nic);
    get_memory(&nic, 4096, VIP_FALSE, &memory);
    vi = make_vi(&nic, NULL, NULL);

    /* The first receive is there before anybody can send. */
    post_receive();
    if (is_server)
        accept_client(&nic, vi, port);
    else
        connect_to(&nic, vi, host, port);

    for (round = 0; round < ROUNDS; round++) {
        if (!is_server)
            transmit(round);
        receive(round);
        /* The other side sends only after it has ours: there is time to post. */
        if (round + 1 < ROUNDS)
            post_receive();
        if (is_server)
            transmit(round);
    }
    printf("pingpong: %d round trips of %d bytes, data right\n", ROUNDS, BYTES);

    if (is_server)
        wait_for_leave(vi);
    check(VipDisconnect(vi), "VipDisconnect");
    check(VipDestroyVi(vi), "VipDestroyVi");
    free_memory(&nic, &memory);
    close_nic(&nic);
    return 0;
}
