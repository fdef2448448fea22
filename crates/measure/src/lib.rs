//! Programs that measure a fabric: latency, bandwidth, message rate, many connections.
