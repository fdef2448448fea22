/* What a program of librdmacm relies on, from both sides of connections in one process, and with a
   peer in another that is killed. Prints what it has seen; ends with 1 where something is wrong. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);     \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)
#define FAILS(call, number) CHECK((errno = 0, (call) == -1 && errno == (number)))

static struct sockaddr_in at(const char *ip, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t) port)};
    CHECK(inet_pton(AF_INET, ip, &address.sin_addr) == 1);
    return address;
}

static struct rdma_cm_event *next(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;
    CHECK(rdma_get_cm_event(channel, &event) == 0);
    if (event->event != type) {
        fprintf(stderr, "%s, not %s\n", rdma_event_str(event->event), rdma_event_str(type));
        exit(1);
    }
    return event;
}

static void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    CHECK(rdma_ack_cm_event(next(channel, type)) == 0);
}

static struct ibv_qp_init_attr queues(enum ibv_qp_type type)
{
    struct ibv_qp_init_attr attributes = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = type,
        .sq_sig_all = 1,
    };
    return attributes;
}

static struct rdma_cm_id *listener(struct rdma_event_channel *channel, enum rdma_port_space space)
{
    struct rdma_cm_id *id;
    struct sockaddr_in here = at("127.0.0.1", 0);
    CHECK(rdma_create_id(channel, &id, "listener", space) == 0);
    CHECK(rdma_bind_addr(id, (struct sockaddr *) &here) == 0);
    CHECK(id->verbs && id->pd && id->port_num == 1);
    CHECK(rdma_get_src_port(id) != 0);
    CHECK(rdma_listen(id, 4) == 0);
    return id;
}

static struct rdma_cm_id *resolved(struct rdma_event_channel *channel, enum rdma_port_space space,
                                   uint16_t port)
{
    struct rdma_cm_id *id;
    struct sockaddr_in there = at("127.0.0.1", ntohs(port));
    CHECK(rdma_create_id(channel, &id, "client", space) == 0);
    CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *) &there, 1000) == 0);
    expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    CHECK(id->verbs && rdma_get_src_port(id) != 0 && rdma_get_dst_port(id) == port);
    CHECK(rdma_resolve_route(id, 1000) == 0);
    expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    CHECK(id->route.num_paths == 1);
    return id;
}

/* A connection with data both ways, over completion queues of the library's. */
static void connected(void)
{
    struct rdma_event_channel *active = rdma_create_event_channel();
    struct rdma_event_channel *passive = rdma_create_event_channel();
    CHECK(active && passive);
    struct pollfd nothing = {.fd = passive->fd, .events = POLLIN};
    CHECK(poll(&nothing, 1, 0) == 0);
    CHECK(fcntl(passive->fd, F_SETFL, O_NONBLOCK) == 0);
    struct rdma_cm_event *event;
    FAILS(rdma_get_cm_event(passive, &event), EAGAIN);
    CHECK(fcntl(passive->fd, F_SETFL, 0) == 0);

    struct rdma_cm_id *listen_id = listener(passive, RDMA_PS_TCP);
    struct rdma_cm_id *client = resolved(active, RDMA_PS_TCP, rdma_get_src_port(listen_id));
    struct ibv_qp_init_attr attributes = queues(IBV_QPT_RC);
    CHECK(rdma_create_qp(client, NULL, &attributes) == 0);
    CHECK(client->qp && client->send_cq && client->recv_cq);
    CHECK(client->send_cq_channel && client->recv_cq_channel && client->pd == client->qp->pd);
    CHECK(client->send_cq->cq_context == client);
    FAILS(rdma_create_qp(client, NULL, &attributes), EINVAL);
    FAILS(rdma_establish(client), EINVAL);
    struct rdma_conn_param param = {
        .private_data = "hello", .private_data_len = 5, .responder_resources = 2,
        .initiator_depth = 1, .retry_count = 5, .rnr_retry_count = 7,
    };
    param.responder_resources = 254;
    FAILS(rdma_connect(client, &param), EINVAL);
    param.responder_resources = 2;
    CHECK(rdma_connect(client, &param) == 0);

    CHECK(poll(&nothing, 1, 10000) == 1);
    event = next(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    CHECK(event->listen_id == listen_id && strcmp(server->context, "listener") == 0);
    CHECK(server->channel == passive && server->verbs == listen_id->verbs);
    CHECK(event->param.conn.private_data_len == 56);
    CHECK(memcmp(event->param.conn.private_data, "hello\0\0", 7) == 0);
    CHECK(event->param.conn.initiator_depth == 2 && event->param.conn.responder_resources == 1);
    CHECK(event->param.conn.qp_num == client->qp->qp_num);
    CHECK(rdma_get_dst_port(server) == rdma_get_src_port(client));
    /* The client's queues are in the attributes now, as the original leaves them. */
    CHECK(attributes.send_cq == client->send_cq && attributes.recv_cq == client->recv_cq);
    attributes = queues(IBV_QPT_RC);
    CHECK(rdma_create_qp(server, NULL, &attributes) == 0);
    char mine[64] = "from the server", yours[64] = "", theirs[64] = "from the client";
    struct ibv_mr *regions[3] = {
        rdma_reg_msgs(server, mine, sizeof mine), rdma_reg_msgs(server, yours, sizeof yours),
        rdma_reg_msgs(client, theirs, sizeof theirs),
    };
    CHECK(regions[0] && regions[1] && regions[2]);
    CHECK(rdma_post_recv(server, NULL, yours, sizeof yours, regions[1]) == 0);
    CHECK(rdma_accept(server, NULL) == 0);
    CHECK(rdma_ack_cm_event(event) == 0);
    event = next(active, RDMA_CM_EVENT_ESTABLISHED);
    CHECK(event->param.conn.private_data_len == 196);
    CHECK(rdma_ack_cm_event(event) == 0);
    expect(passive, RDMA_CM_EVENT_ESTABLISHED);

    struct ibv_qp_attr state;
    struct ibv_qp_init_attr init;
    CHECK(ibv_query_qp(client->qp, &state, IBV_QP_STATE | IBV_QP_RETRY_CNT, &init) == 0);
    CHECK(state.qp_state == IBV_QPS_RTS && state.retry_cnt == 5);
    CHECK(state.max_rd_atomic == 1 && state.max_dest_rd_atomic == 2);

    struct ibv_wc completion;
    CHECK(rdma_post_send(client, NULL, theirs, sizeof theirs, regions[2], 0) == 0);
    CHECK(rdma_get_recv_comp(server, &completion) == 1 && completion.status == IBV_WC_SUCCESS);
    CHECK(strcmp(yours, "from the client") == 0);
    CHECK(rdma_get_send_comp(client, &completion) == 1 && completion.status == IBV_WC_SUCCESS);

    CHECK(rdma_disconnect(client) == 0);
    expect(active, RDMA_CM_EVENT_DISCONNECTED);
    expect(passive, RDMA_CM_EVENT_DISCONNECTED);
    CHECK(rdma_disconnect(server) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(rdma_dereg_mr(regions[i]) == 0);
    rdma_destroy_qp(client);
    rdma_destroy_qp(server);
    CHECK(!client->qp && !client->send_cq && !client->recv_cq_channel);
    CHECK(rdma_destroy_id(client) == 0);
    CHECK(rdma_destroy_id(server) == 0);
    CHECK(rdma_destroy_id(listen_id) == 0);
    rdma_destroy_event_channel(active);
    rdma_destroy_event_channel(passive);
    puts("connected");
}

/* The other calls of the active side are the same for datagrams. */
static void datagrams(void)
{
    struct rdma_event_channel *active = rdma_create_event_channel();
    struct rdma_event_channel *passive = rdma_create_event_channel();
    struct rdma_cm_id *listen_id = listener(passive, RDMA_PS_UDP);
    struct rdma_cm_id *client = resolved(active, RDMA_PS_UDP, rdma_get_src_port(listen_id));
    CHECK(client->qp_type == IBV_QPT_UD);
    struct ibv_qp_init_attr attributes = queues(IBV_QPT_UD);
    CHECK(rdma_create_qp(client, NULL, &attributes) == 0);
    CHECK(rdma_connect(client, NULL) == 0);
    struct rdma_cm_event *event = next(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    attributes = queues(IBV_QPT_UD);
    CHECK(rdma_create_qp(server, NULL, &attributes) == 0);
    struct rdma_conn_param param = {.qp_num = server->qp->qp_num};
    CHECK(rdma_accept(server, &param) == 0);
    CHECK(rdma_ack_cm_event(event) == 0);
    event = next(active, RDMA_CM_EVENT_ESTABLISHED);
    CHECK(event->param.ud.qp_num == server->qp->qp_num);
    CHECK(event->param.ud.qkey == RDMA_UDP_QKEY);
    CHECK(event->param.ud.ah_attr.is_global == 1 && event->param.ud.ah_attr.port_num == 1);
    struct ibv_ah *ah = ibv_create_ah(client->pd, &event->param.ud.ah_attr);
    CHECK(ah);
    char sent[64] = "a datagram", got[64 + 40];
    struct ibv_mr *out = rdma_reg_msgs(client, sent, sizeof sent);
    struct ibv_mr *in = rdma_reg_msgs(server, got, sizeof got);
    CHECK(rdma_post_recv(server, NULL, got, sizeof got, in) == 0);
    CHECK(rdma_post_ud_send(client, NULL, sent, sizeof sent, out, 0, ah,
                            event->param.ud.qp_num) == 0);
    struct ibv_wc completion;
    CHECK(rdma_get_recv_comp(server, &completion) == 1 && completion.status == IBV_WC_SUCCESS);
    CHECK(strcmp(got + 40, "a datagram") == 0);
    CHECK(rdma_ack_cm_event(event) == 0);
    CHECK(ibv_destroy_ah(ah) == 0 && rdma_dereg_mr(out) == 0 && rdma_dereg_mr(in) == 0);
    rdma_destroy_ep(client);
    rdma_destroy_ep(server);
    rdma_destroy_ep(listen_id);
    rdma_destroy_event_channel(active);
    rdma_destroy_event_channel(passive);
    puts("datagrams");
}

static void *serve(void *listen_id)
{
    struct rdma_cm_id *id;
    CHECK(rdma_get_request(listen_id, &id) == 0);
    CHECK(id->qp && id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
    CHECK(rdma_accept(id, NULL) == 0);
    CHECK(rdma_disconnect(id) == 0);
    rdma_destroy_ep(id);
    CHECK(rdma_get_request(listen_id, &id) == 0);
    CHECK(rdma_reject(id, "no", 2) == 0);
    rdma_destroy_ep(id);
    return NULL;
}

/* Endpoints whose calls wait. */
static void synchronous(void)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP};
    struct rdma_addrinfo *found;
    struct rdma_cm_id *listen_id, *id;
    char port[8];
    struct ibv_qp_init_attr attributes = queues(IBV_QPT_RC);
    CHECK(rdma_getaddrinfo("127.0.0.1", "0", &hints, &found) == 0);
    CHECK(found->ai_flags & RAI_PASSIVE && found->ai_src_len && found->ai_qp_type == IBV_QPT_RC);
    CHECK(rdma_create_ep(&listen_id, found, NULL, &attributes) == 0);
    rdma_freeaddrinfo(found);
    CHECK(rdma_listen(listen_id, 1) == 0);
    attributes = queues(IBV_QPT_RC);
    snprintf(port, sizeof port, "%d", ntohs(rdma_get_src_port(listen_id)));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, serve, listen_id) == 0);
    hints.ai_flags = 0;
    CHECK(rdma_getaddrinfo("127.0.0.1", port, &hints, &found) == 0);
    CHECK(found->ai_dst_len && !found->ai_next);
    CHECK(rdma_create_ep(&id, found, NULL, &attributes) == 0);
    CHECK(rdma_connect(id, NULL) == 0);
    CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
    CHECK(rdma_disconnect(id) == 0);
    rdma_destroy_ep(id);
    attributes = queues(IBV_QPT_RC);
    CHECK(rdma_create_ep(&id, found, NULL, &attributes) == 0);
    FAILS(rdma_connect(id, NULL), ECONNREFUSED);
    CHECK(id->event->event == RDMA_CM_EVENT_REJECTED && id->event->status == 28);
    rdma_destroy_ep(id);
    CHECK(pthread_join(thread, NULL) == 0);
    rdma_destroy_ep(listen_id);
    attributes = queues(IBV_QPT_RC);
    CHECK(rdma_create_ep(&id, found, NULL, &attributes) == 0);
    FAILS(rdma_connect(id, NULL), ECONNREFUSED);
    rdma_destroy_ep(id);
    rdma_freeaddrinfo(found);
    puts("synchronous");
}

static volatile int is_destroyed;

static void *destroy(void *id)
{
    CHECK(rdma_destroy_id(id) == 0);
    is_destroyed = 1;
    return NULL;
}

static void *wait_for_event(void *channel)
{
    struct rdma_cm_event *event;
    rdma_get_cm_event(channel, &event);
    return NULL;
}

/* An identifier waits for its events, and a thread that waits for one can be cancelled. */
static void acknowledged(void)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id;
    struct sockaddr_in there = at("127.0.0.1", 1);
    pthread_t thread;
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *) &there, 1000) == 0);
    struct rdma_cm_event *event = next(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    CHECK(rdma_resolve_route(id, 1000) == 0);
    CHECK(pthread_create(&thread, NULL, destroy, id) == 0);
    /* What nobody has seen is withdrawn; then it waits. */
    struct pollfd unseen = {.fd = channel->fd, .events = POLLIN};
    while (poll(&unseen, 1, 0) == 1)
        sched_yield();
    CHECK(!is_destroyed);
    CHECK(rdma_ack_cm_event(event) == 0);
    CHECK(pthread_join(thread, NULL) == 0 && is_destroyed);

    void *result;
    CHECK(pthread_create(&thread, NULL, wait_for_event, channel) == 0);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    rdma_destroy_event_channel(channel);
    puts("acknowledged");
}

static void refused(void)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id;
    struct sockaddr_in foreign = at("192.0.2.77", 0), here = at("127.0.0.1", 0);
    struct sockaddr_in group = at("239.1.2.3", 0);
    struct sockaddr odd = {.sa_family = AF_UNIX};
    int one = 1;
    uint8_t byte = 1;
    FAILS(rdma_create_id(channel, &id, NULL, 0x999), EINVAL);
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    FAILS(rdma_bind_addr(id, NULL), EINVAL);
    FAILS(rdma_bind_addr(id, &odd), EINVAL);
    FAILS(rdma_bind_addr(id, (struct sockaddr *) &foreign), EADDRNOTAVAIL);
    FAILS(rdma_resolve_route(id, 1), EINVAL);
    FAILS(rdma_connect(id, NULL), EINVAL);
    FAILS(rdma_accept(id, NULL), EINVAL);
    FAILS(rdma_disconnect(id), EINVAL);
    FAILS(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
    FAILS(rdma_reject(id, NULL, 0), EINVAL);
    FAILS(rdma_ack_cm_event(NULL), EINVAL);
    FAILS(rdma_get_request(id, &id), EINVAL);
    FAILS(rdma_set_option(id, 7, 0, &one, sizeof one), ENOSYS);
    FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &one, sizeof one), EINVAL);
    CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1) == 0);
    CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof one) == 0);
    CHECK(rdma_bind_addr(id, (struct sockaddr *) &here) == 0);
    FAILS(rdma_bind_addr(id, (struct sockaddr *) &here), EINVAL);
    FAILS(rdma_join_multicast(id, (struct sockaddr *) &group, NULL), EOPNOTSUPP);
    FAILS(rdma_leave_multicast(id, (struct sockaddr *) &group), EADDRNOTAVAIL);
    FAILS(rsocket(AF_INET, SOCK_STREAM, 0), EOPNOTSUPP);
    struct rdma_addrinfo *found;
    FAILS(rdma_getaddrinfo(NULL, NULL, NULL, &found), EINVAL);
    CHECK(rdma_destroy_id(id) == 0);
    rdma_destroy_event_channel(channel);
    int count;
    struct ibv_context **devices = rdma_get_devices(&count);
    CHECK(devices && count >= 1 && devices[0] && !devices[count]);
    rdma_free_devices(devices);
    puts("refused");
}

struct peer {
    pid_t child;
    int says;
    int accepts;
};

/* A process that waits for a connection, made before this one has opened a device. */
static struct peer peer(int accepts)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    struct peer peer = {.child = fork(), .says = ends[0], .accepts = accepts};
    CHECK(peer.child >= 0);
    if (peer.child == 0) {
        struct rdma_event_channel *channel = rdma_create_event_channel();
        struct rdma_cm_id *listen_id = listener(channel, RDMA_PS_TCP);
        uint16_t port = rdma_get_src_port(listen_id);
        CHECK(write(ends[1], &port, sizeof port) == sizeof port);
        struct rdma_cm_event *event = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
        struct ibv_qp_init_attr attributes = queues(IBV_QPT_RC);
        CHECK(rdma_create_qp(event->id, NULL, &attributes) == 0);
        if (accepts) {
            CHECK(rdma_accept(event->id, NULL) == 0);
            next(channel, RDMA_CM_EVENT_ESTABLISHED);
        }
        CHECK(write(ends[1], &port, 1) == 1);
        for (;;)
            pause();
    }
    close(ends[1]);
    return peer;
}

/* A peer that is killed is one that has disconnected, and in the midst of it is out of reach. */
static void killed(struct peer peer)
{
    uint16_t port;
    char ready;
    int status;
    CHECK(read(peer.says, &port, sizeof port) == sizeof port);
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id = resolved(channel, RDMA_PS_TCP, port);
    struct ibv_qp_init_attr attributes = queues(IBV_QPT_RC);
    CHECK(rdma_create_qp(id, NULL, &attributes) == 0);
    CHECK(rdma_connect(id, NULL) == 0);
    if (peer.accepts)
        expect(channel, RDMA_CM_EVENT_ESTABLISHED);
    CHECK(read(peer.says, &ready, 1) == 1);
    CHECK(kill(peer.child, SIGKILL) == 0 && waitpid(peer.child, &status, 0) == peer.child);
    if (peer.accepts) {
        expect(channel, RDMA_CM_EVENT_DISCONNECTED);
    } else {
        struct rdma_cm_event *event = next(channel, RDMA_CM_EVENT_UNREACHABLE);
        CHECK(event->status == -ETIMEDOUT);
        CHECK(rdma_ack_cm_event(event) == 0);
    }
    rdma_destroy_ep(id);
    rdma_destroy_event_channel(channel);
    close(peer.says);
    puts("killed");
}

static void *ask_a_destroyed_channel(void *channel)
{
    struct rdma_cm_event *event;
    while (!is_destroyed) {
    }
    exit(rdma_get_cm_event(channel, &event));
}

/* As rping ends: a thread may ask its channel again when the program has destroyed it already. */
static void ending(void)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, ask_a_destroyed_channel, channel) == 0);
    rdma_destroy_event_channel(channel);
    is_destroyed = 1;
    usleep(10000);
    exit(0);
}

int main(int count, char **arguments)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(60);
    if (count == 2 && strcmp(arguments[1], "ending") == 0)
        ending();
    struct peer accepting = peer(1), silent = peer(0);
    killed(accepting);
    killed(silent);
    refused();
    acknowledged();
    connected();
    datagrams();
    synchronous();
    return 0;
}
