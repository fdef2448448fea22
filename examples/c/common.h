/* What the examples share: opening, memory, connecting. Each stops with a message on an error. */

#ifndef COMMON_H
#define COMMON_H

#include <vipl.h>

/* Bytes of the largest message of a VI here; equal at both ends. Every NIC has so much. */
#define TRANSFER_MAX 32768

/* An open NIC and a protection tag on it. */
struct nic {
    VIP_NIC_HANDLE handle;
    VIP_PROTECTION_HANDLE tag;
};

/* Memory that is registered. */
struct memory {
    char *start;
    VIP_MEM_HANDLE handle;
};

/* A network address with room for a discriminator. */
union address {
    VIP_NET_ADDRESS net;
    char room[sizeof(VIP_NET_ADDRESS) + 6 + 64];
};

/* Stops the program unless code is VIP_SUCCESS. call is the name of what returned it. */
void check(VIP_RETURN code, const char *call);

/* Stops the program with what is wrong. */
void stop(const char *what);

/* Opens the local NIC and makes a tag. */
void open_nic(struct nic *nic);
void close_nic(struct nic *nic);

/* Registers fresh memory on a page's start; a peer may write it if rdma is true. */
void get_memory(struct nic *nic, unsigned long bytes, VIP_BOOLEAN rdma, struct memory *memory);
void free_memory(struct nic *nic, struct memory *memory);

/* Makes an idle VI of reliable delivery. A peer may write through it into memory that allows it. */
VIP_VI_HANDLE make_vi(struct nic *nic, VIP_CQ_HANDLE send_cq, VIP_CQ_HANDLE recv_cq);

/* Puts a message of one data segment into a descriptor: what to send, or where to receive. */
void describe(VIP_DESCRIPTOR *descriptor, struct memory *memory, char *data, VIP_UINT32 bytes);

/* Server: waits for a client that asks for port, and accepts it with vi. */
void accept_client(struct nic *nic, VIP_VI_HANDLE vi, const char *port);

/* Client: connects vi to port of a host, NULL for this one; waits until a server is there. */
void connect_to(struct nic *nic, VIP_VI_HANDLE vi, const char *host, const char *port);

/* Server: waits until the client has disconnected, so that nothing it still waits for is lost. */
void wait_for_leave(VIP_VI_HANDLE vi);

#endif
