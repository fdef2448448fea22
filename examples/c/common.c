/* What the examples share: see common.h. */

#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Milliseconds to wait for the other program. */
#define LIMIT_MS 30000

static void pause_ms(long milliseconds)
{
    struct timespec span;

    span.tv_sec = 0;
    span.tv_nsec = milliseconds * 1000000;
    nanosleep(&span, NULL);
}

void stop(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

void check(VIP_RETURN code, const char *call)
{
    if (code != VIP_SUCCESS) {
        fprintf(stderr, "%s returned %d; VIADUCT_VIPL_LOG=1 says why\n", call, (int)code);
        exit(1);
    }
}

/* A peer that disconnects is how each example ends; anything else is worth a line. */
static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    (void)context;
    if (error->ErrorCode != VIP_ERROR_CONN_LOST)
        fprintf(stderr, "asynchronous error %d\n", (int)error->ErrorCode);
}

void open_nic(struct nic *nic)
{
    check(VipOpenNic("VINIC", &nic->handle), "VipOpenNic");
    check(VipErrorCallback(nic->handle, NULL, on_error), "VipErrorCallback");
    check(VipNSInit(nic->handle, NULL), "VipNSInit");
    check(VipCreatePtag(nic->handle, &nic->tag), "VipCreatePtag");
}

void close_nic(struct nic *nic)
{
    check(VipDestroyPtag(nic->handle, nic->tag), "VipDestroyPtag");
    check(VipNSShutdown(nic->handle), "VipNSShutdown");
    check(VipCloseNic(nic->handle), "VipCloseNic");
}

void get_memory(struct nic *nic, unsigned long bytes, VIP_BOOLEAN rdma, struct memory *memory)
{
    VIP_MEM_ATTRIBUTES attributes;
    void *start;

    if (posix_memalign(&start, 4096, bytes) != 0)
        stop("no memory");
    memset(start, 0, bytes);
    memory->start = start;
    attributes.Ptag = nic->tag;
    attributes.EnableRdmaWrite = rdma;
    attributes.EnableRdmaRead = VIP_FALSE;
    check(VipRegisterMem(nic->handle, start, bytes, &attributes, &memory->handle),
          "VipRegisterMem");
}

void free_memory(struct nic *nic, struct memory *memory)
{
    check(VipDeregisterMem(nic->handle, memory->start, memory->handle), "VipDeregisterMem");
    free(memory->start);
}

VIP_VI_HANDLE make_vi(struct nic *nic, VIP_CQ_HANDLE send_cq, VIP_CQ_HANDLE recv_cq)
{
    VIP_VI_ATTRIBUTES attributes;
    VIP_VI_HANDLE vi;

    memset(&attributes, 0, sizeof attributes);
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = TRANSFER_MAX;
    attributes.Ptag = nic->tag;
    attributes.EnableRdmaWrite = VIP_TRUE;
    check(VipCreateVi(nic->handle, &attributes, send_cq, recv_cq, &vi), "VipCreateVi");
    return vi;
}

void describe(VIP_DESCRIPTOR *descriptor, struct memory *memory, char *data, VIP_UINT32 bytes)
{
    memset(descriptor, 0, sizeof *descriptor);
    descriptor->CS.SegCount = 1;
    descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
    descriptor->CS.Length = bytes;
    descriptor->DS[0].Local.Data.Address = data;
    descriptor->DS[0].Local.Handle = memory->handle;
    descriptor->DS[0].Local.Length = bytes;
}

/* An address is a host's, from the name service, and a discriminator right behind it. */
static void make_address(struct nic *nic, const char *host, const char *port, union address *made)
{
    char name[256];

    if (host == NULL) {
        if (gethostname(name, sizeof name) != 0)
            stop("this machine has no name");
        name[sizeof name - 1] = '\0';
    } else {
        strncpy(name, host, sizeof name - 1);
        name[sizeof name - 1] = '\0';
    }
    if (strlen(port) > 64)
        stop("the port has more than 64 characters");
    memset(made, 0, sizeof *made);
    check(VipNSGetHostByName(nic->handle, name, &made->net, 0), "VipNSGetHostByName");
    made->net.DiscriminatorLen = (VIP_UINT16)strlen(port);
    memcpy(made->net.HostAddress + made->net.HostAddressLen, port, strlen(port));
}

void accept_client(struct nic *nic, VIP_VI_HANDLE vi, const char *port)
{
    /* A client's discriminator may be as long as the NIC allows: give it the room. */
    static union {
        VIP_NET_ADDRESS net;
        char room[sizeof(VIP_NET_ADDRESS) + 6 + 65536];
    } client;
    union address server;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE connection;

    make_address(nic, NULL, port, &server);
    check(VipConnectWait(nic->handle, &server.net, LIMIT_MS, &client.net, &attributes,
                         &connection),
          "VipConnectWait");
    check(VipConnectAccept(connection, vi), "VipConnectAccept");
}

void connect_to(struct nic *nic, VIP_VI_HANDLE vi, const char *host, const char *port)
{
    union address client, server;
    VIP_VI_ATTRIBUTES attributes;
    VIP_RETURN code;
    long tries = 0;

    make_address(nic, NULL, "", &client);
    make_address(nic, host, port, &server);
    /* VIP_NO_MATCH: nobody waits there, yet. */
    do {
        code = VipConnectRequest(vi, &client.net, &server.net, LIMIT_MS, &attributes);
        if (code == VIP_NO_MATCH)
            pause_ms(10);
    } while (code == VIP_NO_MATCH && ++tries < LIMIT_MS / 10);
    check(code, "VipConnectRequest");
}

void wait_for_leave(VIP_VI_HANDLE vi)
{
    VIP_VI_STATE state = VIP_STATE_CONNECTED;
    VIP_VI_ATTRIBUTES attributes;
    VIP_BOOLEAN send_empty, recv_empty;
    long tries;

    for (tries = 0; state == VIP_STATE_CONNECTED && tries < LIMIT_MS; tries++) {
        pause_ms(1);
        check(VipQueryVi(vi, &state, &attributes, &send_empty, &recv_empty), "VipQueryVi");
    }
}
