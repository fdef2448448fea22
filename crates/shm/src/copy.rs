//! Copying bytes that another process may see.
