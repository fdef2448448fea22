/* What a program sees of the interface itself, in one process: attributes, objects that are used
   wrongly, both ways to post and to poll, and what is not supported. Compiled against the system's
   headers. */

#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed;

static void check(int is_so, int line, const char *what)
{
    if (!is_so) {
        printf("line %d: %s (errno %d)\n", line, what, errno);
        failed = 1;
    }
}

#define CHECK(what) check((what), __LINE__, #what)

#ifdef OWN_ALLOCATOR
/* An allocator of the program's own, as jemalloc is one: it gives memory of an array, fills it with
   what was never written, and takes nothing back. The library's own memory comes from it, too. */
static _Atomic size_t taken;
static char heap[64 << 20] __attribute__((aligned(4096)));

void *aligned_alloc(size_t alignment, size_t bytes)
{
    size_t room = bytes + alignment + 16, at;
    char *start;

    at = atomic_fetch_add(&taken, (room + 15) & ~(size_t)15);
    if (at + room > sizeof(heap)) {
        errno = ENOMEM;
        return NULL;
    }
    start = heap + at + 16;
    start += -(uintptr_t)start & (alignment - 1);
    ((size_t *)start)[-1] = bytes;
    memset(start, 0xa5, bytes);
    return start;
}

void *malloc(size_t bytes)
{
    return aligned_alloc(16, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    return aligned_alloc(alignment, bytes);
}

int posix_memalign(void **where, size_t alignment, size_t bytes)
{
    *where = aligned_alloc(alignment, bytes);
    return *where ? 0 : ENOMEM;
}

void *calloc(size_t count, size_t bytes)
{
    void *start = malloc(count * bytes);

    return start ? memset(start, 0, count * bytes) : NULL;
}

void *realloc(void *old, size_t bytes)
{
    void *start = malloc(bytes);

    if (old && start) {
        size_t before = ((size_t *)old)[-1];

        memcpy(start, old, before < bytes ? before : bytes);
    }
    return start;
}

void free(void *start)
{
    /* Who uses it still, or frees what another allocator gave, is seen. */
    if (start && ((char *)start < heap || (char *)start >= heap + sizeof(heap)))
        abort();
    if (start)
        memset(start, 0x5a, ((size_t *)start)[-1]);
}
#endif

#define BYTES 4096

static struct ibv_context *context;
static struct ibv_pd *pd;
static char *memory;
static struct ibv_mr *region;

static struct ibv_qp_init_attr sizes(struct ibv_cq *cq, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr attributes = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2,
                .max_inline_data = 64},
        .qp_type = type,
    };
    return attributes;
}

/* Takes a queue pair from the state RESET to RTS, connected with another one of this process. */
static int connect_pair(struct ibv_qp *pair, struct ibv_qp *peer)
{
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    int number;

    attributes.qp_access_flags =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
        IBV_ACCESS_REMOTE_ATOMIC;
    number = ibv_modify_qp(pair, &attributes,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (number)
        return number;
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = peer->qp_num;
    attributes.max_dest_rd_atomic = 4;
    attributes.min_rnr_timer = 12;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.grh.hop_limit = 1;
    if (ibv_query_gid(context, 1, 0, &attributes.ah_attr.grh.dgid))
        return errno;
    number = ibv_modify_qp(pair, &attributes,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (number)
        return number;
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = 14;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    attributes.max_rd_atomic = 4;
    return ibv_modify_qp(pair, &attributes,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;

    while (tasks && readdir(tasks))
        count++;
    closedir(tasks);
    return count - 2; /* Without `.` and `..`. */
}

static void look_at_devices(void)
{
    struct ibv_device_attr attributes;
    struct ibv_device_attr_ex more;
    struct ibv_port_attr port;
    struct ibv_gid_entry entries[64];
    struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
    union ibv_gid gid;
    __be16 key;
    ssize_t gids;
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);

    CHECK(list && count == 1 && !list[1]);
    CHECK(!strcmp(ibv_get_device_name(list[0]), "viaduct0"));
    CHECK(list[0]->node_type == IBV_NODE_CA && list[0]->transport_type == IBV_TRANSPORT_IB);
    CHECK(ibv_get_device_index(list[0]) == 0);
    CHECK(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED && ibv_fork_init() == 0);
    CHECK(threads() == 1);
    context = ibv_open_device(list[0]);
    CHECK(threads() == 2);
    CHECK(context != NULL);
    if (!context)
        exit(1);
    ibv_free_device_list(list);
    CHECK(ibv_query_device(context, &attributes) == 0);
    CHECK(attributes.phys_port_cnt == 1 && attributes.max_pkeys >= 1 && attributes.max_qp > 0);
    CHECK(attributes.node_guid == ibv_get_device_guid(context->device));
    CHECK(ibv_query_device_ex(context, NULL, &more) == 0);
    CHECK(more.orig_attr.max_qp == attributes.max_qp && more.phys_port_cnt_ex == 1);
    memset(&port, 0xff, sizeof port);
    CHECK(ibv_query_port(context, 1, &port) == 0);
    CHECK(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET);
    CHECK(port.port_cap_flags2 == 0 && port.gid_tbl_len >= 2);
    CHECK(ibv_query_port(context, 2, &port) == EINVAL);
    CHECK(ibv_query_gid(context, 1, 0, &gid) == 0);
    CHECK(ibv_query_gid(context, 1, 1000, &gid) == -1);
    gids = ibv_query_gid_table(context, entries, 64, 0);
    CHECK(gids == port.gid_tbl_len && entries[0].gid_type == IBV_GID_TYPE_ROCE_V2);
    CHECK(ibv_query_gid_table(context, entries, 1, 0) == -EINVAL);
    CHECK(ibv_query_gid_ex(context, 1, 0, entries, 1) == EOPNOTSUPP);
    CHECK(ibv_query_pkey(context, 1, 0, &key) == 0 && key == 0xffff);
    CHECK(ibv_get_pkey_index(context, 1, 0xffff) == 0);
    CHECK(ibv_query_rt_values_ex(context, &values) == 0 && values.raw_clock.tv_sec > 0);
    CHECK(ibv_rate_to_mbps(mbps_to_ibv_rate(25781)) == 25781 && ibv_rate_to_mult(IBV_RATE_10_GBPS) == 4);
    CHECK(!strcmp(ibv_wc_status_str(IBV_WC_SUCCESS), "success"));
    CHECK(*ibv_event_type_str(IBV_EVENT_CQ_ERR) && *ibv_port_state_str(IBV_PORT_ACTIVE));
}

static void misuse(void)
{
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_qp_init_attr attributes = sizes(cq, IBV_QPT_RC);
    struct ibv_qp *pair = ibv_create_qp(pd, &attributes);
    struct ibv_ah_attr nowhere = {.port_num = 1};
    struct ibv_pd foreign = {.context = context};
    struct ibv_srq_init_attr receives = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_srq_attr limit = {.srq_limit = 100};
    struct ibv_recv_wr nothing = {.wr_id = 1}, *bad;
    struct ibv_srq *srq;
    struct ibv_mr *other;

    CHECK(cq && pair && attributes.cap.max_inline_data >= 64);
    CHECK(ibv_dealloc_pd(pd) == EBUSY);
    CHECK(ibv_destroy_cq(cq) == EBUSY);
    CHECK(!ibv_create_ah(pd, &nowhere) && errno == EINVAL);
    CHECK(!ibv_create_cq(context, 0, NULL, NULL, 0) && errno == EINVAL);
    CHECK(!ibv_create_cq(context, 16, NULL, NULL, 99) && errno == EINVAL);
    CHECK(!ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
    CHECK(!ibv_reg_mr(&foreign, memory, BYTES, 0) && errno == EINVAL);
    CHECK(!ibv_qp_to_qp_ex(pair) && errno == EOPNOTSUPP);
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    CHECK(!ibv_create_qp(pd, &attributes) && errno == EOPNOTSUPP);
    attributes = sizes(NULL, IBV_QPT_RC);
    CHECK(!ibv_create_qp(pd, &attributes) && errno == EINVAL);
    attributes = sizes(cq, IBV_QPT_RC);
    attributes.cap.max_inline_data = 1 << 20;
    CHECK(!ibv_create_qp(pd, &attributes) && errno == EINVAL);

    srq = ibv_create_srq(pd, &receives);
    for (int i = 0; i < 4; i++)
        CHECK(ibv_post_srq_recv(srq, &nothing, &bad) == 0);
    CHECK(srq && ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == EINVAL);
    limit.srq_limit = 2;
    CHECK(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == 0);
    memset(&limit, 0, sizeof limit);
    CHECK(ibv_query_srq(srq, &limit) == 0 && limit.srq_limit == 2 && limit.max_wr >= 8);
    CHECK(ibv_destroy_srq(srq) == 0 && ibv_destroy_srq(srq) == EINVAL);

    other = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
    CHECK(other && other->addr == memory && other->length == BYTES);
    CHECK(ibv_rereg_mr(other, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 64, 0) == 0);
    CHECK(other->length == 64);
    CHECK(ibv_rereg_mr(other, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
                       IBV_ACCESS_REMOTE_WRITE) == IBV_REREG_MR_ERR_INPUT);
    CHECK(ibv_dereg_mr(other) == 0 && ibv_dereg_mr(other) == EINVAL);

    CHECK(ibv_destroy_qp(pair) == 0);
    CHECK(ibv_destroy_qp(pair) == EINVAL);
    CHECK(ibv_destroy_qp((struct ibv_qp *)memory) == EINVAL);
    CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_cq(cq) == EINVAL);
}

static void unsupported(void)
{
    struct ibv_xrcd_init_attr xrcd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1};
    struct ibv_alloc_dm_attr dm = {.length = 64};
    struct ibv_counters_init_attr counters = {0};
    struct ibv_cq_init_attr_ex cq = {.cqe = 8, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG};
    struct ibv_qp_init_attr_ex pair = {.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH,
                                       .pd = pd};
    union ibv_gid gid = {{0}};

    CHECK(!ibv_open_xrcd(context, &xrcd) && errno == EOPNOTSUPP);
    CHECK(!ibv_alloc_mw(pd, IBV_MW_TYPE_1) && errno == EOPNOTSUPP);
    CHECK(!ibv_alloc_dm(context, &dm) && errno == EOPNOTSUPP);
    CHECK(!ibv_alloc_null_mr(pd) && errno == EOPNOTSUPP);
    CHECK(!ibv_create_counters(context, &counters) && errno == EOPNOTSUPP);
    CHECK(!ibv_create_cq_ex(context, &cq) && errno == EOPNOTSUPP);
    CHECK(!ibv_create_qp_ex(context, &pair) && errno == EOPNOTSUPP);
    CHECK(!ibv_reg_dmabuf_mr(pd, 0, 64, 0, 0, 0) && errno == EOPNOTSUPP);
    CHECK(!ibv_import_pd(context, 1) && errno == EOPNOTSUPP);
    CHECK(ibv_attach_mcast(NULL, &gid, 0) == EOPNOTSUPP);
    CHECK(ibv_advise_mr(pd, 0, 0, NULL, 0) == EOPNOTSUPP);
    CHECK(!ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_ON_DEMAND));
}

/* One message from one queue pair to another, and its completions by the ordinary way. */
static void ordinary(void)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *cq = ibv_create_cq(context, 32, memory, channel, 0), *told;
    struct ibv_qp_init_attr attributes = sizes(cq, IBV_QPT_RC);
    struct ibv_qp *left = ibv_create_qp(pd, &attributes), *right = ibv_create_qp(pd, &attributes);
    struct ibv_sge from = {(uintptr_t)memory, 64, region->lkey};
    struct ibv_sge to = {(uintptr_t)memory + 1024, 64, region->lkey};
    struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = &to, .num_sge = 1}, *bad_receive;
    struct ibv_sge many[9] = {{0}};
    struct ibv_send_wr second = {.wr_id = 3, .sg_list = many, .num_sge = 9, .opcode = IBV_WR_SEND};
    struct ibv_send_wr send = {.wr_id = 2, .next = &second, .sg_list = &from, .num_sge = 1,
                               .opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
                               .imm_data = 0x12345678}, *bad_send = NULL;
    struct ibv_qp_attr now;
    struct ibv_qp_init_attr made;
    struct ibv_wc found[4];
    void *word;
    int events = 0, count = 0;

    CHECK(ibv_post_recv(right, &receive, &bad_receive) == EINVAL && bad_receive == &receive);
    CHECK(connect_pair(left, right) == 0 && connect_pair(right, left) == 0);
    CHECK(left->state == IBV_QPS_RTS);
    CHECK(ibv_query_qp(left, &now, IBV_QP_STATE, &made) == 0);
    CHECK(now.qp_state == IBV_QPS_RTS && now.dest_qp_num == right->qp_num && now.timeout == 14);
    CHECK(made.cap.max_send_wr >= 8 && made.send_cq == cq);
    CHECK(ibv_poll_cq(cq, 4, found) == 0);
    CHECK(ibv_req_notify_cq(cq, 0) == 0);
    CHECK(ibv_post_recv(right, &receive, &bad_receive) == 0);
    memset(memory, 'x', 64);
    /* The second has too many elements: the first is posted all the same. */
    CHECK(ibv_post_send(left, &send, &bad_send) == EINVAL && bad_send == &second);
    while (count < 2) {
        int new;
        CHECK(ibv_get_cq_event(channel, &told, &word) == 0 && told == cq && word == memory);
        events++;
        CHECK(ibv_req_notify_cq(cq, 0) == 0);
        while ((new = ibv_poll_cq(cq, 4 - count, found + count)) > 0)
            count += new;
        CHECK(new == 0);
        if (new < 0)
            return;
    }
    for (int i = 0; i < 2; i++) {
        CHECK(found[i].status == IBV_WC_SUCCESS);
        if (found[i].opcode & IBV_WC_RECV)
            CHECK(found[i].wr_id == 1 && found[i].byte_len == 64 && found[i].qp_num == right->qp_num &&
                  found[i].imm_data == 0x12345678 && (found[i].wc_flags & IBV_WC_WITH_IMM));
        else
            CHECK(found[i].wr_id == 2 && found[i].opcode == IBV_WC_SEND && found[i].qp_num == left->qp_num);
    }
    CHECK(!memcmp(memory, memory + 1024, 64));
    ibv_ack_cq_events(cq, events);
    CHECK(ibv_destroy_qp(left) == 0 && ibv_destroy_qp(right) == 0);
    CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
    CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
}

/* The same by requests that are built call by call, and completions that are read field by field. */
static void extended(void)
{
    struct ibv_cq_init_attr_ex wanted = {.cqe = 32,
                                         .wc_flags = IBV_WC_STANDARD_FLAGS |
                                                     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &wanted);
    struct ibv_qp_init_attr ordinary = sizes(ibv_cq_ex_to_cq(cq), IBV_QPT_RC);
    struct ibv_qp_init_attr_ex attributes = {
        .send_cq = ordinary.send_cq,
        .recv_cq = ordinary.recv_cq,
        .cap = ordinary.cap,
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
                          IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    };
    struct ibv_qp *left = ibv_create_qp_ex(context, &attributes);
    struct ibv_qp *right = ibv_create_qp_ex(context, &attributes);
    struct ibv_qp_ex *build = ibv_qp_to_qp_ex(left);
    struct ibv_sge to = {(uintptr_t)memory + 1024, 64, region->lkey};
    struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = &to, .num_sge = 1}, *bad;
    struct ibv_data_buf pieces[2] = {{"in two ", 7}, {"pieces", 7}};
    uint64_t *number = (uint64_t *)(memory + 512);
    struct ibv_poll_cq_attr none = {0};
    int sends = 0, receives = 0, answer;

    CHECK(cq && left && right && build);
    CHECK(!build->wr_rdma_read && !build->wr_set_ud_addr && build->wr_send);
    CHECK(connect_pair(left, right) == 0 && connect_pair(right, left) == 0);
    CHECK(ibv_start_poll(cq, &none) == ENOENT);
    CHECK(ibv_post_recv(right, &receive, &bad) == 0);
    *number = 40;

    ibv_wr_start(build);
    build->wr_id = 77;
    ibv_wr_send(build);
    ibv_wr_abort(build);

    ibv_wr_start(build);
    build->wr_id = 2;
    build->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(build);
    ibv_wr_set_inline_data_list(build, 2, pieces);
    build->wr_id = 3;
    ibv_wr_rdma_write(build, region->rkey, (uintptr_t)memory + 2048);
    ibv_wr_set_sge(build, region->lkey, (uintptr_t)memory, 32);
    build->wr_id = 4;
    ibv_wr_atomic_fetch_add(build, region->rkey, (uintptr_t)number, 2);
    ibv_wr_set_sge(build, region->lkey, (uintptr_t)(number + 1), 8);
    CHECK(ibv_wr_complete(build) == 0);

    while (sends < 3 || receives < 1) {
        answer = ibv_start_poll(cq, &none);
        if (answer == ENOENT)
            continue;
        CHECK(answer == 0);
        if (answer)
            return;
        do {
            CHECK(cq->status == IBV_WC_SUCCESS && ibv_wc_read_completion_ts(cq) > 0);
            if (ibv_wc_read_opcode(cq) & IBV_WC_RECV) {
                CHECK(cq->wr_id == 1 && ibv_wc_read_byte_len(cq) == 14);
                CHECK(ibv_wc_read_qp_num(cq) == right->qp_num);
                receives++;
            } else {
                CHECK(cq->wr_id == (uint64_t)(2 + sends));
                sends++;
            }
        } while ((answer = ibv_next_poll(cq)) == 0);
        CHECK(answer == ENOENT);
        ibv_end_poll(cq);
    }
    CHECK(!memcmp(memory + 1024, "in two pieces", 14));
    CHECK(!memcmp(memory, memory + 2048, 32));
    CHECK(number[0] == 42 && number[1] == 40);

    /* A mistake in building is told when it is completed, and nothing of it is posted. */
    ibv_wr_start(build);
    ibv_wr_set_sge(build, region->lkey, (uintptr_t)memory, 8);
    CHECK(ibv_wr_complete(build) == EINVAL);
    CHECK(ibv_destroy_qp(left) == 0 && ibv_destroy_qp(right) == 0);
    CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
}

#ifndef WITHOUT_CANCEL
static void *wait_for_event(void *channel)
{
    struct ibv_cq *cq;
    void *word;

    ibv_get_cq_event(channel, &cq, &word);
    return NULL;
}

/* A thread that waits for an event is ended by another. */
static void cancelled(void)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    pthread_t thread;
    void *result = NULL;
    struct pollfd asked = {.fd = channel->fd, .events = POLLIN};

    CHECK(poll(&asked, 1, 0) == 0);
    CHECK(pthread_create(&thread, NULL, wait_for_event, channel) == 0);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(ibv_destroy_comp_channel(channel) == 0);
}
#endif

static void domains(void)
{
    struct ibv_td_init_attr nothing = {0};
    struct ibv_td *td = ibv_alloc_td(context, &nothing);
    struct ibv_parent_domain_init_attr attributes = {.pd = pd, .td = td};
    struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attributes);
    struct ibv_mr *mr;

    CHECK(td && parent);
    mr = ibv_reg_mr(parent, memory, BYTES, 0);
    CHECK(mr && ibv_dereg_mr(mr) == 0);
    CHECK(ibv_dealloc_pd(pd) == EBUSY);
    CHECK(ibv_dealloc_td(td) == EBUSY);
    CHECK(ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(td) == 0);
}

int main(void)
{
    look_at_devices();
    pd = ibv_alloc_pd(context);
    memory = aligned_alloc(BYTES, BYTES);
    memset(memory, 0, BYTES);
    region = ibv_reg_mr(pd, memory, BYTES,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                            IBV_ACCESS_REMOTE_ATOMIC);
    CHECK(pd && region && region->lkey == region->rkey);
    misuse();
    unsupported();
    ordinary();
    extended();
    domains();
#ifndef WITHOUT_CANCEL
    cancelled();
#endif
    CHECK(ibv_dereg_mr(region) == 0);
    CHECK(ibv_dealloc_pd(pd) == 0);
    CHECK(ibv_close_device(context) == 0);
    CHECK(ibv_close_device(context) == EINVAL);
    free(memory);
    return failed;
}
