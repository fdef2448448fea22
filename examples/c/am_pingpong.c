/*
 * Active Messages between two processes of this machine: requests and replies to and fro, a medium
 * message, and one with the wrong key, which comes back.
 *
 *   cc am_pingpong.c -lam -o am_pingpong
 *   ./am_pingpong server am.name          in one shell
 *   ./am_pingpong client am.name          in another
 *
 * The name of the server's endpoint goes from one to the other in a file; any other way is as good.
 */

#define _POSIX_C_SOURCE 199309L

#include <am.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 1000
#define BYTES 8192
#define KEY 1999

/* Handlers of requests, and of replies: both ends mean the same by a number. */
enum { PING, SUM, LEAVE };
enum { ANSWER };

/* What the handlers of either end note. */
struct state {
    uint64_t answer;
    int answers;
    int returned;
    am_reason reason;
    int has_left;
};

static void check(am_error error)
{
    if (error != AM_OK) {
        fprintf(stderr, "am_pingpong: %s\n", am_error_detail());
        exit(1);
    }
}

static void on_ping(am_token token, const am_message *message, void *context)
{
    uint64_t next = message->words[0] + 1;

    (void)context;
    check(am_reply(token, ANSWER, &next, 1));
}

static void on_sum(am_token token, const am_message *message, void *context)
{
    const unsigned char *bytes = message->payload;
    uint64_t sum = 0;
    size_t i;

    (void)context;
    for (i = 0; i < message->payload_bytes; i++)
        sum += bytes[i];
    check(am_reply(token, ANSWER, &sum, 1));
}

static void on_leave(am_token token, const am_message *message, void *context)
{
    (void)message;
    ((struct state *)context)->has_left = 1;
    check(am_reply(token, ANSWER, NULL, 0));
}

static void on_answer(const am_message *message, void *context)
{
    struct state *state = context;

    state->answer = message->words[0];
    state->answers++;
}

static void on_undeliverable(const am_returned *returned, void *context)
{
    struct state *state = context;

    state->reason = returned->reason;
    state->returned++;
}

/* Sleeps until something has come, and runs its handlers. */
static void handle(am_endpoint *endpoint)
{
    check(am_wait(endpoint, AM_EVENT_MESSAGE | AM_EVENT_RETURNED, AM_FOREVER, NULL));
    check(am_poll(endpoint, NULL));
}

/* The answer to the request that was just sent. */
static uint64_t answer(am_endpoint *endpoint, struct state *state)
{
    int before = state->answers;

    while (state->answers == before && state->returned == 0)
        handle(endpoint);
    if (state->returned > 0) {
        fprintf(stderr, "am_pingpong: %s\n", am_reason_text(state->reason));
        exit(1);
    }
    return state->answer;
}

static void serve(am_endpoint *endpoint, struct state *state, const char *path)
{
    char text[AM_NAME_TEXT_BYTES], fresh[1024];
    am_name name;
    FILE *file;

    /* Whole or not at all: the client may look at any moment. */
    snprintf(fresh, sizeof fresh, "%s.new", path);
    check(am_get_name(endpoint, &name));
    check(am_name_to_text(&name, text, sizeof text));
    if ((file = fopen(fresh, "w")) == NULL || fputs(text, file) < 0 || fclose(file) != 0 ||
        rename(fresh, path) != 0) {
        perror(path);
        exit(1);
    }
    while (!state->has_left)
        handle(endpoint);
    remove(path);
    printf("am_pingpong: the client has left\n");
}

static void ask(am_endpoint *endpoint, struct state *state, const char *path)
{
    const struct timespec moment = {0, 10000000};
    static unsigned char bytes[BYTES];
    char text[AM_NAME_TEXT_BYTES];
    am_name name;
    FILE *file;
    uint64_t word;

    while ((file = fopen(path, "r")) == NULL)
        nanosleep(&moment, NULL);
    if (fgets(text, sizeof text, file) == NULL)
        text[0] = '\0';
    fclose(file);
    check(am_name_from_text(text, &name));

    /* Entry 0 of the translation table has the right key, entry 1 a wrong one. */
    check(am_map(endpoint, 0, &name, KEY));
    check(am_map(endpoint, 1, &name, KEY + 1));

    for (word = 0; word < ROUNDS;) {
        check(am_request(endpoint, 0, PING, &word, 1));
        if (answer(endpoint, state) != ++word)
            exit(1);
    }
    printf("am_pingpong: %d round trips\n", ROUNDS);

    memset(bytes, 1, sizeof bytes);
    check(am_request_medium(endpoint, 0, SUM, NULL, 0, bytes, sizeof bytes));
    printf("am_pingpong: the sum of %d bytes is %lu\n", BYTES,
           (unsigned long)answer(endpoint, state));

    check(am_request(endpoint, 1, PING, &word, 1));
    while (state->returned == 0)
        handle(endpoint);
    printf("am_pingpong: one came back: %s\n", am_reason_text(state->reason));
    state->returned = 0;

    check(am_request(endpoint, 0, LEAVE, NULL, 0));
    answer(endpoint, state);
}

int main(int argc, char **argv)
{
    static am_handlers handlers;
    struct state state = {0, 0, 0, AM_WRONG_KEY, 0};
    am_endpoint_options options = {0};
    am_station *station;
    am_endpoint *endpoint;
    int is_server = argc == 3 && strcmp(argv[1], "server") == 0;

    if (argc != 3 || (!is_server && strcmp(argv[1], "client") != 0)) {
        fprintf(stderr, "usage: am_pingpong server|client FILE\n");
        return 1;
    }
    handlers.request[PING] = on_ping;
    handlers.request[SUM] = on_sum;
    handlers.request[LEAVE] = on_leave;
    handlers.reply[ANSWER] = on_answer;
    handlers.undeliverable = on_undeliverable;
    options.key = KEY;
    options.context = &state;

    check(am_open(NULL, &station));
    check(am_allocate(station, &handlers, &options, &endpoint));
    if (is_server)
        serve(endpoint, &state, argv[2]);
    else
        ask(endpoint, &state, argv[2]);
    check(am_free(endpoint));
    check(am_close(station));
    return 0;
}
