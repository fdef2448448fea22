/*
 * What the kernel offers: a pair of Unix stream sockets, TCP over the loopback, and two pipes.
 * KIND is unix, tcp or pipe for both sides spinning on calls that return at once, and
 * unix-block, tcp-block or pipe-block for both sides asleep in the kernel until there is data.
 */
#include "peer.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

static int reading;
static int writing;

static void check_moved(ssize_t moved, const char *what)
{
    if (moved == 0)
        peer_fail("%s: the other process is gone", what);
    if (moved < 0 && errno != EAGAIN && errno != EINTR)
        peer_fail("%s: %s", what, strerror(errno));
}

static void end_post(int slot, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t moved = write(writing, peer_sending[slot] + done, bytes - done);
        check_moved(moved, "write");
        done += moved > 0 ? (size_t)moved : 0;
    }
}

static void end_receive(int slot, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t moved = read(reading, peer_receiving[slot] + done, bytes - done);
        check_moved(moved, "read");
        done += moved > 0 ? (size_t)moved : 0;
    }
}

/* A write has copied the bytes when it returns. */
static void end_settle(int slot)
{
    (void)slot;
}

static void end_expect(int slot, size_t bytes)
{
    (void)slot;
    (void)bytes;
}

static uint64_t end_sum(int slot, size_t bytes)
{
    return peer_sum(peer_receiving[slot], bytes);
}

static void end_release(int slot)
{
    (void)slot;
}

/* A connection over the loopback, made before the second process starts: [0] and [1]. */
static void connect_tcp(int pair[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || pair[0] < 0 || bind(listener, (struct sockaddr *)&address, length) != 0
        || listen(listener, 1) != 0
        || getsockname(listener, (struct sockaddr *)&address, &length) != 0
        || connect(pair[0], (struct sockaddr *)&address, length) != 0)
        peer_fail("TCP over the loopback: %s", strerror(errno));
    pair[1] = accept(listener, NULL, NULL);
    if (pair[1] < 0)
        peer_fail("accept: %s", strerror(errno));
    close(listener);
    for (int side = 0; side < 2; side++) {
        int on = 1;
        setsockopt(pair[side], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
}

static void do_not_block(int descriptor)
{
    if (fcntl(descriptor, F_SETFL, O_NONBLOCK) != 0)
        peer_fail("fcntl: %s", strerror(errno));
}

int main(int count, char **arguments)
{
    peer_begin(count, arguments);
    const char *dash = strchr(peer_plan.kind, '-');
    size_t length = dash ? (size_t)(dash - peer_plan.kind) : strlen(peer_plan.kind);
    int sockets[2] = {-1, -1};
    int there[2], back[2];
    int is_pipe = strncmp(peer_plan.kind, "pipe", length) == 0;
    if (is_pipe) {
        if (pipe(there) != 0 || pipe(back) != 0)
            peer_fail("pipe: %s", strerror(errno));
    } else if (strncmp(peer_plan.kind, "tcp", length) == 0) {
        connect_tcp(sockets);
    } else if (strncmp(peer_plan.kind, "unix", length) == 0) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
            peer_fail("socketpair: %s", strerror(errno));
    } else {
        peer_fail("KIND is unix, tcp or pipe, with -block or without, not `%s`", peer_plan.kind);
    }
    int link;
    int side = peer_fork(&link);
    if (is_pipe) {
        reading = side == 0 ? back[0] : there[0];
        writing = side == 0 ? there[1] : back[1];
    } else {
        reading = writing = sockets[side];
    }
    if (!dash) {
        do_not_block(reading);
        do_not_block(writing);
    }
    peer_measure(side, "");
    if (side == 0)
        peer_end();
    return 0;
}
