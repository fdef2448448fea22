//! libvipl: the C interface of 1998.
