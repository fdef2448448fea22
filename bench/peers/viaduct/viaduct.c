/*
 * Viaduct between two processes, by its C interface: KIND is ordinary (messages lie in memory of
 * malloc), library (in that of VipxAllocateShared) or blocked (ordinary, and the receiver sleeps).
 * Flow control is on, as a program has it that does not count its peer's receives.
 *
 *     viaduct requests VIS MILLISECONDS CORE,CORE
 *
 * has so many connections with a request each on its way, into one completion queue at either side,
 * and prints how many were answered a second.
 *
 *     viaduct calls MESSAGES delivery|reception
 *
 * has both ends in one thread, so that no line of cache changes hands, and prints what each
 * call of the way of a message takes, with what a program does around it: nanoseconds, and
 * instructions, which are counted step by step from another process.
 */
#include "peer.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <viplx.h>

#include "common.h"

enum {
    DESCRIPTORS = 2 * PEER_SLOTS, /* those of receives behind those of sends */
    CALLS_WINDOW = 16,            /* messages between two looks at the clock */
    CALLS_SETTLE = 1 << 14,         /* messages before any is timed */
    CALLS_BYTES = 8,
    REQUEST_BYTES = 32,
    REQUEST_BATCHES = 31
};

static struct nic nic;
static struct memory descriptors;
static struct memory messages;
static VIP_VI_HANDLE vi;
static int is_blocked;

static VIP_VI_HANDLE end_open(VIP_RELIABILITY_LEVEL level, size_t bytes_max)
{
    VIP_VI_ATTRIBUTES attributes = {0};
    VIP_VI_HANDLE made;
    attributes.ReliabilityLevel = level;
    attributes.MaxTransferSize = bytes_max;
    attributes.Ptag = nic.tag;
    check(VipCreateVi(nic.handle, &attributes, NULL, NULL, &made), "VipCreateVi");
    check(VipxSetFlowControl(made, VIP_TRUE), "VipxSetFlowControl");
    return made;
}

static void register_messages(void *start)
{
    VIP_MEM_ATTRIBUTES attributes = {nic.tag, VIP_FALSE, VIP_FALSE};
    messages.start = start;
    check(VipRegisterMem(nic.handle, start, peer_bytes(), &attributes, &messages.handle),
          "VipRegisterMem");
}

static void open_memory(int is_library)
{
    open_nic(&nic);
    get_memory(&nic, DESCRIPTORS * sizeof(VIP_DESCRIPTOR), VIP_FALSE, &descriptors);
    if (is_library) {
        VIP_PVOID start;
        check(VipxAllocateShared(nic.handle, peer_bytes(), &start), "VipxAllocateShared");
        peer_place(start);
    }
    register_messages(peer_sending[0]);
}

/* Describes a message in a descriptor, every field that the library reads. */
static inline VIP_DESCRIPTOR *filled(int number, char *data, size_t bytes)
{
    VIP_DESCRIPTOR *descriptor = (VIP_DESCRIPTOR *)descriptors.start + number;
    descriptor->CS.SegCount = 1;
    descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
    descriptor->CS.Reserved = 0;
    descriptor->CS.ImmediateData = 0;
    descriptor->CS.Length = (VIP_UINT32)bytes;
    descriptor->DS[0].Local.Data.Address = data;
    descriptor->DS[0].Local.Handle = messages.handle;
    descriptor->DS[0].Local.Length = (VIP_UINT32)bytes;
    return descriptor;
}

static inline void taken(VIP_RETURN code, VIP_DESCRIPTOR *descriptor, int number,
                         const char *call)
{
    check(code, call);
    if (descriptor != (VIP_DESCRIPTOR *)descriptors.start + number)
        peer_fail("%s gave another descriptor than the oldest", call);
}

static inline void post_send(VIP_VI_HANDLE from, int slot, size_t bytes)
{
    VIP_DESCRIPTOR *descriptor = filled(slot, peer_sending[slot], bytes);
    check(VipPostSend(from, descriptor, descriptors.handle), "VipPostSend");
}

static inline void post_receive(VIP_VI_HANDLE to, int slot, size_t bytes)
{
    VIP_DESCRIPTOR *descriptor = filled(PEER_SLOTS + slot, peer_receiving[slot], bytes);
    check(VipPostRecv(to, descriptor, descriptors.handle), "VipPostRecv");
}

static inline void settle(VIP_VI_HANDLE from, int slot)
{
    VIP_DESCRIPTOR *descriptor;
    VIP_RETURN code;
    while ((code = VipSendDone(from, &descriptor)) == VIP_NOT_DONE) {
    }
    taken(code, descriptor, slot, "VipSendDone");
}

static inline void receive(VIP_VI_HANDLE to, int slot, size_t bytes)
{
    VIP_DESCRIPTOR *descriptor;
    VIP_RETURN code;
    if (is_blocked)
        code = VipRecvWait(to, VIP_INFINITE, &descriptor);
    else
        while ((code = VipRecvDone(to, &descriptor)) == VIP_NOT_DONE) {
        }
    taken(code, descriptor, PEER_SLOTS + slot, "VipRecvDone");
    if (descriptor->CS.Length != bytes)
        peer_fail("%u bytes came, not %zu", descriptor->CS.Length, bytes);
}

static void end_post(int slot, size_t bytes)
{
    post_send(vi, slot, bytes);
}

static void end_settle(int slot)
{
    settle(vi, slot);
}

static void end_expect(int slot, size_t bytes)
{
    post_receive(vi, slot, bytes);
}

static void end_receive(int slot, size_t bytes)
{
    receive(vi, slot, bytes);
}

static uint64_t end_sum(int slot, size_t bytes)
{
    return peer_sum(peer_receiving[slot], bytes);
}

static void end_release(int slot)
{
    (void)slot;
}

static char port[32];

static void *accept_calls(void *to)
{
    accept_client(&nic, (VIP_VI_HANDLE)to, port);
    return NULL;
}

enum call { POST_RECEIVE, POST_SEND, RECEIVE_DONE, SEND_DONE, IN_VAIN, CALLS };

/* What the thread that makes the calls does, for the process that counts its instructions: a call,
 * or CALLS for anything else. */
static volatile int *making;

/* A window of each call, one after the other; what each took goes to `seconds`. */
static void call_window(VIP_VI_HANDLE from, VIP_VI_HANDLE to, double seconds[CALLS])
{
    VIP_DESCRIPTOR *descriptor;
    for (int call = 0; call < CALLS; call++) {
        double begin = peer_seconds();
        *making = call;
        for (int slot = 0; slot < CALLS_WINDOW; slot++) {
            switch (call) {
            case POST_RECEIVE: post_receive(to, slot, CALLS_BYTES); break;
            case POST_SEND: post_send(from, slot, CALLS_BYTES); break;
            case SEND_DONE: settle(from, slot); break;
            case RECEIVE_DONE: receive(to, slot, CALLS_BYTES); break;
            default:
                /* The way back has a receive, and nobody sends. */
                if (VipRecvDone(from, &descriptor) != VIP_NOT_DONE)
                    peer_fail("VipRecvDone found what nobody sent");
            }
        }
        *making = CALLS;
        seconds[call] = peer_seconds() - begin;
    }
}

/* Until the locks are this thread's, whoever had them. */
static void settle_calls(VIP_VI_HANDLE from, VIP_VI_HANDLE to)
{
    double seconds[CALLS];
    for (int window = 0; window < CALLS_SETTLE / CALLS_WINDOW; window++)
        call_window(from, to, seconds);
}

/* Makes the calls. Where it stops last, the other process takes it through one more window step by
 * step; the `counts` of that are there when it goes on by itself. */
static void make_calls(VIP_RELIABILITY_LEVEL level, size_t windows,
                       const volatile size_t counts[CALLS])
{
    static const char *names[CALLS] = {"VipPostRecv", "VipPostSend", "VipRecvDone", "VipSendDone",
                                       "VipRecvDone in vain"};
    double *samples[CALLS], seconds[CALLS];
    pthread_t thread;
    peer_allocate(CALLS_BYTES, PEER_WINDOW);
    open_memory(0);
    VIP_VI_HANDLE from = end_open(level, CALLS_BYTES), to = end_open(level, CALLS_BYTES);
    snprintf(port, sizeof port, "calls %d", (int)getpid());
    post_receive(from, PEER_ANSWER, CALLS_BYTES);
    if (pthread_create(&thread, NULL, accept_calls, to) != 0)
        peer_fail("no second thread");
    connect_to(&nic, from, NULL, port);
    pthread_join(thread, NULL);
    for (int call = 0; call < CALLS; call++)
        samples[call] = calloc(windows, sizeof *samples[call]);
    settle_calls(from, to);
    double clock = peer_seconds();
    for (int look = 0; look < CALLS_SETTLE; look++)
        seconds[0] = peer_seconds();
    clock = (seconds[0] - clock) / CALLS_SETTLE;
    for (size_t window = 0; window < windows; window++) {
        call_window(from, to, seconds);
        for (int call = 0; call < CALLS; call++)
            samples[call][window] = seconds[call] - clock;
    }
    /* From here on the other threads stand still. */
    raise(SIGSTOP);
    settle_calls(from, to);
    raise(SIGSTOP);
    call_window(from, to, seconds);
    printf("{\"test\":\"calls\",\"rows\":[");
    for (int call = 0; call < CALLS; call++) {
        qsort(samples[call], windows, sizeof *samples[call], peer_compare);
        printf("%s{\"call\":\"%s\",\"ns\":%.2f,\"instructions\":%.1f}", call > 0 ? "," : "",
               names[call], samples[call][windows / 2] * 1e9 / CALLS_WINDOW,
               (double)counts[call] / CALLS_WINDOW);
    }
    printf("]}\n");
    fflush(stdout);
    _exit(0);
}

/* Has the traced thread go on until its next stop; whether there is one. */
static int goes_on(pid_t child, int request, long signal_number)
{
    int status = 0;
    if (ptrace(request, child, NULL, signal_number) != 0 || waitpid(child, &status, 0) != child)
        peer_fail("the process that makes calls cannot be traced: %s", strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (!WIFSTOPPED(status) || (WSTOPSIG(status) != SIGSTOP && WSTOPSIG(status) != SIGTRAP))
        peer_fail("the process that makes calls ended with status %#x", status);
    return 1;
}

static int measure_calls(VIP_RELIABILITY_LEVEL level, size_t count)
{
    size_t bytes = sizeof *making + CALLS * sizeof(size_t);
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (count < CALLS_WINDOW || shared == MAP_FAILED || bytes > 4096)
        peer_fail("viaduct calls MESSAGES delivery|reception, from %d", CALLS_WINDOW);
    volatile size_t *counts = shared;
    making = (volatile int *)(counts + CALLS);
    *making = CALLS;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            peer_fail("ptrace: %s", strerror(errno));
        raise(SIGSTOP);
        make_calls(level, count / CALLS_WINDOW, counts);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        peer_fail("no process to make calls");
    goes_on(child, PTRACE_CONT, 0);
    /* The signal stops its other threads, too: the library's would look after a thread so slow. */
    goes_on(child, PTRACE_CONT, SIGSTOP);
    goes_on(child, PTRACE_CONT, 0);
    for (int call = CALLS; call != CALLS || counts[IN_VAIN] == 0;) {
        goes_on(child, PTRACE_SINGLESTEP, 0);
        call = *making;
        if (call < CALLS)
            counts[call]++;
    }
    while (goes_on(child, PTRACE_CONT, 0)) {
    }
    return 0;
}

/* The connections of one side: buffers and descriptors by their number. */
struct requests {
    VIP_CQ_HANDLE queue;
    VIP_VI_HANDLE *vis;
    int count;
};

static void send_request(struct requests *requests, int number)
{
    char *data = messages.start + (size_t)number * 128;
    VIP_DESCRIPTOR *descriptor = filled(2 * number, data, REQUEST_BYTES);
    check(VipPostSend(requests->vis[number], descriptor, descriptors.handle), "VipPostSend");
    settle(requests->vis[number], 2 * number);
}

static void expect_request(struct requests *requests, int number)
{
    char *data = messages.start + (size_t)number * 128 + 64;
    VIP_DESCRIPTOR *descriptor = filled(2 * number + 1, data, REQUEST_BYTES);
    check(VipPostRecv(requests->vis[number], descriptor, descriptors.handle), "VipPostRecv");
}

/* Takes the next message; its connection's number, or -1 for the last one. */
static int next_request(struct requests *requests)
{
    VIP_VI_HANDLE from;
    VIP_BOOLEAN is_receive;
    VIP_DESCRIPTOR *descriptor;
    VIP_RETURN code;
    while ((code = VipCQDone(requests->queue, &from, &is_receive)) == VIP_NOT_DONE) {
    }
    check(code, "VipCQDone");
    check(VipRecvDone(from, &descriptor), "VipRecvDone");
    if (descriptor->CS.Status & VIP_STATUS_IMMEDIATE)
        return -1;
    return (int)(descriptor - (VIP_DESCRIPTOR *)descriptors.start) / 2;
}

static void connect_requests(struct requests *requests, int side, int count)
{
    VIP_VI_ATTRIBUTES attributes = {0};
    open_nic(&nic);
    get_memory(&nic, 2 * (size_t)count * sizeof(VIP_DESCRIPTOR), VIP_FALSE, &descriptors);
    get_memory(&nic, (size_t)count * 128, VIP_FALSE, &messages);
    check(VipCreateCQ(nic.handle, 2 * (VIP_ULONG)count, &requests->queue), "VipCreateCQ");
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = REQUEST_BYTES;
    attributes.Ptag = nic.tag;
    requests->count = count;
    requests->vis = calloc((size_t)count, sizeof *requests->vis);
    for (int number = 0; number < count; number++) {
        VIP_VI_HANDLE *made = &requests->vis[number];
        check(VipCreateVi(nic.handle, &attributes, NULL, requests->queue, made), "VipCreateVi");
        expect_request(requests, number);
        if (side == 0)
            connect_to(&nic, *made, NULL, port);
        else
            accept_client(&nic, *made, port);
    }
}

static int measure_requests(int count, char **arguments)
{
    struct requests requests;
    double seconds[REQUEST_BATCHES];
    int vis = atoi(arguments[2]), milliseconds = atoi(arguments[3]), number, link;
    if (count != 5 || vis < 1
        || sscanf(arguments[4], "%d,%d", &peer_plan.cores[0], &peer_plan.cores[1]) != 2)
        peer_fail("viaduct requests VIS MILLISECONDS CORE,CORE");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(port, sizeof port, "requests %d", (int)getpid());
    int side = peer_fork(&link);
    connect_requests(&requests, side, vis);
    peer_meet(link);
    if (side == 1) {
        while ((number = next_request(&requests)) >= 0) {
            expect_request(&requests, number);
            send_request(&requests, number);
        }
        peer_meet(link);
        return 0;
    }
    for (number = 0; number < vis; number++)
        send_request(&requests, number);
    size_t batch = 0;
    /* The first batch, whose length is found by the clock, warms up. */
    double begin = peer_seconds();
    while (peer_seconds() - begin < milliseconds * 1e-3 / REQUEST_BATCHES || batch < 1000)
        for (int each = 0; each < 100; each++, batch++) {
            number = next_request(&requests);
            expect_request(&requests, number);
            send_request(&requests, number);
        }
    for (int round = 0; round < REQUEST_BATCHES; round++) {
        begin = peer_seconds();
        for (size_t each = 0; each < batch; each++) {
            number = next_request(&requests);
            expect_request(&requests, number);
            send_request(&requests, number);
        }
        seconds[round] = (peer_seconds() - begin) / (double)batch;
    }
    for (number = 0; number < vis; number++)
        next_request(&requests);
    VIP_DESCRIPTOR *last = filled(0, NULL, 0);
    last->CS.SegCount = 0;
    last->CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
    check(VipPostSend(requests.vis[0], last, descriptors.handle), "VipPostSend");
    peer_meet(link);
    qsort(seconds, REQUEST_BATCHES, sizeof *seconds, peer_compare);
    printf("{\"test\":\"requests\",\"rows\":[{\"vis\":%d,\"messages_s\":%.1f}]}\n", vis,
           1.0 / seconds[REQUEST_BATCHES / 2]);
    peer_end();
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 4 && strcmp(arguments[1], "calls") == 0)
        return measure_calls(strcmp(arguments[3], "reception") == 0 ? VIP_SERVICE_RELIABLE_RECEPTION
                                                                    : VIP_SERVICE_RELIABLE_DELIVERY,
                             strtoull(arguments[2], NULL, 10));
    if (count >= 5 && strcmp(arguments[1], "requests") == 0)
        return measure_requests(count, arguments);
    peer_begin(count, arguments);
    int is_library = strcmp(peer_plan.kind, "library") == 0;
    is_blocked = strcmp(peer_plan.kind, "blocked") == 0;
    if (!is_library && !is_blocked && strcmp(peer_plan.kind, "ordinary") != 0)
        peer_fail("KIND is ordinary, library or blocked, not `%s`", peer_plan.kind);
    if (is_blocked)
        setenv("VIADUCT_SPIN_US", "0", 1);
    snprintf(port, sizeof port, "bench %d", (int)getpid());
    int link;
    int side = peer_fork(&link);

    open_memory(is_library);
    vi = end_open(VIP_SERVICE_RELIABLE_DELIVERY,
                  peer_least(peer_plan.bytes, PEER_STEERING_BYTES) == peer_plan.bytes
                      ? PEER_STEERING_BYTES
                      : peer_plan.bytes);
    if (side == 0)
        connect_to(&nic, vi, NULL, port);
    else
        accept_client(&nic, vi, port);
    peer_measure(side, "");

    /* Both sides are past their last message before either leaves. */
    peer_meet(link);
    VipDisconnect(vi);
    peer_meet(link);
    if (side == 0)
        peer_end();
    return 0;
}
