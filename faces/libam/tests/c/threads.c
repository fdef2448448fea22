/* Four threads ask over one shared endpoint, and one answers. */

#include <am.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define REQUESTS 1000

static am_endpoint *server, *client;
static am_name name;
static int answers, returned;
static volatile int has_ended;

static void check(am_error error)
{
    if (error != AM_OK) {
        fprintf(stderr, "%s (%s)\n", am_error_detail(), am_error_text(error));
        exit(1);
    }
}

static void on_request(am_token token, const am_message *message, void *context)
{
    (void)context;
    check(am_reply(token, 0, message->words, message->word_count));
}

/* Handlers of a shared endpoint run one at a time. */
static void on_answer(const am_message *message, void *context)
{
    (void)message;
    (void)context;
    answers++;
}

static void on_undeliverable(const am_returned *message, void *context)
{
    (void)message;
    (void)context;
    returned++;
}

static void *ask(void *argument)
{
    uint64_t word = 0;

    (void)argument;
    while (word < REQUESTS) {
        check(am_request(client, 0, 0, &word, 1));
        word++;
    }
    return NULL;
}

static void *serve(void *argument)
{
    (void)argument;
    while (!has_ended) {
        am_error error = am_wait(server, AM_EVENT_MESSAGE, 10000, NULL);

        if (error != AM_ERROR_TIMED_OUT)
            check(error);
        check(am_poll(server, NULL));
    }
    return NULL;
}

int main(void)
{
    static am_handlers handlers;
    am_endpoint_options options = {0};
    am_station *here, *there;
    pthread_t threads[THREADS], other;
    uint32_t outstanding = 1;
    int i;

    handlers.request[0] = on_request;
    handlers.reply[0] = on_answer;
    handlers.undeliverable = on_undeliverable;
    check(am_open(NULL, &here));
    check(am_open(NULL, &there));
    check(am_allocate(there, &handlers, NULL, &server));
    options.is_shared = 1;
    check(am_allocate(here, &handlers, &options, &client));
    check(am_get_name(server, &name));
    check(am_map(client, 0, &name, 0));
    pthread_create(&other, NULL, serve, NULL);
    for (i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, ask, NULL);
    for (i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    while (outstanding > 0) {
        check(am_wait(client, AM_EVENT_MESSAGE | AM_EVENT_RETURNED, AM_FOREVER, NULL));
        check(am_poll(client, NULL));
        check(am_get_credits(client, NULL, &outstanding));
    }
    has_ended = 1;
    pthread_join(other, NULL);
    check(am_free(client));
    check(am_free(server));
    check(am_close(here));
    check(am_close(there));
    printf("%d threads, %d requests, %d answers, %d returned\n", THREADS, THREADS * REQUESTS,
           answers, returned);
    return 0;
}
