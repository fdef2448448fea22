//! What a run leaves: the table on the screen, the summary, the tables of the run directory.
