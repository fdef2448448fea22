/*
 * A process writes into the memory of another, and four bytes tell that it has.
 *
 *   cc rdma_immediate.c common.c -lvipl -o rdma_immediate
 *   ./rdma_immediate server    in one shell
 *   ./rdma_immediate client    in another
 *
 * The server tells where its memory lies; the client writes there. Without immediate data the
 * server would see bytes change and no more; with it, one of its receives completes.
 */

#include "common.h"

#include <stdio.h>
#include <string.h>

#define BYTES TRANSFER_MAX
#define IMMEDIATE 1999

/* How one end tells the other of its memory: plain numbers. */
struct window {
    VIP_UINT64 address;
    VIP_MEM_HANDLE handle;
    VIP_UINT32 bytes;
};

static struct nic nic;
static struct memory control; /* descriptors and the window */
static struct memory data;
static VIP_VI_HANDLE vi;

static VIP_DESCRIPTOR *descriptor_at(int i)
{
    return (VIP_DESCRIPTOR *)(control.start + i * VIP_DESCRIPTOR_ALIGNMENT);
}

static struct window *window(void)
{
    return (struct window *)(control.start + 1024);
}

static char byte_at(long i)
{
    return (char)(i * 31 + 7);
}

static void server(const char *port)
{
    VIP_DESCRIPTOR *signal = descriptor_at(0);
    VIP_DESCRIPTOR *tell = descriptor_at(1);
    VIP_DESCRIPTOR *done;
    long i;

    /* No buffer: it is there for the immediate data. */
    memset(signal, 0, sizeof *signal);
    check(VipPostRecv(vi, signal, control.handle), "VipPostRecv");
    accept_client(&nic, vi, port);

    window()->address = (VIP_UINT64)(unsigned long)data.start;
    window()->handle = data.handle;
    window()->bytes = BYTES;
    describe(tell, &control, (char *)window(), sizeof *window());
    check(VipPostSend(vi, tell, control.handle), "VipPostSend");
    check(VipSendWait(vi, VIP_INFINITE, &done), "VipSendWait");

    check(VipRecvWait(vi, VIP_INFINITE, &done), "VipRecvWait");
    if ((done->CS.Status & VIP_STATUS_OP_MASK) != VIP_STATUS_OP_REMOTE_RDMA_WRITE ||
        !(done->CS.Status & VIP_STATUS_IMMEDIATE) || done->CS.ImmediateData != IMMEDIATE)
        stop("something else completed the receive");
    for (i = 0; i < BYTES; i++)
        if (data.start[i] != byte_at(i))
            stop("other bytes were written");

    /* A message of no bytes says so. */
    memset(tell, 0, sizeof *tell);
    check(VipPostSend(vi, tell, control.handle), "VipPostSend");
    check(VipSendWait(vi, VIP_INFINITE, &done), "VipSendWait");
    wait_for_leave(vi);
}

static void client(const char *host, const char *port)
{
    VIP_DESCRIPTOR *told = descriptor_at(0);
    VIP_DESCRIPTOR *write = descriptor_at(1);
    VIP_DESCRIPTOR *thanks = descriptor_at(2);
    VIP_DESCRIPTOR *done;
    long i;

    describe(told, &control, (char *)window(), sizeof *window());
    check(VipPostRecv(vi, told, control.handle), "VipPostRecv");
    memset(thanks, 0, sizeof *thanks);
    check(VipPostRecv(vi, thanks, control.handle), "VipPostRecv");
    connect_to(&nic, vi, host, port);
    check(VipRecvWait(vi, VIP_INFINITE, &done), "VipRecvWait");
    if (window()->bytes < BYTES)
        stop("the server's window is smaller than the message");

    for (i = 0; i < BYTES; i++)
        data.start[i] = byte_at(i);
    /* The address segment comes first and counts: one data segment makes two. */
    memset(write, 0, sizeof *write);
    write->CS.SegCount = 2;
    write->CS.Control = VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE;
    write->CS.ImmediateData = IMMEDIATE;
    write->CS.Length = BYTES;
    write->DS[0].Remote.Data.AddressBits = window()->address;
    write->DS[0].Remote.Handle = window()->handle;
    write->DS[1].Local.Data.Address = data.start;
    write->DS[1].Local.Handle = data.handle;
    write->DS[1].Local.Length = BYTES;
    check(VipPostSend(vi, write, control.handle), "VipPostSend");
    check(VipSendWait(vi, VIP_INFINITE, &done), "VipSendWait");
    /* At reliable delivery a completed write is on its way; the server's word says that it came. */
    check(VipRecvWait(vi, VIP_INFINITE, &done), "VipRecvWait");
}

int main(int argc, char **argv)
{
    int is_server = argc >= 2 && strcmp(argv[1], "server") == 0;
    const char *port = argc >= 3 ? argv[2] : "rdma_immediate";
    const char *host = argc >= 4 ? argv[3] : NULL;

    if (argc < 2 || (!is_server && strcmp(argv[1], "client") != 0))
        stop("usage: rdma_immediate server|client [port [host]]");
    open_nic(&nic);
    get_memory(&nic, 4096, VIP_FALSE, &control);
    get_memory(&nic, BYTES, VIP_TRUE, &data);
    vi = make_vi(&nic, NULL, NULL);

    if (is_server)
        server(port);
    else
        client(host, port);
    printf("rdma_immediate: %d bytes written, immediate data %d, data right\n", BYTES, IMMEDIATE);

    check(VipDisconnect(vi), "VipDisconnect");
    check(VipDestroyVi(vi), "VipDestroyVi");
    free_memory(&nic, &data);
    free_memory(&nic, &control);
    close_nic(&nic);
    return 0;
}
