//! Connecting, client-server and peer-to-peer.
