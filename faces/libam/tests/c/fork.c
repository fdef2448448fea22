/* Forks after am_open: the child is refused, whatever it calls, and the parent goes on. */

#include <am.h>

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int answers;

static void on_request(am_token token, const am_message *message, void *context)
{
    (void)message;
    (void)context;
    (void)am_reply(token, 0, NULL, 0);
}

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
}

static int child(am_station *station, am_endpoint *endpoint)
{
    am_station *fresh;

    return am_poll(endpoint, NULL) == AM_ERROR_FORKED && am_free(endpoint) == AM_ERROR_FORKED &&
                   am_request(endpoint, 0, 0, NULL, 0) == AM_ERROR_FORKED &&
                   am_close(station) == AM_ERROR_FORKED && am_open(NULL, &fresh) == AM_ERROR_FORKED
               ? 0
               : 1;
}

int main(void)
{
    static am_handlers handlers;
    am_station *station;
    am_endpoint *endpoint;
    am_name name;
    pid_t process;
    int status;

    handlers.request[0] = on_request;
    handlers.reply[0] = on_answer;
    handlers.undeliverable = on_undeliverable;
    if (am_open(NULL, &station) || am_allocate(station, &handlers, NULL, &endpoint) ||
        am_get_name(endpoint, &name) || am_map(endpoint, 0, &name, 0))
        return 1;
    process = fork();
    if (process == 0)
        _exit(child(station, endpoint));
    if (waitpid(process, &status, 0) != process || status != 0) {
        fprintf(stderr, "the child was not refused\n");
        return 1;
    }
    if (am_request(endpoint, 0, 0, NULL, 0))
        return 1;
    while (answers == 0)
        if (am_wait(endpoint, AM_EVENT_MESSAGE, AM_FOREVER, NULL) || am_poll(endpoint, NULL))
            return 1;
    if (am_free(endpoint) || am_close(station))
        return 1;
    printf("the child is refused, the parent goes on\n");
    return 0;
}
