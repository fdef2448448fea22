/*
 * A server with many connections and one completion queue.
 *
 *   cc cqserver.c common.c -lvipl -o cqserver
 *   ./cqserver server          in one shell
 *   ./cqserver client          in another
 *
 * A request is a number, its answer the number's square.
 */

#include "common.h"

#include <stdio.h>
#include <string.h>

#define CONNECTIONS 4
#define REQUESTS 100 /* on each connection */

/* What belongs to one connection, at a multiple of 64 bytes in registered memory. */
struct connection {
    VIP_DESCRIPTOR receive;
    VIP_DESCRIPTOR send;
    VIP_UINT32 received;
    VIP_UINT32 sent;
    char unused[56];
};

static struct nic nic;
static struct memory memory;
static struct connection *connections;
static VIP_VI_HANDLE vis[CONNECTIONS];

static void post_receive(int i)
{
    struct connection *c = &connections[i];

    describe(&c->receive, &memory, (char *)&c->received, sizeof c->received);
    check(VipPostRecv(vis[i], &c->receive, memory.handle), "VipPostRecv");
}

static void transmit(int i, VIP_UINT32 number)
{
    struct connection *c = &connections[i];

    c->sent = number;
    describe(&c->send, &memory, (char *)&c->sent, sizeof c->sent);
    check(VipPostSend(vis[i], &c->send, memory.handle), "VipPostSend");
}

/* The handle in an entry of the queue is the one that VipCreateVi gave. */
static int index_of(VIP_VI_HANDLE vi)
{
    int i;

    for (i = 0; i < CONNECTIONS; i++)
        if (vis[i] == vi)
            return i;
    stop("an entry of no VI of ours");
    return -1;
}

static void serve(VIP_CQ_HANDLE cq)
{
    int answers_sent = 0;

    while (answers_sent < CONNECTIONS * REQUESTS) {
        VIP_VI_HANDLE vi;
        VIP_BOOLEAN is_receive;
        VIP_DESCRIPTOR *descriptor;
        VIP_RETURN result;
        int i;

        check(VipCQWait(cq, VIP_INFINITE, &vi, &is_receive), "VipCQWait");
        i = index_of(vi);
        if (is_receive) {
            VIP_UINT32 number;

            result = VipRecvDone(vi, &descriptor);
            /* A client that has its last answer leaves: the receive posted for it comes back. */
            if (result == VIP_DESCRIPTOR_ERROR && descriptor != NULL &&
                (descriptor->Control.Status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0)
                continue;
            check(result, "VipRecvDone");
            number = connections[i].received;
            /* The client asks again when it has the answer: post first, then answer. */
            post_receive(i);
            transmit(i, number * number);
        } else {
            check(VipSendDone(vi, &descriptor), "VipSendDone");
            answers_sent++;
        }
    }
}

static void ask(void)
{
    VIP_DESCRIPTOR *descriptor;
    VIP_UINT32 number;
    int i;

    for (number = 0; number < REQUESTS; number++) {
        for (i = 0; i < CONNECTIONS; i++) {
            post_receive(i);
            transmit(i, number + i);
        }
        for (i = 0; i < CONNECTIONS; i++) {
            check(VipSendWait(vis[i], VIP_INFINITE, &descriptor), "VipSendWait");
            check(VipRecvWait(vis[i], VIP_INFINITE, &descriptor), "VipRecvWait");
            if (connections[i].received != (number + i) * (number + i))
                stop("a wrong answer came");
        }
    }
}

int main(int argc, char **argv)
{
    int is_server = argc >= 2 && strcmp(argv[1], "server") == 0;
    const char *port = argc >= 3 ? argv[2] : "cqserver";
    const char *host = argc >= 4 ? argv[3] : NULL;
    VIP_CQ_HANDLE cq = NULL;
    int i;

    if (argc < 2 || (!is_server && strcmp(argv[1], "client") != 0))
        stop("usage: cqserver server|client [port [host]]");
    open_nic(&nic);
    get_memory(&nic, CONNECTIONS * sizeof *connections, VIP_FALSE, &memory);
    connections = (struct connection *)memory.start;
    /* At most a receive and a send of each connection are complete at once. */
    if (is_server)
        check(VipCreateCQ(nic.handle, 2 * CONNECTIONS, &cq), "VipCreateCQ");
    for (i = 0; i < CONNECTIONS; i++) {
        vis[i] = make_vi(&nic, cq, cq);
        if (is_server) {
            post_receive(i);
            accept_client(&nic, vis[i], port);
        } else {
            connect_to(&nic, vis[i], host, port);
        }
    }

    if (is_server)
        serve(cq);
    else
        ask();
    printf("cqserver: %d connections, %d requests, answers right\n", CONNECTIONS,
           CONNECTIONS * REQUESTS);

    for (i = 0; i < CONNECTIONS; i++) {
        if (is_server)
            wait_for_leave(vis[i]);
        check(VipDisconnect(vis[i]), "VipDisconnect");
        check(VipDestroyVi(vis[i]), "VipDestroyVi");
    }
    if (is_server)
        check(VipDestroyCQ(cq), "VipDestroyCQ");
    free_memory(&nic, &memory);
    close_nic(&nic);
    return 0;
}
