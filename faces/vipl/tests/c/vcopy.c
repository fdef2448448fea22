/*
 * vcopy - copies a file between two processes.
 *
 *   vcopy receive service [file]
 *   vcopy send service [file]        by messages, in the receiver's window
 *   vcopy write service [file]       by RDMA writes into the receiver's buffers
 *
 * Without a file it is $VCOPY_FILES with "from" or "to" behind it. The receiver posts its whole window before it
 * accepts. It gives credits back by empty messages whose immediate data is how many; what is
 * written comes with the slot and the bytes as immediate data. The descriptors are those of
 * Giganet's header: Control and Data.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vipl.h>

#define WINDOW 16
#define BLOCK 32768
#define END 0xFFFFFFFFu

/* The first message of each side. */
struct hello {
    char magic[8];
    VIP_UINT32 window, block, handle;
    VIP_UINT64 address;
};

static VIP_NIC_HANDLE nic;
static VIP_PROTECTION_HANDLE tag;
static VIP_NIC_ATTRIBUTES limits;
static VIP_VI_HANDLE vi;
static VIP_MEM_HANDLE mh;
static char *area;
static unsigned long area_bytes;
static VIP_DESCRIPTOR *rdesc[WINDOW + 1], *sdesc[WINDOW + 1];
static char *rbuf[WINDOW + 1], *sbuf[WINDOW + 1];
static volatile int lost;

#define CK(call) do { VIP_RETURN r_ = (call); if (r_ != VIP_SUCCESS) { \
    fprintf(stderr, "vcopy: %s returned %d\n", #call, (int)r_); exit(1); } } while (0)

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    if (error->ErrorCode == VIP_ERROR_CONN_LOST && error->ViHandle == vi)
        lost = 1;
    else
        fprintf(stderr, "vcopy %s: error %d, resource %d\n", (char *)context,
                (int)error->ErrorCode, (int)error->ResourceCode);
}

static void describe(VIP_DESCRIPTOR *d, char *data, unsigned bytes)
{
    d->Control.SegCount = 1;
    d->Control.Control = VIP_CONTROL_OP_SENDRECV;
    d->Control.Reserved = 0;
    d->Control.Length = bytes;
    d->Data[0].Data.Address = data;
    d->Data[0].Handle = mh;
    d->Data[0].Length = bytes;
}

/* Descriptors first, then buffers, in one registered area; every receive is posted. */
static void set_up(char *side)
{
    VIP_VI_ATTRIBUTES va;
    VIP_MEM_ATTRIBUTES ma;
    char *p;
    int i;

    CK(VipOpenNic("/dev/clanvi0", &nic));
    CK(VipQueryNic(nic, &limits));
    CK(VipErrorCallback(nic, side, on_error));
    CK(VipNSInit(nic, NULL));
    CK(VipCreatePtag(nic, &tag));
    area_bytes = 2ul * (WINDOW + 1) * (64 + BLOCK);
    p = malloc(area_bytes + 63);
    if (p == NULL)
        exit(1);
    area = p + (-(unsigned long)p & 63);
    ma.Ptag = tag;
    ma.EnableRdmaWrite = VIP_TRUE;
    ma.EnableRdmaRead = VIP_FALSE;
    CK(VipRegisterMem(nic, area, area_bytes, &ma, &mh));
    memset(&va, 0, sizeof va);
    va.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    va.MaxTransferSize = BLOCK;
    va.Ptag = tag;
    va.EnableRdmaWrite = VIP_TRUE;
    CK(VipCreateVi(nic, &va, NULL, NULL, &vi));
    p = area;
    for (i = 0; i <= WINDOW; i++, p += 128) {
        rdesc[i] = (VIP_DESCRIPTOR *)p;
        sdesc[i] = (VIP_DESCRIPTOR *)(p + 64);
    }
    for (i = 0; i <= WINDOW; i++, p += 2 * BLOCK) {
        rbuf[i] = p;
        sbuf[i] = p + BLOCK;
        describe(rdesc[i], rbuf[i], BLOCK);
        CK(VipPostRecv(vi, rdesc[i], mh));
    }
}

static VIP_NET_ADDRESS *address(const char *service)
{
    static char host[64];
    VIP_NET_ADDRESS *a = malloc(sizeof *a + 6 + 64);

    if (a == NULL || gethostname(host, sizeof host) != 0)
        exit(1);
    CK(VipNSGetHostByName(nic, host, a, 0));
    a->DiscriminatorLen = (VIP_UINT16)strlen(service);
    memcpy(a->HostAddress + a->HostAddressLen, service, strlen(service));
    return a;
}

static void say_hello(void)
{
    struct hello *h = (struct hello *)sbuf[WINDOW];
    VIP_DESCRIPTOR *d;

    memset(h, 0, sizeof *h);
    strcpy(h->magic, "vcopy");
    h->window = WINDOW;
    h->block = BLOCK;
    h->handle = mh;
    h->address = (unsigned long)rbuf[0];
    describe(sdesc[WINDOW], (char *)h, sizeof *h);
    CK(VipPostSend(vi, sdesc[WINDOW], mh));
    CK(VipSendWait(vi, 10000, &d));
}

static VIP_DESCRIPTOR *next_message(void)
{
    VIP_DESCRIPTOR *d;
    VIP_RETURN r = VipRecvWait(vi, 10000, &d);

    if (r != VIP_SUCCESS) {
        fprintf(stderr, "vcopy: VipRecvWait returned %d, status %x%s\n", (int)r,
                d == NULL ? 0 : (unsigned)d->Control.Status, lost ? ", connection lost" : "");
        exit(1);
    }
    return d;
}

static void hear_hello(struct hello *h)
{
    VIP_DESCRIPTOR *d = next_message();

    if (d->Control.Length != sizeof *h || strcmp(d->Data[0].Data.Address, "vcopy") != 0) {
        fprintf(stderr, "vcopy: another program is there\n");
        exit(1);
    }
    memcpy(h, d->Data[0].Data.Address, sizeof *h);
    CK(VipPostRecv(vi, d, mh));
}

/* An empty message; its descriptor is used again when the one before is done. */
static void signal_peer(VIP_UINT32 number)
{
    static int is_posted;
    VIP_DESCRIPTOR *s = sdesc[0], *d;

    if (is_posted)
        CK(VipSendWait(vi, 10000, &d));
    is_posted = 1;
    memset(s, 0, sizeof *s);
    s->Control.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
    s->Control.ImmediateData = number;
    CK(VipPostSend(vi, s, mh));
}

static void receive(const char *service, const char *file)
{
    VIP_NET_ADDRESS *from = malloc(4 + 6 + limits.MaxDiscriminatorLen);
    VIP_VI_ATTRIBUTES va;
    VIP_CONN_HANDLE connection;
    VIP_DESCRIPTOR *d;
    struct hello h;
    unsigned long total = 0, messages = 0, writes = 0;
    unsigned owed = 0, slot, bytes;
    FILE *f = fopen(file, "wb");

    if (f == NULL || from == NULL) {
        perror(file);
        exit(1);
    }
    CK(VipConnectWait(nic, address(service), 20000, from, &va, &connection));
    CK(VipConnectAccept(connection, vi));
    hear_hello(&h);
    say_hello();
    for (;;) {
        d = next_message();
        if ((d->Control.Status & VIP_STATUS_IMMEDIATE) && d->Control.ImmediateData == END)
            break;
        bytes = d->Control.Length;
        if ((d->Control.Status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_REMOTE_RDMA_WRITE) {
            slot = d->Control.ImmediateData >> 24;
            if (bytes != (d->Control.ImmediateData & 0xFFFFFF))
                fprintf(stderr, "vcopy: Length is %u\n", bytes);
            fwrite(sbuf[slot], 1, bytes, f);
            writes++;
        } else {
            fwrite(d->Data[0].Data.Address, 1, bytes, f);
            messages++;
        }
        total += bytes;
        CK(VipPostRecv(vi, d, mh));
        if (++owed == WINDOW / 2) {
            signal_peer(owed);
            owed = 0;
        }
    }
    signal_peer(END);
    CK(VipSendWait(vi, 10000, &d));
    fclose(f);
    printf("vcopy: %lu bytes in %lu messages and %lu writes\n", total, messages, writes);
    while (!lost)
        usleep(1000);
}

static void transmit(const char *service, const char *file, int writes)
{
    VIP_VI_ATTRIBUTES va;
    VIP_DESCRIPTOR *d, *s;
    VIP_RETURN r;
    struct hello h;
    unsigned long total = 0;
    unsigned credits, slot = 0, out = 0, bytes;
    int tries = 0;
    FILE *f = fopen(file, "rb");

    if (f == NULL) {
        perror(file);
        exit(1);
    }
    while ((r = VipConnectRequest(vi, address("vcopy sender"), address(service), 10000, &va)) ==
               VIP_NO_MATCH && ++tries < 2000)
        usleep(10000);
    CK(r);
    if (writes && !va.EnableRdmaWrite) {
        fprintf(stderr, "vcopy: the receiver allows no writes\n");
        exit(1);
    }
    say_hello();
    hear_hello(&h);
    credits = h.window;
    for (;;) {
        while ((r = VipRecvDone(vi, &d)) == VIP_SUCCESS || credits == 0) {
            if (r != VIP_SUCCESS)
                d = next_message();
            credits += d->Control.ImmediateData;
            CK(VipPostRecv(vi, d, mh));
        }
        if (out == WINDOW) {
            CK(VipSendWait(vi, 10000, &s));
            out--;
        }
        s = sdesc[slot];
        bytes = (unsigned)fread(sbuf[slot], 1, h.block, f);
        if (bytes == 0)
            break;
        describe(s, sbuf[slot], bytes);
        if (writes) {
            s->DS[1].Local = s->DS[0].Local;
            s->CS.SegCount = 2;
            s->CS.Control = VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE;
            s->CS.ImmediateData = slot << 24 | bytes;
            /* The receiver's sbuf: it sends nothing but signals. */
            s->DS[0].Remote.Data.AddressBits = h.address + h.block + (VIP_UINT64)slot * 2 * h.block;
            s->DS[0].Remote.Handle = h.handle;
            s->DS[0].Remote.Reserved = 0;
        }
        CK(VipPostSend(vi, s, mh));
        total += bytes;
        credits--;
        out++;
        slot = (slot + 1) % WINDOW;
    }
    while (out-- > 0)
        CK(VipSendWait(vi, 10000, &d));
    fclose(f);
    signal_peer(END);
    do {
        d = next_message();
    } while (d->Control.ImmediateData != END);
    CK(VipSendWait(vi, 10000, &d));
    printf("vcopy: %lu bytes sent\n", total);
}

int main(int argc, char **argv)
{
    const char *files = getenv("VCOPY_FILES");
    char name[1024], *file = name;
    VIP_DESCRIPTOR *d;
    int is_receiver = argc > 1 && strcmp(argv[1], "receive") == 0;

    if (argc < 3 || (argc < 4 && files == NULL)) {
        fprintf(stderr, "usage: vcopy receive|send|write service file\n");
        return 2;
    }
    if (argc > 3)
        file = argv[3];
    else
        sprintf(name, "%.1000s%s", files, is_receiver ? "to" : "from");
    set_up(argv[1]);
    if (is_receiver)
        receive(argv[2], file);
    else
        transmit(argv[2], file, strcmp(argv[1], "write") == 0);
    CK(VipDisconnect(vi));
    while (VipRecvDone(vi, &d), d != NULL)
        if (!(d->Control.Status & VIP_STATUS_DESC_FLUSHED_ERROR) &&
            d->Control.Status != (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE))
            fprintf(stderr, "vcopy: a receive ended with status %x\n", (unsigned)d->Control.Status);
    CK(VipDestroyVi(vi));
    CK(VipDeregisterMem(nic, area, mh));
    CK(VipDestroyPtag(nic, tag));
    CK(VipNSShutdown(nic));
    CK(VipCloseNic(nic));
    return 0;
}
