/*
 * UCX between two processes: KIND is tag (tagged messages) or am (active messages). Both sides
 * spin on the progress of their worker. The transports are those of shared memory unless UCX_TLS
 * says otherwise.
 */
#include "peer.h"

#include <ucp/api/ucp.h>

enum { TAG = 1, MESSAGE_ID = 1, PARCELS = 128 };

static ucp_worker_h worker;
static ucp_ep_h endpoint;
static int is_tagged;
static ucs_status_ptr_t sends[PEER_SLOTS];
static ucs_status_ptr_t receives[PEER_SLOTS];

/* An active message that came. A short one is read where it lies, inside the callback, as a
 * program on UCX would; of a long one the callback learns a handle to fetch it by. */
struct parcel {
    void *handle;
    size_t bytes;
    uint64_t sum;
};

static struct parcel parcels[PARCELS];
static unsigned parcels_come;
static unsigned parcels_taken;
static struct parcel current[PEER_SLOTS];

static void check(ucs_status_t status, const char *call)
{
    if (status != UCS_OK)
        peer_fail("%s: %s", call, ucs_status_string(status));
}

static void finish(ucs_status_ptr_t request)
{
    if (request == NULL)
        return;
    if (UCS_PTR_IS_ERR(request))
        peer_fail("a message failed: %s", ucs_status_string(UCS_PTR_STATUS(request)));
    ucs_status_t status;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    ucp_request_free(request);
    check(status, "a message");
}

static ucs_status_t message_came(void *argument, const void *header, size_t header_bytes,
                                 void *data, size_t bytes, const ucp_am_recv_param_t *param)
{
    (void)argument;
    (void)header;
    (void)header_bytes;
    struct parcel *parcel = &parcels[parcels_come++ % PARCELS];
    parcel->bytes = bytes;
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        parcel->handle = data;
        return UCS_INPROGRESS;
    }
    parcel->handle = NULL;
    /* Read are: all, when touched; those that steer; and those of the warm-up, which are checked. */
    if (peer_plan.touched || bytes == PEER_STEERING_BYTES || parcels_come <= PEER_WARM_UP_MAX)
        parcel->sum = peer_sum(data, bytes);
    return UCS_OK;
}

static void end_post(int slot, size_t bytes)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    if (is_tagged)
        sends[slot] = ucp_tag_send_nbx(endpoint, peer_sending[slot], bytes, TAG, &param);
    else
        sends[slot] = ucp_am_send_nbx(endpoint, MESSAGE_ID, NULL, 0, peer_sending[slot], bytes,
                                      &param);
}

static void end_settle(int slot)
{
    finish(sends[slot]);
}

static void end_expect(int slot, size_t bytes)
{
    if (!is_tagged)
        return;
    ucp_request_param_t param = {.op_attr_mask = 0};
    receives[slot] = ucp_tag_recv_nbx(worker, peer_receiving[slot], bytes, TAG, ~0ull, &param);
}

static void end_receive(int slot, size_t bytes)
{
    if (is_tagged) {
        finish(receives[slot]);
        return;
    }
    while (parcels_taken == parcels_come)
        ucp_worker_progress(worker);
    struct parcel *parcel = &parcels[parcels_taken++ % PARCELS];
    current[slot] = *parcel;
    if (parcel->bytes != bytes)
        peer_fail("%zu bytes came, not %zu", parcel->bytes, bytes);
    if (parcel->handle) {
        ucp_request_param_t param = {.op_attr_mask = 0};
        finish(ucp_am_recv_data_nbx(worker, parcel->handle, peer_receiving[slot], bytes, &param));
    }
}

static uint64_t end_sum(int slot, size_t bytes)
{
    if (is_tagged || current[slot].handle)
        return peer_sum(peer_receiving[slot], bytes);
    return current[slot].sum;
}

static void end_release(int slot)
{
    (void)slot;
}

int main(int count, char **arguments)
{
    peer_begin(count, arguments);
    is_tagged = strcmp(peer_plan.kind, "tag") == 0;
    if (!is_tagged && strcmp(peer_plan.kind, "am") != 0)
        peer_fail("KIND is tag or am, not `%s`", peer_plan.kind);
    setenv("UCX_TLS", "posix,cma", 0);
    int link;
    int side = peer_fork(&link);

    ucp_params_t wishes = {.field_mask = UCP_PARAM_FIELD_FEATURES};
    wishes.features = is_tagged ? UCP_FEATURE_TAG : UCP_FEATURE_AM;
    ucp_config_t *configuration;
    ucp_context_h context;
    check(ucp_config_read(NULL, NULL, &configuration), "ucp_config_read");
    check(ucp_init(&wishes, configuration, &context), "ucp_init");
    ucp_config_release(configuration);
    ucp_worker_params_t work = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE};
    work.thread_mode = UCS_THREAD_MODE_SINGLE;
    check(ucp_worker_create(context, &work, &worker), "ucp_worker_create");
    if (!is_tagged) {
        ucp_am_handler_param_t handler = {0};
        handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
        handler.id = MESSAGE_ID;
        handler.cb = message_came;
        check(ucp_worker_set_am_recv_handler(worker, &handler), "ucp_worker_set_am_recv_handler");
    }

    ucp_address_t *address;
    size_t length;
    check(ucp_worker_get_address(worker, &address, &length), "ucp_worker_get_address");
    peer_tell(link, &length, sizeof length);
    peer_tell(link, address, length);
    ucp_worker_release_address(worker, address);
    peer_hear(link, &length, sizeof length);
    address = malloc(length);
    peer_hear(link, address, length);
    ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address};
    check(ucp_ep_create(worker, &to, &endpoint), "ucp_ep_create");
    free(address);

    unsigned major, minor, patch;
    ucp_get_version(&major, &minor, &patch);
    char version[64];
    snprintf(version, sizeof version, "%u.%u.%u", major, minor, patch);
    peer_measure(side, version);

    /* Both sides are past their last message before either closes, and closed before either ends. */
    peer_meet(link);
    ucp_request_param_t close = {.op_attr_mask = 0};
    finish(ucp_ep_close_nbx(endpoint, &close));
    peer_meet(link);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    if (side == 0)
        peer_end();
    return 0;
}
