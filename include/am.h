/*
 * am.h - virtual networks: Active Message endpoints between the processes of one machine.
 *
 * A process opens a station and allocates endpoints, as many as it likes. An endpoint has an opaque
 * name, which goes to others by any means, and a key, which a request to it must carry. A
 * translation table maps small integers to names and keys. A request runs a handler at the other
 * end, which replies once, and the reply runs a handler here. What cannot be delivered comes back
 * to its sender's undeliverable handler, with the reason. Delivery is exactly once.
 *
 * C89 with <stdint.h>, and C++. Link with -lam. docs/virtual-networks.md says what is promised, and
 * has an example.
 *
 * Errors. Every function that can fail returns an am_error; AM_OK is 0. am_error_text names a
 * code, am_error_detail says what was wrong with the last call of this thread that failed, and what
 * to do instead. A call that fails has changed nothing and written no result, unless it says so.
 *
 * Pointers. One that is NULL and must not be gives AM_ERROR_NULL. Stations, endpoints, bundles and
 * tokens are checked: one that was freed, or never was one, gives AM_ERROR_HANDLE or AM_ERROR_TOKEN
 * and harms nothing. Results that are called optional may be NULL. Memory that is given is read
 * during the call only; it need not be aligned.
 *
 * Handlers run inside am_poll, am_bundle_poll, and requests that wait for room, in the thread that
 * calls these. A handler that runs may call the am_reply functions and those about text; all others
 * give AM_ERROR_IN_HANDLER: note what is to be done, and do it after the poll. It must return: a
 * longjmp out of it has no defined result, an exception of C++ ends the program.
 *
 * Threads. Stations may be used by any thread at any time. An exclusive endpoint, its bundle
 * included, is for one thread at a time: a second one gets AM_ERROR_BUSY. A shared endpoint may be
 * used by several: each call takes a lock, handlers run with it held, and nobody sleeps with it.
 *
 * Progress is made inside calls: a process that calls nothing acknowledges nothing. A child of
 * fork() has none of the library's threads: if am_open was called before the fork, all its calls
 * give AM_ERROR_FORKED. Fork first, then open.
 */

#ifndef AM_H
#define AM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limits. */

#define AM_WORDS_MAX 8                /* words of a message */
#define AM_PAYLOAD_BYTES_MAX 8192     /* bytes of a medium or bulk message */
#define AM_HANDLERS_MAX 64            /* handler numbers: 0 to 63 */
#define AM_CREDITS_DEFAULT 32         /* requests that may wait for their replies */
#define AM_REQUEST_ENTRIES_DEFAULT 32 /* requests that may wait to be polled */
#define AM_TABLE_ENTRIES_MAX 1048576  /* entries of a translation table */
#define AM_FRAMES_DEFAULT 64          /* connections of a station that stay */
#define AM_FRAMES_MAX 16384
#define AM_NAME_BYTES 32
#define AM_NAME_TEXT_BYTES 65 /* a name as text: 64 hexadecimal digits, and a NUL */

#define AM_FOREVER ((uint64_t)-1)  /* no time limit */
#define AM_NO_INDEX ((size_t)-1)   /* no entry of a translation table */
#define AM_NO_HANDLER (-1)         /* no handler number */

typedef enum am_error {
    AM_OK,
    AM_ERROR_NULL,       /* a pointer is NULL that must not be */
    AM_ERROR_HANDLE,     /* not a station, endpoint or bundle that exists */
    AM_ERROR_BUSY,       /* another thread uses it */
    AM_ERROR_IN_HANDLER, /* not to be called by a handler */
    AM_ERROR_LIMIT,      /* a number, length or index outside its limits */
    AM_ERROR_NAME,       /* not the name of an endpoint */
    AM_ERROR_NOT_MAPPED, /* nothing is mapped at that index */
    AM_ERROR_NO_CREDIT,  /* every credit waits for its reply: poll, then try again */
    AM_ERROR_FULL,       /* no room to send now: poll or wait for space, then try again */
    AM_ERROR_TOKEN,      /* not the token of a handler that runs in this thread */
    AM_ERROR_REPLIED,    /* the request has been replied to */
    AM_ERROR_TIMED_OUT,  /* nothing happened within the time limit */
    AM_ERROR_STATE,      /* not in this state: see am_error_detail */
    AM_ERROR_RESOURCE,   /* no memory, or the fabric refuses */
    AM_ERROR_FORKED,     /* the process forked after am_open */
    AM_ERROR_INTERNAL    /* a mistake in the library: please report it */
} am_error;

/* Why a message came back. */
typedef enum am_reason {
    AM_WRONG_KEY = 1,       /* it carried another key than the endpoint's */
    AM_NO_SUCH_ENDPOINT,    /* its name was never that of an endpoint */
    AM_ENDPOINT_FREED,      /* the endpoint has been freed */
    AM_NO_SUCH_HANDLER,     /* the endpoint has no handler of that number */
    AM_OUTSIDE_SEGMENT,     /* a bulk message does not fit the endpoint's segment */
    AM_HOST_UNREACHABLE,    /* the host does not answer */
    AM_PROCESS_DIED,        /* the process of that name is not there */
    AM_CONNECTION_LOST,     /* the process died before it acknowledged: it may have been delivered */
    AM_UNANSWERED           /* delivered; the process died before its reply came */
} am_reason;

/* What a message carries besides its words. */
typedef enum am_kind {
    AM_SHORT,  /* nothing */
    AM_MEDIUM, /* bytes for the handler */
    AM_BULK    /* bytes that are written into the endpoint's segment, before the handler runs */
} am_kind;

/* Changes of an endpoint's state that a thread can wait for: a mask. */
#define AM_EVENT_MESSAGE 1u  /* a request or a reply waits to be polled */
#define AM_EVENT_SPACE 2u    /* a request can be sent, at once or after a poll */
#define AM_EVENT_RETURNED 4u /* a message that could not be delivered waits to be polled */
#define AM_EVENT_ALL 7u

/* Which connection has to go when a station needs the frame for another. */
typedef enum am_policy {
    AM_POLICY_CLOCK,
    AM_POLICY_RANDOM,
    AM_POLICY_LEAST_RECENTLY_USED
} am_policy;

typedef struct am_station am_station;   /* a process's end of its virtual networks */
typedef struct am_endpoint am_endpoint; /* queues, handlers, a translation table */
typedef struct am_bundle am_bundle;     /* endpoints that are polled together */

typedef uint64_t am_key;

/* The name of an endpoint: opaque bytes, to be copied and compared. */
typedef struct am_name {
    unsigned char bytes[AM_NAME_BYTES];
} am_name;

/* The right to reply once, while the handler runs that got it. */
typedef struct am_token {
    uint64_t bits;
} am_token;

/* A message, for its handler. What it points to is valid while the handler runs. */
typedef struct am_message {
    uint64_t words[AM_WORDS_MAX]; /* those past word_count are 0 */
    uint32_t word_count;
    uint32_t handler;
    am_kind kind;
    const void *payload; /* medium: a buffer; bulk: where it stands in the segment; NULL if empty */
    size_t payload_bytes;
    size_t offset;          /* bulk: of the payload in the segment */
    unsigned char *segment; /* of the endpoint, to read and write; NULL if it has none */
    size_t segment_bytes;
} am_message;

/* A message that came back, for the undeliverable handler. */
typedef struct am_returned {
    am_reason reason;
    int is_reply;                 /* 1: a reply of this endpoint; 0: a request */
    size_t index;                 /* a request's entry of the translation table; else AM_NO_INDEX */
    int handler;                  /* AM_NO_HANDLER with AM_UNANSWERED, whose message is gone */
    uint64_t words[AM_WORDS_MAX]; /* those past word_count are 0 */
    uint32_t word_count;
    am_kind kind;
    const void *payload; /* valid while the handler runs; NULL if empty */
    size_t payload_bytes;
    size_t offset; /* bulk: where it was to be written */
} am_returned;

/* context is that of the endpoint's options. */
typedef void (*am_request_handler)(am_token token, const am_message *message, void *context);
typedef void (*am_reply_handler)(const am_message *message, void *context);
typedef void (*am_undeliverable_handler)(const am_returned *returned, void *context);

/*
 * The handlers of an endpoint, by their numbers; NULL for those it has not. Requests and replies
 * have numbers of their own. am_allocate copies it; a static one begins with all NULL.
 */
typedef struct am_handlers {
    am_request_handler request[AM_HANDLERS_MAX];
    am_reply_handler reply[AM_HANDLERS_MAX];
    am_undeliverable_handler undeliverable; /* must be there: nothing is lost in silence */
} am_handlers;

/* What an endpoint is to be like; 0 everywhere is good. */
typedef struct am_endpoint_options {
    am_key key;               /* what a request to it has to carry */
    uint32_t credits;         /* requests that may wait for their replies; 0: AM_CREDITS_DEFAULT */
    uint32_t request_entries; /* requests that may wait here; 0: AM_REQUEST_ENTRIES_DEFAULT */
    size_t segment_bytes;     /* bytes that bulk messages are written to; 0 at first */
    void *context;            /* for its handlers */
    int is_shared;            /* 0: exclusive, one thread at a time; else: any threads */
} am_endpoint_options;

/* What a station is to be like; 0 everywhere is good. */
typedef struct am_station_options {
    uint32_t frames; /* connections to other processes that stay; 0: AM_FRAMES_DEFAULT */
    am_policy policy;
} am_station_options;

/* Stations. */

/*
 * Opens this process's end; a thread of the library answers who wants to connect. options is
 * optional. A process needs one, and may have several.
 */
am_error am_open(const am_station_options *options, am_station **station);

/*
 * Closes it, after waiting up to 0.25 s for what was sent to be acknowledged. AM_ERROR_STATE while
 * it has endpoints or bundles: free them first. What a process has sent and does not wait for, by
 * this or am_flush, before it exits may be lost; its receivers' ends say so.
 */
am_error am_close(am_station *station);

/*
 * Waits until all that was sent is acknowledged. AM_ERROR_TIMED_OUT when nothing has changed for
 * about limit_us microseconds.
 */
am_error am_flush(am_station *station, uint64_t limit_us);

/* Endpoints. */

/* Allocates an endpoint. options is optional: key 0, no segment, exclusive. */
am_error am_allocate(am_station *station, const am_handlers *handlers,
                     const am_endpoint_options *options, am_endpoint **endpoint);

/*
 * Frees it. Requests that wait in it go back to their senders; its own are given up. A member of a
 * bundle is to be removed first: AM_ERROR_STATE. AM_ERROR_BUSY while another thread uses it.
 */
am_error am_free(am_endpoint *endpoint);

am_error am_get_name(am_endpoint *endpoint, am_name *name);
am_error am_get_key(am_endpoint *endpoint, am_key *key);

/* Requests that can be sent now, and those that wait for their replies. Both are optional. */
am_error am_get_credits(am_endpoint *endpoint, uint32_t *left, uint32_t *outstanding);

/*
 * Copies bytes out of the endpoint's segment, or into it. AM_ERROR_LIMIT outside of it. In a
 * handler the message says where the segment is.
 */
am_error am_segment_read(am_endpoint *endpoint, size_t offset, void *into, size_t bytes);
am_error am_segment_write(am_endpoint *endpoint, size_t offset, const void *from, size_t bytes);

/* Names as text. */

/* Writes 64 hexadecimal digits and a NUL; AM_ERROR_LIMIT if text_bytes < AM_NAME_TEXT_BYTES. */
am_error am_name_to_text(const am_name *name, char *text, size_t text_bytes);

/* Reads them, up to the NUL; AM_ERROR_NAME for anything else. */
am_error am_name_from_text(const char *text, am_name *name);

/* The translation table. */

/*
 * Has an index lead to an endpoint; an entry that was there is replaced. AM_ERROR_NAME for bytes
 * that no endpoint has as its name. Whether it is there, and the key right, shows with a message.
 */
am_error am_map(am_endpoint *endpoint, size_t index, const am_name *name, am_key key);

/* Takes an entry out; AM_ERROR_NOT_MAPPED if there is none. */
am_error am_unmap(am_endpoint *endpoint, size_t index);

/*
 * Requests to what index is mapped to. One takes a credit until its reply or return has been
 * polled. words may be NULL with word_count 0, payload with 0 bytes.
 *
 * These handle messages and sleep while there is no credit or no room.
 */
am_error am_request(am_endpoint *endpoint, size_t index, unsigned int handler,
                    const uint64_t *words, size_t word_count);
am_error am_request_medium(am_endpoint *endpoint, size_t index, unsigned int handler,
                           const uint64_t *words, size_t word_count, const void *payload,
                           size_t payload_bytes);
am_error am_request_bulk(am_endpoint *endpoint, size_t index, unsigned int handler,
                         const uint64_t *words, size_t word_count, size_t offset,
                         const void *payload, size_t payload_bytes);

/* These handle nothing and do not wait: AM_ERROR_NO_CREDIT, AM_ERROR_FULL. */
am_error am_try_request(am_endpoint *endpoint, size_t index, unsigned int handler,
                        const uint64_t *words, size_t word_count);
am_error am_try_request_medium(am_endpoint *endpoint, size_t index, unsigned int handler,
                               const uint64_t *words, size_t word_count, const void *payload,
                               size_t payload_bytes);
am_error am_try_request_bulk(am_endpoint *endpoint, size_t index, unsigned int handler,
                             const uint64_t *words, size_t word_count, size_t offset,
                             const void *payload, size_t payload_bytes);

/*
 * Replies, inside the handler that got the token and in its thread, once: then AM_ERROR_REPLIED. A
 * reply always has room. One that is refused with another error leaves the token good. A handler
 * that returns without a reply gives the sender its credit back, and runs no handler there.
 */
am_error am_reply(am_token token, unsigned int handler, const uint64_t *words, size_t word_count);
am_error am_reply_medium(am_token token, unsigned int handler, const uint64_t *words,
                         size_t word_count, const void *payload, size_t payload_bytes);
am_error am_reply_bulk(am_token token, unsigned int handler, const uint64_t *words,
                       size_t word_count, size_t offset, const void *payload,
                       size_t payload_bytes);

/* In C99: am_request(endpoint, 0, ADD, AM_WORDS(40, 2)). Both arguments at once; 1 to 8 words. */
#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L
#define AM_WORDS(...)                                                                              \
    ((const uint64_t[]){__VA_ARGS__}), (sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))
#endif

/* Polling and waiting. */

/* Runs the handlers of what has come, up to 64 messages. handled, how many, is optional. */
am_error am_poll(am_endpoint *endpoint, size_t *handled);

/* What am_wait would find now. */
am_error am_get_events(am_endpoint *endpoint, unsigned int *events);

/*
 * Sleeps until one of the events of mask is there, up to limit_us microseconds of sleep; handles
 * nothing. events, those of mask that are there, is optional. AM_ERROR_TIMED_OUT; AM_ERROR_LIMIT
 * for an empty or unknown mask.
 */
am_error am_wait(am_endpoint *endpoint, unsigned int mask, uint64_t limit_us,
                 unsigned int *events);

/* Bundles: exclusive endpoints of one station that one thread polls together. */

am_error am_bundle_create(am_station *station, am_bundle **bundle);

/* Ends it; its members go on alone. */
am_error am_bundle_free(am_bundle *bundle);

/*
 * Takes an endpoint in, and out again. A member is still used by its own handle as well.
 * AM_ERROR_STATE for one that is shared, of another station, in a bundle already or not in this.
 */
am_error am_bundle_insert(am_bundle *bundle, am_endpoint *endpoint);
am_error am_bundle_remove(am_bundle *bundle, am_endpoint *endpoint);

/*
 * Handles at most limit messages, one of each member that has some in turn: what it costs does not
 * depend on how many have none. handled is optional.
 */
am_error am_bundle_poll(am_bundle *bundle, size_t limit, size_t *handled);

/* Sleeps until some member has something to poll. AM_ERROR_TIMED_OUT. */
am_error am_bundle_wait(am_bundle *bundle, uint64_t limit_us);

/* Texts. They end with a NUL and are never NULL. */

/* What a code means, such as "the pointer is NULL"; valid for ever. */
const char *am_error_text(am_error error);

/* The last call of this thread that failed: which, and what to do. Valid until the next fails. */
const char *am_error_detail(void);

/* What a reason means; valid for ever. */
const char *am_reason_text(am_reason reason);

#ifdef __cplusplus
}
#endif

#endif
