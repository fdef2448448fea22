/* Prints every size, offset and value of am.h, one per line. C and C++. */

#include "am.h"

#include <stddef.h>
#include <stdio.h>

#define SIZE(type) printf("sizeof %s %lu\n", #type, (unsigned long)sizeof(type))
#define OFFSET(type, field)                                                                        \
    printf("%s.%s %lu\n", #type, #field, (unsigned long)offsetof(type, field))
#define VALUE(name) printf("%s 0x%lX\n", #name, (unsigned long)(name))

int main(void)
{
    SIZE(am_error);
    SIZE(am_reason);
    SIZE(am_kind);
    SIZE(am_policy);
    SIZE(am_key);
    SIZE(am_request_handler);
    SIZE(am_name);
    OFFSET(am_name, bytes);
    SIZE(am_token);
    OFFSET(am_token, bits);
    SIZE(am_message);
    OFFSET(am_message, words);
    OFFSET(am_message, word_count);
    OFFSET(am_message, handler);
    OFFSET(am_message, kind);
    OFFSET(am_message, payload);
    OFFSET(am_message, payload_bytes);
    OFFSET(am_message, offset);
    OFFSET(am_message, segment);
    OFFSET(am_message, segment_bytes);
    SIZE(am_returned);
    OFFSET(am_returned, reason);
    OFFSET(am_returned, is_reply);
    OFFSET(am_returned, index);
    OFFSET(am_returned, handler);
    OFFSET(am_returned, words);
    OFFSET(am_returned, word_count);
    OFFSET(am_returned, kind);
    OFFSET(am_returned, payload);
    OFFSET(am_returned, payload_bytes);
    OFFSET(am_returned, offset);
    SIZE(am_handlers);
    OFFSET(am_handlers, request);
    OFFSET(am_handlers, reply);
    OFFSET(am_handlers, undeliverable);
    SIZE(am_endpoint_options);
    OFFSET(am_endpoint_options, key);
    OFFSET(am_endpoint_options, credits);
    OFFSET(am_endpoint_options, request_entries);
    OFFSET(am_endpoint_options, segment_bytes);
    OFFSET(am_endpoint_options, context);
    OFFSET(am_endpoint_options, is_shared);
    SIZE(am_station_options);
    OFFSET(am_station_options, frames);
    OFFSET(am_station_options, policy);
    VALUE(AM_WORDS_MAX);
    VALUE(AM_PAYLOAD_BYTES_MAX);
    VALUE(AM_HANDLERS_MAX);
    VALUE(AM_CREDITS_DEFAULT);
    VALUE(AM_REQUEST_ENTRIES_DEFAULT);
    VALUE(AM_TABLE_ENTRIES_MAX);
    VALUE(AM_FRAMES_DEFAULT);
    VALUE(AM_NAME_BYTES);
    VALUE(AM_NAME_TEXT_BYTES);
    VALUE(AM_FOREVER);
    VALUE(AM_NO_INDEX);
    VALUE(AM_NO_HANDLER);
    VALUE(AM_OK);
    VALUE(AM_ERROR_NULL);
    VALUE(AM_ERROR_HANDLE);
    VALUE(AM_ERROR_BUSY);
    VALUE(AM_ERROR_IN_HANDLER);
    VALUE(AM_ERROR_LIMIT);
    VALUE(AM_ERROR_NAME);
    VALUE(AM_ERROR_NOT_MAPPED);
    VALUE(AM_ERROR_NO_CREDIT);
    VALUE(AM_ERROR_FULL);
    VALUE(AM_ERROR_TOKEN);
    VALUE(AM_ERROR_REPLIED);
    VALUE(AM_ERROR_TIMED_OUT);
    VALUE(AM_ERROR_STATE);
    VALUE(AM_ERROR_RESOURCE);
    VALUE(AM_ERROR_FORKED);
    VALUE(AM_ERROR_INTERNAL);
    VALUE(AM_WRONG_KEY);
    VALUE(AM_NO_SUCH_ENDPOINT);
    VALUE(AM_ENDPOINT_FREED);
    VALUE(AM_NO_SUCH_HANDLER);
    VALUE(AM_OUTSIDE_SEGMENT);
    VALUE(AM_HOST_UNREACHABLE);
    VALUE(AM_PROCESS_DIED);
    VALUE(AM_CONNECTION_LOST);
    VALUE(AM_UNANSWERED);
    VALUE(AM_SHORT);
    VALUE(AM_MEDIUM);
    VALUE(AM_BULK);
    VALUE(AM_EVENT_MESSAGE);
    VALUE(AM_EVENT_SPACE);
    VALUE(AM_EVENT_RETURNED);
    VALUE(AM_EVENT_ALL);
    VALUE(AM_POLICY_CLOCK);
    VALUE(AM_POLICY_RANDOM);
    VALUE(AM_POLICY_LEAST_RECENTLY_USED);
    return 0;
}
