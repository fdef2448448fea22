/* A handler that throws, which it must not: the program ends, and goes on nowhere. */

#include <am.h>

#include <cstdio>

static void on_request(am_token, const am_message *, void *)
{
    std::printf("thrown\n");
    std::fflush(stdout);
    throw 1;
}

static void on_undeliverable(const am_returned *, void *) {}

int main()
{
    static am_handlers handlers;
    am_station *station;
    am_endpoint *endpoint;
    am_name name;

    handlers.request[0] = on_request;
    handlers.undeliverable = on_undeliverable;
    if (am_open(NULL, &station) || am_allocate(station, &handlers, NULL, &endpoint) ||
        am_get_name(endpoint, &name) || am_map(endpoint, 0, &name, 0) ||
        am_request(endpoint, 0, 0, NULL, 0))
        return 0;
    try {
        am_poll(endpoint, NULL);
    } catch (...) {
        std::printf("caught\n");
    }
    std::printf("went on\n");
    return 0;
}
