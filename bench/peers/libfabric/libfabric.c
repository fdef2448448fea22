/*
 * Tagged messages over libfabric, both sides spinning on one completion queue. KIND is the name of
 * the provider, such as shm. Messages that fit are injected, as fabtests does.
 */
#include "peer.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

enum { TAG = 1, ADDRESS_BYTES_MAX = 256, COMPLETIONS = 16 };

/* An operation on its way; the library gives its address back when it is done. */
struct operation {
    struct fi_context2 context;
    int is_done;
};

static struct operation sends[PEER_SLOTS];
static struct operation receives[PEER_SLOTS];
static struct fid_ep *endpoint;
static struct fid_cq *completions;
static fi_addr_t other;
static size_t inject_bytes_max;

static void check(ssize_t code, const char *call)
{
    if (code < 0)
        peer_fail("%s: %s", call, fi_strerror((int)-code));
}

static void progress(void)
{
    struct fi_cq_tagged_entry entries[COMPLETIONS];
    ssize_t count = fi_cq_read(completions, entries, COMPLETIONS);
    if (count == -FI_EAGAIN)
        return;
    if (count == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        fi_cq_readerr(completions, &error, 0);
        peer_fail("a completion in error: %s", fi_strerror(error.err));
    }
    check(count, "fi_cq_read");
    for (ssize_t index = 0; index < count; index++)
        ((struct operation *)entries[index].op_context)->is_done = 1;
}

static void end_post(int slot, size_t bytes)
{
    struct operation *send = &sends[slot];
    int is_injected = bytes <= inject_bytes_max;
    ssize_t code;
    send->is_done = is_injected;
    do {
        code = is_injected ? fi_tinject(endpoint, peer_sending[slot], bytes, other, TAG)
                           : fi_tsend(endpoint, peer_sending[slot], bytes, NULL, other, TAG, send);
        if (code == -FI_EAGAIN)
            progress();
    } while (code == -FI_EAGAIN);
    check(code, "fi_tsend");
}

static void end_settle(int slot)
{
    while (!sends[slot].is_done)
        progress();
}

static void end_expect(int slot, size_t bytes)
{
    struct operation *receive = &receives[slot];
    ssize_t code;
    receive->is_done = 0;
    do {
        code = fi_trecv(endpoint, peer_receiving[slot], bytes, NULL, other, TAG, 0, receive);
        if (code == -FI_EAGAIN)
            progress();
    } while (code == -FI_EAGAIN);
    check(code, "fi_trecv");
}

static void end_receive(int slot, size_t bytes)
{
    (void)bytes;
    while (!receives[slot].is_done)
        progress();
}

static uint64_t end_sum(int slot, size_t bytes)
{
    return peer_sum(peer_receiving[slot], bytes);
}

static void end_release(int slot)
{
    (void)slot;
}

int main(int count, char **arguments)
{
    peer_begin(count, arguments);
    int link;
    int side = peer_fork(&link);

    struct fi_info *hints = fi_allocinfo();
    struct fi_info *info;
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->fabric_attr->prov_name = strdup(peer_plan.kind);
    check(fi_getinfo(FI_VERSION(1, 14), NULL, NULL, 0, hints, &info), "fi_getinfo");
    inject_bytes_max = info->tx_attr->inject_size;

    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *addresses;
    struct fi_av_attr address_attributes = {.type = FI_AV_TABLE, .count = 2};
    struct fi_cq_attr queue_attributes = {.format = FI_CQ_FORMAT_TAGGED, .size = 1024};
    check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    check(fi_av_open(domain, &address_attributes, &addresses, NULL), "fi_av_open");
    check(fi_cq_open(domain, &queue_attributes, &completions, NULL), "fi_cq_open");
    check(fi_endpoint(domain, info, &endpoint, NULL), "fi_endpoint");
    check(fi_ep_bind(endpoint, &addresses->fid, 0), "fi_ep_bind");
    check(fi_ep_bind(endpoint, &completions->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    check(fi_enable(endpoint), "fi_enable");

    char address[ADDRESS_BYTES_MAX] = {0};
    size_t length = sizeof address;
    check(fi_getname(&endpoint->fid, address, &length), "fi_getname");
    peer_tell(link, address, sizeof address);
    peer_hear(link, address, sizeof address);
    if (fi_av_insert(addresses, address, 1, &other, 0, NULL) != 1)
        peer_fail("fi_av_insert refuses the other's address");

    char version[32];
    snprintf(version, sizeof version, "%d.%d", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
    peer_measure(side, version);

    /* Its segments stay behind in the system unless all is closed. */
    peer_meet(link);
    fi_close(&endpoint->fid);
    fi_close(&completions->fid);
    fi_close(&addresses->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    if (side == 0)
        peer_end();
    return 0;
}
