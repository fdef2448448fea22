/* Ports that librdmacm gives to who asks for any: to those that will listen, and to those that are
   about to connect with the address of the first argument. */
#include <arpa/inet.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            perror(#what); \
            exit(1); \
        } \
    } while (0)

int main(int argc, char **argv)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    struct addrinfo hints = {.ai_family = AF_INET}, *there;
    CHECK(getaddrinfo(argc > 1 ? argv[1] : "host1", "7471", &hints, &there) == 0);
    struct rdma_event_channel *channel = rdma_create_event_channel();
    CHECK(channel);
    for (int turn = 0; turn < 4; turn++) {
        struct rdma_cm_id *listens, *asks;
        struct rdma_cm_event *event;
        CHECK(rdma_create_id(channel, &listens, NULL, RDMA_PS_TCP) == 0);
        CHECK(rdma_bind_addr(listens, (struct sockaddr *) &any) == 0);
        CHECK(rdma_create_id(channel, &asks, NULL, RDMA_PS_TCP) == 0);
        CHECK(rdma_resolve_addr(asks, NULL, there->ai_addr, 1000) == 0);
        CHECK(rdma_get_cm_event(channel, &event) == 0);
        CHECK(event->event == RDMA_CM_EVENT_ADDR_RESOLVED && rdma_ack_cm_event(event) == 0);
        printf("port %d listens, port %d asks\n", ntohs(rdma_get_src_port(listens)),
               ntohs(rdma_get_src_port(asks)));
        CHECK(rdma_destroy_id(asks) == 0 && rdma_destroy_id(listens) == 0);
    }
    rdma_destroy_event_channel(channel);
    freeaddrinfo(there);
    return 0;
}
