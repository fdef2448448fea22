/*
 * vmesh - four processes, each connected with each, as equals.
 *
 *   vmesh even service        ranks 0 and 2
 *   vmesh odd service         ranks 1 and 3
 *
 * Each process forks before it opens its NIC. A rank has one completion queue, served by
 * VipCQNotify alone, with two handlers asked for at any time. When all is done rank 3 leaves
 * without a word: the others must hear of it from their error handlers, and once. The descriptors
 * are those of Intel's header: CS and DS.
 */
#define VIPL095
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vipl.h>

#define RANKS 4
#define DEPTH 8
#define ROUNDS 200
#define LEAVER 3

struct message {
    VIP_DESCRIPTOR d;
    unsigned long word[8];
};

static VIP_NIC_HANDLE nic;
static VIP_CQ_HANDLE cq;
static VIP_MEM_HANDLE mh;
static VIP_VI_HANDLE vi[RANKS];
static struct message *receives, *sends;
static int rank;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static unsigned long received[RANKS], sum[RANKS], sent[RANKS];
static int lost[RANKS];

static void die(const char *what, long number)
{
    fprintf(stderr, "vmesh %d: %s: %lx\n", rank, what, number);
    exit(1);
}

#define CK(x) do { VIP_RETURN r_ = (x); if (r_ != VIP_SUCCESS) die(#x, (long)r_); } while (0)

static int who(VIP_VI_HANDLE h)
{
    int i;

    for (i = 0; i < RANKS; i++)
        if (i != rank && vi[i] == h)
            return i;
    die("unknown VI", (long)h);
    return -1;
}

static void fill(struct message *m)
{
    memset(&m->d.CS, 0, sizeof m->d.CS);
    m->d.CS.SegCount = 1;
    m->d.CS.Length = sizeof m->word;
    m->d.DS[0].Local.Data.Address = m->word;
    m->d.DS[0].Local.Handle = mh;
    m->d.DS[0].Local.Length = sizeof m->word;
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    if (context != &nic || error->NicHandle != nic || error->ResourceCode != VIP_RESOURCE_VI ||
        error->ErrorCode != VIP_ERROR_CONN_LOST)
        die("error", (long)error->ErrorCode);
    pthread_mutex_lock(&lock);
    lost[who(error->ViHandle)]++;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
}

/* An entry of the queue, which is off it; the handler asks for the next one at the end. */
static void on_entry(VIP_PVOID context, VIP_NIC_HANDLE from_nic, VIP_VI_HANDLE h,
                     VIP_BOOLEAN is_receive)
{
    VIP_DESCRIPTOR *d;
    VIP_RETURN r;
    struct message *m;
    int i = who(h), is_good;

    if (context != &cq || from_nic != nic)
        die("context", (long)from_nic);
    r = is_receive ? VipRecvDone(h, &d) : VipSendDone(h, &d);
    if (d == NULL)
        die("an entry without a descriptor", (long)r);
    is_good = r == VIP_SUCCESS;
    pthread_mutex_lock(&lock);
    /* One that has all messages may leave; what was posted for more comes back. */
    if (!is_good && received[i] < ROUNDS)
        die("status", (long)d->CS.Status);
    m = (struct message *)d;
    if (is_good && is_receive) {
        if (d->CS.Length != sizeof m->word || m->word[0] != received[i])
            die("not the next message", (long)m->word[0]);
        sum[i] += m->word[1];
        received[i]++;
        CK(VipPostRecv(h, d, mh));
    } else if (!is_receive) {
        sent[i]++;
    }
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
    CK(VipCQNotify(cq, &cq, on_entry));
}

/* host, and as discriminator: service, whose it is, for whom */
static void address(VIP_NET_ADDRESS *a, const char *service, int of, int towards)
{
    char host[64];

    if (gethostname(host, sizeof host) != 0)
        die("no name", 0);
    CK(VipNSGetHostByName(nic, host, a, 0));
    a->DiscriminatorLen = (VIP_UINT16)sprintf((char *)a->HostAddress + a->HostAddressLen,
                                              "%.20s %d-%d", service, of, towards);
}

static void run(const char *service)
{
    union {
        VIP_NET_ADDRESS net;
        char room[64];
    } mine, theirs;
    VIP_PROTECTION_HANDLE tag;
    VIP_VI_ATTRIBUTES va, remote;
    VIP_MEM_ATTRIBUTES ma;
    unsigned long bytes = sizeof *receives * RANKS * (DEPTH + 1), want;
    void *memory;
    int i, k, is_ready;

    CK(VipOpenNic("nic0", &nic));
    CK(VipErrorCallback(nic, &nic, on_error));
    CK(VipNSInit(nic, NULL));
    CK(VipCreatePtag(nic, &tag));
    CK(VipCreateCQ(nic, RANKS * (DEPTH + 1), &cq));
    if (posix_memalign(&memory, 64, bytes) != 0)
        die("no memory", 0);
    receives = memory;
    sends = receives + RANKS * DEPTH;
    ma.Ptag = tag;
    ma.EnableRdmaWrite = ma.EnableRdmaRead = VIP_FALSE;
    CK(VipRegisterMem(nic, memory, bytes, &ma, &mh));
    memset(&va, 0, sizeof va);
    va.ReliabilityLevel = VIP_SERVICE_RELIABLE_RECEPTION;
    va.MaxTransferSize = 4096;
    va.Ptag = tag;
    for (i = 0; i < RANKS; i++) {
        if (i == rank)
            continue;
        CK(VipCreateVi(nic, &va, cq, cq, &vi[i]));
        for (k = 0; k < DEPTH; k++) {
            fill(&receives[i * DEPTH + k]);
            CK(VipPostRecv(vi[i], &receives[i * DEPTH + k].d, mh));
        }
        address(&mine.net, service, rank, i);
        address(&theirs.net, service, i, rank);
        CK(VipConnectPeerRequest(vi[i], &mine.net, &theirs.net, 20000));
    }
    /* All requests are under way: wait in another order. */
    for (i = RANKS - 1; i >= 0; i--) {
        if (i == rank)
            continue;
        CK(VipConnectPeerWait(vi[i], &remote));
        if (remote.ReliabilityLevel != va.ReliabilityLevel || remote.MaxTransferSize != 4096)
            die("attributes of the peer", remote.ReliabilityLevel);
    }
    CK(VipCQNotify(cq, &cq, on_entry));
    CK(VipCQNotify(cq, &cq, on_entry));
    for (want = 1; want <= ROUNDS; want++) {
        for (i = 0; i < RANKS; i++) {
            if (i == rank)
                continue;
            fill(&sends[i]);
            sends[i].word[0] = want - 1;
            sends[i].word[1] = rank * 1000 + want;
            CK(VipPostSend(vi[i], &sends[i].d, mh));
        }
        pthread_mutex_lock(&lock);
        do {
            for (is_ready = 1, i = 0; i < RANKS; i++)
                if (i != rank && (received[i] < want || sent[i] < want))
                    is_ready = 0;
            if (!is_ready)
                pthread_cond_wait(&change, &lock);
        } while (!is_ready);
        pthread_mutex_unlock(&lock);
    }
    if (rank == LEAVER)
        _exit(0);
    pthread_mutex_lock(&lock);
    while (!lost[LEAVER])
        pthread_cond_wait(&change, &lock);
    pthread_mutex_unlock(&lock);
    for (i = 0; i < RANKS; i++) {
        if (i == rank)
            continue;
        if (received[i] != ROUNDS || sum[i] != i * 1000ul * ROUNDS + ROUNDS * (ROUNDS + 1) / 2)
            die("wrong sum", (long)sum[i]);
        CK(VipDisconnect(vi[i]));
    }
    /* Flushed receives are still told. */
    usleep(50000);
    if (lost[LEAVER] != 1)
        die("told of a loss", lost[LEAVER]);
    CK(VipCloseNic(nic));
}

int main(int argc, char **argv)
{
    pid_t child;
    int status;

    if (argc < 3) {
        fprintf(stderr, "usage: vmesh even|odd service\n");
        return 2;
    }
    rank = strcmp(argv[1], "odd") == 0;
    child = fork();
    if (child == 0)
        rank += 2;
    run(argv[2]);
    if (child == 0)
        _exit(0);
    if (waitpid(child, &status, 0) != child || status != 0)
        die("the other rank failed", status);
    printf("vmesh %s: %d rounds, sums right, rank %d lost\n", argv[1], ROUNDS, LEAVER);
    return 0;
}
