//! Heads: their files, their scores, and checkpoints that should not be trusted.

mod checkpoints;
mod evaluation;
mod fixtures;
mod format;
mod hostile;
